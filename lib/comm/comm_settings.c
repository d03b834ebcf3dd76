/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all ranks must have alike, compared when a communicator is created: the release of the library, since ranks read
 * each other's records and memory, and settings. A hash of all says whether they are. If not, the releases are
 * compared, and then each setting. The error names what differs, its value here, and its value on the lowest rank that
 * has another one. Collective: every rank takes the same steps.
 */
#include <stdio.h>
#include <string.h>

#include <selvage/version.h>

#include "base/base_config_rows.h"
#include "base/base_status.h"
#include "comm/comm.h"
#include "comm/comm_control.h"

static const char call[] = "selvage_comm_create (every rank needs the same SELVAGE_ settings of packets and routes)";
static const char release_call[] = "selvage_comm_create (every rank needs the same release of Selvage)";

static size_t width_of(const sv_config_row_t *row)
{
    switch (row->type) {
    case SV_CONFIG_TYPE_BOOL: return sizeof(bool);
    case SV_CONFIG_TYPE_INT: return sizeof(int);
    case SV_CONFIG_TYPE_CHOICE: return sizeof(int);
    case SV_CONFIG_TYPE_REAL: return sizeof(double);
    case SV_CONFIG_TYPE_BYTES: return sizeof(uint64_t);
    case SV_CONFIG_TYPE_TEXT: break;
    }
    return 0; /* no text is compared */
}

/* The least and the greatest of what the ranks gave. */
static selvage_status_t find_extremes(selvage_comm_t *comm, const char *what, uint64_t own, uint64_t *least_out,
                                      uint64_t *most_out)
{
    uint64_t least = own, inverse = ~own;
    SV_TRY(sv_agree(comm, what, 0, SELVAGE_SUCCESS, &least, comm->timeout_s));
    SV_TRY(sv_agree(comm, what, 0, SELVAGE_SUCCESS, &inverse, comm->timeout_s));
    *least_out = least;
    *most_out = ~inverse;
    return SELVAGE_SUCCESS;
}

/* The lowest rank that has the extreme which is not the own value. Two values there are at least, so that one of them
   is another rank's. */
static selvage_status_t find_other_rank(selvage_comm_t *comm, uint64_t own, uint64_t least, uint64_t most,
                                        unsigned long long *rank_out)
{
    const uint64_t rank = (uint64_t)comm->wire->rank;
    uint64_t lowest[2] = {own == least ? rank : UINT64_MAX, own == most ? rank : UINT64_MAX};
    for (int i = 0; i < 2; i++)
        SV_TRY(sv_agree(comm, call, 0, SELVAGE_SUCCESS, &lowest[i], comm->timeout_s));
    *rank_out = lowest[own == least ? 1 : 0];
    return SELVAGE_SUCCESS;
}

static selvage_status_t name_setting(selvage_comm_t *comm, const sv_config_row_t *row, uint64_t own, uint64_t least,
                                     uint64_t most)
{
    char here[SV_CONFIG_TEXT_BYTES], there[SV_CONFIG_TEXT_BYTES];
    sv_config_t theirs = comm->config;
    unsigned long long rank;
    SV_TRY(find_other_rank(comm, own, least, most, &rank));
    memcpy((char *)&theirs + row->offset, own == least ? &most : &least, width_of(row));
    sv_config_value_text(row, &comm->config, here, sizeof here);
    sv_config_value_text(row, &theirs, there, sizeof there);
    return sv_error(SELVAGE_ERR_MISMATCH, "%s: %s is %s here and %s on rank %llu", call, row->name, here, there, rank);
}

static void print_release(uint64_t number, char *text, size_t bytes)
{
    snprintf(text, bytes, "%llu.%llu.%llu", (unsigned long long)number / 10000, (unsigned long long)number / 100 % 100,
             (unsigned long long)number % 100);
}

selvage_status_t sv_comm_agree_release(selvage_comm_t *comm, uint64_t number)
{
    enum { RELEASE_BYTES = 72 };
    char here[RELEASE_BYTES], there[RELEASE_BYTES];
    uint64_t least, most;
    unsigned long long rank;
    SV_TRY(find_extremes(comm, release_call, number, &least, &most));
    if (least == most)
        return SELVAGE_SUCCESS;
    SV_TRY(find_other_rank(comm, number, least, most, &rank));
    print_release(number, here, sizeof here);
    print_release(number == least ? most : least, there, sizeof there);
    return sv_error(SELVAGE_ERR_MISMATCH, "%s: this rank runs Selvage %s, and rank %llu runs %s", release_call, here,
                    rank, there);
}

static selvage_status_t find_setting(selvage_comm_t *comm)
{
    for (int i = 0; i < SV_CONFIG_ROWS; i++) {
        const sv_config_row_t *row = &sv_config_rows[i];
        uint64_t own = 0, least, most;
        if (!row->agreed)
            continue;
        memcpy(&own, (const char *)&comm->config + row->offset, width_of(row));
        SV_TRY(find_extremes(comm, call, own, &least, &most));
        if (least != most)
            return name_setting(comm, row, own, least, most);
    }
    return sv_error(SELVAGE_ERR_MISMATCH, "%s: some setting differs between ranks", call);
}

selvage_status_t sv_comm_agree_settings(selvage_comm_t *comm)
{
    const uint64_t spread = UINT64_C(0x9e3779b97f4a7c15); /* odd, so that releases stay different */
    uint64_t least, most;
    SV_TRY(find_extremes(comm, call, sv_config_agreed_hash(&comm->config) ^ SELVAGE_VERSION_NUMBER * spread, &least,
                         &most));
    if (least == most)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_comm_agree_release(comm, SELVAGE_VERSION_NUMBER));
    return find_setting(comm);
}
