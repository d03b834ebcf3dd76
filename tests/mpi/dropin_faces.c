/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_faces: collective calls whose types and displacements name little of what they span: faces of a field by
 * MPI_Neighbor_alltoallw and its kin, and blocks that are far apart. Every call is made on device memory and again by
 * its PMPI_ name on host memory; codes and every byte agree. The drop-in moves no more bytes than are named, pins no
 * memory for the span, and keeps the lists that it gives to MPI until a call has ended.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/dropin_case.h"

enum { EDGE = 96, FACES = 6, RANKS_MAX = 8, ELEMENT = 8, FAR_ROWS = 4000, ROW = 512 };

/* --- what the drop-in moves --------------------------------------------------------------------------------------- */

static bool in_call, in_whole; /* in_whole: a call that the library may make of one for a part */
static size_t moved, pinned;

#define REAL(FUNCTION, NAME)                                                                                          \
    do {                                                                                                              \
        void *found_ = dlsym(RTLD_NEXT, NAME);                                                                        \
        memcpy(&(FUNCTION), &found_, sizeof(FUNCTION));                                                               \
    } while (0)

selvage_status_t selvage_device_host_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out)
{
    selvage_status_t (*real)(selvage_device_t *device, size_t bytes, void **ptr_out);
    REAL(real, "selvage_device_host_malloc");
    pinned += in_call ? bytes : 0;
    return real(dev, bytes, ptr_out);
}

selvage_status_t selvage_device_copy(selvage_device_t *dev, void *dst, const void *src, size_t bytes,
                                     selvage_copy_t direction, void *stream)
{
    selvage_status_t (*real)(selvage_device_t *device, void *dst, const void *src, size_t bytes,
                             selvage_copy_t direction, void *stream);
    REAL(real, "selvage_device_copy");
    moved += in_call ? bytes : 0;
    return real(dev, dst, src, bytes, direction, stream);
}

selvage_status_t selvage_pack_gather(selvage_pack_t *pack, const void *buf, void *stream_bytes, void *stream)
{
    selvage_status_t (*real)(selvage_pack_t *pack, const void *buf, void *stream_bytes, void *stream);
    REAL(real, "selvage_pack_gather");
    moved += in_call ? selvage_pack_bytes(pack) : 0;
    in_whole = true;
    const selvage_status_t status = real(pack, buf, stream_bytes, stream);
    in_whole = false;
    return status;
}

selvage_status_t selvage_pack_scatter(selvage_pack_t *pack, const void *stream_bytes, size_t bytes, void *buf,
                                      void *stream)
{
    selvage_status_t (*real)(selvage_pack_t *pack, const void *stream_bytes, size_t bytes, void *buf, void *stream);
    REAL(real, "selvage_pack_scatter");
    moved += in_call ? bytes : 0;
    in_whole = true;
    const selvage_status_t status = real(pack, stream_bytes, bytes, buf, stream);
    in_whole = false;
    return status;
}

selvage_status_t selvage_pack_gather_part(selvage_pack_t *pack, const void *buf, size_t from, size_t bytes,
                                          void *part, void *stream)
{
    selvage_status_t (*real)(selvage_pack_t *pack, const void *buf, size_t from, size_t bytes, void *part,
                             void *stream);
    REAL(real, "selvage_pack_gather_part");
    moved += in_call && !in_whole ? bytes : 0;
    return real(pack, buf, from, bytes, part, stream);
}

selvage_status_t selvage_pack_scatter_part(selvage_pack_t *pack, const void *part, size_t from, size_t bytes,
                                           void *buf, void *stream)
{
    selvage_status_t (*real)(selvage_pack_t *pack, const void *part, size_t from, size_t bytes, void *buf,
                             void *stream);
    REAL(real, "selvage_pack_scatter_part");
    moved += in_call && !in_whole ? bytes : 0;
    return real(pack, part, from, bytes, buf, stream);
}

static void begin_counting(void)
{
    in_call = !dropin_plain;
    if (in_call)
        moved = pinned = 0;
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

typedef struct lists {
    int n, counts[RANKS_MAX], displs[RANKS_MAX];
    MPI_Aint far[RANKS_MAX];
    MPI_Datatype types[RANKS_MAX];
    size_t bytes; /* that are named */
} lists_t;

static void name_block(lists_t *l, int count, MPI_Datatype type, MPI_Aint at)
{
    int bytes;
    MPI_Type_size(type, &bytes);
    l->counts[l->n] = count;
    l->types[l->n] = type;
    l->far[l->n] = at;
    l->displs[l->n++] = (int)at;
    l->bytes += (size_t)count * (size_t)bytes;
}

static void drop_types(lists_t *l)
{
    for (int i = 0; i < l->n; i++)
        datatype_drop(&l->types[i]);
}

/* The plane at that place along a dimension, without its edges. */
static MPI_Datatype face_of(int dim, int at)
{
    const int sizes[3] = {EDGE, EDGE, EDGE};
    int subsizes[3] = {EDGE - 2, EDGE - 2, EDGE - 2}, starts[3] = {1, 1, 1};
    MPI_Datatype type;
    subsizes[dim] = 1;
    starts[dim] = at;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

typedef enum form { BLOCKING, NON_BLOCKING, PERSISTENT, FORMS } form_t;

/* --- neighbours --------------------------------------------------------------------------------------------------- */

static int call_neighbours(form_t form, void *field, const lists_t *out, const lists_t *in, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code;
    if (form == BLOCKING)
        return X(Neighbor_alltoallw, field, out->counts, out->far, out->types, field, in->counts, in->far, in->types,
                 comm);
#if MPI_VERSION >= 4
    if (form == PERSISTENT) {
        code = X(Neighbor_alltoallw_init, field, out->counts, out->far, out->types, field, in->counts, in->far,
                 in->types, comm, MPI_INFO_NULL, &request);
        for (int i = 0; i < 2 && code == MPI_SUCCESS; i++) {
            code = X(Start, &request);
            code = code == MPI_SUCCESS ? X(Wait, &request, MPI_STATUS_IGNORE) : code;
        }
        X(Request_free, &request);
        return code;
    }
#endif
    code = X(Ineighbor_alltoallw, field, out->counts, out->far, out->types, field, in->counts, in->far, in->types, comm,
             &request);
    return code == MPI_SUCCESS ? X(Wait, &request, MPI_STATUS_IGNORE) : code;
}

static void check_neighbours(form_t form, bool periodic)
{
    int dims[3] = {0, 0, 0}, codes[2];
    const int periods[3] = {periodic, periodic, periodic};
    const int turns = MPI_VERSION >= 4 && form == PERSISTENT ? 2 : 1;
    lists_t out = {0}, in = {0};
    MPI_Comm comm;
    MPI_Dims_create(dropin.size, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int f = 0; f < FACES; f++) {
        name_block(&out, 1, face_of(f / 2, f % 2 ? EDGE - 2 : 1), 0);
        name_block(&in, 1, face_of(f / 2, f % 2 ? EDGE - 1 : 0), 0);
    }
    dropin_buffer_t field = dropin_buffer(0, (int64_t)EDGE * EDGE * EDGE * ELEMENT, true);
    for (dropin_plain = false;; dropin_plain = true) {
        begin_counting();
        codes[dropin_plain] = call_neighbours(form, dropin_argument(&field), &out, &in, comm);
        in_call = false;
        if (dropin_plain)
            break;
    }
    dropin_plain = false;
    CHECK_EQ(codes[0], codes[1]);
    /* What nobody sends keeps what it has: it goes down, and up again. Creating a persistent call reads, too. */
    CHECK(moved <= (out.bytes + (periodic ? 1 : 2) * in.bytes) * (size_t)(turns + (turns > 1)));
    CHECK_EQ(pinned, 0);
    CHECK(dropin_same(&field));
    drop_types(&out);
    drop_types(&in);
    MPI_Comm_free(&comm);
}

/* In a line only the first and the last rank have a neighbour that is nobody, whose block goes down and up again. */
static void check_line(void)
{
    enum { COUNT = 100, BYTES = 2 * COUNT * ELEMENT };
    const int dim = dropin.size, period = 0;
    const bool at_end = dropin.rank == 0 || dropin.rank == dropin.size - 1;
    MPI_Comm comm;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &dim, &period, 0, &comm);
    dropin_buffer_t from = dropin_buffer(0, BYTES, true), to = dropin_buffer(0, BYTES, true);
    for (dropin_plain = false;; dropin_plain = true) {
        begin_counting();
        CHECK_EQ(X(Neighbor_alltoall, dropin_argument(&from), COUNT, MPI_DOUBLE, dropin_argument(&to), COUNT,
                   MPI_DOUBLE, comm), MPI_SUCCESS);
        in_call = false;
        if (dropin_plain)
            break;
    }
    dropin_plain = false;
    CHECK_EQ(moved, (at_end ? 3 : 2) * BYTES);
    CHECK(dropin_same(&from));
    CHECK(dropin_same(&to));
    MPI_Comm_free(&comm);
}

/* --- all ranks ---------------------------------------------------------------------------------------------------- */

/* Columns of a matrix, another one for each rank; one rank gets nothing. */
static lists_t columns(int first)
{
    lists_t l = {0};
    for (int i = 0; i < dropin.size; i++) {
        MPI_Datatype column;
        MPI_Type_vector(FAR_ROWS / 4, 1, ROW / ELEMENT, MPI_DOUBLE, &column);
        MPI_Type_commit(&column);
        name_block(&l, (dropin.rank + i) % 3 != 2, column, (first + i) * ELEMENT);
    }
    return l;
}

/* one: in one buffer, which MPI may refuse. */
static void check_alltoallw(bool one)
{
    lists_t out = columns(0), in = columns(RANKS_MAX);
    const int64_t bytes = (int64_t)ROW * FAR_ROWS / 4;
    dropin_buffer_t from = dropin_buffer(0, bytes, true), to = dropin_buffer(0, bytes, true);
    int codes[2];
    for (dropin_plain = false;; dropin_plain = true) {
        begin_counting();
        codes[dropin_plain] = X(Alltoallw, dropin_argument(&from), out.counts, out.displs, out.types,
                                dropin_argument(one ? &from : &to), in.counts, in.displs, in.types, MPI_COMM_WORLD);
        in_call = false;
        if (dropin_plain)
            break;
    }
    dropin_plain = false;
    CHECK_EQ(dropin_class(codes[0]), dropin_class(codes[1]));
    if (!one) {
        CHECK_EQ(moved, out.bytes + in.bytes);
        CHECK_EQ(pinned, 0);
    }
    CHECK(dropin_same(&from));
    CHECK(dropin_same(&to));
    drop_types(&out);
    drop_types(&in);
}

/* A program frees its types at once, and makes others before the call has ended. Between some ranks goes nothing: their
   types have no bytes. */
static void check_freed_types(void)
{
    enum { COUNT = 8, MADE = 8, SLOT = 4096 };
    lists_t l = {.n = dropin.size};
    MPI_Datatype made[MADE];
    MPI_Request request;
    dropin_buffer_t from = dropin_buffer(0, SLOT * dropin.size, true), to = dropin_buffer(0, SLOT * dropin.size, true);
    for (dropin_plain = false;; dropin_plain = true) {
        for (int i = 0; i < l.n; i++) {
            const bool empty = (dropin.rank + i) % 2 == 0;
            MPI_Type_vector(empty ? 0 : 4, 1, 2, MPI_DOUBLE, &l.types[i]);
            MPI_Type_commit(&l.types[i]);
            l.counts[i] = COUNT;
            l.displs[i] = i * SLOT;
        }
        CHECK_EQ(X(Ialltoallw, dropin_argument(&from), l.counts, l.displs, l.types, dropin_argument(&to), l.counts,
                   l.displs, l.types, MPI_COMM_WORLD, &request), MPI_SUCCESS);
        for (int i = 0; i < l.n; i++)
            MPI_Type_free(&l.types[i]);
        for (int i = 0; i < 3; i++)
            PMPI_Barrier(MPI_COMM_WORLD); /* MPI comes to the end of the call here */
        for (int i = 0; i < MADE; i++) {
            MPI_Type_contiguous(SLOT / COUNT / ELEMENT, MPI_DOUBLE, &made[i]);
            MPI_Type_commit(&made[i]);
        }
        CHECK_EQ(X(Wait, &request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        for (int i = 0; i < MADE; i++)
            MPI_Type_free(&made[i]);
        if (dropin_plain)
            break;
    }
    dropin_plain = false;
    CHECK(dropin_same(&from));
    CHECK(dropin_same(&to));
}

/* What is gathered in place: of all that comes up, only the rank's own block goes down. */
static void check_in_place(bool gathers)
{
    enum { COUNT = 100, EACH = COUNT * ELEMENT };
    lists_t list = {0};
    for (int i = 0; i < dropin.size; i++)
        name_block(&list, COUNT, MPI_DOUBLE, 2 * i * COUNT);
    const bool is_root = dropin.rank == 0;
    dropin_buffer_t all = dropin_buffer(0, (int64_t)2 * EACH * dropin.size, true), own = dropin_buffer(0, EACH, true);
    for (dropin_plain = false;; dropin_plain = true) {
        begin_counting();
        const int code =
            gathers ? X(Gatherv, is_root ? MPI_IN_PLACE : dropin_argument(&own), COUNT, MPI_DOUBLE,
                        dropin_argument(&all), list.counts, list.displs, MPI_DOUBLE, 0, MPI_COMM_WORLD)
                    : X(Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, dropin_argument(&all), COUNT, MPI_DOUBLE,
                        MPI_COMM_WORLD);
        CHECK_EQ(code, MPI_SUCCESS);
        in_call = false;
        if (dropin_plain)
            break;
    }
    dropin_plain = false;
    CHECK_EQ(moved, EACH + (gathers && !is_root ? 0 : EACH * (size_t)dropin.size));
    CHECK(dropin_same(&all));
    CHECK(dropin_same(&own));
}

/* Rows of a long matrix, far apart: of one type without gaps, or of one with. */
static void check_rows(bool with_gaps, bool gathers)
{
    MPI_Datatype type;
    lists_t list = {0};
    MPI_Type_vector(20, 1, 2, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    const MPI_Datatype used = with_gaps ? type : MPI_DOUBLE;
    MPI_Aint lb, extent;
    MPI_Type_get_extent(used, &lb, &extent);
    const int reach = FAR_ROWS * ROW / (int)extent; /* elements of all */
    for (int i = 0; i < dropin.size; i++)
        name_block(&list, i == 1 ? 0 : 3, used, (dropin.size - 1 - i) * (reach / dropin.size));
    const int count = dropin.rank == 1 ? 0 : 3;
    dropin_buffer_t all = dropin_buffer(0, (int64_t)FAR_ROWS * ROW, true), own = dropin_buffer_of(3, used, true);
    for (dropin_plain = false;; dropin_plain = true) {
        begin_counting();
        const int code =
            gathers ? X(Gatherv, dropin_argument(&own), count, used, dropin_argument(&all), list.counts, list.displs,
                        used, 0, MPI_COMM_WORLD)
                    : X(Allgatherv, dropin_argument(&own), count, used, dropin_argument(&all), list.counts,
                        list.displs, used, MPI_COMM_WORLD);
        CHECK_EQ(code, MPI_SUCCESS);
        in_call = false;
        if (dropin_plain)
            break;
    }
    dropin_plain = false;
    const size_t here = list.bytes / (size_t)(dropin.size > 1 ? dropin.size - 1 : 1) * (count > 0);
    CHECK_EQ(moved, here + (gathers && dropin.rank != 0 ? 0 : list.bytes));
    CHECK_EQ(pinned, 0);
    CHECK(dropin_same(&all));
    CHECK(dropin_same(&own));
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    int cases;
    dropin_begin(argc, argv, MPI_THREAD_SINGLE, &cases);
    for (form_t form = BLOCKING; form < FORMS; form++) {
        check_neighbours(form, true);
        check_neighbours(form, false);
    }
    check_line();
    check_freed_types();
    check_alltoallw(false);
    check_alltoallw(true);
    check_in_place(false);
    check_in_place(true);
    for (int i = 0; i < 4; i++)
        check_rows(i % 2, i / 2);
    return dropin_end("dropin_faces");
}
