/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: what the host does about epochs that a kernel of the application's runs; see pipe_session.h.
 *
 * One block of device memory, made by the first session of an exchange:
 *
 *   [ state | packets: sends, receives | scratch | slots and credits of packets to the rank itself ]
 */
#include "pipeline/pipe_session.h"

#include <stddef.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_epoch.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

enum { TURNS = 2, EPOCHS_MAX = 1 << 24, ALIGN = 256, CREDIT_BYTES = 64 };

_Static_assert(sizeof(selvage_device_packet_t) % 8 == 0 && sizeof(selvage_device_state_t) == 256 &&
               sizeof(selvage_device_exchange_t) == 72, "what kernels of applications were compiled with");
#define SAME_PLACE(member) offsetof(selvage_device_piece_t, member) == offsetof(sv_piece_t, member)
_Static_assert(sizeof(selvage_device_piece_t) == sizeof(sv_piece_t) && SAME_PLACE(first_word) && SAME_PLACE(level) &&
               SAME_PLACE(shift) && SAME_PLACE(granule) && SAME_PLACE(levels) && SAME_PLACE(base) && SAME_PLACE(number),
               "kernels of applications read the library's own pieces");

/* --- what is refused ---------------------------------------------------------------------------------------------- */

/* Why kernels of the application's cannot move a packet; NULL: they can. */
static const char *why_not(const sv_packet_t *p, const uint64_t *credit_device)
{
    if (!sv_packet_stays_on_device(p))
        return "through the host";
    if (p->ops->within_rank)
        return NULL;
    if (!p->kernel_copy)
        return "and is longer than kernels move (SELVAGE_KERNEL_PEER_MAX_BYTES)";
    return sv_batch_has_device_record(p) && credit_device && p->nslots == TURNS && p->nsegments == 1
               ? NULL : "and has no slots that kernels wait for";
}

/* Whether kernels of the application's know the pieces of a halo: boxes and lists, which are stored. */
static bool has_known_pieces(const sv_packet_t *p)
{
    return p->layout && p->npieces > 0 && sv_layout_is_simple(p->layout);
}

static selvage_status_t refuse_packets(const selvage_exchange_t *x, bool halo)
{
    for (uint32_t i = 0; i < x->nsends; i++) {
        const sv_packet_t *p = &x->sends[i].p;
        const char *why = why_not(p, x->sends[i].credit_device);
        if (!why && halo && !has_known_pieces(p))
            why = "and has cells that lie in no boxes or lists";
        if (why)
            return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "%s: send %u goes to rank %d by route %s %s",
                                  halo ? "selvage_halo_device" : "selvage_exchange_device", i, p->peer->rank,
                                  selvage_route_name(p->route), why);
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_packet_t *p = &x->recvs[i].p;
        const char *why = why_not(p, x->recvs[i].credit_device);
        if (!why && halo && !has_known_pieces(p))
            why = "and has cells that are added";
        if (why)
            return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "%s: receive %u comes from rank %d by route %s %s",
                                  halo ? "selvage_halo_device" : "selvage_exchange_device", i, p->peer->rank,
                                  selvage_route_name(p->route), why);
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t refuse_session(selvage_exchange_t *x, unsigned epochs, void *stream, bool halo)
{
    const selvage_comm_t *comm = x->comm;
    const char *why = NULL;
    if (epochs == 0 || epochs > EPOCHS_MAX)
        return sv_error_quiet(SELVAGE_ERR_ARGUMENT, "selvage_exchange_device: epochs is %u; wanted 1 to %d", epochs,
                              EPOCHS_MAX);
    switch (sv_exchange_state(x)) {
    case SV_EXCHANGE_BUILDING:
        return sv_error_quiet(SELVAGE_ERR_STATE, "selvage_exchange_device: the exchange is not committed");
    case SV_EXCHANGE_RUNNING:
        return sv_error_quiet(SELVAGE_ERR_STATE, "selvage_exchange_device: epoch %llu is not complete; wait for it",
                              (unsigned long long)x->started);
    case SV_EXCHANGE_POISONED:
        return sv_exchange_first_error(x);
    case SV_EXCHANGE_IDLE:
        break;
    }
    if (x->layouts.due)
        return sv_error_quiet(SELVAGE_ERR_STATE, "selvage_exchange_device: what came in epoch %llu is not in its place "
                              "yet; wait for it", (unsigned long long)x->started);
    if (comm->progress.threaded)
        why = "the neighbours' epochs are ended by a progress thread (SELVAGE_PROGRESS), which hears of no packet "
              "before the kernel leaves";
    else if (comm->topology.shares_gpu)
        why = "ranks share a GPU, so that no kernel may wait for another rank";
    else if (!comm->dev->kernels_wait)
        why = "the device has no threads, so that no kernel may wait for another rank";
    else if (x->varying)
        why = "the exchange was created with params.varying, and kernels of applications would not hear of other "
              "lengths";
    else if (comm->fault.armed)
        why = "packets of an application's kernels cannot be given the faults of SELVAGE_FAULT";
    else if (comm->dev->ops->stream_is_capturing(comm->dev, stream))
        why = "the stream is being captured, and a replay would repeat the numbers of the epochs";
    return why ? sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "selvage_exchange_device: %s", why) : refuse_packets(x, halo);
}

/* --- tables for kernels ------------------------------------------------------------------------------------------- */

static size_t round_up_align(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Where a packet to the rank itself lies: its slots, then its credit. */
static size_t within_rank_bytes(const sv_packet_t *p)
{
    const size_t trailer = (p->bytes + CREDIT_BYTES - 1) / CREDIT_BYTES * CREDIT_BYTES;
    return p->ops->within_rank ? TURNS * round_up_align(trailer + 2 * CREDIT_BYTES) + ALIGN : 0;
}

static void place_within_rank(selvage_device_packet_t *to, const sv_packet_t *p, uint8_t *at)
{
    const size_t trailer = (p->bytes + CREDIT_BYTES - 1) / CREDIT_BYTES * CREDIT_BYTES;
    to->within_rank = 1;
    to->slot = at;
    to->record_offset = trailer;
    to->slot_stride = round_up_align(trailer + 2 * CREDIT_BYTES);
    to->credit = (uint64_t *)(void *)(at + TURNS * to->slot_stride);
}

/* The record's words, of which kernels replace the epoch, and the digest's key as far as it is the same in all. */
static selvage_device_packet_t describe(const sv_packet_t *p, selvage_device_scratch_t *scratch)
{
    selvage_device_packet_t to = {.bytes = p->bytes, .scratch = scratch, .index = p->own_index,
                                  .npieces = p->npieces};
    sv_record_t identity = p->identity;
    identity.epoch = identity.digest = 0;
    identity.attempt = 0;
    memcpy(to.identity, &identity, sizeof to.identity);
    to.key_base = identity.bytes + sv_digest_mix(identity.exchange);
    to.key_base = sv_digest_mix(to.key_base);
    to.pieces = (const selvage_device_piece_t *)(const void *)p->pieces;
    return to;
}

static selvage_device_packet_t describe_send(const sv_send_t *send, selvage_device_scratch_t *scratch)
{
    selvage_device_packet_t to = describe(&send->p, scratch);
    to.done = send->sent;
    if (send->p.ops->within_rank)
        return to;
    to.slot = send->target;
    to.slot_stride = send->target_stride;
    to.record_offset = sv_commit_trailer(&send->p);
    to.credit = send->credit_device;
    return to;
}

static selvage_device_packet_t describe_recv(const sv_recv_t *recv, selvage_device_scratch_t *scratch)
{
    const sv_packet_t *p = &recv->p;
    selvage_device_packet_t to = describe(p, scratch);
    to.done = recv->done;
    if (p->ops->within_rank)
        return to;
    to.slot = recv->recv_slots;
    to.slot_stride = sv_commit_slot_bytes(p);
    to.record_offset = sv_commit_trailer(p);
    to.credit = recv->credit_device;
    to.looks = sv_batch_looks_ahead(p);
    to.verdict = sv_shared_device_address(&p->peer->segment, &recv->remote->verdict);
    to.leave = sv_shared_device_address(&p->peer->segment, &recv->remote->credit);
    return to;
}

/* The block's image here; `there` is where it will be. */
static void fill_session_block(const selvage_exchange_t *x, uint8_t *here, uint8_t *there)
{
    const uint32_t npackets = x->nsends + x->nrecvs;
    const size_t packets_at = sizeof(selvage_device_state_t);
    const size_t scratch_at = packets_at + npackets * sizeof(selvage_device_packet_t);
    selvage_device_packet_t *to = (selvage_device_packet_t *)(void *)(here + packets_at);
    selvage_device_scratch_t *scratch = (selvage_device_scratch_t *)(void *)(there + scratch_at);
    uint8_t *slots = there + round_up_align(scratch_at + npackets * sizeof *scratch);

    for (uint32_t i = 0; i < x->nsends; i++) {
        to[i] = describe_send(&x->sends[i], scratch++);
        if (!to[i].slot)
            place_within_rank(&to[i], &x->sends[i].p, slots);
        slots += within_rank_bytes(&x->sends[i].p);
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_recv_t *recv = &x->recvs[i];
        selvage_device_packet_t *own = &to[x->nsends + i];
        *own = describe_recv(recv, scratch++);
        if (!recv->p.ops->within_rank)
            continue;
        const selvage_device_packet_t *sent = &to[recv->p.index]; /* the sender's index, and that is this rank */
        own->within_rank = 1;
        own->slot = sent->slot;
        own->slot_stride = sent->slot_stride;
        own->record_offset = sent->record_offset;
        own->credit = sent->credit;
    }
}

static size_t session_block_bytes(const selvage_exchange_t *x)
{
    const size_t npackets = (size_t)x->nsends + x->nrecvs;
    size_t bytes = round_up_align(sizeof(selvage_device_state_t) + npackets * (sizeof(selvage_device_packet_t) +
                                                                                sizeof(selvage_device_scratch_t)));
    for (uint32_t i = 0; i < x->nsends; i++)
        bytes += within_rank_bytes(&x->sends[i].p);
    return bytes;
}

/* Whatever fails, sv_session_release() frees what there is. */
static selvage_status_t make_session_memory(selvage_exchange_t *x)
{
    sv_device_t *dev = x->comm->dev;
    const size_t bytes = session_block_bytes(x);
    void *block, *report, *here;
    if (x->session.report)
        return SELVAGE_SUCCESS;
    if (!x->session.block) {
        SV_TRY(SV_DEVICE_CALL(dev, malloc_fine, bytes, &block)); /* blocks poll words of it */
        x->session.block = block;
        x->memory.device_bytes += bytes;
    }
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, bytes, &here));
    memset(here, 0, bytes);
    fill_session_block(x, here, x->session.block);
    selvage_status_t status =
        SV_DEVICE_CALL(dev, copy_async, x->session.block, here, bytes, SV_COPY_H2D, x->streams.kernel);
    if (status == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(dev, stream_sync, x->streams.kernel);
    if (status != SELVAGE_SUCCESS) /* the copy may be under way; no injected fault may keep this from waiting for it */
        (void)SV_DEVICE_CALL(x->comm->dev_under, stream_sync, x->streams.kernel);
    SV_DEVICE_CALL(dev, host_free, here);
    SV_TRY(status);
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, sizeof *x->session.report, &report));
    memset(report, 0, sizeof *x->session.report);
    x->session.report = report;
    x->memory.pinned_bytes += sizeof *x->session.report;
    return SELVAGE_SUCCESS;
}

void sv_session_release(selvage_exchange_t *x)
{
    if (x->session.block && !x->failure.device_busy)
        SV_DEVICE_CALL(x->comm->dev, free, x->session.block);
    if (x->session.report && !x->failure.device_busy)
        SV_DEVICE_CALL(x->comm->dev, host_free, x->session.report);
    x->session = (sv_exchange_session_t){0};
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

typedef struct session_call {
    selvage_exchange_t *x;
    unsigned epochs;
} session_call_t;

/* For the engine the epochs are over; their words tell when the device is through. */
static void run_session(void *arg)
{
    const session_call_t *call = arg;
    selvage_exchange_t *x = call->x;
    selvage_stats_t *stats = &x->comm->stats;
    if (sv_exchange_state(x) != SV_EXCHANGE_IDLE)
        return; /* a neighbour's failure came first */
    x->epoch += call->epochs;
    sv_recovery_begin_lost(x);
    if (sv_exchange_state(x) != SV_EXCHANGE_IDLE)
        return; /* a neighbour will not take part in one of them */
    for (uint32_t i = 0; i < x->nsends; i++) {
        sv_send_t *send = &x->sends[i];
        send->pushed = sv_word(x->epoch, 0, 1);
        stats->packets_by_route[send->p.route] += call->epochs;
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        x->recvs[i].launched = sv_word(x->epoch, 0, SV_PULL_GOOD);
        stats->bytes_received += call->epochs * x->recvs[i].p.bytes;
    }
    stats->packets_sent += (uint64_t)call->epochs * x->nsends;
    stats->bytes_sent += (uint64_t)call->epochs * x->send_bytes;
    stats->packets_received += (uint64_t)call->epochs * x->nrecvs;
    stats->epochs += call->epochs;
    x->started = x->epoch;
    /* Partner: the acquire of a kernel that holds the caller's stream (sv_await). */
    __atomic_store_n(x->abort + 1, x->epoch, __ATOMIC_RELEASE);
    sv_exchange_moved(x, sv_clock_ns());
}

/* Who only asks is told in the detail alone. */
static selvage_status_t say_refused(selvage_status_t status)
{
    char text[SV_DETAIL_BYTES];
    memcpy(text, sv_thread_detail(), sizeof text);
    return sv_error(status, "%s", text);
}

selvage_status_t sv_session_begin(selvage_exchange_t *x, unsigned epochs, void *stream, bool halo,
                                  selvage_device_exchange_t *handle_out)
{
    sv_exchange_finish_gated(x);
    if (handle_out)
        sv_session_seek_lost(x);
    sv_enqueued_check(x);
    selvage_status_t refused = refuse_session(x, epochs, stream, halo);
    if (refused == SELVAGE_SUCCESS && handle_out) /* what graphs have begun is counted first */
        refused = sv_epoch_catch_up(x, stream, true);
    if (sv_exchange_state(x) == SV_EXCHANGE_POISONED)
        return sv_exchange_first_error(x);
    if (!handle_out || refused != SELVAGE_SUCCESS)
        return handle_out && refused != SELVAGE_ERR_DEVICE ? say_refused(refused) : refused;
    SV_TRY(make_session_memory(x));
    sv_exchange_order_others(x);

    session_call_t call = {x, epochs};
    const uint64_t first = x->started + 1;
    /* Graphs that come after the kernel go on from there. First, as none of the epochs may count if that fails. */
    SV_TRY(sv_epoch_tell(x, x->started + epochs, stream));
    sv_progress_call(&x->comm->progress, run_session, &call);
    if (sv_exchange_state(x) == SV_EXCHANGE_POISONED)
        return sv_exchange_first_error(x);
    x->session.epoch = x->started;
    x->session.first_epoch = first;
    x->session.stream = stream;
    x->session.idle = false;
    uint8_t *block = x->session.block;
    const selvage_device_packet_t *packets = (const void *)(block + sizeof(selvage_device_state_t));
    *handle_out = (selvage_device_exchange_t){.sends = packets,
                                              .recvs = packets + x->nsends,
                                              .state = (selvage_device_state_t *)(void *)block,
                                              .report = x->session.report,
                                              .abort = x->abort,
                                              .first_epoch = first,
                                              .wait_ns = sv_enqueued_deadline_ns(x),
                                              .epochs = epochs,
                                              .nsends = x->nsends,
                                              .nrecvs = x->nrecvs,
                                              .checks = x->policy != SV_CONFIG_CHECKSUM_OFF};
    return SELVAGE_SUCCESS;
}

/* --- what the kernel found out ------------------------------------------------------------------------------------ */

static const char *rule_text(uint64_t rule)
{
    static const char *const text[] = {"a rule that this library does not know",
                                       "an epoch that the handle does not have",
                                       "the epochs of a packet follow each other, each once",
                                       "a handle is for one session only",
                                       "offsets and sizes are within the packet, and multiples of 8",
                                       "every byte is stored or loaded once",
                                       "there is no such packet, or part",
                                       "blocks come together and leave, not warps"};
    return text[rule < sizeof text / sizeof text[0] ? rule : 0];
}

static selvage_status_t report_damaged(selvage_exchange_t *x, const sv_packet_t *p,
                                       const selvage_device_report_t *report)
{
    x->failure.expected = report->expected;
    x->failure.found = report->found;
    x->failure.index = p->index;
    x->failure.source = (uint32_t)p->peer->rank;
    if (report->record_ok)
        x->comm->stats.bad_digests++;
    else
        x->comm->stats.bad_records++;
    return sv_error(SELVAGE_ERR_CHECKSUM, "packet %u (tag %d) from rank %d to rank %d, epoch %llu, %zu bytes, route "
                    "%s: %s, expected digest %016llx, found %016llx, in a kernel, which cannot ask again", p->index,
                    p->tag, p->peer->rank, x->comm->wire->rank, (unsigned long long)report->epoch, p->bytes,
                    selvage_route_name(p->route), report->record_ok ? "damaged" : "another record",
                    (unsigned long long)report->expected, (unsigned long long)report->found);
}

static selvage_status_t explain_report(selvage_exchange_t *x, selvage_device_failure_t failure)
{
    const selvage_device_report_t *report = x->session.report;
    const unsigned long long epoch = (unsigned long long)report->epoch;
    const double timeout_s = x->comm->timeout_s;
    const uint32_t index = (uint32_t)report->index;
    const bool known = index < (report->sends ? x->nsends : x->nrecvs);
    const sv_packet_t *p = !known ? NULL : report->sends ? &x->sends[index].p : &x->recvs[index].p;
    const char *kind = report->sends ? "send" : "receive";
    x->enqueued.found_epoch = report->epoch < x->session.epoch ? report->epoch : x->session.epoch;

    if (failure == SELVAGE_DEVICE_SYNC)
        return sv_error(SELVAGE_ERR_TIMEOUT, "block %u of %llu of a kernel that runs epochs from %llu on did not see "
                        "all others in selvage_device_sync() within %g s: are all of them on the device at once?",
                        index, (unsigned long long)report->found, epoch, timeout_s);
    if (failure == SELVAGE_DEVICE_MISUSE)
        return sv_error(SELVAGE_ERR_STATE, "a kernel broke a rule with %s %u in epoch %llu (%llu): %s", kind, index,
                        epoch, (unsigned long long)report->found, rule_text(report->expected));
    if (!p)
        return sv_error(SELVAGE_ERR_INTERNAL, "a kernel reports %s %u, which there is not", kind, index);
    switch (failure) {
    case SELVAGE_DEVICE_ABSENT:
        return sv_error(SELVAGE_ERR_TIMEOUT, "packet %u (tag %d) from rank %d to rank %d, epoch %llu, %zu bytes: did "
                        "not come within %g s of its wait in a kernel", p->index, p->tag, p->peer->rank,
                        x->comm->wire->rank, epoch, p->bytes, timeout_s);
    case SELVAGE_DEVICE_NO_SLOT:
        return sv_error(SELVAGE_ERR_TIMEOUT, "packet %u (tag %d) to rank %d, epoch %llu: its receiver did not give a "
                        "slot back within %g s of its opening in a kernel", p->index, p->tag, p->peer->rank, epoch,
                        timeout_s);
    case SELVAGE_DEVICE_EARLY:
        return sv_error(SELVAGE_ERR_STATE, "a kernel left before %s %u (tag %d, rank %d) of epoch %llu was closed",
                        kind, index, p->tag, p->peer->rank, epoch);
    default:
        return report_damaged(x, p, report);
    }
}

static uint64_t reported_failure(const selvage_exchange_t *x)
{
    /* Partner: the release in fail() of the kernel, in device_packet.h; the rest of the report came before. */
    return __atomic_load_n(&x->session.report->failure, __ATOMIC_ACQUIRE);
}

static selvage_status_t explain_loss(selvage_exchange_t *x)
{
    x->enqueued.found_epoch = x->session.first_epoch;
    return sv_error(SELVAGE_ERR_STATE, "epoch %llu: its kernel was never launched on the stream of "
                    "selvage_exchange_device(), or ended without selvage_device_leave() in every block",
                    (unsigned long long)x->session.epoch);
}

static void check_session(void *arg)
{
    selvage_exchange_t *x = arg;
    if (sv_exchange_state(x) != SV_EXCHANGE_IDLE)
        return;
    const uint64_t failure = reported_failure(x);
    selvage_status_t status;
    if (failure)
        status = explain_report(x, (selvage_device_failure_t)failure);
    else if (x->session.lost)
        status = explain_loss(x);
    else
        return;
    if (x->policy == SV_CONFIG_CHECKSUM_ABORT && status == SELVAGE_ERR_CHECKSUM)
        sv_recovery_abort(x);
    sv_exchange_poison(x, status, true);
}

void sv_session_check(selvage_exchange_t *x)
{
    if (x->session.epoch && sv_exchange_state(x) == SV_EXCHANGE_IDLE)
        sv_progress_call(&x->comm->progress, check_session, x);
}

/* No word tells when the kernel of a rank that has no neighbour is through. */
static selvage_status_t query_without_packets(selvage_exchange_t *x)
{
    if (x->session.epoch == 0 || x->session.idle)
        return SELVAGE_SUCCESS;
    const selvage_status_t status = SV_DEVICE_CALL(x->comm->dev, stream_query, x->session.stream);
    x->session.idle = status == SELVAGE_SUCCESS;
    return status;
}

void sv_session_seek_lost(selvage_exchange_t *x)
{
    /* No stream that is being captured may be asked. */
    if (sv_session_is_last(x) && sv_exchange_state(x) == SV_EXCHANGE_IDLE &&
        !SV_DEVICE_CALL(x->comm->dev, stream_is_capturing, x->session.stream))
        (void)sv_session_query(x);
}

selvage_status_t sv_session_query(selvage_exchange_t *x)
{
    if (x->nsends + x->nrecvs == 0)
        return query_without_packets(x);
    selvage_status_t status = sv_batch_query(x);
    if (status != SELVAGE_IN_PROGRESS || !sv_session_is_last(x))
        return status;
    if (SV_DEVICE_CALL(x->comm->dev, stream_query, x->session.stream) != SELVAGE_SUCCESS)
        return SELVAGE_IN_PROGRESS;
    status = sv_batch_query(x); /* the kernel may have come to its end since */
    if (status != SELVAGE_IN_PROGRESS)
        return status;
    for (uint32_t i = 0; i < x->nsends; i++) /* nothing is under way that could still tell by words */
        x->sends[i].pushed = 0;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        x->recvs[i].launched = 0;
    x->session.lost = true; /* sv_session_check() says so, unless the kernel has said why */
    return SELVAGE_SUCCESS;
}
