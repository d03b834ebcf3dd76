/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of two ranks: ping-pong by MPI_Send and MPI_Recv, of bytes and of a datatype with gaps, and by persistent
 * requests; windows of non-blocking messages in one direction and in both, and by all pairs of ranks.
 *
 * The messages of a window share memory where a buffer is too short for all, as those of the OSU benchmarks do. They
 * carry the same bytes then, so that what has arrived does not depend on their order.
 */
#include "tools/bench_mpi/bench_mpi_data.h"
#include "tools/bench_mpi/bench_mpi_kind.h"

enum { TAG = 1, TAG_READY = 2 };

static void send_one(const bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    MPI_Send(cell->send, cell->count, cell->type, cell->peer, TAG, MPI_COMM_WORLD);
}

static void recv_one(const bench_mpi_cell_t *cell)
{
    MPI_Recv(cell->recv, cell->count, cell->type, cell->peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

static void ping_pong(bench_mpi_cell_t *cell)
{
    if (cell->first)
        send_one(cell);
    recv_one(cell);
    if (!cell->first)
        send_one(cell);
}

static bool make_vector(bench_mpi_cell_t *cell)
{
    const int blocks = (int)(cell->bytes / BENCH_MPI_BLOCK_BYTES);
    MPI_Type_vector(blocks, BENCH_MPI_BLOCK_BYTES, 2 * BENCH_MPI_BLOCK_BYTES, MPI_BYTE, &cell->type);
    MPI_Type_commit(&cell->type);
    cell->count = 1;
    return true;
}

static void free_vector(bench_mpi_cell_t *cell)
{
    MPI_Type_free(&cell->type);
}

static bool make_requests(bench_mpi_cell_t *cell)
{
    if (cell->peer < 0)
        return true;
    MPI_Send_init(cell->send, cell->count, cell->type, cell->peer, TAG, MPI_COMM_WORLD, &cell->requests[0]);
    MPI_Recv_init(cell->recv, cell->count, cell->type, cell->peer, TAG, MPI_COMM_WORLD, &cell->requests[1]);
    return true;
}

static void free_requests(bench_mpi_cell_t *cell)
{
    for (int i = 0; i < 2 && cell->peer >= 0; i++)
        MPI_Request_free(&cell->requests[i]);
}

static void send_again(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    MPI_Start(&cell->requests[0]);
    MPI_Wait(&cell->requests[0], MPI_STATUS_IGNORE);
}

static void persistent_ping_pong(bench_mpi_cell_t *cell)
{
    MPI_Start(&cell->requests[1]);
    if (cell->first)
        send_again(cell);
    MPI_Wait(&cell->requests[1], MPI_STATUS_IGNORE);
    bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
    if (!cell->first)
        send_again(cell);
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

/* Each message has memory of its own, as MPI demands. By hand all of it goes down, and comes up, in one copy, as a
   program can do whose messages lie side by side; or in one for each message, as all others have to. */
static size_t message_at(const bench_mpi_cell_t *cell, int message)
{
    return (size_t)message * cell->bytes;
}

static void start_sends(const bench_mpi_cell_t *cell, MPI_Request *requests)
{
    const bool each = cell->way == BENCH_MPI_HAND_EACH;
    if (!each)
        bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    for (int i = 0; i < cell->window; i++) {
        if (each)
            bench_mpi_down(cell, message_at(cell, i), cell->bytes);
        MPI_Isend(cell->send + message_at(cell, i), cell->count, cell->type, cell->peer, TAG, MPI_COMM_WORLD,
                  &requests[i]);
    }
}

static void start_receives(const bench_mpi_cell_t *cell, MPI_Request *requests)
{
    for (int i = 0; i < cell->window; i++)
        MPI_Irecv(cell->recv + message_at(cell, i), cell->count, cell->type, cell->peer, TAG, MPI_COMM_WORLD,
                  &requests[i]);
}

static void finish_receives(const bench_mpi_cell_t *cell, MPI_Request *requests)
{
    if (cell->way != BENCH_MPI_HAND_EACH) {
        MPI_Waitall(cell->window, requests, MPI_STATUSES_IGNORE);
        bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
    }
    for (int i = 0; i < cell->window && cell->way == BENCH_MPI_HAND_EACH; i++) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        bench_mpi_up(cell, message_at(cell, i), cell->bytes);
    }
}

/* A window, and a word back, so that the sender's time is that until all has arrived. */
static void send_window(bench_mpi_cell_t *cell)
{
    MPI_Request requests[BENCH_MPI_WINDOW_MAX];
    char word = 0;
    if (cell->first) {
        start_sends(cell, requests);
        MPI_Waitall(cell->window, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(&word, 1, MPI_CHAR, cell->peer, TAG_READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        start_receives(cell, requests);
        finish_receives(cell, requests);
        MPI_Send(&word, 1, MPI_CHAR, cell->peer, TAG_READY, MPI_COMM_WORLD);
    }
}

static void exchange_windows(bench_mpi_cell_t *cell)
{
    MPI_Request sends[BENCH_MPI_WINDOW_MAX], receives[BENCH_MPI_WINDOW_MAX];
    char word = 0, answer;
    start_receives(cell, receives);
    start_sends(cell, sends);
    finish_receives(cell, receives);
    MPI_Waitall(cell->window, sends, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(&word, 1, MPI_CHAR, cell->peer, TAG_READY, &answer, 1, MPI_CHAR, cell->peer, TAG_READY, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* --- what must have arrived --------------------------------------------------------------------------------------- */

static void expect_from_peer(const bench_mpi_cell_t *cell, unsigned char *want)
{
    if (cell->peer >= 0)
        bench_mpi_bytes(want, 0, bench_mpi_recv_bytes(cell), cell->peer, cell->seed);
}

static void expect_at_second(const bench_mpi_cell_t *cell, unsigned char *want)
{
    if (!cell->first)
        expect_from_peer(cell, want);
}

/* The gaps keep what they had. */
static void expect_blocks(const bench_mpi_cell_t *cell, unsigned char *want)
{
    for (size_t at = 0; at < bench_mpi_recv_bytes(cell) && cell->peer >= 0; at += 2 * BENCH_MPI_BLOCK_BYTES)
        bench_mpi_bytes(want + at, at, BENCH_MPI_BLOCK_BYTES, cell->peer, cell->seed);
}

const bench_mpi_kind_t bench_mpi_message_kinds[] = {
    {.name = "latency",
     .unit = BENCH_MPI_US,
     .send = BENCH_MPI_ONE,
     .recv = BENCH_MPI_ONE,
     .pair = true,
     .parts = 2,
     .step = ping_pong,
     .expect = expect_from_peer},
    {.name = "persistent",
     .unit = BENCH_MPI_US,
     .send = BENCH_MPI_ONE,
     .recv = BENCH_MPI_ONE,
     .pair = true,
     .parts = 2,
     .step = persistent_ping_pong,
     .expect = expect_from_peer,
     .begin = make_requests,
     .end = free_requests},
    {.name = "vector",
     .unit = BENCH_MPI_US,
     .send = BENCH_MPI_GAPS,
     .recv = BENCH_MPI_GAPS,
     .pair = true,
     .parts = 2,
     .step = ping_pong,
     .expect = expect_blocks,
     .begin = make_vector,
     .end = free_vector},
    {.name = "bandwidth",
     .unit = BENCH_MPI_GBS,
     .send = BENCH_MPI_WINDOW,
     .recv = BENCH_MPI_WINDOW,
     .pair = true,
     .window = true,
     .parts = 1,
     .step = send_window,
     .expect = expect_at_second},
    {.name = "bidirectional",
     .unit = BENCH_MPI_GBS,
     .send = BENCH_MPI_WINDOW,
     .recv = BENCH_MPI_WINDOW,
     .pair = true,
     .window = true,
     .parts = 2,
     .step = exchange_windows,
     .expect = expect_from_peer},
    {.name = "rate",
     .unit = BENCH_MPI_MILLIONS,
     .send = BENCH_MPI_WINDOW,
     .recv = BENCH_MPI_WINDOW,
     .pair = true,
     .window = true,
     .parts = 1,
     .step = send_window,
     .expect = expect_at_second},
};
