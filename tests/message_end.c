/* SPDX-License-Identifier: BSD-3-Clause */
/* See message_end.h. Device memory of the software device is host memory, so that it can be looked at. */
#include "message_end.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "message/message_engine.h"

enum { MARK = 0xa5 };

static void make_map(message_end_t *end, const message_shape_t *shape)
{
    const size_t run = shape->run ? shape->run : shape->bytes;
    for (size_t at = 0, offset = 0; at < shape->bytes; at += run, offset += run + shape->gap)
        CHECK_STATUS(sv_type_map_add_run(&end->map, (int64_t)offset, shape->bytes - at < run ? shape->bytes - at : run),
                     SELVAGE_SUCCESS);
    CHECK_STATUS(sv_type_map_compress(&end->map), SELVAGE_SUCCESS);
    CHECK_EQ(end->map.bytes, shape->bytes);
}

void message_end_open(message_end_t *end, local_rank_t *self, const message_shape_t *shape)
{
    void *memory = NULL;
    *end = (message_end_t){.self = self, .on_device = shape->on_device, .stream = shape->stream};
    make_map(end, shape);
    end->span = (size_t)end->map.high + 1;
    if (shape->on_device)
        CHECK_STATUS(selvage_device_malloc(self->dev, end->span + 16, &memory), SELVAGE_SUCCESS);
    else
        memory = malloc(end->span + 16);
    end->memory = memory;
    end->buf = end->memory + shape->bytes % 16; /* any alignment */
    end->packed = malloc(shape->bytes + 1);
    end->image = malloc(end->span);
}

static void wait_for_stream(const message_end_t *end)
{
    if (end->stream != SELVAGE_MESSAGE_NO_STREAM)
        CHECK_STATUS(selvage_stream_synchronize(end->self->dev, end->stream), SELVAGE_SUCCESS);
}

void message_end_close(message_end_t *end)
{
    wait_for_stream(end);
    if (end->on_device)
        selvage_device_free(end->self->dev, end->memory);
    else
        free(end->memory);
    free(end->packed);
    free(end->image);
    sv_type_map_fini(&end->map);
}

static void move(message_end_t *end, bool out)
{
    uint8_t *at = end->packed;
    for (size_t i = 0; i < end->map.npieces; i++) {
        const sv_type_piece_t *piece = &end->map.pieces[i];
        for (uint64_t r = 0, n = sv_type_piece_runs(&end->map, piece); r < n; r++, at += piece->run_bytes) {
            uint8_t *run = end->buf + sv_type_piece_run_offset(&end->map, piece, r);
            memcpy(out ? run : at, out ? at : run, piece->run_bytes);
        }
    }
}

/* What is at the buffer until the stream has come to it is never what is wanted. */
static void put_behind(message_end_t *end, const message_shape_t *shape)
{
    sv_device_t *dev = end->self->dev;
    if (shape->stream == SELVAGE_MESSAGE_NO_STREAM || shape->delay_us == 0)
        return;
    memcpy(end->image, end->buf, end->span);
    memset(end->buf, 0x3c, end->span);
    CHECK_STATUS(SV_DEVICE_CALL(dev, delay_async, shape->delay_us, shape->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, copy_async, end->buf, end->image, end->span, SV_COPY_D2D, shape->stream),
                 SELVAGE_SUCCESS);
}

static selvage_status_t send(message_end_t *end, const message_shape_t *shape, int peer, int tag, uint64_t key,
                             sv_send_kind_t kind)
{
    const sv_message_buffer_t buffer = {end->buf, &end->map};
    memset(end->buf, MARK, end->span);
    local_ranks_fill(end->packed, shape->bytes, key);
    move(end, true);
    put_behind(end, shape);
    return sv_message_isend(end->self->comm, "test", &buffer, peer, tag, kind, shape->stream, &end->request);
}

selvage_status_t message_end_try_send(message_end_t *end, const message_shape_t *shape, int peer, int tag,
                                      uint64_t key)
{
    return send(end, shape, peer, tag, key, SV_SEND_PLAIN);
}

void message_end_send(message_end_t *end, const message_shape_t *shape, int peer, int tag, uint64_t key)
{
    CHECK_STATUS(send(end, shape, peer, tag, key, SV_SEND_PLAIN), SELVAGE_SUCCESS);
}

selvage_status_t message_end_ibsend(message_end_t *end, const message_shape_t *shape, int peer, int tag, uint64_t key)
{
    return send(end, shape, peer, tag, key, SV_SEND_BUFFERED);
}

void message_end_issend(message_end_t *end, const message_shape_t *shape, int peer, int tag, uint64_t key)
{
    CHECK_STATUS(send(end, shape, peer, tag, key, SV_SEND_SYNCHRONOUS), SELVAGE_SUCCESS);
}

void message_end_mark(message_end_t *end)
{
    memset(end->buf, MARK, end->span);
}

void message_end_recv(message_end_t *end, const message_shape_t *shape, int peer, int tag)
{
    const sv_message_buffer_t buffer = {end->buf, &end->map};
    message_end_mark(end);
    put_behind(end, shape);
    CHECK_STATUS(sv_message_irecv(end->self->comm, "test", &buffer, peer, tag, shape->stream, &end->request),
                 SELVAGE_SUCCESS);
}

long message_end_wrong(message_end_t *end, size_t bytes, uint64_t key)
{
    size_t changed = 0, marked = 0;
    if (bytes == 0) /* which waits for nothing */
        wait_for_stream(end);
    move(end, false);
    long wrong = local_ranks_wrong(end->packed, bytes, key);
    for (size_t i = bytes; i < end->map.bytes && wrong < 0; i++)
        wrong = end->packed[i] == MARK ? wrong : -2;
    for (size_t i = 0; i < end->span; i++)
        marked += end->buf[i] == MARK;
    for (size_t i = 0; i < end->map.bytes; i++)
        changed += end->packed[i] != MARK;
    return wrong == -1 && marked + changed != end->span ? -2 : wrong;
}
