/* SPDX-License-Identifier: BSD-3-Clause */
/* Types of elements: their names and sizes, how they move, and what operations they have. Constant; any thread. */
#include <selvage/collective.h>

#include "collective/coll_parts.h"
#include "kernels/coll_fold.h"

typedef struct type_row {
    const char *name;
    uint8_t bytes, align;
    uint8_t moved, moved_count; /* kernels move it as so many of this type; 0: as it is */
} type_row_t;

static const type_row_t rows[SV_FOLD_TYPES] = {
    [SELVAGE_TYPE_DEFAULT] = {"none", 0, 1, 0, 0},
    [SELVAGE_INT8] = {"int8", 1, 1, 0, 0},
    [SELVAGE_UINT8] = {"uint8", 1, 1, 0, 0},
    [SELVAGE_INT32] = {"int32", 4, 4, 0, 0},
    [SELVAGE_UINT32] = {"uint32", 4, 4, 0, 0},
    [SELVAGE_INT64] = {"int64", 8, 8, 0, 0},
    [SELVAGE_UINT64] = {"uint64", 8, 8, 0, 0},
    [SELVAGE_FLOAT16] = {"float16", 2, 2, 0, 0},
    [SELVAGE_BFLOAT16] = {"bfloat16", 2, 2, 0, 0},
    [SELVAGE_FLOAT32] = {"float32", 4, 4, 0, 0},
    [SELVAGE_FLOAT64] = {"float64", 8, 8, 0, 0},
    [SELVAGE_FLOAT8_E4M3] = {"float8_e4m3", 1, 1, 0, 0},
    [SELVAGE_FLOAT8_E5M2] = {"float8_e5m2", 1, 1, 0, 0},
    [SELVAGE_INT16] = {"int16", 2, 2, SELVAGE_UINT8, 2},
    [SELVAGE_UINT16] = {"uint16", 2, 2, SELVAGE_UINT8, 2},
    [SELVAGE_COMPLEX64] = {"complex64", 8, 4, SELVAGE_UINT32, 2},
    [SELVAGE_COMPLEX128] = {"complex128", 16, 8, SELVAGE_UINT64, 2},
    [SELVAGE_FLOAT32_INT32] = {"float32_int32", 8, 4, SELVAGE_UINT32, 2},
    [SELVAGE_FLOAT64_INT32] = {"float64_int32", 16, 8, SELVAGE_UINT64, 2},
    [SELVAGE_INT64_INT32] = {"int64_int32", 16, 8, SELVAGE_UINT64, 2},
    [SELVAGE_INT32_INT32] = {"int32_int32", 8, 4, SELVAGE_UINT32, 2},
    [SELVAGE_INT16_INT32] = {"int16_int32", 8, 4, SELVAGE_UINT32, 2},
    [SELVAGE_FLOAT32_FLOAT32] = {"float32_float32", 8, 4, SELVAGE_UINT32, 2},
    [SELVAGE_FLOAT64_FLOAT64] = {"float64_float64", 16, 8, SELVAGE_UINT64, 2},
};

_Static_assert((int)SELVAGE_FLOAT8_E5M2 == SV_COLL_E5M2 && (int)SELVAGE_FLOAT32 == SV_COLL_FLOAT32 &&
               (int)SELVAGE_OP_MAX == SV_COLL_MAX && (int)SELVAGE_INT16 == SV_FOLD_INT16 &&
               (int)SELVAGE_FLOAT64_FLOAT64 == SV_FOLD_FLOAT64_FLOAT64 && (int)SELVAGE_OP_BAND == SV_FOLD_BAND &&
               (int)SELVAGE_OP_MAXLOC == SV_FOLD_MAXLOC, "kernels use the public numbers");

static const type_row_t *row_of(selvage_type_t type)
{
    return &rows[(unsigned)type < SV_FOLD_TYPES ? (unsigned)type : 0];
}

size_t selvage_type_bytes(selvage_type_t type)
{
    return row_of(type)->bytes;
}

const char *selvage_type_name(selvage_type_t type)
{
    return row_of(type)->name;
}

size_t sv_coll_type_align(selvage_type_t type)
{
    return row_of(type)->align;
}

selvage_type_t sv_coll_moved_type(selvage_type_t type, unsigned *count_out)
{
    const type_row_t *row = row_of(type);
    *count_out = row->moved ? row->moved_count : 1;
    return row->moved ? (selvage_type_t)row->moved : type;
}

/* --- types and operations ----------------------------------------------------------------------------------------- */

/* Types that have all operations from the first one to the last. Their pairs are numbered one after the other. */
typedef struct family {
    uint8_t type[8], ntypes;
    uint8_t first_op, last_op;
} family_t;

static const family_t families[] = {
    {{SELVAGE_INT8, SELVAGE_UINT8, SELVAGE_INT32, SELVAGE_UINT32, SELVAGE_INT64, SELVAGE_UINT64, SELVAGE_INT16,
      SELVAGE_UINT16}, 8, SELVAGE_OP_SUM, SELVAGE_OP_LXOR},
    {{SELVAGE_FLOAT32, SELVAGE_FLOAT64}, 2, SELVAGE_OP_LAND, SELVAGE_OP_LXOR},
    {{SELVAGE_COMPLEX64, SELVAGE_COMPLEX128}, 2, SELVAGE_OP_SUM, SELVAGE_OP_PROD},
    {{SELVAGE_COMPLEX64, SELVAGE_COMPLEX128}, 2, SELVAGE_OP_AVG, SELVAGE_OP_AVG},
    {{SELVAGE_FLOAT32_INT32, SELVAGE_FLOAT64_INT32, SELVAGE_INT64_INT32, SELVAGE_INT32_INT32, SELVAGE_INT16_INT32,
      SELVAGE_FLOAT32_FLOAT32, SELVAGE_FLOAT64_FLOAT64}, 7, SELVAGE_OP_MINLOC, SELVAGE_OP_MAXLOC},
};
enum { FAMILIES = sizeof families / sizeof families[0], PAIRINGS = 8 * 11 + 2 * 3 + 2 * 2 + 2 + 7 * 2 };
_Static_assert(PAIRINGS <= 128, "signatures have 7 bits for them");

bool sv_coll_folds(unsigned type, unsigned op)
{
    const bool is_float = type == SELVAGE_FLOAT32 || type == SELVAGE_FLOAT64;
    return op != SELVAGE_OP_AVG && (sv_coll_pairing(type, op) >= 0 ||
                                    (is_float && op >= SELVAGE_OP_SUM && op <= SELVAGE_OP_MAX));
}

static unsigned ops_of(const family_t *family)
{
    return family->last_op - family->first_op + 1U;
}

int sv_coll_pairing(unsigned type, unsigned op)
{
    unsigned before = 0;
    for (const family_t *f = families; f < families + FAMILIES; before += f->ntypes * ops_of(f), f++)
        for (unsigned t = 0; t < f->ntypes && op >= f->first_op && op <= f->last_op; t++)
            if (f->type[t] == type)
                return (int)(before + t * ops_of(f) + op - f->first_op);
    return -1;
}

void sv_coll_pairing_read(unsigned number, unsigned *type_out, unsigned *op_out)
{
    *type_out = *op_out = 0;
    for (const family_t *f = families; f < families + FAMILIES; f++) {
        const unsigned pairs = f->ntypes * ops_of(f);
        if (number < pairs) {
            *type_out = f->type[number / ops_of(f)];
            *op_out = f->first_op + number % ops_of(f);
            return;
        }
        number -= pairs;
    }
}
