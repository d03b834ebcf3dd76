/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file writes records of errors and signatures of calls in words: the rank first, then what it did. Ranks are
 * those of the communicator of the call. All functions are pure, so any thread may call them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/base_thread.h"
#include "collective/coll_names.h"
#include "collective/coll_parts.h"

enum { TEXT_BYTES = 160 };

const char *sv_coll_operation_name(unsigned op)
{
    static const char *const names[] = {
        "none", "sum", "prod", "min", "max", "avg", "premul_sum",
        [SV_COLL_SIGNED_EXACT | SV_COLL_SUM] = "exact sum",
        [SV_COLL_SIGNED_EXACT | SV_COLL_SIGNED_AVERAGE] = "exact avg",
        [SV_COLL_SIGNED_EXACT | SV_COLL_SIGNED_PREMUL] = "exact premul_sum",
        [SV_COLL_SIGNED_FOLD | SELVAGE_OP_SUM] = "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land",
        "lor", "lxor", "minloc", "maxloc",
    };
    return op < sizeof names / sizeof names[0] && names[op] ? names[op] : "none";
}

/* Of a part of an exact sum: what that is. Partner: sign_as_exact(). */
static void read_exact(unsigned *type, unsigned *op)
{
    const unsigned which = *type >> 1;
    *type = *type & 1 ? SV_COLL_FLOAT64 : SV_COLL_FLOAT32;
    *op = SV_COLL_SIGNED_EXACT | (which == 1   ? SV_COLL_SIGNED_AVERAGE
                                  : which == 2 ? SV_COLL_SIGNED_PREMUL
                                               : (unsigned)SV_COLL_SUM);
}

/* Of a call with another type or operation: what these are. Partner: sign_as_other(). */
static void read_other(unsigned call, unsigned *type, unsigned *op)
{
    const unsigned number = *op << SV_COLL_SIGNED_TYPE_BITS | *type;
    *type = number;
    *op = 0;
    if (call != SV_COLL_ALL_REDUCE && call != SV_COLL_REDUCE_SCATTER && call != SV_COLL_REDUCE)
        return;
    sv_coll_pairing_read(number, type, op);
    *op |= SV_COLL_SIGNED_FOLD;
}

void sv_coll_signature_text(uint64_t signature, uint32_t sequence, char *text, size_t bytes)
{
    unsigned call = signature >> 40 & 15, communicator = (unsigned)(signature >> 60);
    uint64_t count = signature >> 6 & 0x3ffffffff;
    unsigned kind = signature >> 44 & 15, op = signature >> 48 & 7, root = signature >> 51 & 15;
    if (call > SV_COLL_CALL_OTHER) {
        call -= SV_COLL_CALL_OTHER;
        read_other(call, &kind, &op);
    } else if (op == SV_COLL_SIGNED_PART) {
        read_exact(&kind, &op);
    }
    const char *name = call == SV_COLL_PAIR ? "a message" : sv_coll_call_name(call);
    const char *type = selvage_type_name((selvage_type_t)kind);
    /* The signature has the lower 6 bits of its sequence: it is the nearest one to that of the call. */
    uint32_t ahead = ((uint32_t)signature - sequence) & 0x3f, whole = sequence + ahead - (ahead > 31 ? 64 : 0);
    char at_root[16] = "", what[TEXT_BYTES], number[24] = "";
    if (call == SV_COLL_BROADCAST || call == SV_COLL_REDUCE)
        snprintf(at_root, sizeof at_root, ", root %u", root);
    if (call == SV_COLL_BARRIER)
        snprintf(what, sizeof what, "barrier");
    else
        snprintf(what, sizeof what, "%s of %" PRIu64 " %s%s%s%s", name, count, type, op ? ", " : "",
                 op ? sv_coll_operation_name(op) : "", at_root);
    if (call != SV_COLL_PAIR) /* messages have no numbers */
        snprintf(number, sizeof number, " as call %" PRIu32, whole);
    snprintf(text, bytes, "%s%s of communicator %u (%s, %s)", what, number, communicator,
             sv_coll_algo_name(signature >> 55 & 7), sv_coll_proto_name(signature >> 58 & 3));
}

static void write_differs(const sv_coll_error_t *error, char *text, size_t bytes)
{
    char theirs[TEXT_BYTES * 2], ours[TEXT_BYTES * 2];
    if (!error->place) {
        snprintf(text, bytes, "rank %" PRIu32 " made another call than rank %" PRIu64 ", which says so in or before "
                 "call %" PRIu32 " (%s)", error->peer, error->seen, error->sequence, sv_coll_call_name(error->call));
        return;
    }
    sv_coll_signature_text(error->seen, error->sequence, theirs, sizeof theirs);
    sv_coll_signature_text(error->wanted, error->sequence, ours, sizeof ours);
    bool message = error->call == SV_COLL_PAIR;
    snprintf(text, bytes, "rank %" PRIu32 " %s %s where this rank %s %s", error->peer, message ? "sent" : "called",
             theirs, message ? "receives" : "called", ours);
}

selvage_status_t sv_coll_error_text(const sv_coll_error_t *error, char *text, size_t bytes)
{
    /* What rank `peer` failed to do, to follow its number; a place of 0: another rank says so. */
    static const char *const late[] = {
        [SV_COLL_AT_ENTRY] = "did not come to",
        [SV_COLL_AT_SLOT] = "did not send what was due in",
        [SV_COLL_AT_LINE] = "did not send what was due in",
        [SV_COLL_AT_CREDIT] = "did not take what it was sent in",
        [SV_COLL_AT_FIN] = "did not end its part of",
    };
    const unsigned nlate = sizeof late / sizeof late[0];
    const char *name = sv_coll_call_name(error->call), *what = error->place < nlate ? late[error->place] : NULL;
    int length;
    switch (error->kind) {
    case SV_COLL_LATE:
        length = snprintf(text, bytes, "rank %" PRIu32 " %s call %" PRIu32 " (%s)", error->peer,
                          what ? what : "did not come in time, as another rank says; here it was", error->sequence,
                          name);
        if (error->place && length > 0 && (size_t)length < bytes)
            snprintf(text + length, bytes - (size_t)length, " before the deadline: channel %" PRIu32 ", wanted %" PRIu64
                     ", seen %" PRIu64, error->channel, error->wanted, error->seen);
        return SELVAGE_ERR_TIMEOUT;
    case SV_COLL_DIFFERS: write_differs(error, text, bytes); return SELVAGE_ERR_MISMATCH;
    case SV_COLL_DAMAGED:
        if (error->place)
            snprintf(text, bytes, "rank %" PRIu32 " sent what does not verify in call %" PRIu32 " (%s): channel %"
                     PRIu32 ", digest %016" PRIx64 ", wanted %016" PRIx64, error->peer, error->sequence, name,
                     error->channel, error->seen, error->wanted);
        else
            snprintf(text, bytes, "rank %" PRIu32 " sent what does not verify, as another rank says in or before call %"
                     PRIu32 " (%s)", error->peer, error->sequence, name);
        return SELVAGE_ERR_CHECKSUM;
    default:
        snprintf(text, bytes, "rank %" PRIu32 " aborted call %" PRIu32 " (%s)", error->peer, error->sequence, name);
        return SELVAGE_ERR_ABORTED;
    }
}
