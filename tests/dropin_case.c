/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and random numbers of the tests of the drop-in. */
#include "dropin_case.h"

#include <stdlib.h>

enum { GUARD = 32, LATE_US = 200 };

bool dropin_plain;
dropin_t dropin;

/* If the job may have it: once every rank has shown device memory, at a collective call. */
static void open_fast_route(void)
{
    void *memory;
    CHECK_STATUS(selvage_device_malloc(dropin.device, 64, &memory), SELVAGE_SUCCESS);
    MPI_Sendrecv_replace(memory, 64, MPI_BYTE, dropin.rank, 0, dropin.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    selvage_device_free(dropin.device, memory);
}

void dropin_begin(int argc, char **argv, int level, int *cases_out)
{
    int provided;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &dropin.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &dropin.size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (selvage_device_open_local(NULL, &dropin.device) != SELVAGE_SUCCESS ||
        selvage_stream_create(dropin.device, &dropin.stream) != SELVAGE_SUCCESS) {
        fprintf(stderr, "%s\n", selvage_error_detail());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    open_fast_route();
    dropin.random.state = argc > 1 ? strtoull(argv[1], NULL, 10) * 7919 + 1 : 1;
    *cases_out = argc > 2 ? atoi(argv[2]) : 100;
}

int dropin_end(const char *name)
{
    selvage_stream_destroy(dropin.device, dropin.stream);
    selvage_device_close(dropin.device);
    MPI_Finalize();
    return check_report(name);
}

unsigned dropin_pick(unsigned n)
{
    return datatype_pick(&dropin.random, n);
}

static void copy(void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    CHECK_STATUS(selvage_device_copy(dropin.device, to, from, bytes, direction, dropin.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
}

/* Some time later, on a stream that nobody waits for but a call that knows device memory when it sees it: one that does
   not, on a device whose memory the host can read, sends what was there before, or loses what it received. */
static void fill_late(dropin_buffer_t *b)
{
    CHECK_STATUS(selvage_device_host_malloc(dropin.device, b->bytes, &b->source), SELVAGE_SUCCESS);
    memcpy(b->source, b->memory[1], b->bytes);
    CHECK_STATUS(selvage_device_fill(dropin.device, b->memory[0], 0xee, b->bytes, dropin.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_delay_us(dropin.device, LATE_US, dropin.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(dropin.device, b->memory[0], b->source, b->bytes, SELVAGE_COPY_HOST_TO_DEVICE,
                                     dropin.stream), SELVAGE_SUCCESS);
}

/* Contents are a rank's own: what arrives must not be what was there. */
dropin_buffer_t dropin_buffer(int64_t low, int64_t high, bool device)
{
    static unsigned made;
    size_t bytes = (size_t)(high - low) + 2 * GUARD;
    dropin_buffer_t b = {{NULL, malloc(bytes)}, bytes, (size_t)(GUARD - low), device, NULL};
    uint64_t x = ++made * 0x9e3779b97f4a7c15u + (uint64_t)dropin.rank * 0xd6e8feb86659fd93u;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        b.memory[1][i] = (uint8_t)(x >> 59); /* small, so that sums of integers stay numbers */
    }
    if (device) {
        CHECK_STATUS(selvage_device_malloc(dropin.device, bytes, (void **)&b.memory[0]), SELVAGE_SUCCESS);
        fill_late(&b);
    } else {
        b.memory[0] = malloc(bytes);
        memcpy(b.memory[0], b.memory[1], bytes);
    }
    return b;
}

dropin_buffer_t dropin_buffer_of(int64_t count, MPI_Datatype type, bool device)
{
    MPI_Aint lb, extent, low, span;
    PMPI_Type_get_extent(type, &lb, &extent);
    PMPI_Type_get_true_extent(type, &low, &span);
    int64_t reach = count > 0 ? (count - 1) * extent : 0;
    return dropin_buffer(low + (reach < 0 ? reach : 0), low + span + (reach > 0 ? reach : 0), device);
}

void *dropin_argument(const dropin_buffer_t *buffer)
{
    return buffer->memory[dropin_plain] + buffer->origin;
}

void dropin_drop(dropin_buffer_t *b)
{
    if (b->device) {
        CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
        selvage_device_free(dropin.device, b->memory[0]);
        selvage_device_host_free(dropin.device, b->source);
    } else
        free(b->memory[0]);
    free(b->memory[1]);
}

bool dropin_same(dropin_buffer_t *b)
{
    uint8_t *seen = b->memory[0];
    if (b->device) {
        seen = malloc(b->bytes);
        copy(seen, b->memory[0], b->bytes, SELVAGE_COPY_DEVICE_TO_HOST);
    }
    bool same = memcmp(seen, b->memory[1], b->bytes) == 0;
    for (size_t i = 0; !same && i < b->bytes; i++)
        if (seen[i] != b->memory[1][i]) {
            fprintf(stderr, "rank %d: byte %lld of %zu is %d, not %d\n", dropin.rank,
                    (long long)i - (long long)b->origin, b->bytes, seen[i], b->memory[1][i]);
            break;
        }
    if (b->device)
        free(seen);
    dropin_drop(b);
    return same;
}

int dropin_class(int code)
{
    int class = -1;
    PMPI_Error_class(code, &class);
    return class;
}
