/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of packets, for tests: what SELVAGE_FAULT decides about an attempt is done to its message (staged), its copy
 * (one-sided) or a copy made for it (direct, where the message is the user's memory), after the digest was computed, so
 * that nothing in the sender notices. A fault that is impossible at the moment (a replay in the first epoch, a swap
 * with nobody, a message to double while the last double is still leaving) becomes a flipped bit, so that every
 * injected fault corrupts. But a one-sided arrival cannot be doubled to any effect: the same word again is the same
 * arrival.
 *
 * To replay, the content of the previous epoch must still be there: two buffers take turns. They exist only when faults
 * are armed, and only for packets of one segment.
 */
#include <pthread.h>
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

struct sv_fault_send {
    uint8_t *past[2];          /* staged: whole messages; others: payload on the device */
    size_t past_bytes[2];
    uint64_t past_epoch[2];
    sv_record_t past_record[2];
    uint8_t *bogus;            /* staged: the message that is sent in place of the real one; direct: the payload */
    sv_record_t *bogus_record; /* pinned: the record that is sent in place of the real one, and that of a double */
    sv_wire_request_t extra[2]; /* of a doubled message; direct: its payload and its record */
    const sv_send_t *partner;  /* whose content a swap takes */
    bool record_corrupted;
    sv_fault_kind_t drawn;     /* a swap that waits for its partner */
};

static bool is_staged_send(const sv_send_t *send)
{
    return send->p.ops->own_slots;
}

static bool is_direct_send(const sv_send_t *send)
{
    return send->p.ops->from_user_memory;
}

/* One can take the other's content only if it lies in the same kind of place. */
static bool are_alike(const sv_send_t *a, const sv_send_t *b)
{
    return is_staged_send(a) == is_staged_send(b) && is_direct_send(a) == is_direct_send(b) && a->p.bytes == b->p.bytes;
}

selvage_status_t sv_fault_send_create(sv_send_t *send)
{
    sv_device_t *dev = send->p.x->comm->dev;
    const size_t bytes = send->p.segment_bytes + SV_RECORD_BYTES;
    void *block;
    SV_TRY(sv_calloc(1, sizeof *send->fault, &send->fault));
    struct sv_fault_send *fault = send->fault;
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, 2 * sizeof(sv_record_t), &block));
    fault->bogus_record = block;
    if (is_direct_send(send)) {
        SV_TRY(SV_DEVICE_CALL(dev, malloc, bytes, &block));
        fault->bogus = block;
    }
    if (is_staged_send(send))
        SV_TRY(sv_calloc(bytes, 1, &fault->bogus));
    for (int i = 0; i < 2 && send->p.nsegments == 1; i++) {
        if (is_staged_send(send)) {
            SV_TRY(sv_calloc(bytes, 1, &fault->past[i]));
        } else {
            SV_TRY(SV_DEVICE_CALL(dev, malloc, bytes, &block));
            fault->past[i] = block;
        }
    }
    return SELVAGE_SUCCESS;
}

void sv_fault_send_destroy(sv_send_t *send)
{
    struct sv_fault_send *fault = send->fault;
    sv_device_t *dev = send->p.x->comm->dev;
    if (!fault)
        return;
    /* A double that never left would be read by MPI still; after MPI_Finalize nobody can say. */
    bool quiet = !send->p.x->comm->detached;
    for (int i = 0; i < 2 && quiet; i++)
        quiet = sv_wire_cancel(send->p.x->comm->wire, &fault->extra[i]) == SELVAGE_SUCCESS;
    if (quiet || !send->p.ops->messaged) {
        uint8_t *block[] = {fault->past[0], fault->past[1], fault->bogus};
        for (int i = 0; i < 3; i++) {
            if (is_staged_send(send))
                sv_free(block[i]);
            else if (block[i])
                SV_DEVICE_CALL(dev, free, block[i]);
        }
        if (fault->bogus_record)
            SV_DEVICE_CALL(dev, host_free, fault->bogus_record);
    }
    sv_free(fault);
    send->fault = NULL;
}

/* Small staged packets have it after the payload. */
static sv_record_t sent_record_of(const sv_send_t *send)
{
    sv_record_t record = *send->record;
    if (is_staged_send(send) && send->p.kernel_copy && send->p.x->policy != SV_CONFIG_CHECKSUM_OFF)
        memcpy(&record, send->p.slots[0].stage + send->p.bytes, sizeof record);
    return record;
}

/* A packet whose content is complete and fits, to be sent in place of this one; or NULL. */
static const sv_send_t *find_partner(const sv_send_t *send)
{
    const selvage_exchange_t *x = send->p.x;
    for (uint32_t step = 1; step < x->nsends && send->p.nsegments == 1; step++) {
        const sv_send_t *other = &x->sends[(send->p.own_index + step) % x->nsends];
        const bool pushed = is_staged_send(other) && other->p.kernel_copy;
        if (!are_alike(other, send) || other->p.nsegments != 1)
            continue;
        /* Its record of this epoch must be in host memory. Partner: the release of the digest or push kernel. */
        if ((x->policy != SV_CONFIG_CHECKSUM_OFF || pushed) &&
            !sv_word_matches(__atomic_load_n(other->ready, __ATOMIC_ACQUIRE), x->epoch, other->p.identity.attempt))
            continue;
        if (sent_record_of(other).epoch != x->epoch)
            continue;
        /* The first is taken or none. Staged content must have come to its slot, and not be under way again. */
        const sv_slot_t *slot = is_staged_send(other) && !pushed ? &other->p.slots[0] : NULL;
        return slot && slot->state == SV_SLOT_STAGING && !sv_slot_is_copied(slot) ? NULL : other;
    }
    return NULL;
}

/* Somebody of the same size that may still become ready for a swap; not for long, lest two wait for each other. */
static bool partner_may_come(const sv_send_t *send, uint64_t now_ns)
{
    enum { PARTNER_WAIT_NS = 20000000 };
    const selvage_exchange_t *x = send->p.x;
    if (send->p.nsegments > 1 || now_ns > send->p.started_ns + PARTNER_WAIT_NS)
        return false;
    for (uint32_t i = 0; i < x->nsends; i++)
        if (i != send->p.own_index && are_alike(&x->sends[i], send))
            return true;
    return false;
}

/* What is impossible at the moment becomes a flipped bit. */
static sv_fault_kind_t make_possible(sv_send_t *send, sv_fault_kind_t kind)
{
    struct sv_fault_send *fault = send->fault;
    sv_wire_t *wire = send->p.x->comm->wire;
    const uint64_t epoch = send->p.x->epoch;
    bool possible = true;
    if (kind == SV_FAULT_DUPLICATE) /* the last double must have left */
        possible = !(send->p.ops->messaged && (sv_wire_test(wire, &fault->extra[0], NULL) != SELVAGE_SUCCESS ||
                                               sv_wire_test(wire, &fault->extra[1], NULL) != SELVAGE_SUCCESS)) &&
                   !(is_direct_send(send) && !fault->past[0]);
    if (kind == SV_FAULT_SWAP)
        possible = fault->partner != NULL;
    if (kind == SV_FAULT_REPLAY)
        possible = fault->past[0] && epoch > 1 && fault->past_epoch[(epoch - 1) & 1] == epoch - 1;
    return possible ? kind : SV_FAULT_FLIP;
}

void sv_fault_decide(sv_send_t *send, uint64_t now_ns)
{
    sv_fault_t *fault = &send->p.x->comm->fault;
    sv_fault_kind_t kind = send->fault->drawn;
    if (kind == SV_FAULT_NONE && !(fault->epochs && send->p.x->epoch > fault->epochs))
        kind = sv_fault_packet(fault, send->p.index, send->p.attempt);
    if (kind == SV_FAULT_SWAP)
        send->fault->partner = find_partner(send);
    bool waits = kind == SV_FAULT_SWAP && !send->fault->partner && partner_may_come(send, now_ns);
    send->fault->drawn = waits ? kind : SV_FAULT_NONE;
    send->fault_decided = !waits;
    if (waits || kind == SV_FAULT_NONE)
        return;
    sv_packet_trace(&send->p, SV_TRACE_FAULT, now_ns, 0, kind);
    send->fault_kind = make_possible(send, kind);
    send->silent = send->fault_kind == SV_FAULT_DROP;
    if (send->fault_kind == SV_FAULT_DELAY)
        send->delay_until_ns = now_ns + (uint64_t)fault->delay_ms * 1000000;
    send->fault_segment = (uint32_t)sv_fault_random(fault, send->p.nsegments);
}

static void flip_bit(sv_send_t *send, uint8_t *message, size_t bytes)
{
    sv_fault_t *fault = &send->p.x->comm->fault;
    message[sv_fault_random(fault, bytes)] ^= (uint8_t)(1u << sv_fault_random(fault, 8));
}

uint8_t *sv_fault_message(sv_send_t *send, sv_slot_t *slot, size_t *bytes)
{
    struct sv_fault_send *fault = send->fault;
    selvage_comm_t *comm = send->p.x->comm;
    const uint64_t epoch = send->p.x->epoch;
    if (fault->past[0]) { /* for a replay in the next epoch */
        memcpy(fault->past[epoch & 1], slot->stage, *bytes);
        fault->past_bytes[epoch & 1] = *bytes;
        fault->past_epoch[epoch & 1] = epoch;
    }
    if (send->silent)
        return NULL;
    if (slot->segment != send->fault_segment)
        return slot->stage;
    switch (send->fault_kind) {
    case SV_FAULT_FLIP:
        flip_bit(send, slot->stage, *bytes);
        return slot->stage;
    case SV_FAULT_SWAP: {
        const size_t payload_bytes = *bytes - SV_RECORD_BYTES;
        fault->partner = find_partner(send); /* that of the decision may be asked for again, and on its way */
        if (!fault->partner) {
            flip_bit(send, slot->stage, *bytes);
            return slot->stage;
        }
        sv_record_t record = sent_record_of(fault->partner);
        record.attempt = (uint8_t)fault->partner->p.attempt;
        memcpy(fault->bogus, fault->partner->p.slots[0].stage, payload_bytes);
        memcpy(fault->bogus + payload_bytes, &record, sizeof record);
        return fault->bogus;
    }
    case SV_FAULT_REPLAY:
        *bytes = fault->past_bytes[(epoch - 1) & 1];
        return fault->past[(epoch - 1) & 1];
    case SV_FAULT_TRUNCATE:
        *bytes = (size_t)sv_fault_random(&comm->fault, *bytes);
        return slot->stage;
    case SV_FAULT_DUPLICATE:
        memcpy(fault->bogus, slot->stage, *bytes);
        (void)sv_wire_send(comm->wire, SV_WIRE_DATA, fault->bogus, *bytes, send->p.peer->rank, send->p.wire_tag,
                           &fault->extra[0]);
        return slot->stage;
    default:
        return slot->stage;
    }
}

static selvage_status_t copy_faulty(sv_send_t *send, uint8_t *dst, const uint8_t *src, size_t bytes,
                                    sv_copy_kind_t kind, void *stream)
{
    return SV_DEVICE_CALL(send->p.x->comm->dev, copy_async, dst, src, bytes, kind, stream);
}

/* One-sided: keeps this epoch's payload on the device; its record is kept when it is asked for. */
static selvage_status_t keep_payload(sv_send_t *send, const uint8_t *src, size_t bytes, void *stream)
{
    unsigned turn = send->p.x->epoch & 1;
    if (!send->fault->past[0] || send->p.attempt > 0)
        return SELVAGE_SUCCESS;
    send->fault->past_epoch[turn] = send->p.x->epoch;
    return copy_faulty(send, send->fault->past[turn], src, bytes, SV_COPY_D2D, stream);
}

static selvage_status_t flip_there(sv_send_t *send, uint8_t *dst, size_t bytes, void *stream)
{
    sv_fault_t *fault = &send->p.x->comm->fault;
    send->fault->record_corrupted = bytes == 0 || sv_fault_random(fault, 8) == 0;
    if (send->fault->record_corrupted)
        return SELVAGE_SUCCESS;
    sv_flip_arg_t arg = {dst + sv_fault_random(fault, bytes), UINT64_C(1) << sv_fault_random(fault, 8)};
    return SV_DEVICE_CALL(send->p.x->comm->dev, launch, &sv_kernel_flip, &arg, sizeof arg, 1, stream);
}

selvage_status_t sv_fault_copy(sv_send_t *send, uint32_t segment, uint8_t *dst, const uint8_t *src, size_t bytes,
                               sv_copy_kind_t kind, void *stream)
{
    struct sv_fault_send *fault = send->fault;
    fault->record_corrupted &= segment > 0;
    SV_TRY(keep_payload(send, src, bytes, stream));
    if (segment != send->fault_segment)
        return copy_faulty(send, dst, src, bytes, kind, stream);
    switch (send->fault_kind) {
    case SV_FAULT_SWAP:
        return copy_faulty(send, dst, fault->partner->buf, bytes, kind, stream);
    case SV_FAULT_REPLAY:
        return copy_faulty(send, dst, fault->past[(send->p.x->epoch - 1) & 1], bytes, kind, stream);
    case SV_FAULT_TRUNCATE:
        fault->record_corrupted = bytes < 2;
        SV_TRY(SV_DEVICE_CALL(send->p.x->comm->dev, fill_async, dst, 0xa5, bytes, stream));
        return copy_faulty(send, dst, src, bytes / 2, kind, stream);
    case SV_FAULT_FLIP:
        SV_TRY(copy_faulty(send, dst, src, bytes, kind, stream));
        return flip_there(send, dst, bytes, stream);
    default:
        return copy_faulty(send, dst, src, bytes, kind, stream);
    }
}

selvage_status_t sv_fault_keep(sv_send_t *send)
{
    selvage_exchange_t *x = send->p.x;
    SV_TRY(keep_payload(send, send->buf, send->p.bytes, x->streams.kernel));
    SV_TRY(SV_DEVICE_CALL(x->comm->dev, stream_sync, x->streams.kernel));
    send->fault->past_record[x->epoch & 1] = *send->record;
    return SELVAGE_SUCCESS;
}

/*
 * The record that goes with the payload. Faults are tests, so waiting here for the digest kernel is no loss: the record
 * must be known on the host to be kept for a replay or to be corrupted.
 */
const sv_record_t *sv_fault_record(sv_send_t *send)
{
    struct sv_fault_send *fault = send->fault;
    selvage_exchange_t *x = send->p.x;
    if (!fault)
        return send->record;
    if (SV_DEVICE_CALL(x->comm->dev, stream_sync, x->streams.kernel) != SELVAGE_SUCCESS)
        return send->record;
    fault->past_record[x->epoch & 1] = *send->record;
    *fault->bogus_record = *send->record;
    if (send->fault_kind == SV_FAULT_SWAP)
        *fault->bogus_record = *fault->partner->record;
    if (send->fault_kind == SV_FAULT_REPLAY)
        *fault->bogus_record = fault->past_record[(x->epoch - 1) & 1];
    /* The attempt of a one-sided record is not corrupted: nobody reads it there, the word says it. */
    const sv_record_t whole = *fault->bogus_record;
    while (fault->record_corrupted && memcmp(fault->bogus_record, &whole, sizeof whole) == 0) {
        flip_bit(send, (uint8_t *)fault->bogus_record, sizeof whole);
        fault->bogus_record->attempt = whole.attempt;
    }
    return fault->bogus_record;
}

/* --- direct ------------------------------------------------------------------------------------------------------- */

selvage_status_t sv_fault_direct(sv_send_t *send, uint32_t number, const void **message, size_t *bytes)
{
    struct sv_fault_send *fault = send->fault;
    const selvage_exchange_t *x = send->p.x;
    if (number == send->p.nsegments) { /* the record */
        if (send->p.bytes == 0)
            fault->record_corrupted = send->fault_kind == SV_FAULT_FLIP;
        *message = sv_fault_record(send);
        if (send->fault_kind == SV_FAULT_TRUNCATE && send->p.bytes == 0)
            *bytes = (size_t)sv_fault_random(&x->comm->fault, *bytes);
        return SELVAGE_SUCCESS;
    }
    if (number == 0)
        SV_TRY(keep_payload(send, *message, *bytes, x->streams.kernel));
    fault->record_corrupted &= number > 0;
    if (number != send->fault_segment)
        return SELVAGE_SUCCESS;
    switch (send->fault_kind) {
    case SV_FAULT_FLIP: /* in a copy, complete when this returns: the wire reads it without asking a stream */
        SV_TRY(copy_faulty(send, fault->bogus, *message, *bytes, SV_COPY_D2D, x->streams.kernel));
        SV_TRY(flip_there(send, fault->bogus, *bytes, x->streams.kernel));
        SV_TRY(SV_DEVICE_CALL(x->comm->dev, stream_sync, x->streams.kernel));
        *message = fault->bogus;
        return SELVAGE_SUCCESS;
    case SV_FAULT_SWAP:
        *message = fault->partner->buf;
        return SELVAGE_SUCCESS;
    case SV_FAULT_REPLAY:
        *message = fault->past[(x->epoch - 1) & 1];
        return SELVAGE_SUCCESS;
    case SV_FAULT_TRUNCATE:
        *bytes = (size_t)sv_fault_random(&x->comm->fault, *bytes);
        return SELVAGE_SUCCESS;
    default:
        return SELVAGE_SUCCESS;
    }
}

/* The twin is sent from memory that is kept for another epoch, because nothing waits for it to leave. */
selvage_status_t sv_fault_double(sv_send_t *send, uint32_t number)
{
    const sv_packet_t *p = &send->p;
    const selvage_exchange_t *x = p->x;
    struct sv_fault_send *fault = send->fault;
    if (send->fault_kind != SV_FAULT_DUPLICATE)
        return SELVAGE_SUCCESS;
    if (number == p->nsegments) {
        sv_record_t *twin = &fault->bogus_record[1];
        *twin = *send->record;
        return sv_wire_send(x->comm->wire, SV_WIRE_DATA, twin, sizeof *twin, p->peer->rank, p->record_tag,
                            &fault->extra[1]);
    }
    uint8_t *twin = fault->past[x->epoch & 1];
    SV_TRY(copy_faulty(send, twin, send->buf, p->bytes, SV_COPY_D2D, x->streams.kernel));
    SV_TRY(SV_DEVICE_CALL(x->comm->dev, stream_sync, x->streams.kernel));
    return sv_wire_send(x->comm->wire, SV_WIRE_DATA, twin, p->bytes, p->peer->rank, p->wire_tag, &fault->extra[0]);
}

/* --- what is put before phase 2 of a route ------------------------------------------------------------------------ */

static sv_route_ops_t faulty_ops[SELVAGE_ROUTE_DIRECT + 1];

static selvage_status_t send_with_faults(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    const selvage_exchange_t *x = send->p.x;
    if (!is_staged_send(send) || !sv_staged_is_settling(send)) {
        if (x->comm->fault.never_epoch == x->epoch)
            return SELVAGE_SUCCESS;
        if (x->comm->fault.armed && !send->fault_decided)
            sv_fault_decide(send, now_ns);
        if ((x->comm->fault.armed && !send->fault_decided) || now_ns < send->delay_until_ns)
            return SELVAGE_SUCCESS;
    }
    return sv_route_ops_of(send->p.route)->send(send, now_ns, moved);
}

static void make_faulty_ops(void)
{
    for (int route = 0; route <= SELVAGE_ROUTE_DIRECT; route++) {
        faulty_ops[route] = *sv_route_ops_of((selvage_route_t)route);
        faulty_ops[route].send = send_with_faults;
    }
}

const sv_route_ops_t *sv_fault_route_ops(selvage_route_t route)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_faulty_ops);
    return &faulty_ops[route];
}
