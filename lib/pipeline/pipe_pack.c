/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a map to launches. A piece with dimensions is a box for sv_pack and sv_unpack; a piece without them is one copy.
 * The end of a stream that was cut within a piece is copied run by run, because those kernels take whole words. A list
 * with a table is for sv_runs, which takes any bytes.
 */
#include "pipeline/pipe_pack.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "kernels/kernels.h"
#include "kernels/pack_plan.h"

/* Of a piece, in one launch: numbers of units stay below 2^31 whatever their size. */
#define PART_BYTES (UINT64_C(1) << 30)

_Static_assert((int)SV_TYPE_DIMS == (int)SV_PACK_DIMS, "a piece of a map is a box");

/* What a launch or copy needs to know, besides which piece. */
typedef struct move {
    const sv_pack_t *pack;
    uint8_t *buf, *packed; /* packed: of the piece */
    void *stream;
    bool gather;
} move_t;

selvage_status_t sv_pack_create(sv_device_t *dev, sv_type_map_t *map, sv_pack_t **pack_out)
{
    sv_pack_t *pack = NULL;
    selvage_status_t status = sv_calloc(1, sizeof *pack, &pack);
    if (status != SELVAGE_SUCCESS) {
        sv_type_map_fini(map);
        return status;
    }
    pack->dev = dev;
    pack->map = *map;
    *map = (sv_type_map_t){0};
    status = sv_pack_find_lists(pack);
    if (status != SELVAGE_SUCCESS) {
        sv_pack_destroy(pack);
        return status;
    }
    *pack_out = pack;
    return SELVAGE_SUCCESS;
}

void sv_pack_destroy(sv_pack_t *pack)
{
    if (!pack)
        return;
    sv_type_map_fini(&pack->map);
    sv_free(pack->lists);
    sv_free(pack);
}

static selvage_status_t copy_run(const move_t *m, int64_t offset, uint64_t at, uint64_t bytes)
{
    uint8_t *there = m->buf + offset, *here = m->packed + at;
    return SV_DEVICE_CALL(m->pack->dev, copy_async, m->gather ? here : there, m->gather ? there : here, bytes,
                          SV_COPY_D2D, m->stream);
}

/* Bytes from to end of a piece's stream. */
static selvage_status_t copy_runs(const move_t *m, const sv_type_piece_t *piece, uint64_t from, uint64_t end)
{
    while (from < end) {
        uint64_t run = from / piece->run_bytes, skip = from % piece->run_bytes;
        uint64_t bytes = piece->run_bytes - skip < end - from ? piece->run_bytes - skip : end - from;
        int64_t offset = sv_type_piece_run_offset(&m->pack->map, piece, run) + (int64_t)skip;
        SV_TRY(copy_run(m, offset, from, bytes));
        from += bytes;
    }
    return SELVAGE_SUCCESS;
}

/* Bytes from to end of a piece's stream; from is a multiple of 8, and so is end unless the piece ends there. */
static selvage_status_t launch_piece(const move_t *m, const sv_type_piece_t *piece, uint64_t from, uint64_t end)
{
    sv_pack_shape_t shape = {.base = m->buf + piece->offset, .element_bytes = piece->run_bytes,
                             .ndims = piece->ndims};
    for (uint32_t d = 0; d < piece->ndims; d++) {
        const sv_type_dim_t *dim = sv_type_piece_dims(&m->pack->map, piece) + d;
        shape.dim[d] = (sv_pack_dim_t){dim->count, dim->stride_bytes};
    }
    for (uint64_t bytes; from < end; from += bytes) {
        sv_pack_arg_t arg = {.scratch = NULL, .mode = SV_DIGEST_ADD | SV_DIGEST_NONE};
        bytes = end - from < PART_BYTES ? end - from : PART_BYTES;
        SV_TRY(sv_pack_plan(&shape, m->packed + from, from, bytes, &arg));
        SV_TRY(SV_DEVICE_CALL(m->pack->dev, launch, m->gather ? &sv_kernel_pack : &sv_kernel_unpack, &arg, sizeof arg,
                              sv_kernel_blocks(m->pack->dev, bytes), m->stream));
    }
    return SELVAGE_SUCCESS;
}

/* Bytes from to end of a piece's stream, which has whole bytes. */
static selvage_status_t move_piece(const move_t *m, const sv_type_piece_t *piece, uint64_t from, uint64_t end,
                                   uint64_t whole)
{
    uint64_t head = (from + 7) / 8 * 8, words = end == whole ? end : end / 8 * 8;
    if (piece->ndims == 0)
        return copy_run(m, piece->offset + (int64_t)from, from, end - from);
    head = head < end ? head : end;
    words = words > head ? words : head;
    SV_TRY(copy_runs(m, piece, from, head));
    SV_TRY(launch_piece(m, piece, head, words));
    return copy_runs(m, piece, words, end);
}

/* The group that has this byte of a list's stream. */
static uint32_t group_at(const sv_runs_group_t *groups, uint32_t ngroups, uint64_t byte)
{
    uint32_t low = 0, high = ngroups;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (groups[middle].at > byte)
            high = middle;
        else
            low = middle;
    }
    return low;
}

/* Bytes from to end, at least one, of a list's stream. */
static selvage_status_t move_list(const move_t *m, const sv_pack_list_t *list, uint64_t from, uint64_t end)
{
    const sv_runs_group_t *groups = (const void *)(m->pack->table + list->groups_bytes);
    const uint8_t *there = m->pack->table_there;
    const uint64_t bits = list->granule | (uintptr_t)m->buf;
    const sv_runs_arg_t arg = {.groups = (const void *)(there + list->groups_bytes),
                               .offsets = (const void *)(there + list->offsets_bytes),
                               .begins = (const void *)(there + list->begins_bytes),
                               .base = m->buf, .packed = m->packed, .from = from, .end = end,
                               .first_group = group_at(groups, list->ngroups, from),
                               .end_group = group_at(groups, list->ngroups, end - 1) + 1,
                               .granule = (uint32_t)(bits & -bits), .scatters = !m->gather};
    return SV_DEVICE_CALL(m->pack->dev, launch, &sv_kernel_runs, &arg, sizeof arg,
                          sv_kernel_shares(m->pack->dev, arg.end_group - arg.first_group, 1), m->stream);
}

/* So many bytes of the stream from one of its bytes on, which is at m->packed. */
static selvage_status_t move_stream(move_t *m, uint64_t from, uint64_t bytes)
{
    const sv_type_map_t *map = &m->pack->map;
    const uint64_t end = from + bytes;
    m->packed = (uint8_t *)((uintptr_t)m->packed - from); /* where the stream would begin */
    const size_t nlists = m->pack->table ? m->pack->nlists : 0;
    size_t l = 0;
    uint64_t at = 0;
    for (size_t i = 0; i < map->npieces && at < end;) {
        const sv_type_piece_t *piece = &map->pieces[i];
        const sv_pack_list_t *list = l < nlists && m->pack->lists[l].first_piece == i ? &m->pack->lists[l++] : NULL;
        const uint64_t whole = list ? list->bytes : sv_type_piece_runs(map, piece) * piece->run_bytes;
        const uint64_t first = from > at ? from - at : 0, last = end - at < whole ? end - at : whole;
        if (first < last)
            SV_TRY(list ? move_list(m, list, first, last) : move_piece(m, piece, first, last, whole));
        m->packed = (uint8_t *)((uintptr_t)m->packed + whole);
        at += whole;
        i += list ? list->npieces : 1;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_pack_gather(const sv_pack_t *pack, const void *buf, uint64_t from, uint64_t bytes, void *packed,
                                void *stream)
{
    move_t move = {pack, (uint8_t *)(uintptr_t)buf, packed, stream, true};
    return move_stream(&move, from, bytes);
}

selvage_status_t sv_pack_scatter(const sv_pack_t *pack, const void *packed, uint64_t from, uint64_t bytes, void *buf,
                                 void *stream)
{
    move_t move = {pack, buf, (uint8_t *)(uintptr_t)packed, stream, false};
    return move_stream(&move, from, bytes);
}
