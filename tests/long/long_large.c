/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * long_large [NAME...]: between two ranks, one call that moves 2 to 5 GiB, by every kind of call of the library that
 * takes a length: messages, collectives, exchanges, halos, packing plans. Each byte that comes is compared; each
 * 8-byte word of a buffer says which one it is, so that a length or an offset of 32 bits shows. The software device's
 * memory is the host's to read, which is what this test needs. At most 18 GiB of memory at a time.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <selvage.h>

#include "fixtures/check.h"

static const size_t GIB = (size_t)1 << 30;
enum { ROW = 1 << 20, GAP = 1 << 16, STRIDE = ROW + GAP, ROWS = 2100, ODD = 13, UNTOUCHED = 0xee };

typedef struct run {
    selvage_comm_t *comm;
    selvage_device_t *dev;
    int rank, other;
} run_t;

/* --- memory ------------------------------------------------------------------------------------------------------- */

static uint64_t word_of(size_t i, int salt)
{
    return ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)salt * 0x100000001b3u;
}

static uint8_t *take_memory(const run_t *run, size_t bytes, bool device)
{
    void *memory = NULL;
    if (device)
        CHECK_STATUS(selvage_device_malloc(run->dev, bytes, &memory), SELVAGE_SUCCESS);
    else
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!memory || memory == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

static void free_memory(const run_t *run, uint8_t *memory, size_t bytes, bool device)
{
    if (device)
        selvage_device_free(run->dev, memory);
    else
        munmap(memory, bytes);
}

/* The words from number `first` on. */
static void fill_words(uint8_t *memory, size_t bytes, size_t first, int salt)
{
    size_t i = 0;
    for (; i < bytes / 8; i++) {
        const uint64_t word = word_of(first + i, salt);
        memcpy(memory + 8 * i, &word, 8);
    }
    const uint64_t last = word_of(first + i, salt);
    memcpy(memory + 8 * i, &last, bytes % 8);
}

static void check_words(const uint8_t *memory, size_t bytes, size_t first, int salt)
{
    size_t wrong = 0, i = 0;
    for (; i < bytes / 8; i++) {
        uint64_t word;
        memcpy(&word, memory + 8 * i, 8);
        wrong += word != word_of(first + i, salt);
    }
    const uint64_t last = word_of(first + i, salt);
    wrong += memcmp(memory + 8 * i, &last, bytes % 8) != 0;
    CHECK_EQ(wrong, 0);
}

/* ROWS rows of ROW bytes with gaps between them. */
static MPI_Datatype make_rows(void)
{
    MPI_Datatype type;
    MPI_Type_create_hvector(ROWS, ROW, STRIDE, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

static const size_t ROWS_BYTES = (size_t)STRIDE * (ROWS - 1) + ROW;

static void fill_rows(uint8_t *memory, int salt)
{
    memset(memory, UNTOUCHED, ROWS_BYTES);
    for (size_t i = 0; i < ROWS; i++)
        fill_words(memory + i * STRIDE, ROW, i * (ROW / 8), salt);
}

static void check_rows(const uint8_t *memory, int salt)
{
    int written = 0;
    for (size_t i = 0; i < ROWS; i++) {
        check_words(memory + i * STRIDE, ROW, i * (ROW / 8), salt);
        for (size_t k = ROW; i < ROWS - 1 && k < STRIDE; k++)
            written += memory[i * STRIDE + k] != UNTOUCHED;
    }
    CHECK_EQ(written, 0);
}

/* What comes is ordered by the stream. */
static void sync_device(const run_t *run)
{
    CHECK_STATUS(selvage_stream_synchronize(run->dev, NULL), SELVAGE_SUCCESS);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

/* From rank 0 to rank 1, which first probes it. */
static void pass_message(const run_t *run, size_t bytes, bool device)
{
    uint8_t *memory = take_memory(run, bytes, device);
    selvage_message_status_t status;
    if (run->rank == 0) {
        fill_words(memory, bytes, 0, 1);
        CHECK_STATUS(selvage_message_send(run->comm, memory, bytes, MPI_BYTE, 1, 7, NULL), SELVAGE_SUCCESS);
    } else {
        CHECK_STATUS(selvage_message_probe(run->comm, 0, 7, &status), SELVAGE_SUCCESS);
        CHECK_EQ(status.bytes, bytes);
        CHECK_STATUS(selvage_message_recv(run->comm, memory, bytes, MPI_BYTE, 0, 7, NULL, &status), SELVAGE_SUCCESS);
        CHECK_EQ(status.bytes, bytes);
        sync_device(run);
        check_words(memory, bytes, 0, 1);
    }
    free_memory(run, memory, bytes, device);
}

static void check_message(const run_t *run)
{
    pass_message(run, 5 * GIB + ODD, true);
}

static void check_message_host(const run_t *run)
{
    pass_message(run, 5 * GIB + ODD, false);
}

static void check_message_rows(const run_t *run)
{
    uint8_t *memory = take_memory(run, ROWS_BYTES, true);
    MPI_Datatype type = make_rows();
    fill_rows(memory, run->rank);
    if (run->rank == 0)
        CHECK_STATUS(selvage_message_send(run->comm, memory, 1, type, 1, 7, NULL), SELVAGE_SUCCESS);
    else
        CHECK_STATUS(selvage_message_recv(run->comm, memory, 1, type, 0, 7, NULL, NULL), SELVAGE_SUCCESS);
    sync_device(run);
    check_rows(memory, 0);
    MPI_Type_free(&type);
    free_memory(run, memory, ROWS_BYTES, true);
}

/* A receive of as many bytes as the message has modulo 2^32: nothing may come. */
static void check_message_too_long(const run_t *run)
{
    const size_t bytes = 4 * GIB + 4096, room = run->rank == 0 ? bytes : 4096;
    uint8_t *memory = take_memory(run, room, true);
    selvage_message_status_t status = {0};
    memset(memory, UNTOUCHED, room);
    if (run->rank == 0) {
        selvage_message_send(run->comm, memory, bytes, MPI_BYTE, 1, 7, NULL);
    } else {
        CHECK_STATUS(selvage_message_recv(run->comm, memory, room, MPI_BYTE, 0, 7, NULL, &status),
                     SELVAGE_ERR_TRUNCATED);
        CHECK_EQ(status.bytes, bytes);
        for (size_t i = 0; i < room; i++)
            CHECK(memory[i] == UNTOUCHED);
    }
    free_memory(run, memory, room, true);
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

static void finish_call(const run_t *run, selvage_coll_t *coll)
{
    sync_device(run);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
}

static void check_sum(const uint8_t *memory, size_t bytes, size_t first)
{
    size_t wrong = 0;
    for (size_t i = 0; i < bytes / 8; i++) {
        const uint64_t a = word_of(first + i, 0), b = word_of(first + i, 1);
        uint8_t wanted[8];
        for (int k = 0; k < 8; k++)
            wanted[k] = (uint8_t)((a >> 8 * k) + (b >> 8 * k));
        wrong += memcmp(memory + 8 * i, wanted, 8) != 0;
    }
    CHECK_EQ(wrong, 0);
}

static void check_all_reduce(const run_t *run, selvage_coll_t *coll)
{
    const size_t bytes = 2 * GIB + 4096;
    uint8_t *memory = take_memory(run, bytes, true);
    fill_words(memory, bytes, 0, run->rank);
    CHECK_STATUS(selvage_coll_all_reduce(coll, memory, memory, bytes, SELVAGE_UINT8, SELVAGE_OP_SUM, NULL),
                 SELVAGE_SUCCESS);
    finish_call(run, coll);
    check_sum(memory, bytes, 0);
    free_memory(run, memory, bytes, true);
}

static void check_reduce_scatter(const run_t *run, selvage_coll_t *coll)
{
    const size_t part = GIB + GIB / 8;
    uint8_t *memory = take_memory(run, 2 * part, true), *mine = take_memory(run, part, true);
    fill_words(memory, 2 * part, 0, run->rank);
    CHECK_STATUS(selvage_coll_reduce_scatter(coll, memory, mine, part, SELVAGE_UINT8, SELVAGE_OP_SUM, NULL),
                 SELVAGE_SUCCESS);
    finish_call(run, coll);
    check_sum(mine, part, (size_t)run->rank * part / 8);
    free_memory(run, memory, 2 * part, true);
    free_memory(run, mine, part, true);
}

static void check_all_gather(const run_t *run, selvage_coll_t *coll)
{
    const size_t part = 2 * GIB + 8;
    uint8_t *memory = take_memory(run, 2 * part, true), *mine = memory + (size_t)run->rank * part;
    fill_words(mine, part, 0, run->rank);
    CHECK_STATUS(selvage_coll_all_gather(coll, mine, memory, part, SELVAGE_UINT8, NULL), SELVAGE_SUCCESS);
    finish_call(run, coll);
    check_words(memory, part, 0, 0);
    check_words(memory + part, part, 0, 1);
    free_memory(run, memory, 2 * part, true);
}

static void check_broadcast(const run_t *run, selvage_coll_t *coll)
{
    const size_t bytes = 5 * GIB + 8;
    uint8_t *memory = take_memory(run, bytes, true);
    if (run->rank == 1)
        fill_words(memory, bytes, 0, 9);
    CHECK_STATUS(selvage_coll_broadcast(coll, memory, memory, bytes, SELVAGE_UINT8, 1, NULL), SELVAGE_SUCCESS);
    finish_call(run, coll);
    check_words(memory, bytes, 0, 9);
    free_memory(run, memory, bytes, true);
}

static void check_all_to_all(const run_t *run, selvage_coll_t *coll)
{
    const size_t part = GIB + 8;
    uint8_t *out = take_memory(run, 2 * part, true), *in = take_memory(run, 2 * part, true);
    for (int to = 0; to < 2; to++)
        fill_words(out + (size_t)to * part, part, 0, 2 * run->rank + to);
    CHECK_STATUS(selvage_coll_all_to_all(coll, out, in, part, SELVAGE_UINT8, NULL), SELVAGE_SUCCESS);
    finish_call(run, coll);
    for (int from = 0; from < 2; from++)
        check_words(in + (size_t)from * part, part, 0, 2 * from + run->rank);
    free_memory(run, out, 2 * part, true);
    free_memory(run, in, 2 * part, true);
}

static void check_send(const run_t *run, selvage_coll_t *coll)
{
    const size_t bytes = 5 * GIB + 8;
    uint8_t *memory = take_memory(run, bytes, true);
    if (run->rank == 0) {
        fill_words(memory, bytes, 0, 4);
        CHECK_STATUS(selvage_coll_send(coll, memory, bytes, SELVAGE_UINT8, 1, NULL), SELVAGE_SUCCESS);
    } else {
        CHECK_STATUS(selvage_coll_recv(coll, memory, bytes, SELVAGE_UINT8, 0, NULL), SELVAGE_SUCCESS);
    }
    finish_call(run, coll);
    check_words(memory, bytes, 0, 4);
    free_memory(run, memory, bytes, true);
}

static void check_collectives(const run_t *run)
{
    void (*const calls[])(const run_t *, selvage_coll_t *) = {check_all_reduce, check_reduce_scatter, check_all_gather,
                                                              check_broadcast,  check_all_to_all,     check_send};
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_coll_create(run->comm, NULL, &coll), SELVAGE_SUCCESS);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        calls[i](run, coll);
    selvage_coll_destroy(coll);
}

/* --- exchanges, halos, plans -------------------------------------------------------------------------------------- */

static void run_exchange(const run_t *run, selvage_exchange_t *ex)
{
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
    sync_device(run);
}

static void check_exchange_rows(const run_t *run)
{
    uint8_t *memory = take_memory(run, ROWS_BYTES, true);
    MPI_Datatype type = make_rows();
    selvage_exchange_t *ex = NULL;
    uint32_t index;
    fill_rows(memory, run->rank);
    CHECK_STATUS(selvage_exchange_create(run->comm, NULL, &ex), SELVAGE_SUCCESS);
    if (run->rank == 0)
        CHECK_STATUS(selvage_exchange_add_send_type(ex, memory, 1, type, 1, 1, &index), SELVAGE_SUCCESS);
    else
        CHECK_STATUS(selvage_exchange_add_recv_type(ex, memory, 1, type, 0, 1, &index), SELVAGE_SUCCESS);
    run_exchange(run, ex);
    check_rows(memory, 0);
    selvage_exchange_destroy(ex);
    MPI_Type_free(&type);
    free_memory(run, memory, ROWS_BYTES, true);
}

/* Elements of 1 MiB, every other one of 5 GiB. */
static void check_exchange_indexed(const run_t *run)
{
    enum { COUNT = 2100 };
    const size_t span = (size_t)2 * COUNT * ROW;
    int64_t index_of[COUNT];
    uint8_t *memory = take_memory(run, span, true);
    selvage_exchange_t *ex = NULL;
    uint32_t index;
    for (int i = 0; i < COUNT; i++) {
        index_of[i] = 2 * i + 1;
        if (run->rank == 0)
            fill_words(memory + (size_t)index_of[i] * ROW, ROW, (size_t)i * (ROW / 8), 3);
    }
    CHECK_STATUS(selvage_exchange_create(run->comm, NULL, &ex), SELVAGE_SUCCESS);
    if (run->rank == 0)
        CHECK_STATUS(selvage_exchange_add_send_indexed(ex, memory, ROW, index_of, COUNT, 1, 1, &index),
                     SELVAGE_SUCCESS);
    else
        CHECK_STATUS(selvage_exchange_add_recv_indexed(ex, memory, ROW, index_of, COUNT, 0, 1, &index),
                     SELVAGE_SUCCESS);
    run_exchange(run, ex);
    for (int i = 0; i < COUNT; i++)
        check_words(memory + (size_t)index_of[i] * ROW, ROW, (size_t)i * (ROW / 8), 3);
    selvage_exchange_destroy(ex);
    free_memory(run, memory, span, true);
}

/* One row of the block and one of its halo, each longer than 2 GiB. */
static void check_halo(const run_t *run)
{
    const int64_t row = (int64_t)(2 * GIB / 8 + 1000);
    const size_t row_bytes = 8 * (size_t)row;
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {2, row}, .blocks = {2, 1},
                                    .periodic = {1, 0}};
    selvage_grid_t *grid = NULL;
    selvage_halo_t *halo = NULL;
    uint8_t *memory = take_memory(run, 2 * row_bytes, true);
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = memory, .element_bytes = 8, .width_lo = {1, 0}};
    fill_words(memory + row_bytes, row_bytes, 0, run->rank);
    CHECK_STATUS(selvage_grid_create(run->comm, &params, &grid), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_create(grid, NULL, &field, 1, &halo), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_exchange(halo, NULL), SELVAGE_SUCCESS);
    sync_device(run);
    check_words(memory, row_bytes, 0, run->other);
    check_words(memory + row_bytes, row_bytes, 0, run->rank);
    selvage_halo_destroy(halo);
    selvage_grid_destroy(grid);
    free_memory(run, memory, 2 * row_bytes, true);
}

static void check_pack(const run_t *run)
{
    const size_t bytes = (size_t)ROWS * ROW, from = 2 * GIB + 24, part = bytes - from;
    MPI_Datatype type = make_rows();
    selvage_pack_t *pack = NULL;
    if (run->rank == 0) {
        uint8_t *memory = take_memory(run, ROWS_BYTES, true), *packed = take_memory(run, bytes, true);
        fill_rows(memory, 6);
        CHECK_STATUS(selvage_pack_create(run->dev, 1, type, &pack), SELVAGE_SUCCESS);
        CHECK_EQ(selvage_pack_bytes(pack), bytes);
        CHECK_STATUS(selvage_pack_gather(pack, memory, packed, NULL), SELVAGE_SUCCESS);
        sync_device(run);
        check_words(packed, bytes, 0, 6);
        fill_words(packed, bytes, 0, 8);
        CHECK_STATUS(selvage_pack_scatter(pack, packed, bytes, memory, NULL), SELVAGE_SUCCESS);
        sync_device(run);
        check_rows(memory, 8);
        memset(packed, 0, part);
        CHECK_STATUS(selvage_pack_gather_part(pack, memory, from, part, packed, NULL), SELVAGE_SUCCESS);
        sync_device(run);
        check_words(packed, part, from / 8, 8);
        selvage_pack_destroy(pack);
        free_memory(run, memory, ROWS_BYTES, true);
        free_memory(run, packed, bytes, true);
    }
    MPI_Type_free(&type);
    MPI_Barrier(MPI_COMM_WORLD);
}

static const struct large {
    const char *name;
    void (*check)(const run_t *);
} larges[] = {
    {"message", check_message},
    {"message-host", check_message_host},
    {"message-rows", check_message_rows},
    {"message-too-long", check_message_too_long},
    {"collectives", check_collectives},
    {"exchange-rows", check_exchange_rows},
    {"exchange-indexed", check_exchange_indexed},
    {"halo", check_halo},
    {"pack", check_pack},
};

static bool is_asked(const char *name, int argc, char **argv)
{
    bool asked = argc < 2;
    for (int i = 1; i < argc; i++)
        asked |= strcmp(argv[i], name) == 0;
    return asked;
}

int main(int argc, char **argv)
{
    run_t run = {0};
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    run.other = 1 - run.rank;
    CHECK_STATUS(selvage_device_open_local(NULL, &run.dev), SELVAGE_SUCCESS);
    params.device = run.dev;
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, &params, &run.comm), SELVAGE_SUCCESS);
    for (size_t i = 0; i < sizeof larges / sizeof larges[0]; i++) {
        if (!is_asked(larges[i].name, argc, argv))
            continue;
        const double begun_s = MPI_Wtime();
        larges[i].check(&run);
        MPI_Barrier(MPI_COMM_WORLD);
        if (run.rank == 0)
            printf("%s: %.1f s\n", larges[i].name, MPI_Wtime() - begun_s);
        fflush(stdout);
    }
    selvage_comm_destroy(run.comm);
    selvage_device_close(run.dev);
    MPI_Finalize();
    return check_report("long_large");
}
