/* SPDX-License-Identifier: BSD-3-Clause */
/* Types of elements: their names and sizes. Constant; any thread. */
#include <selvage/collective.h>

#include "kernels/coll_args.h"

typedef struct type_row {
    const char *name;
    size_t bytes;
} type_row_t;

static const type_row_t rows[SV_COLL_TYPES] = {
    [SELVAGE_TYPE_DEFAULT] = {"none", 0},     [SELVAGE_INT8] = {"int8", 1},
    [SELVAGE_UINT8] = {"uint8", 1},           [SELVAGE_INT32] = {"int32", 4},
    [SELVAGE_UINT32] = {"uint32", 4},         [SELVAGE_INT64] = {"int64", 8},
    [SELVAGE_UINT64] = {"uint64", 8},         [SELVAGE_FLOAT16] = {"float16", 2},
    [SELVAGE_BFLOAT16] = {"bfloat16", 2},     [SELVAGE_FLOAT32] = {"float32", 4},
    [SELVAGE_FLOAT64] = {"float64", 8},       [SELVAGE_FLOAT8_E4M3] = {"float8_e4m3", 1},
    [SELVAGE_FLOAT8_E5M2] = {"float8_e5m2", 1},
};

_Static_assert((int)SELVAGE_FLOAT8_E5M2 == SV_COLL_E5M2 && (int)SELVAGE_FLOAT32 == SV_COLL_FLOAT32 &&
               (int)SELVAGE_OP_MAX == SV_COLL_MAX, "kernels use the public numbers");

static const type_row_t *row_of(selvage_type_t type)
{
    return &rows[(unsigned)type < SV_COLL_TYPES ? (unsigned)type : 0];
}

size_t selvage_type_bytes(selvage_type_t type)
{
    return row_of(type)->bytes;
}

const char *selvage_type_name(selvage_type_t type)
{
    return row_of(type)->name;
}
