/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lent sends: a long buffered send is not copied but received out of the caller's memory (message_get.c). Like all
 * buffered ones it waits for nobody's host. The kernel that verifies it on the receiver's device says when it is
 * complete. If that takes too long, because no receive is posted or nobody there calls, the bytes are moved: copied to
 * device memory of the engine's or, where there is none left, to a segment of host memory.
 *
 *   send   event                                       action                                            next
 *   LENT   done[k] = stamp                                                                               COMPLETE
 *   LENT   its carrier has ended, well or not                                                            COMPLETE
 *   LENT   not taken in time, nor any other lent       the bytes are copied, if there is memory
 *   LENT   copied, begun[k] still offered              moved_to[k], begun[k] = moved                     COMPLETE
 *   LENT   copied, begun[k] taken meanwhile            moved_to[k], moved[k] = stamp
 *   LENT   that for lent_stall_ns, and checks are on                                                     COMPLETE
 *   LENT   moved, and its carrier is asked for it                                                        COMPLETE
 *
 * The last but one is for a receiver whose host left between the copy and its verification. If that copy then does not
 * verify, because the caller has written its memory, the receiver reads once more, where it was moved to. Without
 * checks a receiver enqueues everything in one step, so that done[k] comes.
 *
 * A send that fails before its bytes were moved takes its offer back, and its carrier answers nothing out of memory
 * that is the caller's again. The carrier lives until its receiver has met the message, as the number is its.
 *
 * The send and its carrier know each other until either ends. What the bytes are moved to belongs to the send until
 * others may read it, and then to the carrier. Under the engine's lock.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "message/message_get.h"
#include "message/message_put.h"

/* When memory for a move is looked for again. */
static const uint64_t retry_ns = 500000000;
/* A receiver that takes other lent messages meanwhile is there, but may take this long at most. */
static const uint64_t busy_ns = 100000000;

/* --- the sender's ------------------------------------------------------------------------------------------------- */

/* A segment of host memory, or NULL. No token is used twice. */
static void create_move_segment(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    sv_move_segment_t *segment = NULL;
    const int level = sv_thread_binding()->log_level;
    const uint64_t token = sv_digest_mix(engine->exchange + ++engine->stamps) | 1;
    sv_thread_binding()->log_level = 0; /* what fails is no error: there is time to wait for the receiver */
    selvage_status_t status = sv_calloc(1, sizeof *segment, &segment);
    if (status == SELVAGE_SUCCESS)
        status = sv_shared_create(engine->dev, send->bytes, token, &segment->shared);
    sv_thread_binding()->log_level = level;
    if (status != SELVAGE_SUCCESS) {
        sv_log(SV_LOG_INFO, "message", "a buffered send of %llu bytes waits for rank %d: there is no memory to move it "
               "to (%s)", (unsigned long long)send->bytes, send->peer, sv_thread_detail());
        sv_free(segment);
        return;
    }
    sv_list_init(&segment->link);
    send->get.segment = segment;
}

/* When a receiver that has not begun is late. One that takes a long window of messages may come to the last of them
   later than that after they were lent, and moving them would cost far more than it gains. */
static uint64_t move_at_ns(const selvage_request_t *send)
{
    const uint64_t lent_ns = send->get.lent_ns, taken_ns = sv_get_end_of(send)->lent_taken_ns;
    const uint64_t move_ns = send->engine->lent_move_ns;
    if (taken_ns <= lent_ns)
        return lent_ns + move_ns;
    return (taken_ns < lent_ns + busy_ns ? taken_ns : lent_ns + busy_ns) + move_ns;
}

/* Copies the bytes to where they do not depend on the caller. Without memory for that, it is tried again later. */
static selvage_status_t begin_move(selvage_request_t *send, uint64_t now_ns)
{
    sv_message_engine_t *engine = send->engine;
    sv_request_get_t *get = &send->get;
    SV_TRY(sv_message_group_launch(engine)); /* what makes its digest reads the caller's memory, before the copy */
    get->moving = sv_message_take_buffer(engine, send->bytes);
    if (!get->moving)
        create_move_segment(send);
    if (!get->moving && !get->segment) {
        get->lent_ns = now_ns + retry_ns;
        return SELVAGE_SUCCESS;
    }
    void *to = get->moving ? get->moving->memory : sv_shared_base(&get->segment->shared);
    get->is_moving = true;
    send->stamp = ++engine->stamps;
    SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, to, send->place.data, send->bytes,
                          get->moving ? SV_COPY_PEER : SV_COPY_D2H, engine->streams.kernel));
    return SV_DEVICE_CALL(engine->dev, signal_async, &send->line->ready, send->stamp, engine->streams.kernel);
}

/* Tells the receiver where they are now, and gives that to the carrier. *unread_out: nobody has begun to read the
   caller's memory, and nobody will. */
static selvage_status_t publish_move(selvage_request_t *send, selvage_request_t *carrier, bool *unread_out)
{
    sv_request_get_t *get = &send->get;
    sv_message_shm_t *shm = sv_get_end_of(send)->shm;
    sv_message_moved_t to = {.token = 0};
    if (get->segment) {
        to.segment = get->segment->shared.mapping.handle;
        to.token = ((const sv_shared_header_t *)get->segment->shared.mapping.base)->token;
    } else {
        SV_TRY(sv_message_export_bounce(send->engine, get->moving, &to.where));
    }
    shm->get_moved_to[get->place] = to;
    carrier->place.data = get->segment ? sv_shared_base(&get->segment->shared) : get->moving->memory;
    carrier->place.on_device = !get->segment;
    carrier->place.bounce = get->moving;
    carrier->get.buffered_bytes = get->moving ? get->moving->bytes : 0;
    carrier->get.segment = get->segment;
    get->moving = NULL;
    get->segment = NULL;
    get->is_moved = true;
    /* Partners: the acquires in sv_get_again() and sv_get_begin() of the receiver. */
    __atomic_store_n(&shm->get_moved[get->place], get->stamp, __ATOMIC_RELEASE);
    uint64_t word = sv_get_word(get->stamp, SV_GET_OFFERED);
    *unread_out = __atomic_compare_exchange_n(&shm->get_begun[get->place], &word, sv_get_word(get->stamp, SV_GET_MOVED),
                                              false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_lend_poll(selvage_request_t *send, bool *moved)
{
    sv_request_get_t *get = &send->get;
    selvage_request_t *carrier = get->partner;
    const sv_message_shm_t *shm = sv_get_end_of(send)->shm;
    /* 1. Copies that read the caller's memory end before the send does. Partner: the stream in begin_move(). */
    if (get->is_moving && !get->is_moved && !sv_word_is(&send->line->ready, send->stamp))
        return SELVAGE_IN_PROGRESS;
    /* 2. It was read; or it has ended otherwise, and then its carrier has left the outcome. */
    const bool done = sv_word_is(&shm->get_done[get->place], get->stamp); /* partner: the receiver's kernel or host */
    if (done || !carrier) {
        *moved = true;
        sv_get_end_of(send)->lent_taken_ns = sv_clock_ns();
        if (!done && get->outcome != SELVAGE_SUCCESS)
            return sv_error_quiet(get->outcome, "%s", send->detail);
        sv_message_complete(send, SELVAGE_SUCCESS);
        return SELVAGE_SUCCESS;
    }
    /* 3. Its receiver is late. One that wants it by another way is answered first. */
    const bool offers = carrier->state == SV_REQUEST_RTS_SENT;
    /* A receiver that has begun to read is waited for as long as that, and as a slow link takes, 1 ns a byte. */
    const uint64_t stalled_ns = get->lent_ns + send->engine->lent_stall_ns + send->bytes;
    const uint64_t now_ns = send->engine->now_ns;
    if (!offers && !get->is_moved)
        return SELVAGE_IN_PROGRESS;
    if (!get->is_moving) {
        const bool taken = sv_word_is(&shm->get_begun[get->place], sv_get_word(get->stamp, SV_GET_TAKEN));
        if (now_ns < (taken ? stalled_ns : move_at_ns(send)))
            return SELVAGE_IN_PROGRESS;
        SV_TRY(begin_move(send, now_ns));
        return SELVAGE_IN_PROGRESS;
    }
    if (!get->is_moved && !sv_get_is_ready(send))
        return SELVAGE_IN_PROGRESS;
    if (!get->is_moved) {
        bool unread;
        get->lent_ns = now_ns;
        *moved = true;
        SV_TRY(publish_move(send, carrier, &unread));
        if (unread)
            sv_message_complete(send, SELVAGE_SUCCESS);
        return SELVAGE_SUCCESS;
    }
    /* 4. It had begun to read; if it asks for the bytes now, it has ended that, and is sent what was moved. */
    if (offers && (now_ns < stalled_ns || !sv_message_checks(send->engine)))
        return SELVAGE_IN_PROGRESS;
    *moved = true;
    sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

bool sv_lend_revoke(selvage_request_t *send)
{
    const selvage_request_t *carrier = send->get.partner;
    return (!carrier || carrier->state == SV_REQUEST_RTS_SENT) && sv_get_revoke(send);
}

/* --- the receiver's ----------------------------------------------------------------------------------------------- */

selvage_status_t sv_lend_follow(selvage_request_t *recv)
{
    sv_message_engine_t *engine = recv->engine;
    sv_request_get_t *get = &recv->get;
    const sv_message_moved_t to = sv_get_end_of(recv)->shm->get_moved_to[get->place];
    sv_transfer_mapping_t *mapping = NULL;
    if (to.token) {
        sv_move_segment_t *segment;
        SV_TRY(sv_calloc(1, sizeof *segment, &segment));
        const selvage_status_t status = sv_shared_open(engine->dev, &to.segment, to.token, &segment->shared);
        if (status != SELVAGE_SUCCESS) {
            sv_free(segment);
            return status;
        }
        sv_list_init(&segment->link);
        get->segment = segment;
        get->src = sv_shared_device_address(&segment->shared, sv_shared_base(&segment->shared));
    } else {
        const sv_transfer_memory_t source = {.peer = recv->peer, .handle = &to.where.handle, .base = to.where.base,
                                             .offset = to.where.offset, .bytes = recv->bytes, .kept = true};
        SV_TRY(sv_transfer_map(&engine->memory.mappings, engine->dev, &source, &mapping));
        get->src = (const uint8_t *)mapping->base + to.where.offset;
    }
    sv_transfer_unmap(get->mapping);
    get->mapping = mapping;
    get->moved = true;
    return SELVAGE_SUCCESS;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

void sv_lend_trim(sv_message_engine_t *engine, sv_list_t *trimmed)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->memory.segments_left) {
        sv_list_remove(it);
        sv_list_append(trimmed, it);
    }
    engine->memory.nsegments_left = 0;
}

static void close_first_segment(sv_list_t *list)
{
    sv_move_segment_t *segment = SV_CONTAINER_OF(list->next, sv_move_segment_t, link);
    sv_list_remove(&segment->link);
    sv_shared_close(&segment->shared);
    sv_free(segment);
}

void sv_lend_close(sv_list_t *trimmed)
{
    while (!sv_list_is_empty(trimmed))
        close_first_segment(trimmed);
}

/* Nobody here needs it any more. To unpin it may wait for the device, so a wait does that later, or the end of the
   engine; a poll only when far too many are left. What is borrowed was not pinned here, and goes before its owner's. */
void sv_lend_leave_segment(sv_message_engine_t *engine, sv_request_get_t *get)
{
    enum { LEFT_MOST = 16 };
    sv_message_memory_t *memory = &engine->memory;
    sv_list_t borrowed;
    sv_list_init(&borrowed);
    if (!get->segment->shared.registered) {
        sv_list_append(&borrowed, &get->segment->link);
        sv_lend_close(&borrowed);
    } else {
        sv_list_append(&memory->segments_left, &get->segment->link);
        memory->nsegments_left++;
    }
    get->segment = NULL;
    for (; memory->nsegments_left > LEFT_MOST && engine->broken == SELVAGE_SUCCESS; memory->nsegments_left--)
        close_first_segment(&memory->segments_left);
}
