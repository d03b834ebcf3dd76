/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists of small pieces, and the tables by which one kernel finds the runs of all of them. A table costs 12 bytes for
 * each run, and a launch takes as long as the reading of some hundreds of runs: so pieces of few runs are in lists, and
 * others stay boxes. Here too: whether two plans say the same, so that a table can be kept for types that come again.
 */
#include "pipeline/pipe_pack.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "kernels/kernels.h"

/* A piece of a list has at most so many bytes and runs; a list has at least so many pieces, and at most so many bytes,
   so that numbers of runs stay short. */
enum { SMALL_BYTES = 64 << 10, SMALL_RUNS = 512, LIST_LEAST = 3, LIST_MOST_BYTES = 1 << 30, TABLE_ALIGN = 16,
       GRANULE_MOST = 8 };

/* Where the next run goes. The pointers are NULL while a list is only measured. */
typedef struct table_at {
    sv_runs_group_t *groups;
    int64_t *offsets;
    uint32_t *begins;
    sv_runs_group_t group; /* the last one, as far as it is filled */
    uint32_t ngroups;
    uint64_t nruns, bits;
} table_at_t;

/* --- runs to groups ----------------------------------------------------------------------------------------------- */

static void end_group(table_at_t *at)
{
    if (at->group.count == 0)
        return;
    if (at->groups) {
        at->groups[at->ngroups] = at->group;
        at->begins[at->group.first + at->ngroups + at->group.count] = at->group.bytes;
    }
    at->ngroups++;
    at->group = (sv_runs_group_t){.at = at->group.at + at->group.bytes, .first = (uint32_t)at->nruns};
}

static void add_run_to_table(table_at_t *at, int64_t offset, uint64_t bytes)
{
    at->bits |= (uint64_t)offset | bytes;
    while (bytes > 0) {
        sv_runs_group_t *group = &at->group;
        const uint64_t room = SV_RUNS_GROUP_BYTES - group->bytes, here = bytes < room ? bytes : room;
        if (at->groups) {
            at->offsets[at->nruns] = offset;
            at->begins[group->first + at->ngroups + group->count] = group->bytes;
        }
        at->nruns++;
        group->count++;
        group->bytes += (uint32_t)here;
        offset += (int64_t)here;
        bytes -= here;
        if (group->bytes == SV_RUNS_GROUP_BYTES || group->count == SV_RUNS_GROUP_RUNS)
            end_group(at);
    }
}

static void add_pieces_to_table(table_at_t *at, const sv_type_map_t *map, const sv_pack_list_t *list)
{
    for (size_t i = list->first_piece; i < list->first_piece + list->npieces; i++) {
        const sv_type_piece_t *piece = &map->pieces[i];
        const uint64_t runs = sv_type_piece_runs(map, piece);
        for (uint64_t run = 0; run < runs; run++)
            add_run_to_table(at, sv_type_piece_run_offset(map, piece, run), piece->run_bytes);
    }
    end_group(at);
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

/* The list that begins with this piece; of no pieces if none does. */
static sv_pack_list_t find_list(const sv_type_map_t *map, size_t first)
{
    sv_pack_list_t list = {.first_piece = first};
    for (size_t i = first; i < map->npieces; i++) {
        const sv_type_piece_t *piece = &map->pieces[i];
        const uint64_t runs = sv_type_piece_runs(map, piece), bytes = runs * piece->run_bytes;
        const bool is_small = runs <= SMALL_RUNS && piece->run_bytes <= SMALL_BYTES / runs && bytes > 0;
        if (!is_small || list.bytes + bytes > LIST_MOST_BYTES)
            break;
        list.bytes += bytes;
        list.npieces++;
    }
    return list;
}

static size_t align_table(size_t bytes)
{
    return (bytes + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
}

/* Gives a list its place in the table. */
static void measure_list(sv_pack_t *pack, sv_pack_list_t *list)
{
    table_at_t at = {.bits = GRANULE_MOST};
    add_pieces_to_table(&at, &pack->map, list);
    list->nruns = at.nruns;
    list->ngroups = at.ngroups;
    list->granule = (uint32_t)(at.bits & -at.bits);
    list->groups_bytes = pack->table_bytes;
    list->offsets_bytes = list->groups_bytes + align_table(at.ngroups * sizeof(sv_runs_group_t));
    list->begins_bytes = list->offsets_bytes + align_table(at.nruns * sizeof(int64_t));
    pack->table_bytes = list->begins_bytes + align_table((at.nruns + at.ngroups) * sizeof(uint32_t));
}

selvage_status_t sv_pack_find_lists(sv_pack_t *pack)
{
    size_t nlists = 0;
    for (size_t i = 0, n; i < pack->map.npieces; i += n ? n : 1) {
        n = find_list(&pack->map, i).npieces;
        nlists += n >= LIST_LEAST;
    }
    if (nlists == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc(nlists, sizeof *pack->lists, &pack->lists));
    for (size_t i = 0, n; i < pack->map.npieces; i += n ? n : 1) {
        const sv_pack_list_t list = find_list(&pack->map, i);
        n = list.npieces;
        if (n < LIST_LEAST)
            continue;
        pack->lists[pack->nlists] = list;
        measure_list(pack, &pack->lists[pack->nlists++]);
    }
    return SELVAGE_SUCCESS;
}

void sv_pack_write_table(sv_pack_t *pack, void *table, void *there)
{
    pack->table = table;
    pack->table_there = there;
    for (size_t i = 0; i < pack->nlists; i++) {
        const sv_pack_list_t *list = &pack->lists[i];
        table_at_t at = {.groups = (void *)(pack->table + list->groups_bytes),
                         .offsets = (void *)(pack->table + list->offsets_bytes),
                         .begins = (void *)(pack->table + list->begins_bytes)};
        add_pieces_to_table(&at, &pack->map, list);
    }
}

/* --- the same plan ------------------------------------------------------------------------------------------------ */

static uint64_t add_to_digest(uint64_t digest, uint64_t value)
{
    return sv_digest_mix(digest ^ value) + UINT64_C(0x9e3779b97f4a7c15);
}

uint64_t sv_pack_digest(const sv_pack_t *pack)
{
    const sv_type_map_t *map = &pack->map;
    uint64_t digest = (uint64_t)(uintptr_t)pack->dev;
    for (size_t i = 0; i < map->npieces; i++) {
        const sv_type_piece_t *piece = &map->pieces[i];
        const sv_type_dim_t *dims = sv_type_piece_dims(map, piece);
        digest = add_to_digest(digest, (uint64_t)piece->offset + (piece->run_bytes << 32) + piece->ndims);
        for (uint32_t d = 0; d < piece->ndims; d++)
            digest = add_to_digest(digest, dims[d].count ^ (uint64_t)dims[d].stride_bytes << 20);
    }
    return digest;
}

bool sv_pack_is_equal(const sv_pack_t *a, const sv_pack_t *b)
{
    if (a->dev != b->dev || a->map.npieces != b->map.npieces || a->map.bytes != b->map.bytes)
        return false;
    for (size_t i = 0; i < a->map.npieces; i++) {
        const sv_type_piece_t *one = &a->map.pieces[i], *other = &b->map.pieces[i];
        if (one->offset != other->offset || one->run_bytes != other->run_bytes || one->ndims != other->ndims ||
            (one->ndims > 0 && memcmp(sv_type_piece_dims(&a->map, one), sv_type_piece_dims(&b->map, other),
                                      one->ndims * sizeof(sv_type_dim_t)) != 0))
            return false;
    }
    return true;
}
