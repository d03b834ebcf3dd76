/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wireup: how the fast route opens pair by pair (AUTO), whatever the program calls. Selvage's communicator is made in
 * MPI_Init, without a device. A rank opens the route for itself when it gives MPI device memory for a message that is
 * long enough, and says so in a word that the node shares. Two ranks of a node that are both open wire up at the next
 * such message between them, by messages of Selvage's that carry nothing:
 *
 *   either      calls[the other] += 1; message 1 ------->  the other's engine makes slots for it, and offers them
 *   the other   message 1 of its own, if it has sent none
 *   both        after message 1 of the other: message 2; after that: message 3. What the other offered is on its way
 *               before its message 2 and is mapped when message 3 comes; if it is not, a message is staged.
 *
 * Until then messages between the two are staged. No rank waits in any of this: wireup messages are looked for where
 * the program waits for requests, and at its next message. A rank that has begun a receive into host memory that nobody
 * watches never opens, so that no announcement comes to it.
 *
 * Any thread; the lock of this file is taken before that of the message engine. The window of shared words and the
 * communicator live from MPI_Init to MPI_Finalize, where every rank comes to sv_drop_wireup_end().
 */
#include "interpose/drop_route.h"

#include <selvage/comm.h>
#include <selvage/message.h>
#include <stdlib.h>

/* A rank's words in memory that the node shares, in a line of their own. */
typedef struct words {
    _Atomic uint32_t open;  /* by this rank: it takes announcements */
    _Atomic uint32_t calls; /* by the others: how many have begun to wire up with this rank */
    _Atomic uint32_t gpu_shared; /* by the rank that opens later: it has the same GPU */
    uint64_t gpu;           /* by this rank, before open: which one it has; 0: none, but the software device */
    char pad[64 - 3 * sizeof(uint32_t) - 4 - sizeof(uint64_t)];
} words_t;
_Static_assert(sizeof(words_t) == 64, "a line");

/* This rank and another one of the node. */
typedef struct pair {
    int rank;                        /* of MPI_COMM_WORLD */
    words_t *words;
    bool begun;
    _Atomic bool done;               /* wireup is, and messages may go by the route if there is one */
    _Atomic bool shared;             /* there is: memory that both share */
    _Atomic bool over;               /* it is done, or has failed */
    int sent, received;
    selvage_request_t *recv;
    uint64_t out, in;
} pair_t;

enum { ROUNDS = 3 };
_Static_assert(sizeof(((pair_t *)0)->in) == SV_DROP_WIREUP_BYTES, "the length of a wireup message");

static struct {
    pthread_mutex_t lock;
    MPI_Win window;
    words_t *own;
    pair_t *with;              /* the ranks of the node */
    int n, *index;             /* by rank of MPI_COMM_WORLD: place in `with`, -1 on another node */
    _Atomic uint32_t answered; /* how many a first message has come from */
    _Atomic int pending;       /* begun and not over */
    uint64_t taken;            /* wireup messages received */
    bool failed;
} wireup = {.lock = PTHREAD_MUTEX_INITIALIZER, .window = MPI_WIN_NULL};

/* Fills `with` and the window of words. Collective over the node. */
static bool share_words(MPI_Comm node, const int *rank)
{
    words_t *base = NULL;
    if (PMPI_Win_allocate_shared(sizeof *base, 1, MPI_INFO_NULL, node, &base, &wireup.window) != MPI_SUCCESS)
        return false;
    *base = (words_t){0};
    for (int i = 0; i < wireup.n; i++) {
        MPI_Aint bytes;
        int unit;
        void *there = NULL;
        if (PMPI_Win_shared_query(wireup.window, i, &bytes, &unit, &there) != MPI_SUCCESS)
            return false;
        wireup.with[i].rank = rank[i];
        wireup.with[i].words = there;
        wireup.index[rank[i]] = i;
    }
    wireup.own = base;
    return true;
}

/* Collective over MPI_COMM_WORLD. A rank that cannot says so in the agreement. */
bool sv_drop_wireup_begin(const int *rank, int n, int64_t slot_bytes)
{
    const int size = sv_drop_size(MPI_COMM_WORLD);
    MPI_Comm node = MPI_COMM_NULL;
    wireup.n = n;
    wireup.with = calloc((size_t)n, sizeof *wireup.with);
    wireup.index = malloc((size_t)size * sizeof *wireup.index);
    if (!wireup.with || !wireup.index)
        sv_drop_fatal("no memory", "for the fast route");
    for (int i = 0; i < size; i++)
        wireup.index[i] = -1;
    bool good = PMPI_Comm_split_type(sv_drop_route.own, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) == MPI_SUCCESS;
    good = good && share_words(node, rank);
    if (node != MPI_COMM_NULL)
        PMPI_Comm_free(&node);
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device_later = 1,
                                    .timeout_s = sv_drop_settings()->timeout_ns ? 0 : -1,
                                    .message_slot_bytes = (size_t)slot_bytes};
    good = selvage_comm_create(MPI_COMM_WORLD, &params, &sv_drop_route.world) == SELVAGE_SUCCESS && good;
    /* This also orders the words' beginnings before their first use. */
    return sv_drop_fast_all(sv_drop_route.own, good);
}

/* A number that stands for a GPU: FNV-1a of its bus id, as http://www.isthe.com/chongo/tech/comp/fnv/ has it. */
static uint64_t number_of_gpu(void)
{
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    uint64_t number = UINT64_C(0xcbf29ce484222325);
    if (selvage_device_describe(sv_drop_device(), &info) != SELVAGE_SUCCESS || !info.bus_id[0])
        return 0;
    for (const char *at = info.bus_id; *at; at++)
        number = (number ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    return number | 1;
}

/* Opens the route for this rank, once it has a device. The caller has the lock. */
static void open_own(void)
{
    int found;
    if (wireup.failed || sv_drop_fast_is_open() || !atomic_load_explicit(&sv_drop_route.seen, memory_order_relaxed) ||
        atomic_load_explicit(&sv_drop_route.unwatched, memory_order_relaxed) || sv_drop_is_stuck())
        return;
    /* The probe makes the engine, which answers what others send. */
    if (selvage_comm_set_device(sv_drop_route.world, sv_drop_device()) != SELVAGE_SUCCESS ||
        selvage_message_iprobe(sv_drop_route.world, MPI_ANY_SOURCE, MPI_ANY_TAG, &found, NULL) != SELVAGE_SUCCESS) {
        sv_drop_warn("the fast route could not be opened on this rank, which stages everything: %s",
                     selvage_error_detail());
        wireup.failed = true;
        return;
    }
    atomic_store_explicit(&sv_drop_route.open, true, memory_order_release);
    wireup.own->gpu = number_of_gpu();
    /* Partner: the acquire in sv_drop_wireup() of another rank. */
    atomic_store(&wireup.own->open, 1);
    /* Of two ranks with one GPU, the one that looks last sees the other, and says so to both. Sequentially consistent,
       so that one of them does. */
    for (int i = 0; i < wireup.n && wireup.own->gpu; i++) {
        words_t *other = wireup.with[i].words;
        if (other == wireup.own || !atomic_load(&other->open) || other->gpu != wireup.own->gpu)
            continue;
        atomic_store(&other->gpu_shared, 1);
        atomic_store(&wireup.own->gpu_shared, 1);
    }
}

static void fail_pair(pair_t *pair)
{
    sv_drop_warn("messages to and from rank %d are staged: %s", pair->rank, selvage_error_detail());
    (void)selvage_message_free(&pair->recv);
    if (pair->received == 0) /* nor is it looked for any more */
        atomic_fetch_add_explicit(&wireup.answered, 1, memory_order_relaxed);
    atomic_store_explicit(&pair->over, true, memory_order_relaxed);
    atomic_fetch_sub_explicit(&wireup.pending, 1, memory_order_relaxed);
}

/* Sends the next message, and posts the receive of the other's next one. The caller has the lock. */
static bool send_next(pair_t *pair)
{
    selvage_request_t *send = NULL;
    if (pair->received < ROUNDS &&
        selvage_message_irecv(sv_drop_route.world, &pair->in, sizeof pair->in, MPI_BYTE, pair->rank,
                              SV_DROP_WIREUP_TAG, SELVAGE_MESSAGE_NO_STREAM, &pair->recv) != SELVAGE_SUCCESS)
        return false;
    if (pair->sent == ROUNDS)
        return true;
    pair->sent++;
    return selvage_message_isend(sv_drop_route.world, &pair->out, sizeof pair->out, MPI_BYTE, pair->rank,
                                 SV_DROP_WIREUP_TAG, SELVAGE_MESSAGE_NO_STREAM, &send) == SELVAGE_SUCCESS &&
           selvage_message_free(&send) == SELVAGE_SUCCESS;
}

static void begin_pair(pair_t *pair)
{
    pair->begun = true;
    atomic_fetch_add_explicit(&wireup.pending, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&pair->words->calls, 1, memory_order_relaxed);
    if (!send_next(pair))
        fail_pair(pair);
}

/* Takes what has come from one rank. */
static void advance_pair(pair_t *pair)
{
    while (!pair->over) {
        const selvage_status_t status = selvage_message_test(&pair->recv, NULL);
        if (status == SELVAGE_IN_PROGRESS)
            return;
        if (status != SELVAGE_SUCCESS) {
            fail_pair(pair);
            return;
        }
        wireup.taken++;
        if (pair->received++ == 0)
            atomic_fetch_add_explicit(&wireup.answered, 1, memory_order_relaxed);
        if (!send_next(pair)) {
            fail_pair(pair);
        } else if (pair->received == ROUNDS) {
            atomic_store_explicit(&pair->done, true, memory_order_relaxed);
            atomic_store_explicit(&pair->over, true, memory_order_relaxed);
            atomic_fetch_sub_explicit(&wireup.pending, 1, memory_order_relaxed);
        }
    }
}

/* Whether somebody waits for this rank, or this rank for somebody. */
static bool has_wireup(void)
{
    return atomic_load_explicit(&wireup.pending, memory_order_relaxed) > 0 ||
           (int32_t)(atomic_load_explicit(&wireup.own->calls, memory_order_relaxed) -
                     atomic_load_explicit(&wireup.answered, memory_order_relaxed)) > 0;
}

void sv_drop_wireup_poll(void)
{
    selvage_message_status_t from;
    int found = 0;
    if (!wireup.own || !sv_drop_fast_is_open() || !has_wireup() || pthread_mutex_trylock(&wireup.lock) != 0)
        return;
    /* 1. From those that this rank has sent nothing. The probe polls the engine, too. */
    while (selvage_message_iprobe(sv_drop_route.world, MPI_ANY_SOURCE, SV_DROP_WIREUP_TAG, &found, &from) ==
               SELVAGE_SUCCESS && found) {
        pair_t *pair = &wireup.with[wireup.index[from.source]];
        if (pair->begun) /* its receive is posted before the next one is sent, and has it */
            break;
        begin_pair(pair);
    }
    /* 2. From all others. */
    for (int i = 0; i < wireup.n; i++)
        if (wireup.with[i].begun)
            advance_pair(&wireup.with[i]);
    pthread_mutex_unlock(&wireup.lock);
}

void sv_drop_wireup(MPI_Comm comm, int peer)
{
    pair_t *pair = NULL;
    if (!wireup.own || sv_drop_route.refused || sv_drop_route.retired)
        return;
    const int to = peer >= 0 && peer < sv_drop_size(comm) ? sv_drop_world_rank(comm, peer) : MPI_UNDEFINED;
    if (to != MPI_UNDEFINED && to != sv_drop_rank(MPI_COMM_WORLD) && wireup.index[to] >= 0)
        pair = &wireup.with[wireup.index[to]];
    if (sv_drop_fast_is_open() && (!pair || atomic_load_explicit(&pair->over, memory_order_relaxed))) {
        sv_drop_wireup_poll();
        return;
    }
    pthread_mutex_lock(&wireup.lock);
    open_own();
    /* Partner: the release in open_own() of the other rank. */
    if (pair && !pair->begun && sv_drop_fast_is_open() &&
        atomic_load_explicit(&pair->words->open, memory_order_acquire))
        begin_pair(pair);
    pthread_mutex_unlock(&wireup.lock);
    sv_drop_wireup_poll();
}

bool sv_drop_wireup_open(void)
{
    pthread_mutex_lock(&wireup.lock);
    open_own();
    pthread_mutex_unlock(&wireup.lock);
    return sv_drop_fast_is_open();
}

/* The pair of this rank with a rank of a communicator, or NULL. */
static pair_t *pair_with(MPI_Comm comm, int peer)
{
    const int rank = sv_drop_world_rank(comm, peer);
    return rank == sv_drop_rank(MPI_COMM_WORLD) || wireup.index[rank] < 0 ? NULL : &wireup.with[wireup.index[rank]];
}

bool sv_drop_wireup_with(MPI_Comm comm)
{
    const double limit_s = 60, begin = PMPI_Wtime();
    const int n = sv_drop_size(comm);
    bool done = false;
    unsigned turns = 0;
    pthread_mutex_lock(&wireup.lock);
    for (int i = 0; i < n; i++) {
        pair_t *pair = pair_with(comm, i);
        if (pair && !pair->begun)
            begin_pair(pair);
    }
    pthread_mutex_unlock(&wireup.lock);
    while (!done && PMPI_Wtime() - begin < limit_s) {
        sv_drop_turn(&turns); /* which looks for wireup messages */
        done = true;
        for (int i = 0; i < n; i++) {
            const pair_t *pair = pair_with(comm, i);
            done = done && (!pair || atomic_load_explicit(&pair->over, memory_order_relaxed));
        }
    }
    return done;
}

bool sv_drop_wireup_is_done(int rank)
{
    if (!wireup.own) /* all ranks of the route have opened it at once */
        return sv_drop_route.on_node[rank];
    if (rank == sv_drop_rank(MPI_COMM_WORLD))
        return true;
    pair_t *pair = wireup.index[rank] >= 0 ? &wireup.with[wireup.index[rank]] : NULL;
    if (!pair || !atomic_load_explicit(&pair->done, memory_order_relaxed))
        return false;
    if (atomic_load_explicit(&pair->shared, memory_order_relaxed))
        return true;
    /* Not between virtual nodes, nor where the user forbids it; no batch of messages is broken up for that. */
    int shared = 0;
    (void)selvage_message_is_shared(sv_drop_route.world, rank, &shared);
    atomic_store_explicit(&pair->shared, shared != 0, memory_order_relaxed);
    return shared != 0;
}

bool sv_drop_wireup_has_own_gpu(void)
{
    /* Where all ranks have opened the route at once, Selvage itself knows. */
    return !wireup.own || !atomic_load_explicit(&wireup.own->gpu_shared, memory_order_relaxed);
}

uint64_t sv_drop_wireup_messages(void)
{
    return wireup.taken;
}

void sv_drop_wireup_end(void)
{
    const double limit_s = 5, begin = PMPI_Wtime();
    if (!wireup.own)
        return;
    /* All ranks are here, so that what was begun ends now, but for what fails. */
    while (sv_drop_fast_is_open() && has_wireup() && PMPI_Wtime() - begin < limit_s)
        sv_drop_wireup_poll();
    for (int i = 0; i < wireup.n; i++)
        if (wireup.with[i].recv) {
            (void)selvage_message_cancel(wireup.with[i].recv);
            (void)selvage_message_free(&wireup.with[i].recv);
        }
    PMPI_Win_free(&wireup.window);
    free(wireup.with);
    free(wireup.index);
    wireup.own = NULL;
}
