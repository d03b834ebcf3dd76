/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the bytes of a datatype lie, in plain numbers. Modules above read this instead of an MPI_Datatype. A map is a
 * list of pieces in the order of the stream. A piece is a run of bytes without gaps, repeated along up to 4 dimensions,
 * the first of which varies fastest. The calls below build maps, and each keeps what is regular, whatever constructors
 * it was made of. Runs that touch become one run. What comes again at one distance becomes a dimension.
 *
 *   vector of 3 blocks    ##..##..##                       one piece:  run 2, dim {3, 4}
 *   struct of 2           ##....#                          two pieces: runs 2 and 1
 *
 * Anything else becomes many pieces, which cost 24 bytes each. A map is owned by whoever made it. Any thread.
 */
#ifndef SV_WIRE_TYPE_MAP_H
#define SV_WIRE_TYPE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include <selvage/status.h>

enum { SV_TYPE_DIMS = 4 };

typedef struct sv_type_dim {
    uint64_t count; /* at least 2 */
    int64_t stride_bytes;
} sv_type_dim_t;

typedef struct sv_type_piece {
    int64_t offset;     /* of the first byte of the stream */
    uint64_t run_bytes; /* at least 1 */
    uint32_t ndims;
    uint32_t first_dim; /* in the map's dims */
} sv_type_piece_t;

/* All zero: an empty map. */
typedef struct sv_type_map {
    sv_type_piece_t *pieces;
    size_t npieces, pieces_room;
    sv_type_dim_t *dims;
    size_t ndims, dims_room;
    uint64_t bytes;    /* of the stream */
    int64_t low, high; /* every byte lies in low to high - 1; both 0 if there are none */
} sv_type_map_t;

/* Accepts an empty map, and leaves one. */
void sv_type_map_fini(sv_type_map_t *map);

/* Empties it and keeps the memory. */
void sv_type_map_clear(sv_type_map_t *map);

/*
 * Appends a run of bytes; 0 bytes are nothing. This call and those below return ERR_ARGUMENT for what lies beyond 2^62
 * bytes, and ERR_LIMIT for more pieces than anybody could mean. Both are in the detail only and not on the log, because
 * only the caller has the type's name.
 */
selvage_status_t sv_type_map_add_run(sv_type_map_t *map, int64_t offset, uint64_t bytes);

/* Appends all of another map, moved by shift. */
selvage_status_t sv_type_map_add_map(sv_type_map_t *map, const sv_type_map_t *other, int64_t shift);

/* Repeats what is there count times, each stride_bytes after the one before. With 0 nothing is left. */
selvage_status_t sv_type_map_repeat(sv_type_map_t *map, uint64_t count, int64_t stride_bytes);

/* Finds pieces that come at one distance, and makes a dimension of it: for what was added piece by piece. */
selvage_status_t sv_type_map_compress(sv_type_map_t *map);

selvage_status_t sv_type_map_shift(sv_type_map_t *map, int64_t shift);

/* Runs of a piece, and the dimensions of one. */
uint64_t sv_type_piece_runs(const sv_type_map_t *map, const sv_type_piece_t *piece);
static inline const sv_type_dim_t *sv_type_piece_dims(const sv_type_map_t *map, const sv_type_piece_t *piece)
{
    return map->dims + piece->first_dim;
}

/* Offsets of the lowest byte of a piece and after its highest one. */
void sv_type_piece_bounds(const sv_type_map_t *map, const sv_type_piece_t *piece, int64_t *low_out, int64_t *high_out);

/* Offset of one of its runs, in the order of the stream. */
int64_t sv_type_piece_run_offset(const sv_type_map_t *map, const sv_type_piece_t *piece, uint64_t run);

#endif
