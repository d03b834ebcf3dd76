/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots: the staging buffers that segments of long data go through on their way between a device and the wire, and the
 * verbs of a host-staged transfer. Exchanges (pipeline/route_staged.c) and long messages (message/message_staged.c) are
 * both made of these.
 *
 *   of a sender     FREE --copy down--> STAGING --its word, then sent--> IN_FLIGHT --left--> FREE
 *   of a receiver   FREE --posted--> POSTED --arrived--> FREE --copy up--> UNSTAGING --its word--> FREE
 *
 * After each copy the device stores a stamp in the slot's word, which lies in pinned memory: so the host asks no event
 * and makes no call to learn that a copy is through. Where the wire reads or writes memory of the host's that is not
 * staged, a slot has no staging buffer, and is never STAGING or UNSTAGING.
 *
 * A slot is STAGING or UNSTAGING from when the device was given the copy, and as it was if that failed. It belongs to
 * one packet or request; the staging buffer is its owner's. One thread at a time. Nothing here blocks, allocates or
 * logs.
 */
#ifndef SV_TRANSFER_SLOT_H
#define SV_TRANSFER_SLOT_H

#include <stdbool.h>

#include "base/base_status.h"
#include "device/device.h"
#include "wire/wire.h"

typedef enum sv_slot_state {
    SV_SLOT_FREE,
    SV_SLOT_STAGING,            /* being filled by the device */
    SV_SLOT_IN_FLIGHT,          /* on the wire, leaving */
    SV_SLOT_POSTED,             /* on the wire, waiting for a message */
    SV_SLOT_UNSTAGING           /* being emptied by the device */
} sv_slot_state_t;

typedef struct sv_slot {
    uint8_t *stage;             /* room for a segment, and what else its message has; or NULL */
    uint64_t *word;             /* pinned: equals stamp once the copy into or out of it is through */
    uint64_t stamp;
    sv_event_t *event;          /* received: after the copy, for a kernel that verifies; or NULL */
    sv_wire_request_t request;
    sv_slot_state_t state;
    uint32_t segment;           /* what it holds */
    uint64_t since_ns;          /* when its present state began, for the timeline */
    uint64_t in_flight_bytes;
} sv_slot_t;

/* Of a segment of so many bytes but for the last one: where it begins, and how long it is. */
static inline size_t sv_segment_offset(uint32_t segment, size_t segment_bytes)
{
    return (size_t)segment * segment_bytes;
}
static inline size_t sv_segment_length(uint32_t segment, size_t segment_bytes, size_t total_bytes)
{
    const size_t left = total_bytes - sv_segment_offset(segment, segment_bytes);
    return left < segment_bytes ? left : segment_bytes;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* Where copies are enqueued, and where the words after them are stored. */
typedef struct sv_copy_lane {
    sv_device_t *dev;
    void *stream;
    void *signal_stream;        /* NULL: the words are stored by the stream of the copies */
    sv_event_t *event;          /* between the two streams */
} sv_copy_lane_t;

/*
 * A word after what a stream has been given so far. After one of several copies it goes by way of an event and a stream
 * of its own, so that the next copy need not wait for it. A lone one comes sooner without.
 */
static inline selvage_status_t sv_lane_signal(const sv_copy_lane_t *lane, uint64_t *word, uint64_t value)
{
    sv_device_t *dev = lane->dev;
    if (!lane->signal_stream)
        return SV_DEVICE_CALL(dev, signal_async, word, value, lane->stream);
    SV_TRY(SV_DEVICE_CALL(dev, event_record, lane->event, lane->stream));
    SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, lane->signal_stream, lane->event));
    return SV_DEVICE_CALL(dev, signal_async, word, value, lane->signal_stream);
}

/* After the copy into or out of a slot. If it fails, the slot never is copied. */
static inline selvage_status_t sv_slot_mark(sv_slot_t *slot, const sv_copy_lane_t *lane)
{
    /* Partner: the acquire in sv_slot_is_copied(). */
    return sv_lane_signal(lane, slot->word, ++slot->stamp);
}
/* Whether the copy before the last mark is through. So it says nothing of a copy that was not marked yet. */
static inline bool sv_slot_is_copied(const sv_slot_t *slot)
{
    /* Partner: the release of the device, by sv_slot_mark(). */
    return __atomic_load_n(slot->word, __ATOMIC_ACQUIRE) == slot->stamp;
}

/* Copies a segment down into its slot. */
static inline selvage_status_t sv_slot_stage(sv_slot_t *slot, const sv_copy_lane_t *lane, const void *src, size_t bytes)
{
    SV_TRY(SV_DEVICE_CALL(lane->dev, copy_async, slot->stage, src, bytes, SV_COPY_D2H, lane->stream));
    slot->state = SV_SLOT_STAGING;
    return sv_slot_mark(slot, lane);
}

/* Copies a segment from its slot to its place, kind being H2D but for slots in device memory. The caller marks the
   slot, unless what it enqueues next says that the copy is through. */
static inline selvage_status_t sv_slot_unstage(sv_slot_t *slot, const sv_copy_lane_t *lane, void *dst, size_t bytes,
                                               sv_copy_kind_t kind)
{
    SV_TRY(SV_DEVICE_CALL(lane->dev, copy_async, dst, slot->stage, bytes, kind, lane->stream));
    slot->state = SV_SLOT_UNSTAGING;
    return SELVAGE_SUCCESS;
}

/* --- the wire ----------------------------------------------------------------------------------------------------- */

/* The two ranks of a transfer, as one of them sees it. */
typedef struct sv_wire_path {
    sv_wire_t *wire;
    sv_wire_channel_t channel;
    int peer, tag;
} sv_wire_path_t;

static inline selvage_status_t sv_slot_send(sv_slot_t *slot, const sv_wire_path_t *path, const void *message,
                                            size_t bytes)
{
    SV_TRY(sv_wire_send(path->wire, path->channel, message, bytes, path->peer, path->tag, &slot->request));
    slot->state = SV_SLOT_IN_FLIGHT;
    return SELVAGE_SUCCESS;
}

static inline selvage_status_t sv_slot_post(sv_slot_t *slot, const sv_wire_path_t *path, void *message,
                                            size_t capacity_bytes)
{
    SV_TRY(sv_wire_recv(path->wire, path->channel, message, capacity_bytes, path->peer, path->tag, &slot->request));
    slot->state = SV_SLOT_POSTED;
    return SELVAGE_SUCCESS;
}

/* SUCCESS: the slot's message has left, or is there with so many bytes, and the slot is FREE. Else, IN_PROGRESS or an
   error, it stays as it is. */
static inline selvage_status_t sv_slot_test(sv_slot_t *slot, sv_wire_t *wire, size_t *bytes_out)
{
    SV_TRY(sv_wire_test(wire, &slot->request, bytes_out));
    slot->state = SV_SLOT_FREE;
    return SELVAGE_SUCCESS;
}

/* Takes a message back that is on the wire, unless it is through. SUCCESS: the wire has let go of its memory, and the
   slot is FREE. An error: the wire may go on using that, and the slot stays as it is. */
static inline selvage_status_t sv_slot_cancel(sv_slot_t *slot, sv_wire_t *wire)
{
    SV_TRY(sv_wire_cancel(wire, &slot->request));
    slot->state = SV_SLOT_FREE;
    return SELVAGE_SUCCESS;
}

#endif
