/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of dropin_unmodified whose types move the addresses: MPI_BOTTOM and absolute displacements into device
 * memory. The timeline tells which calls were staged, because a device whose memory the host can reach bears all.
 */
#include "fixtures/check.h"
#include "fixtures/mpi_habits.h"
#include "dropin_unmodified.h"

enum { N = 256, INTS = N * (int)sizeof(int), LEFT_ALONE = -7, PACKS = 5000 /* many records of the timeline */ };

/* Types of N ints at out and in, and of half of them at in, which are named from MPI_BOTTOM. */
static struct {
    MPI_Datatype out, in, half;
    int *host;
} moved;

static MPI_Datatype type_at(void *memory, int count)
{
    MPI_Aint address;
    MPI_Datatype type;
    MPI_Get_address(memory, &address);
    MPI_Type_create_hindexed(1, &count, &address, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

static void copy_in(void *memory)
{
    selvage_device_copy(the.device, memory, moved.host, INTS, SELVAGE_COPY_HOST_TO_DEVICE, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

/* out counts from what the rank has; nothing is in in. */
static void fill_both(void)
{
    for (int i = 0; i < N; i++)
        moved.host[i] = LEFT_ALONE;
    copy_in(the.in);
    for (int i = 0; i < N; i++)
        moved.host[i] = N * the.rank + i;
    copy_in(the.out);
}

/* The first n ints of memory are those of another rank; the rest of in is as it was. */
static void check_ints(void *memory, int n, int rank)
{
    int wrong = 0;
    selvage_device_copy(the.device, moved.host, memory, INTS, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    for (int i = 0; i < N; i++)
        wrong += moved.host[i] != (i < n ? N * rank + i : LEFT_ALONE);
    CHECK_EQ(wrong, 0);
}

static void call_moving_types(void)
{
    MPI_Request request;
    const int last = the.ranks - 1, zero[2] = {0, 0}, other[2] = {the.rank != 0, the.rank == 0};
    const MPI_Datatype outs[2] = {moved.out, moved.out}, ins[2] = {moved.in, moved.in};
    fill_both();
    CHECK_EQ(MPI_Bcast(MPI_BOTTOM, 1, moved.out, last, MPI_COMM_WORLD), MPI_SUCCESS);
    check_ints(the.out, N, last);
    fill_both();
    CHECK_EQ(MPI_Ibcast(MPI_BOTTOM, 1, moved.out, last, MPI_COMM_WORLD, &request), MPI_SUCCESS);
    CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    check_ints(the.out, N, last);
    fill_both(); /* a half of itself, at the root, whose type alone has a meaning */
    CHECK_EQ(MPI_Gather(the.out, N / 2, MPI_INT, MPI_BOTTOM, 1, the.rank == 0 ? moved.half : MPI_DATATYPE_NULL, 0,
                        MPI_COMM_WORLD), MPI_SUCCESS);
    selvage_device_copy(the.device, moved.host, the.in, INTS, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    CHECK_EQ(moved.host[N / 2], the.rank == 0 ? N : LEFT_ALONE);
    fill_both(); /* to the other one only */
    CHECK_EQ(MPI_Alltoallw(MPI_BOTTOM, other, zero, outs, MPI_BOTTOM, other, zero, ins, MPI_COMM_WORLD), MPI_SUCCESS);
    check_ints(the.in, N, the.right);
}

static void call_packing(void)
{
    char stream[INTS];
    int position = 0;
    MPI_Aint far = 0;
    for (int i = 0; i < PACKS; i++, position = 0)
        MPI_Pack(the.out, 1, MPI_INT, stream, INTS, &position, MPI_COMM_WORLD);
    fill_both();
    CHECK_EQ(MPI_Pack(MPI_BOTTOM, 1, moved.out, stream, INTS, &position, MPI_COMM_WORLD), MPI_SUCCESS);
    CHECK_EQ(position, INTS);
    position = 0;
    CHECK_EQ(MPI_Unpack(stream, INTS, &position, MPI_BOTTOM, 1, moved.in, MPI_COMM_WORLD), MPI_SUCCESS);
    check_ints(the.in, N, the.rank);
    fill_both();
    CHECK_EQ(MPI_Pack_external("external32", MPI_BOTTOM, 1, moved.out, stream, INTS, &far), MPI_SUCCESS);
    CHECK_EQ(far, INTS);
    far = 0; /* a half of it */
    CHECK_EQ(MPI_Unpack_external("external32", stream, INTS, &far, MPI_BOTTOM, 1, moved.half), MPI_SUCCESS);
    CHECK_EQ(far, INTS / 2);
    check_ints(the.in, N / 2, the.rank);
}

/* Two blocks with a hole between them that is no memory, or another allocation's, in one call. */
void run_apart(void)
{
    enum { FAR = 4 << 20, BLOCKS = 3 };
    unsigned char *block[BLOCKS], *seen = the.pinned;
    int counts[64] = {0}, zero[64] = {0};
    MPI_Datatype types[64], type;
    MPI_Aint at[2];
    for (int i = 0; i < BLOCKS; i++)
        block[i] = device_bytes(FAR);
    selvage_device_free(the.device, block[1]);
    MPI_Get_address(block[0], &at[0]);
    MPI_Get_address(block[2], &at[1]);
    MPI_Type_create_hindexed(2, (int[]){FAR, FAR}, at, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < the.ranks; i++)
        types[i] = type;
    for (int how = 0; how < 2; how++) {
        for (int i = 0; i < BLOCKS; i += 2)
            selvage_device_fill(the.device, block[i], 10 * how + i + the.rank, FAR, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        counts[0] = the.rank > 0;
        if (how == 0)
            CHECK_EQ(MPI_Bcast(MPI_BOTTOM, 1, type, the.ranks - 1, MPI_COMM_WORLD), MPI_SUCCESS);
        else
            CHECK_EQ(MPI_Alltoallw(MPI_IN_PLACE, counts, zero, types, MPI_BOTTOM, counts, zero, types, MPI_COMM_SELF),
                     MPI_SUCCESS);
        for (int i = 0; i < BLOCKS; i += 2) {
            selvage_device_copy(the.device, seen, block[i] + FAR - 1, 1, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
            selvage_stream_synchronize(the.device, the.stream);
            CHECK_EQ(*seen, 10 * how + i + (how == 0 ? the.ranks - 1 : the.rank));
        }
    }
    MPI_Type_free(&type);
    selvage_device_free(the.device, block[0]);
    selvage_device_free(the.device, block[2]);
}

/* One type, or the blocks of one call, in host memory and device memory: refused wherever the latter stands. */
static void check_both(const char *first, const char *second, const char *third)
{
    MPI_Aint at[3];
    MPI_Datatype type, types[2] = {MPI_BYTE, MPI_BYTE};
    MPI_Request request;
    MPI_Comm ring;
    char stream[64];
    int class = MPI_SUCCESS, position = 0, one[2] = {1, 1}, dims = 1, periods = 1;
    MPI_Get_address(first, &at[0]);
    MPI_Get_address(second, &at[1]);
    MPI_Get_address(third, &at[2]);
    MPI_Type_create_hindexed(3, (int[]){8, 8, 8}, at, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Error_class(MPI_Send(MPI_BOTTOM, 1, type, the.rank, 1, MPI_COMM_WORLD), &class);
    CHECK_EQ(class, MPI_ERR_TYPE);
    CHECK(MPI_Irecv(MPI_BOTTOM, 1, type, the.rank, 1, MPI_COMM_WORLD, &request) != MPI_SUCCESS);
    CHECK(MPI_Sendrecv_replace(MPI_BOTTOM, 1, type, the.rank, 1, the.rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) !=
          MPI_SUCCESS);
    CHECK(MPI_Pack(MPI_BOTTOM, 1, type, stream, sizeof stream, &position, MPI_COMM_WORLD) != MPI_SUCCESS);
    CHECK_EQ(MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK_EQ(MPI_Ibcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER);
    PMPI_Cart_create(MPI_COMM_SELF, 1, &dims, &periods, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    CHECK_EQ(MPI_Neighbor_alltoallw(MPI_BOTTOM, one, at, types, stream, one, (MPI_Aint[]){0, 8}, types, ring),
             MPI_ERR_BUFFER);
    PMPI_Comm_free(&ring);
    MPI_Type_free(&type);
}

static void call_with_both(void)
{
    static char host[16];
    const char *device = the.out;
    if (mpi_leaves_out_refusals(the.rank))
        return;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check_both(host, device, device + 8);
    check_both(device, host, host + 8);
    check_both(host, device, host + 8);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* On two ranks. */
void run_moved(void)
{
    CHECK_EQ(the.ranks, 2);
    moved.host = the.pinned;
    moved.out = type_at(the.out, N);
    moved.in = type_at(the.in, N);
    moved.half = type_at(the.in, N / 2);
    call_moving_types();
    call_packing();
    call_with_both();
    MPI_Type_free(&moved.out);
    MPI_Type_free(&moved.in);
    MPI_Type_free(&moved.half);
}

/* --- one field ---------------------------------------------------------------------------------------------------- */

/* Both buffers are one field, of which the types name columns: those at the edges, and those of the halo beside. Of
   three ranks or more: two are each other's neighbour twice. */
void run_field(void)
{
    enum { ROWS = 40, COLUMNS = 30 };
    static double field[ROWS][COLUMNS];
    const size_t bytes = sizeof field;
    const int one[2] = {1, 1}, periodic = 1;
    const MPI_Aint from[2] = {sizeof(double), (COLUMNS - 2) * sizeof(double)};
    const MPI_Aint to[2] = {0, (COLUMNS - 1) * sizeof(double)};
    MPI_Datatype column, types[2];
    MPI_Request request;
    MPI_Comm ring;
    void *memory = device_bytes(bytes);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &the.ranks, &periodic, 0, &ring);
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    types[0] = types[1] = column;
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < ROWS * COLUMNS; i++)
            field[i / COLUMNS][i % COLUMNS] = 10000 * (the.rank + 1) + i;
        selvage_device_copy(the.device, memory, field, bytes, SELVAGE_COPY_HOST_TO_DEVICE, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        if (turn % 2 == 0)
            CHECK_EQ(MPI_Neighbor_alltoallw(memory, one, from, types, memory, one, to, types, ring), MPI_SUCCESS);
        else {
            MPI_Ineighbor_alltoallw(memory, one, from, types, memory, one, to, types, ring, &request);
            CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        }
        selvage_device_copy(the.device, field, memory, bytes, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        int wrong = 0;
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            const int x = i % COLUMNS, row = i - x;
            const int rank = x == 0 ? the.left : x == COLUMNS - 1 ? the.right : the.rank;
            const int at = x == 0 ? COLUMNS - 2 : x == COLUMNS - 1 ? 1 : x;
            wrong += field[i / COLUMNS][x] != 10000 * (rank + 1) + row + at;
        }
        CHECK_EQ(wrong, 0);
    }
    MPI_Type_free(&column);
    MPI_Comm_free(&ring);
    selvage_device_free(the.device, memory);
}
