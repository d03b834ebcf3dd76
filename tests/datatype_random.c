/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See datatype_random.h. Inner types are freed as soon as the outer one is made, as applications do. Unless overlaps
 * are wanted every type is as long as it spans, so that elements at multiples of its extent are apart.
 */
#include "datatype_random.h"

#include <stdlib.h>

enum { DEPTH = 5, PARTS = 5, DIMS = 4, BLOCKS = 12 };
/* Open MPI 4.1 takes a stride of -1 byte for none given, and puts the blocks one after the other. */
enum { NO_STRIDE = -1 };

static int alive, keyval = MPI_KEYVAL_INVALID;

/* Of a type: the distance of elements in a row, and where its bytes begin and how far they reach. */
typedef struct shape {
    MPI_Aint extent, first, span;
} shape_t;

unsigned datatype_pick(datatype_random_t *random, unsigned n)
{
    random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((random->state >> 33) % n);
}

int datatype_pick_bytes(datatype_random_t *random, int max_bytes)
{
    static const int factors[] = {2, 2, 2, 2, 3, 5};
    int bytes = 1;
    for (int tries = 4 + (int)datatype_pick(random, 12); tries > 0; tries--) {
        int factor = factors[datatype_pick(random, 6)];
        bytes *= bytes * factor <= max_bytes ? factor : 1;
    }
    return bytes;
}

static int on_freed(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type;
    (void)key;
    (void)value;
    (void)extra;
    alive--;
    return MPI_SUCCESS;
}

static void watch(MPI_Datatype type)
{
    if (keyval == MPI_KEYVAL_INVALID)
        MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_freed, &keyval, NULL);
    MPI_Type_set_attr(type, keyval, NULL);
    alive++;
}

int datatype_alive(void)
{
    return alive;
}

static int combiner_of(MPI_Datatype type)
{
    int combiner;
#if MPI_VERSION >= 4
    MPI_Count nints, naddresses, nlarge, ntypes;
    MPI_Type_get_envelope_c(type, &nints, &naddresses, &nlarge, &ntypes, &combiner);
#else
    int nints, naddresses, ntypes;
    MPI_Type_get_envelope(type, &nints, &naddresses, &ntypes, &combiner);
#endif
    return combiner;
}

void datatype_drop(MPI_Datatype *type)
{
    if (*type != MPI_DATATYPE_NULL && combiner_of(*type) != MPI_COMBINER_NAMED)
        MPI_Type_free(type);
    *type = MPI_DATATYPE_NULL;
}

/* The outer type is made of the inner one: watched, counted, and the inner one is let go. */
static MPI_Datatype finish(datatype_random_t *random, MPI_Datatype type, MPI_Datatype inner)
{
    watch(type);
    random->made[combiner_of(type)]++;
    datatype_drop(&inner);
    return type;
}

static shape_t shape_of(MPI_Datatype type)
{
    MPI_Aint low;
    shape_t shape;
    MPI_Type_get_extent(type, &low, &shape.extent);
    MPI_Type_get_true_extent(type, &shape.first, &shape.span);
    return shape;
}

/* A random divisor, at most limit. */
static int divisor(datatype_random_t *random, int n, int limit)
{
    int d = 1 + (int)datatype_pick(random, (unsigned)(n < limit ? n : limit));
    while (n % d != 0)
        d--;
    return d;
}

/* Most distances have a gap, some have none; overlapping ones may be shorter than what lies between them. */
static MPI_Aint distance(datatype_random_t *random, MPI_Aint least, MPI_Aint unit)
{
    MPI_Aint way = least + (datatype_pick(random, 3) ? unit * (MPI_Aint)datatype_pick(random, 4) : 0);
    if (random->overlaps && datatype_pick(random, 2) == 0)
        way = (MPI_Aint)datatype_pick(random, (unsigned)(least > 0 ? least + 1 : 1));
    return datatype_pick(random, 4) ? way : -way;
}

static MPI_Datatype make(datatype_random_t *random, int bytes, int depth);

/* Predefined types, those of pairs too; but no long double, of whose 16 bytes MPICH packs 10. */
static MPI_Datatype make_basic(datatype_random_t *random, int bytes)
{
    static const struct { int bytes; MPI_Datatype type; } *row, rows[] = {
        {1, MPI_CHAR}, {1, MPI_BYTE}, {2, MPI_SHORT}, {4, MPI_INT}, {4, MPI_FLOAT}, {8, MPI_DOUBLE},
        {8, MPI_INT64_T}, {16, MPI_C_DOUBLE_COMPLEX}, {6, MPI_SHORT_INT}, {12, MPI_DOUBLE_INT},
        {8, MPI_FLOAT_INT}, {8, MPI_2INT}, {1, MPI_UINT8_T},
    };
    MPI_Datatype type;
    do
        row = &rows[datatype_pick(random, sizeof rows / sizeof rows[0])];
    while (bytes % row->bytes != 0);
    if (bytes == row->bytes)
        return row->type;
    MPI_Type_contiguous(bytes / row->bytes, row->type, &type);
    return finish(random, type, row->type);
}

static MPI_Datatype make_contiguous(datatype_random_t *random, int bytes, int depth)
{
    int count = divisor(random, bytes, 12);
    MPI_Datatype inner = make(random, bytes / count, depth), type;
    MPI_Type_contiguous(count, inner, &type);
    return finish(random, type, inner);
}

static MPI_Datatype make_vector(datatype_random_t *random, int bytes, int depth)
{
    int count = divisor(random, bytes, 16), length = divisor(random, bytes / count, 4);
    MPI_Datatype inner = make(random, bytes / count / length, depth), type;
    shape_t in = shape_of(inner);
    if (datatype_pick(random, 2)) {
        MPI_Aint stride = distance(random, length, 1);
        MPI_Type_vector(count, length, stride * in.extent == NO_STRIDE ? -2 : (int)stride, inner, &type);
    } else {
        MPI_Aint stride = distance(random, (length - 1) * labs(in.extent) + in.span, 1);
        MPI_Type_create_hvector(count, length, stride == NO_STRIDE ? -2 : stride, inner, &type);
    }
    return finish(random, type, inner);
}

/* Numbers 0 to n-1 in a random order, or in order. */
static void shuffle(datatype_random_t *random, int *order, int n)
{
    bool in_order = datatype_pick(random, 2);
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0 && !in_order; i--) {
        int other = (int)datatype_pick(random, (unsigned)i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* Where blocks lie, in elements: apart, in any order, sometimes at one distance; below 0 as well. */
static void place(datatype_random_t *random, const int *length, int n, int *where)
{
    int order[BLOCKS + PARTS], at = (int)datatype_pick(random, 5) - 2, regular = (int)datatype_pick(random, 3);
    shuffle(random, order, n);
    for (int i = 0; i < n; i++) {
        where[order[i]] = at;
        at += length[order[i]] + (regular ? regular - 1 : (int)datatype_pick(random, 3));
        if (random->overlaps && datatype_pick(random, 4) == 0)
            at -= (int)datatype_pick(random, 3);
    }
}

static MPI_Datatype make_indexed(datatype_random_t *random, int bytes, int depth)
{
    int elements = divisor(random, bytes, 40), n = 0, length[BLOCKS + PARTS], where[BLOCKS + PARTS];
    MPI_Aint address[BLOCKS + PARTS];
    MPI_Datatype inner = make(random, bytes / elements, depth), type;
    shape_t in = shape_of(inner);
    for (int left = elements; left > 0; left -= length[n++])
        length[n] = n + 1 == BLOCKS ? left : (int)datatype_pick(random, (unsigned)left + 1);
    place(random, length, n, where);
    for (int i = 0; i < n; i++)
        address[i] = where[i] * in.extent;
    if (datatype_pick(random, 2))
        MPI_Type_indexed(n, length, where, inner, &type);
    else
        MPI_Type_create_hindexed(n, length, address, inner, &type);
    return finish(random, type, inner);
}

static MPI_Datatype make_indexed_block(datatype_random_t *random, int bytes, int depth)
{
    int n = divisor(random, bytes, BLOCKS), each = divisor(random, bytes / n, 4), length[BLOCKS] = {0}, where[BLOCKS];
    MPI_Aint address[BLOCKS];
    MPI_Datatype inner = make(random, bytes / n / each, depth), type;
    shape_t in = shape_of(inner);
    for (int i = 0; i < n; i++)
        length[i] = each;
    place(random, length, n, where);
    for (int i = 0; i < n; i++)
        address[i] = where[i] * in.extent;
    if (datatype_pick(random, 2))
        MPI_Type_create_indexed_block(n, each, where, inner, &type);
    else
        MPI_Type_create_hindexed_block(n, each, address, inner, &type);
    return finish(random, type, inner);
}

/* Members in any order in memory, some of no elements. */
static MPI_Datatype make_struct(datatype_random_t *random, int bytes, int depth)
{
    int n = 0, length[PARTS] = {0}, order[PARTS];
    MPI_Aint where[PARTS] = {0}, at = (MPI_Aint)datatype_pick(random, 9) - 4;
    MPI_Datatype inner[PARTS] = {MPI_DATATYPE_NULL}, type;
    for (int left = bytes, part; left > 0; n++, left -= part) {
        part = n + 1 == PARTS ? left : 1 + (int)datatype_pick(random, (unsigned)left);
        length[n] = divisor(random, part, 3);
        inner[n] = make(random, part / length[n], depth);
        if (n + 2 < PARTS && datatype_pick(random, 8) == 0) {
            length[++n] = 0;
            inner[n] = MPI_INT;
        }
    }
    shuffle(random, order, n);
    for (int i = 0; i < n; i++) {
        shape_t in = shape_of(inner[order[i]]);
        MPI_Aint back = in.extent < 0 ? (length[order[i]] - 1) * -in.extent : 0;
        where[order[i]] = at + back - in.first;
        at += (length[order[i]] - 1) * labs(in.extent) + in.span + (MPI_Aint)datatype_pick(random, 3) * 4;
    }
    MPI_Type_create_struct(n, length, where, inner, &type);
    for (int i = 1; i < n; i++)
        datatype_drop(&inner[i]);
    return finish(random, type, inner[0]);
}

static MPI_Datatype make_subarray(datatype_random_t *random, int bytes, int depth)
{
    int n = 1 + (int)datatype_pick(random, DIMS), size[DIMS], subsize[DIMS], start[DIMS], left = bytes;
    MPI_Datatype type;
    for (int d = 0; d < n; d++) {
        subsize[d] = divisor(random, left, 8);
        left /= subsize[d];
        start[d] = (int)datatype_pick(random, 3);
        size[d] = start[d] + subsize[d] + (int)datatype_pick(random, 3);
    }
    MPI_Datatype inner = make(random, left, depth);
    MPI_Type_create_subarray(n, size, subsize, start, datatype_pick(random, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN,
                             inner, &type);
    return finish(random, type, inner);
}

static MPI_Datatype make_resized(datatype_random_t *random, int bytes, int depth)
{
    MPI_Datatype inner = make(random, bytes, depth), type;
    shape_t in = shape_of(inner);
    MPI_Type_create_resized(inner, (MPI_Aint)datatype_pick(random, 40) - 20, distance(random, in.span, 8), &type);
    return finish(random, type, inner);
}

static MPI_Datatype make_dup(datatype_random_t *random, int bytes, int depth)
{
    MPI_Datatype inner = make(random, bytes, depth), type;
    MPI_Type_dup(inner, &type);
    return finish(random, type, inner);
}

/* Types whose elements in a row would overlap, or take far more room than they have bytes, are made longer or left. */
static MPI_Datatype spread(datatype_random_t *random, MPI_Datatype inner)
{
    shape_t in = shape_of(inner);
    MPI_Datatype type;
    if (random->overlaps || labs(in.extent) >= in.span)
        return inner;
    MPI_Type_create_resized(inner, in.first, in.span, &type);
    return finish(random, type, inner);
}

static MPI_Datatype make(datatype_random_t *random, int bytes, int depth)
{
    static MPI_Datatype (*const makers[])(datatype_random_t *, int, int) = {
        make_contiguous, make_vector, make_vector, make_indexed, make_indexed_block, make_struct, make_subarray,
        make_resized, make_dup,
    };
    if (depth == 0 || datatype_pick(random, 6) == 0)
        return make_basic(random, bytes);
    unsigned n = datatype_pick(random, sizeof makers / sizeof makers[0]);
    return spread(random, makers[n](random, bytes, depth - 1));
}

MPI_Datatype datatype_make(datatype_random_t *random, int bytes, int64_t span_max)
{
    for (int depth = DEPTH;; depth -= depth > 1) {
        MPI_Datatype type = make(random, bytes, 1 + (int)datatype_pick(random, (unsigned)depth));
        shape_t shape = shape_of(type);
        if (shape.span <= span_max && labs(shape.extent) <= span_max) {
            MPI_Type_commit(&type);
            return type;
        }
        datatype_drop(&type);
    }
}
