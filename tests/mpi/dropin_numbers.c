/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of dropin_unmodified: each reduction that MPI has for predefined types, beside MPI's own on host memory, by
 * calls that block and by calls that do not. They say how many calls of each kind there were, all of which the route
 * can take. What MPI takes is asked of it; what it takes without a defined meaning is left out. Numbers are small, so
 * that they add up alike in any order, and Open MPI's sums, whose largest number is the end, are those of others.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { COUNT = 3301, ELEMENT_MAX = 16, GUARD = 64, ROOM = COUNT * ELEMENT_MAX + GUARD, GAP = 0x5a, BEFORE = 0xcc };

typedef enum kind {
    WHOLE, REAL, COMPLEX, LOGICAL, LOCATED /* value and index, of FLOAT_INT and its kin */
} kind_t;

/* value_bytes: of a number; of a pair's value, if index_at is where its index lies. */
typedef struct row {
    MPI_Datatype type;
    kind_t kind;
    int value_bytes, index_at;
    bool is_real;              /* the value of a pair */
    bool has_real_index;
} row_t;

static const MPI_Datatype wholes[] = {
    MPI_BYTE, MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_WCHAR, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT,
    MPI_UNSIGNED, MPI_LONG, MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_INT8_T, MPI_UINT8_T,
    MPI_INT16_T, MPI_UINT16_T, MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT,
    MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8};
static const row_t others[] = {
    {MPI_C_BOOL, LOGICAL, 1, 0, false, false},
    {MPI_LOGICAL, LOGICAL, 4, 0, false, false},
    {MPI_CXX_BOOL, LOGICAL, 1, 0, false, false},
    {MPI_FLOAT, REAL, 4, 0, false, false},
    {MPI_DOUBLE, REAL, 8, 0, false, false},
    {MPI_REAL, REAL, 4, 0, false, false},
    {MPI_REAL4, REAL, 4, 0, false, false},
    {MPI_REAL8, REAL, 8, 0, false, false},
    {MPI_DOUBLE_PRECISION, REAL, 8, 0, false, false},
    {MPI_C_COMPLEX, COMPLEX, 4, 0, false, false},
    {MPI_C_FLOAT_COMPLEX, COMPLEX, 4, 0, false, false},
    {MPI_C_DOUBLE_COMPLEX, COMPLEX, 8, 0, false, false},
    {MPI_COMPLEX, COMPLEX, 4, 0, false, false},
    {MPI_DOUBLE_COMPLEX, COMPLEX, 8, 0, false, false},
    {MPI_COMPLEX8, COMPLEX, 4, 0, false, false},
    {MPI_COMPLEX16, COMPLEX, 8, 0, false, false},
    {MPI_CXX_FLOAT_COMPLEX, COMPLEX, 4, 0, false, false},
    {MPI_CXX_DOUBLE_COMPLEX, COMPLEX, 8, 0, false, false},
    {MPI_FLOAT_INT, LOCATED, 4, 4, true, false},
    {MPI_DOUBLE_INT, LOCATED, 8, 8, true, false},
    {MPI_LONG_INT, LOCATED, sizeof(long), sizeof(long), false, false},
    {MPI_2INT, LOCATED, 4, 4, false, false},
    {MPI_SHORT_INT, LOCATED, 2, 4, false, false},
    {MPI_2REAL, LOCATED, 4, 4, true, true},
    {MPI_2DOUBLE_PRECISION, LOCATED, 8, 8, true, true},
    {MPI_2INTEGER, LOCATED, 4, 4, false, false}};
enum { WHOLES = sizeof wholes / sizeof wholes[0], ROWS = WHOLES + sizeof others / sizeof others[0] };

static struct {
    uint8_t *given, *wanted, *seen; /* host */
    uint8_t *out, *in;         /* device */
    size_t room; /* bytes of each that elements of the type take, and GUARD after them */
    bool begins; /* the calls are those that do not block */
    int allreduces, reduces, blocks, lists;
} numbers;

static void move_all(void *to, const void *from, selvage_copy_t direction)
{
    selvage_device_copy(the.device, to, from, numbers.room, direction, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

static void put_number(uint8_t *at, int bytes, bool is_real, int64_t value)
{
    const float single = (float)value;
    const double real = (double)value;
    if (is_real)
        memcpy(at, bytes == 4 ? (const void *)&single : &real, (size_t)bytes);
    else
        memcpy(at, &value, (size_t)bytes); /* little-endian */
}

/* What this rank gives: few values, which ranks share. All bits of integers are used where no order is asked for: there
   Open MPI 4.1 takes unsigned long for signed, and MPI_OFFSET for unsigned. Complex numbers are such that no part of a
   product is zero, whose sign would depend on the order. */
static void give_numbers(const row_t *row, MPI_Op op, int extent)
{
    const bool bitwise = op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR;
    const bool any = row->kind == WHOLE && (bitwise || op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR);
    memset(numbers.given, GAP, numbers.room);
    for (int i = 0; i < COUNT; i++) {
        uint8_t *at = numbers.given + (size_t)i * (size_t)extent;
        const int64_t value = (i * 7 + the.rank * 3) % 5 - (row->kind == LOCATED ? 2 : 0);
        const int64_t bits = any && i % 3 == 0 ? (int64_t)((uint64_t)(i + the.rank) * UINT64_C(0x9e3779b97f4a7c15))
                                               : value;
        switch (row->kind) {
        case WHOLE: put_number(at, row->value_bytes, false, bits); break;
        case REAL: put_number(at, row->value_bytes, true, value); break;
        case LOGICAL: put_number(at, row->value_bytes, false, value % 2); break;
        case COMPLEX:
            put_number(at, row->value_bytes, true, value + 4);
            put_number(at + row->value_bytes, row->value_bytes, true, 1);
            break;
        case LOCATED:
            put_number(at, row->value_bytes, row->is_real, value);
            put_number(at + row->index_at, row->has_real_index ? row->value_bytes : 4, row->has_real_index,
                       (i * 5 + the.rank * 2) % 7);
        }
    }
}

/* MPI need not, and the drop-in does not, write what lies between members. */
static void restore_gaps(const row_t *row, int extent, const uint8_t *before)
{
    const int index_bytes = row->has_real_index ? row->value_bytes : 4;
    for (int i = 0; i < COUNT && row->kind == LOCATED; i++)
        for (int at = 0; at < extent; at++)
            if (at >= row->value_bytes && (at < row->index_at || at >= row->index_at + index_bytes))
                numbers.wanted[i * extent + at] = before[i * extent + at];
}

/* All bytes up to a place, in which the result was wanted. */
static void compare_numbers(int bytes, const char *call, MPI_Datatype type, int op)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int at = 0, length;
    move_all(numbers.seen, numbers.in, SELVAGE_COPY_DEVICE_TO_HOST);
    if (memcmp(numbers.seen, numbers.wanted, (size_t)bytes) == 0)
        at = bytes; /* byte by byte takes a sanitizer long */
    while (at < bytes && numbers.seen[at] == numbers.wanted[at])
        at++;
    MPI_Type_get_name(type, name, &length);
    CHECK_EQ(at, bytes);
    if (at < bytes)
        printf("rank %d: %s of %s, operation %d: byte %d is %d, not %d\n", the.rank, call, name, op, at,
               numbers.seen[at], numbers.wanted[at]);
}

/* Fills what is received into, on both sides, with this or, in place, with what is given. */
static void begin_numbers(bool in_place)
{
    move_all(numbers.out, numbers.given, SELVAGE_COPY_HOST_TO_DEVICE);
    if (in_place)
        memcpy(numbers.wanted, numbers.given, numbers.room);
    else
        memset(numbers.wanted, BEFORE, numbers.room);
    move_all(numbers.in, numbers.wanted, SELVAGE_COPY_HOST_TO_DEVICE);
}

/* --- the calls, in the form that blocks and in that which does not ------------------------------------------------ */

static int end_begun(int code, MPI_Request *request)
{
    return code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
}

static int call_allreduce(const void *from, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request;
    if (!numbers.begins)
        return MPI_Allreduce(from, numbers.in, COUNT, type, op, MPI_COMM_WORLD);
    return end_begun(MPI_Iallreduce(from, numbers.in, COUNT, type, op, MPI_COMM_WORLD, &request), &request);
}

static int call_reduce(const void *from, MPI_Datatype type, MPI_Op op, int root)
{
    MPI_Request request;
    if (!numbers.begins)
        return MPI_Reduce(from, numbers.in, COUNT, type, op, root, MPI_COMM_WORLD);
    return end_begun(MPI_Ireduce(from, numbers.in, COUNT, type, op, root, MPI_COMM_WORLD, &request), &request);
}

static int call_scatter_block(const void *from, int own, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request;
    if (!numbers.begins)
        return MPI_Reduce_scatter_block(from, numbers.in, own, type, op, MPI_COMM_WORLD);
    return end_begun(MPI_Ireduce_scatter_block(from, numbers.in, own, type, op, MPI_COMM_WORLD, &request), &request);
}

static int call_scatter(const void *from, const int *counts, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request;
    if (!numbers.begins)
        return MPI_Reduce_scatter(from, numbers.in, counts, type, op, MPI_COMM_WORLD);
    return end_begun(MPI_Ireduce_scatter(from, numbers.in, counts, type, op, MPI_COMM_WORLD, &request), &request);
}

/* --- beside MPI's own --------------------------------------------------------------------------------------------- */

/* On both sides; MPICH 4.0 takes MPI_IN_PLACE for memory in some long reductions to one rank. */
static void reduce_to_root(const row_t *row, MPI_Op op, bool in_place)
{
    const int root = the.ranks - 1;
    const bool at_place = in_place && the.rank == root;
#if defined(MPICH_VERSION)
    if (in_place)
        return;
#endif
    CHECK_EQ(call_reduce(at_place ? MPI_IN_PLACE : (void *)numbers.out, row->type, op, root), MPI_SUCCESS);
    PMPI_Reduce(at_place ? MPI_IN_PLACE : (void *)numbers.given, numbers.wanted, COUNT, row->type, op, root,
                MPI_COMM_WORLD);
    numbers.reduces++;
}

static void reduce_numbers(const row_t *row, MPI_Op op, int number, int extent, bool in_place)
{
    const void *from = in_place ? MPI_IN_PLACE : (void *)numbers.out;
    const void *like = in_place ? MPI_IN_PLACE : (void *)numbers.given;
    const int own = COUNT / the.ranks;
    int counts[64] = {COUNT};
    uint8_t *before = malloc(numbers.room);
    for (int i = 1; i < the.ranks; i++)
        counts[0] -= counts[i] = 101 + 50 * i;
    begin_numbers(in_place);
    memcpy(before, numbers.wanted, numbers.room);
    CHECK_EQ(call_allreduce(from, row->type, op), MPI_SUCCESS);
    PMPI_Allreduce(like, numbers.wanted, COUNT, row->type, op, MPI_COMM_WORLD);
    restore_gaps(row, extent, before);
    compare_numbers((int)numbers.room, "Allreduce", row->type, number);
    begin_numbers(in_place);
    reduce_to_root(row, op, in_place);
    restore_gaps(row, extent, before);
    compare_numbers((int)numbers.room, "Reduce", row->type, number);
    begin_numbers(in_place);
    CHECK_EQ(call_scatter_block(from, own, row->type, op), MPI_SUCCESS);
    PMPI_Reduce_scatter_block(like, numbers.wanted, own, row->type, op, MPI_COMM_WORLD);
    restore_gaps(row, extent, before);
    compare_numbers(in_place ? own * extent : (int)numbers.room, "Reduce_scatter_block", row->type, number);
    begin_numbers(in_place);
    CHECK_EQ(call_scatter(from, counts, row->type, op), MPI_SUCCESS);
    PMPI_Reduce_scatter(like, numbers.wanted, counts, row->type, op, MPI_COMM_WORLD);
    restore_gaps(row, extent, before);
    compare_numbers(in_place ? counts[the.rank] * extent : (int)numbers.room, "Reduce_scatter", row->type, number);
    if (numbers.begins)
        MPI_Barrier(MPI_COMM_WORLD); /* calls may be messages from then on */
    numbers.allreduces++;
    numbers.blocks++;
    numbers.lists++;
    free(before);
}

/* MPICH 4.0 says that it has a truth of reals, and then has none. */
static bool has_meaning(kind_t kind, int number)
{
    switch (kind) {
    case REAL: return number < 4;
    case LOGICAL: return number >= 7 && number < 10;
    default: return true;
    }
}

void run_numbers(void)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR,
                          MPI_LXOR, MPI_MINLOC, MPI_MAXLOC};
    char none[2 * ELEMENT_MAX] = "";
    MPI_Comm self;
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    numbers.given = malloc(ROOM);
    numbers.wanted = malloc(ROOM);
    numbers.seen = malloc(ROOM);
    numbers.out = device_bytes(ROOM);
    numbers.in = device_bytes(ROOM);
    for (int i = 0; i < 8; i++) /* opens the route */
        MPI_Allreduce(numbers.out, numbers.in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int r = 0; r < ROWS; r++) {
        row_t row = r < WHOLES ? (row_t){.type = wholes[r], .kind = WHOLE} : others[r - WHOLES];
        MPI_Aint lb, extent;
        if (row.type == MPI_DATATYPE_NULL)
            continue;
        MPI_Type_get_extent(row.type, &lb, &extent);
        numbers.room = COUNT * (size_t)extent + GUARD;
        if (r < WHOLES)
            row.value_bytes = (int)extent;
        for (int o = 0; o < (int)(sizeof ops / sizeof ops[0]); o++) {
            if (!has_meaning(row.kind, o) ||
                PMPI_Allreduce(none, none + ELEMENT_MAX, 1, row.type, ops[o], self) != MPI_SUCCESS)
                continue;
            give_numbers(&row, ops[o], (int)extent);
            for (int in_place = 0; in_place < 2; in_place++)
                reduce_numbers(&row, ops[o], o, (int)extent, in_place);
        }
    }
    if (the.rank == 0)
        printf("calls: MPI_Allreduce %d\ncalls: MPI_Reduce %d\ncalls: MPI_Reduce_scatter_block %d\n"
               "calls: MPI_Reduce_scatter %d\n", numbers.allreduces, numbers.reduces, numbers.blocks, numbers.lists);
    MPI_Comm_free(&self);
    free(numbers.given);
    free(numbers.wanted);
    free(numbers.seen);
    selvage_device_free(the.device, numbers.out);
    selvage_device_free(the.device, numbers.in);
}

void run_numbers_begun(void)
{
    numbers.begins = true;
    run_numbers();
}
