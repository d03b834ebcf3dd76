/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_large few|many: between two ranks, types with gaps of more than 2 GiB in device memory and the host's. few:
 * short messages to receives that were posted for so much, by every kind of receive; there only is as much memory as
 * they need.
 * many: all of it moves, by a message, a collective call and MPI_Sendrecv_replace of host memory; 14 GiB of memory.
 * Exit status 0 if every element has come, and no gap was written.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "dropin_case.h"

enum { ROW = 1 << 20, GAP = 1 << 16, STRIDE = ROW + GAP, SEEN = 5, GAP_VALUE = 0xee };

typedef enum kind { RECV, IRECV, RECV_INIT, MRECV, IMRECV, SENDRECV, KINDS } kind_t;

/* Rows of a type with a gap behind each but the last. */
typedef struct rows {
    int n;
    size_t span;
    uint8_t *memory;
    bool device;
    MPI_Datatype type;
} rows_t;

/* Memory is there for the first ones. The software device's is the host's to read, which is what this test needs. */
static rows_t make_rows(int n, int there, bool device)
{
    rows_t r = {n, (size_t)STRIDE * (size_t)(there - 1) + ROW, NULL, device, MPI_DATATYPE_NULL};
    void *memory = NULL;
    if (device)
        CHECK_STATUS(selvage_device_malloc(dropin.device, r.span, &memory), SELVAGE_SUCCESS);
    else
        memory = mmap(NULL, r.span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!memory || memory == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    r.memory = memory;
    MPI_Type_create_hvector(n, ROW, STRIDE, MPI_BYTE, &r.type);
    MPI_Type_commit(&r.type);
    return r;
}

static void drop_rows(rows_t *r)
{
    MPI_Type_free(&r->type);
    if (r->device)
        selvage_device_free(dropin.device, r->memory);
    else
        munmap(r->memory, r->span);
}

static uint8_t value_of(int row, int salt)
{
    return (uint8_t)((row + salt) % 199 + 1);
}

/* The first n rows and their gaps. value 0: with a row's own value. */
static void fill_rows(const rows_t *r, int n, int salt, uint8_t value)
{
    for (int i = 0; i < n; i++) {
        memset(r->memory + (size_t)i * STRIDE, value ? value : value_of(i, salt), ROW);
        if (i < r->n - 1)
            memset(r->memory + (size_t)i * STRIDE + ROW, GAP_VALUE, GAP);
    }
}

static bool is_all(const uint8_t *memory, uint8_t value, size_t bytes)
{
    return bytes == 0 || (memory[0] == value && memcmp(memory, memory + 1, bytes - 1) == 0);
}

/* Of the first n rows: so many bytes of the stream have come, what is behind them is the old value. */
static void check_rows(const rows_t *r, int n, int salt, size_t came, uint8_t old)
{
    int wrong = 0, written = 0;
    for (int i = 0; i < n; i++) {
        const uint8_t *row = r->memory + (size_t)i * STRIDE;
        size_t here = came < ROW ? came : ROW;
        wrong += !is_all(row, value_of(i, salt), here) || !is_all(row + here, old, ROW - here);
        written += i < r->n - 1 && !is_all(row + ROW, GAP_VALUE, GAP);
        came -= here;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(written, 0);
}

/* --- few ---------------------------------------------------------------------------------------------------------- */

static void receive(kind_t kind, const rows_t *r, MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    if (kind == MRECV || kind == IMRECV)
        MPI_Mprobe(0, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    switch (kind) {
    case RECV: MPI_Recv(r->memory, 1, r->type, 0, 1, MPI_COMM_WORLD, status); return;
    case MRECV: MPI_Mrecv(r->memory, 1, r->type, &message, status); return;
    case SENDRECV:
        MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, r->memory, 1, r->type, 0, 1, MPI_COMM_WORLD, status);
        return;
    case IRECV: MPI_Irecv(r->memory, 1, r->type, 0, 1, MPI_COMM_WORLD, &request); break;
    case IMRECV: MPI_Imrecv(r->memory, 1, r->type, &message, &request); break;
    default:
        MPI_Recv_init(r->memory, 1, r->type, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
    }
    MPI_Wait(&request, status);
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
}

static void check_few(kind_t kind, int rows)
{
    const size_t bytes = 3 * ROW - 1000; /* ends within a row */
    MPI_Status status;
    MPI_Count count = 0;
    if (dropin.rank == 0) {
        rows_t out = make_rows(SEEN, SEEN, kind % 2);
        for (int i = 0; i < 3; i++)
            memset(out.memory + (size_t)i * ROW, value_of(i, (int)kind), ROW);
        MPI_Send(out.memory, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        drop_rows(&out);
    } else {
        rows_t in = make_rows(rows, SEEN + 1, true);
        fill_rows(&in, SEEN, 0, 251);
        receive(kind, &in, &status);
        MPI_Get_elements_x(&status, MPI_BYTE, &count);
        CHECK_EQ(count, bytes);
        check_rows(&in, SEEN, (int)kind, bytes, 251);
        drop_rows(&in);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Columns of a matrix to columns of another one: nothing else may be written there, and little else needs to move. */
static void check_columns(void)
{
    enum { N = 512, RANKS = 2 };
    const size_t bytes = sizeof(double) * N * N;
    void *out, *in;
    MPI_Datatype column, types[RANKS];
    int counts[RANKS] = {1, 1}, from[RANKS], to[RANKS], wrong = 0;
    CHECK_STATUS(selvage_device_malloc(dropin.device, bytes, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(dropin.device, bytes, &in), SELVAGE_SUCCESS);
    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < N * N; i++) {
        ((double *)out)[i] = dropin.rank * N * N + i;
        ((double *)in)[i] = -1;
    }
    for (int r = 0; r < RANKS; r++) {
        types[r] = column;
        from[r] = (int)sizeof(double) * (10 + r);
        to[r] = (int)sizeof(double) * (N - 20 - r);
    }
    for (int again = 0; again < 2; again++)
        CHECK_EQ(MPI_Alltoallw(out, counts, from, types, in, counts, to, types, MPI_COMM_WORLD), MPI_SUCCESS);
    for (int i = 0; i < N * N; i++) {
        const int r = N - 20 - i % N;
        const double wanted = r >= 0 && r < RANKS ? r * N * N + i / N * N + 10 + dropin.rank : -1;
        wrong += ((double *)in)[i] != wanted;
    }
    CHECK_EQ(wrong, 0);
    MPI_Type_free(&column);
    selvage_device_free(dropin.device, out);
    selvage_device_free(dropin.device, in);
}

/* --- many --------------------------------------------------------------------------------------------------------- */

static void check_message(int n)
{
    rows_t r = make_rows(n, n, true);
    fill_rows(&r, n, 3, dropin.rank == 0 ? 0 : 251);
    if (dropin.rank == 0)
        CHECK_EQ(MPI_Send(r.memory, 1, r.type, 1, 2, MPI_COMM_WORLD), MPI_SUCCESS);
    else
        CHECK_EQ(MPI_Recv(r.memory, 1, r.type, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    check_rows(&r, n, 3, (size_t)n * ROW, 251);
    drop_rows(&r);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_collective(int n)
{
    rows_t r = make_rows(n, n, true);
    fill_rows(&r, n, 5, dropin.rank == 0 ? 0 : 251);
    CHECK_EQ(MPI_Bcast(r.memory, 1, r.type, 0, MPI_COMM_WORLD), MPI_SUCCESS);
    check_rows(&r, n, 5, (size_t)n * ROW, 251);
    drop_rows(&r);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_replace(int n)
{
    MPI_Datatype row;
    rows_t r = make_rows(n, n, false);
    MPI_Type_contiguous(ROW, MPI_BYTE, &row);
    MPI_Type_commit(&row);
    for (int i = 0; i < n; i++)
        memset(r.memory + (size_t)i * ROW, value_of(i, dropin.rank), ROW);
    CHECK_EQ(MPI_Sendrecv_replace(r.memory, n, row, 1 - dropin.rank, 0, 1 - dropin.rank, 0, MPI_COMM_WORLD,
                                  MPI_STATUS_IGNORE), MPI_SUCCESS);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += !is_all(r.memory + (size_t)i * ROW, value_of(i, 1 - dropin.rank), ROW);
    CHECK_EQ(wrong, 0);
    MPI_Type_free(&row);
    drop_rows(&r);
}

int main(int argc, char **argv)
{
    enum { ROWS = 2100 }; /* 2.05 GiB */
    int cases;
    dropin_begin(1, argv, MPI_THREAD_SINGLE, &cases);
    if (argc > 1 && strcmp(argv[1], "many") == 0) {
        check_few(RECV, 5200);
        check_message(ROWS);
        check_collective(ROWS);
        check_replace(ROWS);
    } else {
        for (int kind = 0; kind < KINDS; kind++)
            check_few((kind_t)kind, ROWS);
        check_columns();
    }
    return dropin_end("dropin_large");
}
