/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_unmodified WHAT: small programs that know nothing of the drop-in, which is preloaded.
 *   open      ends with requests open: receives that nothing matches, and a send that is never waited for
 *   split     closes files in the midst of split collective calls, and goes on with others
 *   late      sends what the device is still writing
 *   threads   many threads send and receive at the same time
 *   gpus      works with every GPU that it sees, each rank with all of them
 *   early     receives a long message into host memory before it shows MPI any device memory
 *   owed      lets calls block between the beginning and the end of long messages, and begins many before any receive
 *   damaged   goes on when a call with device memory fails, as with damage that is not mended
 *   probes    waits in a thread for a message to come, of which it knows nothing, before it could be an announcement
 *   meets     receives long messages in each way that an announcement must be expected in
 *   levels    has threads in every second rank only
 *   spawn     calls together with as many ranks as it has, not all of which are its own
 *   requests  asks of requests, gives them up, and has some refused or too short
 *   again     has threads that start persistent receives of their own
 *   many      has many requests open while it tests another one
 *   attributes  counts whether its attributes are copied and its error handler is called
 *   refused   makes calls on one rank that MPI refuses there
 *   lopsided  has no stream for collectives on one of the ranks, or of those of a communicator
 *   ledger    counts what the drop-in makes of MPI's objects, and what it frees
 *   pinned    counts how often memory is pinned for more and more messages at once
 *   sums      reduces elements of many types
 *   numbers   reduces elements of every type by every operation
 *   reduced   reduces and broadcasts by calls that do not block
 *   unheard   makes calls on one rank that MPI refuses there, with much in them
 *   blocks    gathers and scatters blocks of many kinds; makes such calls that MPI refuses on one rank, or that fail
 *   ending    sends and receives in MPI_Finalize, as a library that ends there
 *   fragments  sends long messages in all ways, and does other things between their beginning and their end
 *   among     adds up on communicators of some of the ranks, and of all in another order
 *   beside, parts  add up on communicators of some ranks, whose others have host memory only or come to it later
 *   adders    has threads that add up on communicators of their own
 *   lists     completes requests of long lists, and compares what that costs with MPI's own calls
 *   looks     probes, and sends what is like an announcement
 *   orphans   frees receives whose messages are sent when it has ended
 *   stuck     sends while a kernel is at work that does not end
 *   moved     names device memory by its types, from MPI_BOTTOM
 *   apart     names two allocations with a hole between them in one call
 *   errors    makes calls that MPI refuses, and prints how they end
 *   short     receives what is too long, and what has room
 *   mixed     has a thread in collective calls while another one opens the route
 *   field     sends columns of a field, and receives others of it in the same call
 *   stopped   adds up again and again while one rank stands still for a while
 *   thread    completes a request past the drop-in, by PMPI_Wait: with SELVAGE_PROGRESS=thread that ends
 *   cost      prints what a call with host buffers costs more, and what one message does
 *   support   prints what MPI says of its support for device memory
 * UNMODIFIED_RUNTIME=FILE: the GPU's runtime, which it loads before it shows MPI any memory.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "fixtures/dropin_route.h"
#include "fixtures/mpi_habits.h"
#include "dropin_unmodified.h"

enum { THREADS = 4, ROUNDS = 30, PROBES = 2000000 };

unmodified_t the;

void *device_bytes(size_t bytes)
{
    void *made = NULL;
    CHECK_STATUS(selvage_device_malloc(the.device, bytes, &made), SELVAGE_SUCCESS);
    return made;
}

static void run_open(void)
{
    MPI_Request request[3];
    MPI_Irecv(the.in, BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Irecv(the.in, BYTES, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &request[1]);
    MPI_Isend(the.out, BYTES, MPI_BYTE, the.right, 3, MPI_COMM_WORLD, &request[2]);
    MPI_Recv(the.pinned, BYTES, MPI_BYTE, the.left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* A file's handle may be given out again: to host memory first, then to the device's, which nobody ends either. */
static void run_split(void)
{
    char name[] = "/tmp/selvage-split-XXXXXX";
    void *const memory[] = {the.out, the.pinned, the.out};
    int made = mkstemp(name);
    CHECK(made >= 0);
    close(made);
    for (int i = 0; i < 3; i++) {
        MPI_File file;
        MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        CHECK_EQ(MPI_File_write_all_begin(file, memory[i], BYTES, MPI_BYTE), MPI_SUCCESS);
        if (i == 1)
            CHECK_EQ(MPI_File_write_all_end(file, memory[i], MPI_STATUS_IGNORE), MPI_SUCCESS);
        MPI_File_close(&file);
    }
    unlink(name);
}

static void run_late(void)
{
    selvage_device_delay_us(the.device, 100000, the.stream);
    selvage_device_fill(the.device, the.out, 7, BYTES, the.stream);
    MPI_Sendrecv(the.out, BYTES, MPI_BYTE, the.right, 1, the.pinned, BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK_EQ(((unsigned char *)the.pinned)[BYTES - 1], 7);
}

/* Each thread has its own tag and memory. */
static void *run_one_thread(void *arg)
{
    int tag = (int)(intptr_t)arg;
    unsigned char *out = device_bytes(BYTES), *in = device_bytes(BYTES), *seen = (unsigned char *)the.pinned + tag;
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(the.device, &stream), SELVAGE_SUCCESS);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request request[2];
        selvage_device_fill(the.device, out, tag * 40 + i + the.rank, BYTES, stream);
        MPI_Irecv(in, BYTES, MPI_BYTE, the.left, tag, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(out, BYTES, MPI_BYTE, the.right, tag, MPI_COMM_WORLD, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        selvage_device_copy(the.device, seen, in + BYTES - 1, 1, SELVAGE_COPY_DEVICE_TO_HOST, stream);
        selvage_stream_synchronize(the.device, stream);
        CHECK_EQ(*seen, (tag * 40 + i + the.left) % 256);
    }
    selvage_stream_destroy(the.device, stream);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
    return NULL;
}

/* Each thread packs into its own part of one stream, which is the device's. */
static void *pack_one_part(void *arg)
{
    enum { PART = 64, PACKS = 500 };
    const int part = (int)(intptr_t)arg * PART;
    int lost = 0;
    for (int i = 0; i < PACKS; i++) {
        unsigned char out[PART], in[PART] = {0};
        int position = part;
        memset(out, i % 251, PART);
        CHECK_EQ(MPI_Pack(out, PART, MPI_BYTE, the.out, BYTES, &position, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK_EQ(position, part + PART);
        position = part;
        CHECK_EQ(MPI_Unpack(the.out, BYTES, &position, in, PART, MPI_BYTE, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK_EQ(position, part + PART);
        lost += memcmp(out, in, PART) != 0;
    }
    CHECK_EQ(lost, 0);
    int position = BYTES - PART + 1; /* one byte less than there must be */
    char out[PART] = "";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int there = position;
    void *plain = malloc(BYTES + PART); /* MPICH does not look, and packs all */
    if (mpi_errors_return() &&
        PMPI_Pack(out, PART, MPI_BYTE, plain, BYTES, &there, MPI_COMM_WORLD) != MPI_SUCCESS) {
        CHECK(MPI_Pack(out, PART, MPI_BYTE, the.out, BYTES, &position, MPI_COMM_WORLD) != MPI_SUCCESS);
        CHECK_EQ(position, there);
    }
    free(plain);
    return NULL;
}

static void run_threads(void)
{
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, pack_one_part, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, run_one_thread, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* --- several GPUs ------------------------------------------------------------------------------------------------- */

enum { GPUS_MAX = 8, LARGE = 1 << 18, COLUMN = 64 };

typedef struct gpu {
    selvage_device_t *device;
    void *stream;
    unsigned char *out, *in;
} gpu_t;

/* The one with this number: as the launcher's local rank, which the test takes for its own. A program that counts on
   its default streams alone uses them. */
static void open_gpu(gpu_t *gpu, int number)
{
    char text[12];
    const char *waits = getenv("SELVAGE_DROPIN_SYNC");
    snprintf(text, sizeof text, "%d", number);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", text, 1);
    CHECK_STATUS(selvage_device_open_local(NULL, &gpu->device), SELVAGE_SUCCESS);
    gpu->stream = NULL;
    if (waits && strcmp(waits, "default") != 0)
        CHECK_STATUS(selvage_stream_create(gpu->device, &gpu->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(gpu->device, LARGE, (void **)&gpu->out), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(gpu->device, LARGE, (void **)&gpu->in), SELVAGE_SUCCESS);
    selvage_device_fill(gpu->device, gpu->in, 0, LARGE, gpu->stream);
    CHECK_STATUS(selvage_stream_synchronize(gpu->device, gpu->stream), SELVAGE_SUCCESS);
}

static int byte_at(const gpu_t *gpu, size_t at)
{
    unsigned char *seen = the.pinned;
    selvage_device_copy(gpu->device, seen, gpu->in + at, 1, SELVAGE_COPY_DEVICE_TO_HOST, gpu->stream);
    selvage_stream_synchronize(gpu->device, gpu->stream);
    return *seen;
}

/* What from's GPU has not stored yet, into memory of to's: as bytes, and as a column. */
static void pass_on(const gpu_t *from, const gpu_t *to, int value)
{
    MPI_Datatype column;
    MPI_Type_vector(LARGE / COLUMN, 1, COLUMN, MPI_BYTE, &column);
    MPI_Type_commit(&column);
    selvage_device_delay_us(from->device, 20000, from->stream);
    selvage_device_fill(from->device, from->out, value, LARGE, from->stream);
    MPI_Sendrecv(from->out, LARGE, MPI_BYTE, the.right, 1, to->in, LARGE, MPI_BYTE, the.left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK_EQ(byte_at(to, 0), value);
    CHECK_EQ(byte_at(to, LARGE - 1), value);
    selvage_device_delay_us(from->device, 20000, from->stream);
    selvage_device_fill(from->device, from->out, value + 1, LARGE, from->stream);
    MPI_Sendrecv(from->out, 1, column, the.right, 2, to->in, 1, column, the.left, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK_EQ(byte_at(to, LARGE - COLUMN), value + 1);
    CHECK_EQ(byte_at(to, LARGE - COLUMN + 1), value);
    MPI_Type_free(&column);
}

/* Requests for memory of two GPUs that end together, and a reduction from one to the other. */
static void pass_together(const gpu_t *gpu, int n, int value)
{
    MPI_Request request[2 * GPUS_MAX];
    selvage_device_fill(gpu[0].device, gpu[0].out, value, LARGE, gpu[0].stream);
    MPI_Allreduce(gpu[0].out, gpu[n - 1].in, LARGE, MPI_UINT8_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQ(byte_at(&gpu[n - 1], 7), value * the.ranks % 256);
    for (int i = 0; i < n; i++) {
        selvage_device_fill(gpu[i].device, gpu[i].out, value + i, LARGE, gpu[i].stream);
        MPI_Irecv(gpu[i].in, LARGE, MPI_BYTE, the.left, i, MPI_COMM_WORLD, &request[2 * i]);
        MPI_Isend(gpu[i].out, LARGE, MPI_BYTE, the.right, i, MPI_COMM_WORLD, &request[2 * i + 1]);
    }
    MPI_Waitall(2 * n, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n; i++)
        CHECK_EQ(byte_at(&gpu[i], LARGE - 1), value + i);
}

/* A message that is shorter than its room. */
static void pass_short(const gpu_t *from, const gpu_t *to)
{
    MPI_Request request;
    selvage_device_fill(from->device, from->out, 90, LARGE, from->stream);
    selvage_device_fill(to->device, to->in, 91, LARGE, to->stream);
    MPI_Isend(from->out, LARGE / 2, MPI_BYTE, the.right, 1, MPI_COMM_WORLD, &request);
    MPI_Recv(to->in, LARGE, MPI_BYTE, the.left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQ(byte_at(to, LARGE / 2 - 1), 90);
    CHECK_EQ(byte_at(to, LARGE / 2), 91);
}

/* Persistent requests, of elements at absolute addresses. */
static void pass_again(const gpu_t *from, const gpu_t *to, int value)
{
    MPI_Request request[2];
    MPI_Datatype side[2];
    MPI_Aint out, in;
    int length = LARGE / COLUMN;
    MPI_Get_address(from->out, &out);
    MPI_Get_address(to->in, &in);
    MPI_Type_create_hvector(COLUMN / 2, length, length * 2, MPI_BYTE, &side[1]);
    MPI_Type_create_hindexed(1, (int[]){1}, &out, side[1], &side[0]);
    MPI_Type_free(&side[1]);
    MPI_Type_create_hindexed(1, (int[]){LARGE / 2}, &in, MPI_BYTE, &side[1]);
    MPI_Type_commit(&side[0]);
    MPI_Type_commit(&side[1]);
    MPI_Recv_init(MPI_BOTTOM, 1, side[1], the.left, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Send_init(MPI_BOTTOM, 1, side[0], the.right, 1, MPI_COMM_WORLD, &request[1]);
    for (int i = 0; i < 3; i++) {
        selvage_device_fill(from->device, from->out, value + i, LARGE, from->stream);
        MPI_Startall(2, request);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        CHECK_EQ(byte_at(to, 0), value + i);
        CHECK_EQ(byte_at(to, LARGE / 2 - 1), value + i);
        MPI_Request sent;
        MPI_Isend(MPI_BOTTOM, 1, side[0], the.right, 2, MPI_COMM_WORLD, &sent);
        MPI_Recv(to->in, LARGE / 2, MPI_BYTE, the.left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Request_free(&request[i]);
        MPI_Type_free(&side[i]);
    }
}

static void run_gpus(void)
{
    gpu_t gpu[GPUS_MAX];
    int n = 0;
    MPI_Sendrecv(the.out, BYTES, MPI_BYTE, the.right, 1, the.in, BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE); /* each rank begins with its own */
    CHECK_STATUS(selvage_device_probe(selvage_device_name(the.device), &n), SELVAGE_SUCCESS);
    n = n < GPUS_MAX ? n : GPUS_MAX;
    for (int i = 0; i < n; i++)
        open_gpu(&gpu[i], i);
    for (int i = 0; i < n * n; i++) {
        selvage_device_make_current(gpu[i % 3 % n].device);
        pass_on(&gpu[i / n], &gpu[i % n], 3 + 2 * i);
    }
    pass_together(gpu, n, 50);
    for (int i = 0; i < n * n; i++) {
        pass_short(&gpu[i / n], &gpu[i % n]);
        pass_again(&gpu[i / n], &gpu[i % n], 100 + i);
    }
    printf("%d GPUs\n", n);
    for (int i = 0; i < n; i++) {
        selvage_device_free(gpu[i].device, gpu[i].out);
        selvage_device_free(gpu[i].device, gpu[i].in);
        selvage_stream_destroy(gpu[i].device, gpu[i].stream);
        selvage_device_close(gpu[i].device);
    }
}

static void run_thread(void)
{
    MPI_Request request[2];
    selvage_device_fill(the.device, the.out, 9, BYTES, the.stream);
    MPI_Irecv(the.in, BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(the.out, BYTES, MPI_BYTE, the.right, 1, MPI_COMM_WORLD, &request[1]);
    PMPI_Wait(&request[0], MPI_STATUS_IGNORE);
    PMPI_Wait(&request[1], MPI_STATUS_IGNORE);
    selvage_device_copy(the.device, the.pinned, the.in, BYTES, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    CHECK_EQ(((unsigned char *)the.pinned)[BYTES - 1], 9);
}

/* To nobody: the call and nothing else. */
static double call_ns(int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm))
{
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        double begin = MPI_Wtime();
        for (int i = 0; i < PROBES / 10; i++)
            send(the.pinned, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
        double took = (MPI_Wtime() - begin) * 1e9 / (PROBES / 10);
        best = took < best ? took : best;
    }
    return best;
}

static void run_cost(void)
{
    char host[64] = "";
    the.pinned = host;
    MPI_Send(the.out, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD); /* the device is open from here on */
    double plain = call_ns(PMPI_Send), wrapped = call_ns(MPI_Send);
    if (the.rank == 0)
        printf("cost of an untouched call: %.1f ns beside %.1f ns\n", wrapped - plain, plain);
    CHECK(wrapped - plain < 1000); /* a bound that holds on any machine */
}

int MPIX_Query_cuda_support(void) __attribute__((weak));
int MPIX_Query_rocm_support(void) __attribute__((weak));

/* Before MPI says so, the launcher says which rank this is. */
static int wanted_level(int argc, char **argv)
{
    const char *mpich = getenv("PMI_RANK"), *open = getenv("OMPI_COMM_WORLD_RANK"), *rank = open ? open : mpich;
    const bool odd = rank && atoi(rank) % 2 == 1;
    static const char *const singles[] = {"spawned-job", "blocks-of-each-kind", "sums-of-some-ranks",
                                          "sums-beside-writer", "sums-by-parts", "one-rank-of-some-lacks-collectives",
                                          "refused-collective-on-rank-0", "neighbors-of-each-kind",
                                          "neighbors-and-barriers", "neighbors-apart", "refused-neighbors-on-rank-0",
                                          "damaged-neighbors", "calls-that-do-not-block",
                                          "calls-that-do-not-block-alone"};
    bool alone = argc > 1 && ((odd && strcmp(argv[1], "ranks-without-threads") == 0 && mpi_bears_mixed_levels()) ||
                              strncmp(argv[1], "channels-", sizeof "channels-" - 1) == 0 ||
                              strncmp(argv[1], "fragments-", sizeof "fragments-" - 1) == 0);
    for (size_t i = 0; i < sizeof singles / sizeof singles[0] && argc > 1; i++)
        alone = alone || strcmp(argv[1], singles[i]) == 0;
    const bool in_turn = argc > 1 && strcmp(argv[1], "threads-in-turn") == 0;
    return alone ? MPI_THREAD_SINGLE : in_turn ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
}

/* Programs in which MPI refuses calls, and goes on. */
static bool is_refused(const char *name)
{
    static const char *const refused[] = {
        "refused-on-one-rank", "refused-collective-on-rank-0", "refused-blocks-on-rank-0",
        "refused-neighbors-on-rank-0", "refused-as-without-the-drop-in", "channels-persistent-refused",
        "channels-and-a-refused-call", "channels-reduced-refused", "reductions-of-each-type",
        "reductions-begun-of-each-type", "fragments-too-long"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (strcmp(name, refused[i]) == 0)
            return true;
    return false;
}

static void await_route(void (*before_each)(void))
{
    enum { LONG_BYTES = 1 << 18 };
    void *memory = device_bytes(LONG_BYTES);
    dropin_await_route(memory, LONG_BYTES, before_each);
    selvage_device_free(the.device, memory);
}

static void add_on_device(void)
{
    MPI_Allreduce(the.out, the.in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

void open_fast_route(void)
{
    await_route(add_on_device);
}

void open_fast_pairs(void)
{
    await_route(NULL);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } runs[] = {
        {"open-requests-at-finalize", run_open},
        {"split-calls-at-finalize", run_split},
        {"device-writes-late", run_late},
        {"thread-per-tag", run_threads},
        {"several-gpus", run_gpus},
        {"first-message-by-request", run_early},
        {"no-collective-calls", run_pairs},
        {"sends-fill-slots", run_owed},
        {"damaged-for-good", run_damaged},
        {"probe-announced", run_probes},
        {"recv-announced-into-any-memory", run_meets},
        {"ranks-without-threads", run_levels},
        {"spawned-job", run_spawn},
        {"progress-thread", run_thread},
        {"cost-of-untouched-call", run_cost},
        {"requests-of-each-kind", run_requests},
        {"persistent-recvs-of-threads", run_again},
        {"persistent-sends", run_repeats},
        {"many-open-requests", run_many},
        {"most-open-requests", run_most},
        {"stopped-rank", run_stopped},
        {"attributes-untouched", run_attributes},
        {"refused-on-one-rank", run_refused},
        {"one-rank-lacks-collectives", run_lopsided},
        {"one-rank-of-some-lacks-collectives", run_lopsided_part},
        {"memory-named-by-types", run_moved},
        {"no-mpi-objects-left", run_ledger},
        {"pinned-memory-bounded", run_pinned},
        {"idle-memory-given-back", run_given_back},
        {"sums-of-each-type", run_sums},
        {"reductions-of-each-type", run_numbers},
        {"sums-of-some-ranks", run_sums_among},
        {"sums-beside-writer", run_sums_beside_writer},
        {"sums-by-parts", run_sums_by_parts},
        {"refused-collective-on-rank-0", run_unheard},
        {"blocks-of-each-kind", run_blocks},
        {"blocks-and-threads", run_blocks},
        {"refused-blocks-on-rank-0", run_blocks_unheard},
        {"damaged-blocks", run_blocks_damaged},
        {"calls-that-do-not-block", run_begun},
        {"calls-that-do-not-block-alone", run_begun_alone},
        {"channels-and-a-rank-ahead", run_channels_ahead},
        {"channels-and-a-refused-call", run_channels_refused},
        {"channels-freed", run_channels_freed},
        {"channels-at-finalize", run_channels_ending},
        {"channels-interleaved", run_channels_interleaved},
        {"channels-reduced", run_reduced},
        {"channels-reduced-apart", run_reduced_apart},
        {"channels-reduced-after-work", run_reduced_after_work},
        {"channels-reduced-many", run_reduced_many},
        {"channels-reduced-refused", run_reduced_refused},
        {"channels-reduced-at-finalize", run_reduced_ending},
        {"channels-reduced-damaged", run_reduced_damaged},
        {"channels-persistent", run_persistent},
        {"channels-persistent-freed", run_persistent_freed},
        {"channels-persistent-refused", run_persistent_refused},
        {"channels-persistent-damaged", run_persistent_damaged},
        {"persistent-calls-of-threads", run_persistent_threads},
        {"reductions-begun-of-each-type", run_numbers_begun},
        {"neighbors-of-each-kind", run_neighbors},
        {"neighbors-and-barriers", run_neighbors_and_barriers},
        {"neighbors-apart", run_neighbors_apart},
        {"refused-neighbors-on-rank-0", run_neighbors_unheard},
        {"damaged-neighbors", run_neighbors_damaged},
        {"attribute-deleted-at-finalize", run_ending},
        {"blocks-with-a-hole", run_apart},
        {"sums-of-several-threads", run_adders},
        {"recv-ended-past-the-drop-in", run_looks},
        {"freed-recvs-at-finalize", run_orphans},
        {"send-beside-waiting-kernel", run_stuck},
        {"refused-as-without-the-drop-in", run_errors},
        {"recv-too-short", run_short},
        {"recv-too-short-among-others", run_among},
        {"route-opens-in-collective", run_mixed},
        {"columns-of-one-field", run_field},
        {"long-request-lists", run_lists},
        {"calls-in-error-handler", run_nested},
        {"requests-of-other-thread", run_listener},
        {"fragments-in-each-way", run_fragments},
        {"fragments-matched", run_fragments_matched},
        {"fragments-of-host", run_fragments_of_host},
        {"fragments-and-blocked-calls", run_fragments_meet},
        {"fragments-in-turn", run_fragments_in_turn},
        {"fragments-too-long", run_fragments_short},
        {"fragments-freed", run_fragments_freed},
        {"fragments-timed", run_fragments_timed},
        {"freed-sends", run_freed},
        {"buffered-sends", run_buffered},
        {"threads-in-turn", run_turns},
    };
    const char *runtime = getenv("UNMODIFIED_RUNTIME");
    int provided, settings[3] = {0};
    MPI_Init_thread(&argc, &argv, wanted_level(argc, argv), &provided);
    the.program = argv[0];
    MPI_Comm_rank(MPI_COMM_WORLD, &the.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &the.ranks);
    the.right = (the.rank + 1) % the.ranks;
    the.left = (the.rank + the.ranks - 1) % the.ranks;
    if (runtime) /* programs are linked with it */
        CHECK(dlopen(runtime, RTLD_NOW) != NULL);
    MPI_Bcast(settings, 3, MPI_INT, 0, MPI_COMM_WORLD); /* as they do before they choose a GPU */
    CHECK_STATUS(selvage_device_open_local(NULL, &the.device), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(the.device, &the.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_host_malloc(the.device, BYTES, &the.pinned), SELVAGE_SUCCESS);
    the.out = device_bytes(BYTES);
    the.in = device_bytes(BYTES);
    selvage_device_fill(the.device, the.out, 0, BYTES, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    bool known = argc < 2 || strcmp(argv[1], "support-query") == 0;
    for (size_t i = 0; argc > 1 && i < sizeof runs / sizeof runs[0]; i++)
        if (strcmp(argv[1], runs[i].name) == 0) {
            known = true;
            if (!is_refused(argv[1]) || !mpi_leaves_out_refusals(the.rank))
                runs[i].run();
        }
    CHECK(known);
    if (argc > 1 && strcmp(argv[1], "support-query") == 0)
        printf("cuda %d rocm %d\n", MPIX_Query_cuda_support && MPIX_Query_cuda_support(),
               MPIX_Query_rocm_support && MPIX_Query_rocm_support());
    MPI_Finalize();
    if (the.after)
        the.after();
    return check_report("dropin_unmodified");
}
