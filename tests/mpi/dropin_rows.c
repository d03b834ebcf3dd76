/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_rows WHAT [SEED]: rank 0 sends short pieces of device memory that lie in some way to each other, and rank 1
 * receives them into pieces that do. Everything around what came stays as it was. A script counts the copies.
 *   adjacent    each piece begins where the one before ends, at either end
 *   long        the same, of so much that one copy is not for all
 *   same        one piece again and again, and a part of it
 *   parts       adjacent, with a part of each piece once more
 *   overlaps    each piece begins in the middle of the one before
 *   apart       with gaps between them
 *   backwards   each ends where the one before begins
 *   fields      three rows by turns, as of a field each
 *   short       adjacent, but messages are shorter than what is posted
 *   borders     adjacent pieces of different allocations
 *   order       work of the default stream writes each piece just before its send, and a kernel after the last send
 *               ends only when the messages have come
 *   truncated   one of the messages is too long for its receive, and one is cancelled
 *   kept        a part is sent once more, and received long after the send that it is a part of is complete
 *   refused     adjacent, on a device that copies no more than one of them at a time
 *   broken      the same, on a device that copies nothing
 *   threads     adjacent ones of several threads, which take turns
 *   random      any of these lists, of any lengths
 * Exit status 0 if all is right, 77 for order without a software device.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixtures/dropin_case.h"

enum { MOST = 256, MEMORY_BYTES = 4 << 20, COUNT = 64, BYTES = 520, READY = 1, SENT = 2 };

/* Where a message comes from and where it goes to, how long it is, and how long it may be. */
typedef struct piece {
    size_t from, to, bytes, posted;
} piece_t;

typedef struct list {
    int n;
    piece_t piece[MOST];
} list_t;

static uint8_t *device_memory;
static uint8_t *memory, *expected; /* what rank 0 has there, and what this rank is to have; as now, pinned memory */
static uint8_t *now;
static int other;

/* --- below the drop-in -------------------------------------------------------------------------------------------- */

/* The device that the drop-in has opened, whose default stream it waits for: a software device has one for each that
   opens it. And: the longest copy that succeeds, 0 for any. */
static selvage_device_t *of_dropin;
static size_t copy_most;

selvage_status_t selvage_device_open(const char *name, selvage_device_t **dev_out)
{
    union {
        void *found;
        selvage_status_t (*call)(const char *, selvage_device_t **);
    } next = {dlsym(RTLD_NEXT, "selvage_device_open")};
    const selvage_status_t status = next.call(name, dev_out);
    of_dropin = status == SELVAGE_SUCCESS ? *dev_out : NULL;
    return status;
}

selvage_status_t selvage_device_copy(selvage_device_t *dev, void *to, const void *from, size_t bytes,
                                     selvage_copy_t direction, void *stream)
{
    union {
        void *found;
        selvage_status_t (*call)(selvage_device_t *, void *, const void *, size_t, selvage_copy_t, void *);
    } next = {dlsym(RTLD_NEXT, "selvage_device_copy")};
    return copy_most > 0 && bytes > copy_most ? SELVAGE_ERR_DEVICE
                                              : next.call(dev, to, from, bytes, direction, stream);
}

/* How often the drop-in has asked for what an address is. */
static _Atomic int questions;

selvage_status_t selvage_device_memory(selvage_device_t *dev, const void *ptr, size_t bytes,
                                       selvage_memory_t *memory_out)
{
    union {
        void *found;
        selvage_status_t (*call)(selvage_device_t *, const void *, size_t, selvage_memory_t *);
    } next = {dlsym(RTLD_NEXT, "selvage_device_memory")};
    atomic_fetch_add(&questions, 1);
    return next.call(dev, ptr, bytes, memory_out);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void copy_memory(void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    CHECK_STATUS(selvage_device_copy(dropin.device, to, from, bytes, direction, dropin.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
}

static uint8_t byte_of(int rank, size_t at)
{
    return (uint8_t)(at * 7 + at / 251 + (rank == 0 ? 0 : 131));
}

static void fill_memory(void)
{
    for (size_t i = 0; i < MEMORY_BYTES; i++) {
        memory[i] = byte_of(0, i);
        expected[i] = byte_of(dropin.rank, i);
    }
    copy_memory(device_memory, expected, MEMORY_BYTES, SELVAGE_COPY_HOST_TO_DEVICE);
}

static void check_memory(void)
{
    copy_memory(now, device_memory, MEMORY_BYTES, SELVAGE_COPY_DEVICE_TO_HOST);
    for (size_t i = 0; i < MEMORY_BYTES; i++)
        if (now[i] != expected[i]) {
            fprintf(stderr, "byte %zu is %d, not %d\n", i, now[i], expected[i]);
            CHECK(now[i] == expected[i]);
            break;
        }
}

/* --- exchanges ---------------------------------------------------------------------------------------------------- */

static void post_receives(const list_t *list, MPI_Request *request)
{
    for (int i = 0; i < list->n; i++)
        CHECK_EQ(MPI_Irecv(device_memory + list->piece[i].to, (int)list->piece[i].posted, MPI_BYTE, other, i,
                           MPI_COMM_WORLD, &request[i]), MPI_SUCCESS);
}

static void begin_sends(const list_t *list, MPI_Request *request)
{
    for (int i = 0; i < list->n; i++)
        CHECK_EQ(MPI_Isend(device_memory + list->piece[i].from, (int)list->piece[i].bytes, MPI_BYTE, other, i,
                           MPI_COMM_WORLD, &request[i]), MPI_SUCCESS);
}

static void check_status(const piece_t *piece, MPI_Status *status, int tag)
{
    int bytes = -1;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    CHECK_EQ(bytes, (int)piece->bytes);
    CHECK_EQ(status->MPI_TAG, tag);
}

/* Ends receives by each kind of call that ends many. */
static void end_receives(const list_t *list, MPI_Request *request, int how)
{
    static MPI_Status status[MOST];
    static int index[MOST];
    int n = 0, flag = 0;
    if (how == 0)
        CHECK_EQ(MPI_Waitall(list->n, request, status), MPI_SUCCESS);
    while (how == 1 && !flag)
        CHECK_EQ(MPI_Testall(list->n, request, &flag, status), MPI_SUCCESS);
    for (int i = 0; i < list->n && how < 2; i++)
        check_status(&list->piece[i], &status[i], i);
    while (how == 2) {
        CHECK_EQ(MPI_Waitsome(list->n, request, &n, index, status), MPI_SUCCESS);
        if (n == MPI_UNDEFINED)
            break;
        for (int i = 0; i < n; i++)
            check_status(&list->piece[index[i]], &status[i], index[i]);
    }
    for (int i = list->n - 1; i >= 0 && how == 3; i--) {
        CHECK_EQ(MPI_Wait(&request[i], status), MPI_SUCCESS);
        check_status(&list->piece[i], status, i);
    }
}

/* The receives are posted first, and all messages have come when they are waited for. */
static void exchange(const list_t *list, int how)
{
    static MPI_Request request[MOST];
    if (dropin.rank == 1)
        post_receives(list, request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (dropin.rank == 0) {
        begin_sends(list, request);
        CHECK_EQ(MPI_Waitall(list->n, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (dropin.rank == 0)
        return;
    end_receives(list, request, how);
    for (int i = 0; i < list->n; i++)
        memcpy(expected + list->piece[i].to, memory + list->piece[i].from, list->piece[i].bytes);
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static void add_piece(list_t *list, size_t from, size_t to, size_t bytes, size_t posted)
{
    if (list->n < MOST)
        list->piece[list->n++] = (piece_t){from, to, bytes, posted};
}

static void list_adjacent(list_t *list, size_t bytes)
{
    for (size_t i = 0; i < COUNT; i++)
        add_piece(list, 100 + i * bytes, 200 + i * bytes, bytes, bytes);
}

static void list_same(list_t *list)
{
    for (size_t i = 0; i < COUNT; i++)
        add_piece(list, 300, 200 + i * BYTES, BYTES, BYTES);
    add_piece(list, 333, 100, 57, 57);
}

static void list_parts(list_t *list)
{
    for (size_t i = 0; i < COUNT / 2; i++) {
        add_piece(list, i * BYTES, 2 * i * BYTES, BYTES, BYTES);
        add_piece(list, i * BYTES + 3, (2 * i + 1) * BYTES, BYTES - 3, BYTES);
    }
}

static void list_overlaps(list_t *list)
{
    for (size_t i = 0; i < COUNT; i++)
        add_piece(list, i * BYTES / 2, i * BYTES, BYTES, BYTES);
}

static void list_apart(list_t *list)
{
    for (size_t i = 0; i < COUNT; i++)
        add_piece(list, i * (BYTES + 1), i * (BYTES + 8), BYTES, BYTES);
}

static void list_backwards(list_t *list)
{
    for (size_t i = COUNT; i > 0; i--)
        add_piece(list, i * BYTES, i * BYTES, BYTES, BYTES);
}

static void list_fields(list_t *list)
{
    enum { FIELDS = 3 };
    for (size_t i = 0; i < COUNT - COUNT % FIELDS; i++)
        add_piece(list, i % FIELDS * 100000 + i / FIELDS * BYTES, i % FIELDS * 70000 + i / FIELDS * BYTES, BYTES,
                  BYTES);
}

static void list_short(list_t *list)
{
    for (size_t i = 0; i < COUNT; i++)
        add_piece(list, i * BYTES, i * BYTES, i % 8 == 3 ? i : BYTES, BYTES);
}

/* Pieces that continue the one before, or do not, at either end. */
static void list_random(list_t *list)
{
    size_t from = 0, to = 0, before = 0;
    const size_t longest = (size_t)1 << dropin_pick(17);
    const unsigned n = 1 + dropin_pick(MOST), same = 2 + dropin_pick(20), leaps = 2 + dropin_pick(20);
    for (unsigned i = 0; i < n; i++) {
        const size_t posted = 1 + dropin_pick((unsigned)longest);
        const size_t bytes = dropin_pick(6) > 0 ? posted : dropin_pick((unsigned)posted + 1);
        if (dropin_pick(leaps) == 0)
            from = dropin_pick(MEMORY_BYTES / 2);
        else if (dropin_pick(same) == 0)
            from -= before;
        to += dropin_pick(leaps) == 0 ? dropin_pick(100) : 0;
        if (from + bytes > MEMORY_BYTES || to + posted > MEMORY_BYTES)
            return;
        add_piece(list, from, to, bytes, posted);
        before = bytes;
        from += bytes;
        to += posted;
    }
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static void run_list(const char *what)
{
    list_t list = {0};
    if (strcmp(what, "adjacent") == 0)
        list_adjacent(&list, BYTES);
    else if (strcmp(what, "long") == 0)
        list_adjacent(&list, 15000);
    else if (strcmp(what, "same") == 0)
        list_same(&list);
    else if (strcmp(what, "parts") == 0)
        list_parts(&list);
    else if (strcmp(what, "overlaps") == 0)
        list_overlaps(&list);
    else if (strcmp(what, "apart") == 0)
        list_apart(&list);
    else if (strcmp(what, "backwards") == 0)
        list_backwards(&list);
    else if (strcmp(what, "fields") == 0)
        list_fields(&list);
    else if (strcmp(what, "short") == 0)
        list_short(&list);
    CHECK(list.n > 0);
    exchange(&list, 0);
    check_memory();
    /* Once more: one look-up is for many messages where they lie side by side, or are the same. */
    atomic_store(&questions, 0);
    exchange(&list, 0);
    const int asked = atomic_load(&questions), few = COUNT / 2;
    CHECK(asked < few || getenv("SELVAGE_DROPIN_POOL_BYTES") ||
          !(strcmp(what, "adjacent") == 0 || (strcmp(what, "same") == 0 && dropin.rank == 0)));
    check_memory();
}

static void run_random(void)
{
    enum { LISTS = 40 };
    for (int i = 0; i < LISTS; i++) {
        list_t list = {0};
        list_random(&list);
        exchange(&list, i % 4);
        check_memory();
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Allocations of the software device follow each other without a gap. */
static void run_borders(void)
{
    enum { EACH = 4096 };
    static MPI_Request request[COUNT];
    uint8_t *piece[COUNT];
    int neighbours = 0;
    for (int i = 0; i < COUNT; i++) {
        void *made;
        CHECK_STATUS(selvage_device_malloc(dropin.device, EACH, &made), SELVAGE_SUCCESS);
        piece[i] = made;
        neighbours += i > 0 && piece[i] == piece[i - 1] + EACH;
        memset(now, dropin.rank == 0 ? i + 1 : 0, EACH);
        copy_memory(piece[i], now, EACH, SELVAGE_COPY_HOST_TO_DEVICE);
    }
    printf("%d neighbours\n", neighbours);
    for (int i = 0; i < COUNT && dropin.rank == 1; i++)
        MPI_Irecv(piece[i], EACH, MPI_BYTE, other, i, MPI_COMM_WORLD, &request[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < COUNT && dropin.rank == 0; i++)
        MPI_Isend(piece[i], EACH, MPI_BYTE, other, i, MPI_COMM_WORLD, &request[i]);
    CHECK_EQ(MPI_Waitall(COUNT, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    for (int i = 0; i < COUNT; i++) {
        copy_memory(now, piece[i], EACH, SELVAGE_COPY_DEVICE_TO_HOST);
        CHECK(now[0] == i + 1 && now[EACH - 1] == i + 1);
        selvage_device_free(dropin.device, piece[i]);
    }
}

/* --- order -------------------------------------------------------------------------------------------------------- */

static _Atomic bool came, gave_up;

typedef struct write_args {
    uint8_t *at;
    int value;
} write_args_t;

static void do_nothing(const void *arg, unsigned block, unsigned nblocks)
{
    (void)arg, (void)block, (void)nblocks;
}

static void write_late(const void *arg, unsigned block, unsigned nblocks)
{
    const write_args_t *args = arg;
    (void)block, (void)nblocks;
    usleep(2000);
    memset(args->at, args->value, BYTES);
}

static void await_messages(const void *arg, unsigned block, unsigned nblocks)
{
    enum { LIMIT_MS = 40000 };
    (void)arg, (void)block, (void)nblocks;
    for (int i = 0; !atomic_load(&came) && i < LIMIT_MS; i++)
        usleep(1000);
    atomic_store(&gave_up, !atomic_load(&came));
}

static int run_order(void)
{
    static MPI_Request request[COUNT];
    const write_args_t nothing = {0};
    if (!of_dropin || selvage_device_launch_soft(of_dropin, do_nothing, &nothing, sizeof nothing, 1, NULL) !=
                          SELVAGE_SUCCESS)
        return CHECK_SKIP;
    for (int i = 0; i < COUNT; i++) {
        uint8_t *at = device_memory + (size_t)i * BYTES;
        if (dropin.rank == 1) {
            MPI_Irecv(at, BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD, &request[i]);
            continue;
        }
        CHECK_STATUS(selvage_device_launch_soft(of_dropin, write_late, &(write_args_t){at, i + 1}, sizeof nothing,
                                                1, NULL), SELVAGE_SUCCESS);
        MPI_Isend(at, BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD, &request[i]);
    }
    if (dropin.rank == 0)
        CHECK_STATUS(selvage_device_launch_soft(of_dropin, await_messages, &nothing, sizeof nothing, 1, NULL),
                     SELVAGE_SUCCESS);
    CHECK_EQ(MPI_Waitall(COUNT, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    if (dropin.rank == 1)
        MPI_Send(&other, 1, MPI_INT, other, SENT, MPI_COMM_WORLD);
    else {
        int got;
        MPI_Recv(&got, 1, MPI_INT, other, SENT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        atomic_store(&came, true);
        CHECK_STATUS(selvage_stream_synchronize(of_dropin, NULL), SELVAGE_SUCCESS);
        CHECK(!atomic_load(&gave_up));
    }
    for (int i = 0; i < COUNT && dropin.rank == 1; i++)
        memset(expected + (size_t)i * BYTES, i + 1, BYTES);
    if (dropin.rank == 1)
        check_memory();
    return 0;
}

/* --- what is sent again ------------------------------------------------------------------------------------------- */

/* The staging memory of the first sends, which are complete, is used again before the last one is received. */
static void run_kept(void)
{
    enum { LONG = 64 << 10, SENDS = 3, LAST = SENDS - 1, MORE = 16, GAP = 64 };
    const piece_t piece[SENDS] = {{0, 0, LONG, LONG}, {LONG, LONG, LONG, LONG}, {LONG + 5, 2 * LONG, LONG - 5, LONG}};
    MPI_Request request[SENDS], more[MORE];
    for (int i = 0; i < SENDS && dropin.rank == 0; i++)
        MPI_Isend(device_memory + piece[i].from, (int)piece[i].bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &request[i]);
    for (int i = 0; i < LAST; i++)
        if (dropin.rank == 0)
            CHECK_EQ(MPI_Wait(&request[i], MPI_STATUS_IGNORE), MPI_SUCCESS);
        else
            MPI_Recv(device_memory + piece[i].to, LONG, MPI_BYTE, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < MORE; i++) {
        uint8_t *at = device_memory + MEMORY_BYTES / 2 + i * (LONG + GAP);
        if (dropin.rank == 0)
            MPI_Isend(at, LONG, MPI_BYTE, other, SENDS, MPI_COMM_WORLD, &more[i]);
        else
            MPI_Irecv(at, LONG, MPI_BYTE, other, SENDS, MPI_COMM_WORLD, &more[i]);
    }
    MPI_Waitall(MORE, more, MPI_STATUSES_IGNORE);
    if (dropin.rank == 0) {
        CHECK_EQ(MPI_Wait(&request[LAST], MPI_STATUS_IGNORE), MPI_SUCCESS);
        return;
    }
    MPI_Recv(device_memory + piece[LAST].to, LONG, MPI_BYTE, other, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < MORE; i++)
        memcpy(expected + MEMORY_BYTES / 2 + i * (LONG + GAP), memory + MEMORY_BYTES / 2 + i * (LONG + GAP), LONG);
    for (int i = 0; i < SENDS; i++)
        memcpy(expected + piece[i].to, memory + piece[i].from, piece[i].bytes);
    check_memory();
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

/* Receives 0 to N - 1 are adjacent. Number LONG gets more than it has room for, and number NONE nothing. */
static void run_truncated(void)
{
    enum { N = 8, LONG = 3, NONE = 5 };
    MPI_Request request[N];
    MPI_Status status[N];
    int cancelled = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < N && dropin.rank == 1; i++)
        MPI_Irecv(device_memory + i * BYTES, BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD, &request[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < N && dropin.rank == 0; i++) {
        request[i] = MPI_REQUEST_NULL;
        if (i != NONE)
            MPI_Isend(device_memory + i * BYTES, i == LONG ? BYTES + 1 : BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD,
                      &request[i]);
    }
    if (dropin.rank == 0)
        MPI_Waitall(N, request, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (dropin.rank == 0)
        return;
    MPI_Cancel(&request[NONE]);
    CHECK_EQ(MPI_Waitall(N, request, status), MPI_ERR_IN_STATUS);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(dropin_class(status[i].MPI_ERROR), i == LONG ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        MPI_Test_cancelled(&status[i], &cancelled);
        CHECK_EQ(cancelled != 0, i == NONE);
        if (i != LONG && i != NONE)
            memcpy(expected + i * BYTES, memory + i * BYTES, BYTES);
    }
    check_memory(); /* what was cut off may have come or not: the drop-in leaves such memory alone */
}

/* Twice: at first what a device refuses, and then what is not asked for again. */
static void run_refused(void)
{
    list_t list = {0};
    list_short(&list);
    copy_most = BYTES;
    exchange(&list, 0);
    exchange(&list, 0);
    copy_most = 0;
    check_memory();
}

static void run_broken(void)
{
    list_t list = {0};
    list_adjacent(&list, BYTES);
    copy_most = 1;
    exchange(&list, 0);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

enum { THREADS = 3, TURNS = 20 };

static _Atomic int next_piece;

/* Each message continues the one before, whichever thread that is of. Returns how many calls have failed. */
static void *run_worker(void *arg)
{
    MPI_Request request[COUNT];
    intptr_t errors = 0;
    (void)arg;
    for (int i = 0; i < TURNS * COUNT; i++) {
        const int piece = atomic_fetch_add(&next_piece, 1);
        uint8_t *at = device_memory + (size_t)piece * BYTES;
        MPI_Request *one = &request[i % COUNT];
        errors += (dropin.rank == 0 ? MPI_Isend(at, BYTES, MPI_BYTE, other, piece, MPI_COMM_WORLD, one)
                                    : MPI_Irecv(at, BYTES, MPI_BYTE, other, piece, MPI_COMM_WORLD, one)) != MPI_SUCCESS;
        sched_yield();
        if (i % COUNT == COUNT - 1)
            errors += MPI_Waitall(COUNT, request, MPI_STATUSES_IGNORE) != MPI_SUCCESS;
    }
    return (void *)errors;
}

static void run_threads(void)
{
    pthread_t thread[THREADS];
    void *errors;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, run_worker, NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &errors);
        CHECK(errors == NULL);
    }
    memcpy(expected, memory, (size_t)THREADS * TURNS * COUNT * BYTES);
    check_memory();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "adjacent";
    char *seed[] = {argv[0], argc > 2 ? argv[2] : "1", NULL};
    int cases, code = 0;
    void *made, *pinned;
    dropin_begin(2, seed, strcmp(what, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &cases);
    CHECK_EQ(dropin.size, 2);
    other = 1 - dropin.rank;
    CHECK_STATUS(selvage_device_host_malloc(dropin.device, 3 * (size_t)MEMORY_BYTES, &pinned), SELVAGE_SUCCESS);
    memory = pinned;
    expected = memory + MEMORY_BYTES;
    now = expected + MEMORY_BYTES;
    CHECK_STATUS(selvage_device_malloc(dropin.device, MEMORY_BYTES, &made), SELVAGE_SUCCESS);
    device_memory = made;
    fill_memory();
    if (strcmp(what, "random") == 0)
        run_random();
    else if (strcmp(what, "borders") == 0)
        run_borders();
    else if (strcmp(what, "order") == 0)
        code = run_order();
    else if (strcmp(what, "truncated") == 0 && mpi_leaves_out_refusals(dropin.rank))
        ;
    else if (strcmp(what, "truncated") == 0)
        run_truncated();
    else if (strcmp(what, "kept") == 0)
        run_kept();
    else if (strcmp(what, "refused") == 0)
        run_refused();
    else if (strcmp(what, "broken") == 0)
        run_broken();
    else if (strcmp(what, "threads") == 0)
        run_threads();
    else
        run_list(what);
    selvage_device_free(dropin.device, device_memory);
    selvage_device_host_free(dropin.device, pinned);
    const int ended = dropin_end("dropin_rows");
    return code ? code : ended;
}
