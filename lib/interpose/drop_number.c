/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI's types and operations as those of Selvage's collectives: all that MPI defines for predefined types, and what
 * MPIs take beyond. There MPI_CHAR and MPI_BYTE are numbers, and reals have a truth. What is left out has no
 * counterpart on a device (long double), or is not the same with every MPI: the order of MPI_CHARACTER, and sums of
 * Fortran's short logicals.
 *
 * A logical is true if it is not 0, and true is 1 as a result. So do both MPIs where Fortran's .true. is 1. The table
 * is constant; any thread.
 */
#include "interpose/drop_number.h"

#include <limits.h>
#include <wchar.h>

/* Which operations a type has. */
enum { ARITHMETIC = 1, BITS = 2, TRUTH = 4, COMPLEX = 8, LOCATION = 16, INTEGER = ARITHMETIC | BITS | TRUTH,
       REAL = ARITHMETIC | TRUTH };

typedef struct like {
    MPI_Datatype mpi;
    uint8_t own, operations;
} like_t;

#define LONG_AS(wide, narrow) (sizeof(long) == 8 ? SELVAGE_##wide : SELVAGE_##narrow)

/* The most frequent ones come first. Where MPI lacks a type, its name stands for no type. */
static like_t like_of(MPI_Datatype type)
{
    static const like_t known[] = {
        {MPI_DOUBLE, SELVAGE_FLOAT64, REAL},
        {MPI_FLOAT, SELVAGE_FLOAT32, REAL},
        {MPI_INT, SELVAGE_INT32, INTEGER},
        {MPI_DOUBLE_PRECISION, SELVAGE_FLOAT64, REAL},
        {MPI_REAL, SELVAGE_FLOAT32, REAL},
        {MPI_INTEGER, SELVAGE_INT32, INTEGER},
        {MPI_REAL8, SELVAGE_FLOAT64, REAL},
        {MPI_REAL4, SELVAGE_FLOAT32, REAL},
        {MPI_INTEGER4, SELVAGE_INT32, INTEGER},
        {MPI_INTEGER8, SELVAGE_INT64, INTEGER},
        {MPI_C_DOUBLE_COMPLEX, SELVAGE_COMPLEX128, COMPLEX},
        {MPI_C_FLOAT_COMPLEX, SELVAGE_COMPLEX64, COMPLEX},
        {MPI_DOUBLE_COMPLEX, SELVAGE_COMPLEX128, COMPLEX},
        {MPI_COMPLEX, SELVAGE_COMPLEX64, COMPLEX},
        {MPI_LONG, LONG_AS(INT64, INT32), INTEGER},
        {MPI_UNSIGNED_LONG, LONG_AS(UINT64, UINT32), INTEGER},
        {MPI_UNSIGNED, SELVAGE_UINT32, INTEGER},
        {MPI_LONG_LONG, SELVAGE_INT64, INTEGER},
        {MPI_UNSIGNED_LONG_LONG, SELVAGE_UINT64, INTEGER},
        {MPI_INT64_T, SELVAGE_INT64, INTEGER},
        {MPI_UINT64_T, SELVAGE_UINT64, INTEGER},
        {MPI_INT32_T, SELVAGE_INT32, INTEGER},
        {MPI_UINT32_T, SELVAGE_UINT32, INTEGER},
        {MPI_BYTE, SELVAGE_UINT8, INTEGER},
        {MPI_CHAR, CHAR_MIN < 0 ? SELVAGE_INT8 : SELVAGE_UINT8, INTEGER},
        {MPI_SIGNED_CHAR, SELVAGE_INT8, INTEGER},
        {MPI_UNSIGNED_CHAR, SELVAGE_UINT8, INTEGER},
        {MPI_INT8_T, SELVAGE_INT8, INTEGER},
        {MPI_UINT8_T, SELVAGE_UINT8, INTEGER},
        {MPI_INTEGER1, SELVAGE_INT8, INTEGER},
        {MPI_SHORT, SELVAGE_INT16, INTEGER},
        {MPI_UNSIGNED_SHORT, SELVAGE_UINT16, INTEGER},
        {MPI_INT16_T, SELVAGE_INT16, INTEGER},
        {MPI_UINT16_T, SELVAGE_UINT16, INTEGER},
        {MPI_INTEGER2, SELVAGE_INT16, INTEGER},
        {MPI_AINT, SELVAGE_INT64, INTEGER},
        {MPI_OFFSET, SELVAGE_INT64, INTEGER},
        {MPI_COUNT, SELVAGE_INT64, INTEGER},
        {MPI_WCHAR, WCHAR_MIN < 0 ? SELVAGE_INT32 : SELVAGE_UINT32, INTEGER},
        {MPI_CHARACTER, SELVAGE_UINT8, BITS | TRUTH},
        {MPI_C_BOOL, SELVAGE_UINT8, TRUTH},
        {MPI_LOGICAL, SELVAGE_UINT32, TRUTH},
        {MPI_FLOAT_INT, SELVAGE_FLOAT32_INT32, LOCATION},
        {MPI_DOUBLE_INT, SELVAGE_FLOAT64_INT32, LOCATION},
        {MPI_LONG_INT, LONG_AS(INT64_INT32, INT32_INT32), LOCATION},
        {MPI_2INT, SELVAGE_INT32_INT32, LOCATION},
        {MPI_SHORT_INT, SELVAGE_INT16_INT32, LOCATION},
        {MPI_2REAL, SELVAGE_FLOAT32_FLOAT32, LOCATION},
        {MPI_2DOUBLE_PRECISION, SELVAGE_FLOAT64_FLOAT64, LOCATION},
        {MPI_2INTEGER, SELVAGE_INT32_INT32, LOCATION},
#if defined(MPI_COMPLEX8) && defined(MPI_COMPLEX16)
        {MPI_COMPLEX8, SELVAGE_COMPLEX64, COMPLEX},
        {MPI_COMPLEX16, SELVAGE_COMPLEX128, COMPLEX},
#endif
#if defined(MPI_CXX_BOOL) && defined(MPI_CXX_FLOAT_COMPLEX) && defined(MPI_CXX_DOUBLE_COMPLEX)
        {MPI_CXX_BOOL, SELVAGE_UINT8, TRUTH},
        {MPI_CXX_FLOAT_COMPLEX, SELVAGE_COMPLEX64, COMPLEX},
        {MPI_CXX_DOUBLE_COMPLEX, SELVAGE_COMPLEX128, COMPLEX},
#endif
#if defined(MPI_LOGICAL1) && defined(MPI_LOGICAL2) && defined(MPI_LOGICAL4) && defined(MPI_LOGICAL8)
        {MPI_LOGICAL1, SELVAGE_UINT8, TRUTH},
        {MPI_LOGICAL2, SELVAGE_UINT16, TRUTH},
        {MPI_LOGICAL4, SELVAGE_UINT32, TRUTH},
        {MPI_LOGICAL8, SELVAGE_UINT64, TRUTH},
#endif
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0] && type != MPI_DATATYPE_NULL; i++)
        if (known[i].mpi == type)
            return known[i];
    return (like_t){MPI_DATATYPE_NULL, SELVAGE_TYPE_DEFAULT, 0};
}

static selvage_op_t op_of(MPI_Op op, unsigned operations)
{
    static const struct { MPI_Op mpi; uint8_t own, operations; } known[] = {
        {MPI_SUM, SELVAGE_OP_SUM, ARITHMETIC | COMPLEX}, {MPI_MAX, SELVAGE_OP_MAX, ARITHMETIC},
        {MPI_MIN, SELVAGE_OP_MIN, ARITHMETIC}, {MPI_PROD, SELVAGE_OP_PROD, ARITHMETIC | COMPLEX},
        {MPI_BAND, SELVAGE_OP_BAND, BITS}, {MPI_BOR, SELVAGE_OP_BOR, BITS}, {MPI_BXOR, SELVAGE_OP_BXOR, BITS},
        {MPI_LAND, SELVAGE_OP_LAND, TRUTH}, {MPI_LOR, SELVAGE_OP_LOR, TRUTH}, {MPI_LXOR, SELVAGE_OP_LXOR, TRUTH},
        {MPI_MINLOC, SELVAGE_OP_MINLOC, LOCATION}, {MPI_MAXLOC, SELVAGE_OP_MAXLOC, LOCATION}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].mpi == op)
            return known[i].operations & operations ? known[i].own : SELVAGE_OP_DEFAULT;
    return SELVAGE_OP_DEFAULT;
}

/* Of an element of 16 bytes, a double and an int, or of 8, a short and an int. */
static size_t gap_of(selvage_type_t type)
{
    return type == SELVAGE_FLOAT64_INT32 || type == SELVAGE_INT64_INT32 ? 4 : type == SELVAGE_INT16_INT32 ? 2 : 0;
}

/* Elements of these types in Fortran may have other lengths, by the compiler's flags. */
static bool is_laid_out_as(MPI_Datatype type, selvage_type_t own)
{
    const MPI_Count bytes = (MPI_Count)selvage_type_bytes(own);
    sv_drop_type_t info;
    return sv_drop_type(type, &info) && info.named && info.lb == 0 && info.true_lb == 0 && info.extent == bytes &&
           info.bytes == bytes - (MPI_Count)gap_of(own);
}

sv_drop_number_t sv_drop_number(MPI_Datatype type, MPI_Op op)
{
    const like_t like = like_of(type);
    const selvage_type_t own = like.own;
    const selvage_op_t own_op = op_of(op, like.operations);
    if (own == SELVAGE_TYPE_DEFAULT || own_op == SELVAGE_OP_DEFAULT || !is_laid_out_as(type, own))
        return (sv_drop_number_t){.type = SELVAGE_TYPE_DEFAULT, .align = 1};
    const size_t bytes = selvage_type_bytes(own);
    /* A pair is aligned to its first member, which is half of it, or is followed by a gap. */
    return (sv_drop_number_t){own, own_op, bytes, own >= SELVAGE_COMPLEX64 ? bytes / 2 : bytes, gap_of(own) > 0};
}
