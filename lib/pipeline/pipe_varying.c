/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of a length that changes between epochs: see pipe_varying.h. */
#include "pipeline/pipe_varying.h"

#include "base/base_status.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_layout.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

static const char *const call_name = "selvage_exchange_set_bytes";

selvage_status_t sv_varying_check(const selvage_exchange_t *x)
{
    if (x->varying && x->policy == SV_CONFIG_CHECKSUM_OFF)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_exchange_commit: params.varying needs checksums: without "
                        "them nobody would see that another number of bytes came than was expected");
    if (x->varying && x->forced_route == SELVAGE_ROUTE_DIRECT)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_exchange_commit: route direct was asked for, but packets of "
                        "an exchange with params.varying never go direct");
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_varying_refuse(const selvage_exchange_t *x, const char *call)
{
    if (!x->varying)
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s in a graph: the exchange was created with params.varying, and what is "
                    "captured has the lengths of its capture", call);
}

/* --- setting ------------------------------------------------------------------------------------------------------ */

static selvage_status_t check_length(const sv_packet_t *p, const char *kind, size_t bytes)
{
    if (bytes == p->bytes)
        return SELVAGE_SUCCESS;
    if (p->layout)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s_bytes[%u] is %zu; that packet was declared by a type or a list, "
                        "and stays at %zu", call_name, kind, p->own_index, bytes, p->bytes);
    if (bytes > p->declared_bytes)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s_bytes[%u] is %zu; at most %zu were declared", call_name, kind,
                        p->own_index, bytes, p->declared_bytes);
    return SELVAGE_SUCCESS;
}

static selvage_status_t check_lengths(selvage_exchange_t *x, const size_t *send_bytes, const size_t *recv_bytes)
{
    if (!x->committed)
        return sv_error(SELVAGE_ERR_STATE, "%s: the exchange is not committed", call_name);
    if (!x->varying)
        return sv_error(SELVAGE_ERR_STATE, "%s: the exchange was created without params.varying", call_name);
    SV_TRY(sv_exchange_check_idle(x));
    for (uint32_t i = 0; send_bytes && i < x->nsends; i++)
        SV_TRY(check_length(&x->sends[i].p, "send", send_bytes[i]));
    for (uint32_t i = 0; recv_bytes && i < x->nrecvs; i++)
        SV_TRY(check_length(&x->recvs[i].p, "recv", recv_bytes[i]));
    return SELVAGE_SUCCESS;
}

/* Kernels of the last epoch read the items, which must not change under them. */
static selvage_status_t check_device(selvage_exchange_t *x)
{
    sv_enqueued_check(x);
    if (sv_exchange_state(x) == SV_EXCHANGE_POISONED)
        return sv_exchange_first_error(x);
    const selvage_status_t status = sv_batch_query(x);
    if (status == SELVAGE_SUCCESS) /* what has ended meanwhile may have failed */
        sv_enqueued_check(x);
    if (sv_exchange_state(x) == SV_EXCHANGE_POISONED)
        return sv_exchange_first_error(x);
    if (status != SELVAGE_IN_PROGRESS)
        return status;
    return sv_error(SELVAGE_ERR_STATE, "%s: epoch %llu is not complete on the device; wait for it, or for its stream, "
                    "first", call_name, (unsigned long long)x->started);
}

/* Segments are as long as they were at commit, so that both ends cut alike. Returns whether it was another length. */
static bool set_length(sv_packet_t *p, size_t bytes)
{
    const bool other = bytes != p->bytes;
    p->bytes = p->identity.bytes = bytes;
    p->nsegments = bytes > p->segment_bytes ? (uint32_t)((bytes + p->segment_bytes - 1) / p->segment_bytes) : 1;
    return other;
}

selvage_status_t sv_varying_set(selvage_exchange_t *x, const size_t *send_bytes, const size_t *recv_bytes)
{
    bool items = false;
    SV_TRY(check_lengths(x, send_bytes, recv_bytes));
    SV_TRY(check_device(x));
    x->send_bytes = 0;
    for (uint32_t i = 0; i < x->nsends; i++) {
        sv_packet_t *p = &x->sends[i].p;
        if (send_bytes && set_length(p, send_bytes[i]))
            items |= sv_batch_has_item(p);
        x->send_bytes += p->bytes;
    }
    for (uint32_t i = 0; recv_bytes && i < x->nrecvs; i++)
        if (set_length(&x->recvs[i].p, recv_bytes[i]))
            items |= sv_batch_has_item(&x->recvs[i].p);
    if (!items)
        return SELVAGE_SUCCESS;
    /* Half of the items may be there: nothing can be trusted to them any more. */
    const selvage_status_t status = sv_batch_update_items(x);
    return status == SELVAGE_SUCCESS ? status : sv_exchange_fail_call(x, status);
}

/* --- what came ---------------------------------------------------------------------------------------------------- */

/* What is known of the length of a packet by a record of it: a segment says that there is more. */
static uint64_t least_bytes(const sv_record_t *record)
{
    return record->kind == SV_RECORD_SEGMENT ? record->salt + record->bytes + 1 : record->bytes;
}

bool sv_varying_is_other(const sv_packet_t *p, const sv_record_t *record, uint64_t epoch)
{
    if (!p->x->varying || !sv_packet_is_same(record, &p->identity) || record->epoch != epoch)
        return false;
    if (record->kind == SV_RECORD_PACKET)
        return record->bytes != p->bytes;
    return record->kind == SV_RECORD_SEGMENT && p->segment_bytes > 0 && record->salt % p->segment_bytes == 0 &&
           record->bytes == p->segment_bytes && least_bytes(record) > p->bytes;
}

bool sv_varying_has_come(const sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    if (!p->x->varying || p->kernel_copy || recv->request_due)
        return false;
    /* Where the device may end the epoch, the sender may go on and write the record while it is read here. */
    if (!p->x->comm->progress.threaded && !p->x->enqueued.host_ends)
        return false;
    /* Partner: the release of the sender's digest kernel (onesided_begin()), or of its signal kernel. */
    const uint64_t word = __atomic_load_n(&recv->words->recorded, __ATOMIC_ACQUIRE);
    return sv_word_matches(word, p->x->epoch, p->attempt) && sv_varying_is_other(p, recv->record, p->x->epoch);
}

selvage_status_t sv_varying_report(selvage_exchange_t *x, const sv_packet_t *p, const sv_record_t *record)
{
    x->failure.index = p->index;
    x->failure.source = (uint32_t)p->peer->rank;
    x->failure.expected = p->bytes;
    x->failure.found = least_bytes(record);
    return sv_error(SELVAGE_ERR_MISMATCH, "receive %u (tag %d) from rank %d, epoch %llu: this rank set %zu bytes, but "
                    "%s%llu were sent (selvage_exchange_set_bytes)", p->own_index, p->tag, p->peer->rank,
                    (unsigned long long)record->epoch, p->bytes, record->kind == SV_RECORD_SEGMENT ? "at least " : "",
                    (unsigned long long)least_bytes(record));
}

selvage_status_t sv_varying_report_send(const sv_send_t *send, const sv_wire_control_t *message)
{
    const sv_packet_t *p = &send->p;
    return sv_error(SELVAGE_ERR_MISMATCH, "send %u (tag %d) to rank %d, epoch %llu: this rank set %zu bytes, but %llu "
                    "were expected there (selvage_exchange_set_bytes)", p->own_index, p->tag, p->peer->rank,
                    (unsigned long long)message->word[2], p->bytes, (unsigned long long)message->word[5]);
}
