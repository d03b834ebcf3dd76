/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a message, for tests: a buffer in device or host memory, one piece or strided, filled and checked after
 * work that is still under way on a stream, so that an end that does not wait for it is seen.
 */
#ifndef SELVAGE_TESTS_MESSAGE_END_H
#define SELVAGE_TESTS_MESSAGE_END_H

#include "local_ranks.h"
#include "message/message_calls.h"

typedef struct message_end {
    local_rank_t *self;
    sv_type_map_t map;
    uint8_t *buf, *memory;
    uint8_t *packed, *image; /* what is sent, or was received, in one piece; and how it lies in the buffer */
    size_t span;
    bool on_device;
    void *stream;
    selvage_request_t *request;
} message_end_t;

typedef struct message_shape {
    size_t bytes;      /* of the stream */
    size_t run, gap;   /* bytes without a gap, and after each; run 0: one piece */
    bool on_device;
    void *stream;
    double delay_us;   /* work that is ahead of the buffer's on the stream */
} message_shape_t;

/* Makes the end; nothing is checked of what it holds. */
void message_end_open(message_end_t *end, local_rank_t *self, const message_shape_t *shape);
void message_end_close(message_end_t *end);

/* Fills the buffer on the stream and sends it, or marks it there and receives into it. */
void message_end_send(message_end_t *end, const message_shape_t *shape, int peer, int tag, uint64_t key);
/* The same, with what the call returns. */
selvage_status_t message_end_try_send(message_end_t *end, const message_shape_t *shape, int peer, int tag,
                                      uint64_t key);
/* The same, not to wait for its receiver. */
selvage_status_t message_end_ibsend(message_end_t *end, const message_shape_t *shape, int peer, int tag, uint64_t key);
void message_end_issend(message_end_t *end, const message_shape_t *shape, int peer, int tag, uint64_t key);
void message_end_recv(message_end_t *end, const message_shape_t *shape, int peer, int tag);

/* Sets what message_end_wrong() must find where nothing was received; recv does it itself. */
void message_end_mark(message_end_t *end);

/* Position of the first of these bytes that is not the pattern of key; -1 if there is none, -2 if what lies after them
   or in gaps was changed. */
long message_end_wrong(message_end_t *end, size_t bytes, uint64_t key);

#endif
