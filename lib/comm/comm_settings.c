/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings that all ranks must have alike, compared when a communicator is created. A hash of all of them says
 * whether they are. If not, each is compared. The error names the first that differs, its value here, and its value on
 * the lowest rank that has another one. Collective: every rank takes the same steps.
 */
#include <string.h>

#include "base/base_config_rows.h"
#include "base/base_status.h"
#include "comm/comm.h"
#include "comm/comm_control.h"

static const char call[] = "selvage_comm_create (every rank needs the same SELVAGE_ settings of packets and routes)";

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
static selvage_status_t find_extremes(selvage_comm_t *comm, uint64_t own, uint64_t *least_out, uint64_t *most_out)
{
    uint64_t least = own, inverse = ~own;
    SV_TRY(sv_agree(comm, call, 0, SELVAGE_SUCCESS, &least, comm->timeout_s));
    SV_TRY(sv_agree(comm, call, 0, SELVAGE_SUCCESS, &inverse, comm->timeout_s));
    *least_out = least;
    *most_out = ~inverse;
    return SELVAGE_SUCCESS;
}

/* Two values there are at least, so that one of them is another rank's. */
static selvage_status_t name_setting(selvage_comm_t *comm, const sv_config_row_t *row, uint64_t own, uint64_t least,
                                     uint64_t most)
{
    const uint64_t rank = (uint64_t)comm->wire->rank;
    uint64_t lowest[2] = {own == least ? rank : UINT64_MAX, own == most ? rank : UINT64_MAX};
    char here[SV_CONFIG_TEXT_BYTES], there[SV_CONFIG_TEXT_BYTES];
    sv_config_t theirs = comm->config;
    const int other = own == least ? 1 : 0;
    for (int i = 0; i < 2; i++)
        SV_TRY(sv_agree(comm, call, 0, SELVAGE_SUCCESS, &lowest[i], comm->timeout_s));
    memcpy((char *)&theirs + row->offset, other ? &most : &least, width_of(row));
    sv_config_value_text(row, &comm->config, here, sizeof here);
    sv_config_value_text(row, &theirs, there, sizeof there);
    return sv_error(SELVAGE_ERR_MISMATCH, "%s: %s is %s here and %s on rank %llu", call, row->name, here, there,
                    (unsigned long long)lowest[other]);
}

static selvage_status_t find_setting(selvage_comm_t *comm)
{
    for (int i = 0; i < SV_CONFIG_ROWS; i++) {
        const sv_config_row_t *row = &sv_config_rows[i];
        uint64_t own = 0, least, most;
        if (!row->agreed)
            continue;
        memcpy(&own, (const char *)&comm->config + row->offset, width_of(row));
        SV_TRY(find_extremes(comm, own, &least, &most));
        if (least != most)
            return name_setting(comm, row, own, least, most);
    }
    return sv_error(SELVAGE_ERR_MISMATCH, "%s: some setting differs between ranks", call);
}

selvage_status_t sv_comm_agree_settings(selvage_comm_t *comm)
{
    uint64_t least, most;
    SV_TRY(find_extremes(comm, sv_config_agreed_hash(&comm->config), &least, &most));
    return least == most ? SELVAGE_SUCCESS : find_setting(comm);
}
