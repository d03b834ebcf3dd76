/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the fast route opens pair by pair (AUTO), whatever the program calls. Selvage's communicator is made in MPI_Init,
 * without a device. A rank opens the route for itself when it gives MPI device memory for a message that is long
 * enough, and says so in a word that the node shares. Two ranks of a node that are both open greet each other at the
 * next such message between them:
 *
 *   either      calls[the other] += 1; greeting 1 ------->  the other's engine makes slots for it, and offers them
 *   the other   greeting 1 of its own, if it has sent none
 *   both        after greeting 1 of the other: greeting 2; after that: greeting 3. What the other offered is on its way
 *               before its greeting 2 and is mapped when greeting 3 comes; if it is not, a message is staged.
 *
 * Until then messages between the two are staged. No rank waits in any of this: greetings are looked for where the
 * program waits for requests, and at its next message. A rank that has begun a receive into host memory that nobody
 * watches never opens, so that no announcement comes to it.
 *
 * Any thread; the lock of this file is taken before that of the message engine. The window of shared words and the
 * communicator live from MPI_Init to MPI_Finalize, where every rank comes to sv_drop_meet_end().
 */
#include "interpose/drop_route.h"

#include <selvage/comm.h>
#include <selvage/message.h>
#include <stdlib.h>

/* A rank's words in memory that the node shares, in a line of their own. */
typedef struct words {
    _Atomic uint32_t open;  /* by this rank: it takes announcements */
    _Atomic uint32_t calls; /* by the others: how many have begun to greet this rank */
    char pad[64 - 2 * sizeof(uint32_t)];
} words_t;

/* What this rank and another one of the node have said to each other. */
typedef struct greeting {
    int rank;                        /* of MPI_COMM_WORLD */
    words_t *words;
    bool begun;
    _Atomic bool met;                /* both are said and heard */
    _Atomic bool over;               /* it has met, or failed */
    int said, heard;
    selvage_request_t *recv;
    uint64_t out, in;
} greeting_t;

enum { GREETINGS = 3 };
_Static_assert(sizeof(((greeting_t *)0)->in) == SV_DROP_GREETING_BYTES, "the length of a greeting");

static struct {
    pthread_mutex_t lock;
    MPI_Win window;
    words_t *own;
    greeting_t *with;     /* the ranks of the node */
    int n, *index;        /* by rank of MPI_COMM_WORLD: place in `with`, -1 on another node */
    _Atomic uint32_t heard_first; /* of how many ranks */
    _Atomic int pending;  /* begun and not over */
    uint64_t taken;       /* greetings received, which are no messages of the program's */
    bool failed;
} meet = {.lock = PTHREAD_MUTEX_INITIALIZER, .window = MPI_WIN_NULL};

/* Fills `with` and the window of words. Collective over the node. */
static bool share_words(MPI_Comm node, const int *rank)
{
    words_t *base = NULL;
    if (PMPI_Win_allocate_shared(sizeof *base, 1, MPI_INFO_NULL, node, &base, &meet.window) != MPI_SUCCESS)
        return false;
    *base = (words_t){0};
    for (int i = 0; i < meet.n; i++) {
        MPI_Aint bytes;
        int unit;
        void *there = NULL;
        if (PMPI_Win_shared_query(meet.window, i, &bytes, &unit, &there) != MPI_SUCCESS)
            return false;
        meet.with[i].rank = rank[i];
        meet.with[i].words = there;
        meet.index[rank[i]] = i;
    }
    meet.own = base;
    return true;
}

/* Collective over MPI_COMM_WORLD. A rank that cannot says so in the agreement. */
bool sv_drop_meet_begin(const int *rank, int n, int64_t slot_bytes)
{
    const int size = sv_drop_size(MPI_COMM_WORLD);
    MPI_Comm node = MPI_COMM_NULL;
    meet.n = n;
    meet.with = calloc((size_t)n, sizeof *meet.with);
    meet.index = malloc((size_t)size * sizeof *meet.index);
    if (!meet.with || !meet.index)
        sv_drop_fatal("no memory", "for the fast route");
    for (int i = 0; i < size; i++)
        meet.index[i] = -1;
    bool good = PMPI_Comm_split_type(sv_drop_route.own, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) == MPI_SUCCESS;
    good = good && share_words(node, rank);
    if (node != MPI_COMM_NULL)
        PMPI_Comm_free(&node);
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device_later = 1,
                                    .timeout_s = sv_drop_settings()->timeout_ns ? 0 : -1,
                                    .message_slot_bytes = (size_t)slot_bytes};
    good = selvage_comm_create(MPI_COMM_WORLD, &params, &sv_drop_route.world) == SELVAGE_SUCCESS && good;
    return sv_drop_fast_all(good); /* which also orders the words' beginnings before their first use */
}

/* Opens the route for this rank, once it has a device. The caller has the lock. */
static void open_own(void)
{
    int found;
    if (meet.failed || sv_drop_fast_is_open() || !atomic_load_explicit(&sv_drop_route.seen, memory_order_relaxed) ||
        atomic_load_explicit(&sv_drop_route.unwatched, memory_order_relaxed) || sv_drop_is_stuck())
        return;
    /* The probe makes the engine, which answers what others send. */
    if (selvage_comm_set_device(sv_drop_route.world, sv_drop_device()) != SELVAGE_SUCCESS ||
        selvage_message_iprobe(sv_drop_route.world, MPI_ANY_SOURCE, MPI_ANY_TAG, &found, NULL) != SELVAGE_SUCCESS) {
        sv_drop_warn("the fast route could not be opened on this rank, which stages everything: %s",
                     selvage_error_detail());
        meet.failed = true;
        return;
    }
    atomic_store_explicit(&sv_drop_route.open, true, memory_order_release);
    /* Partner: the acquire in sv_drop_meet() of another rank. */
    atomic_store_explicit(&meet.own->open, 1, memory_order_release);
}

static void fail_greeting(greeting_t *greeting)
{
    sv_drop_warn("messages to and from rank %d are staged: %s", greeting->rank, selvage_error_detail());
    (void)selvage_message_free(&greeting->recv);
    atomic_store_explicit(&greeting->over, true, memory_order_relaxed);
    atomic_fetch_sub_explicit(&meet.pending, 1, memory_order_relaxed);
}

/* Sends the next greeting and listens for the other's next one. The caller has the lock. */
static bool say_next(greeting_t *greeting)
{
    selvage_request_t *send = NULL;
    if (greeting->heard < GREETINGS &&
        selvage_message_irecv(sv_drop_route.world, &greeting->in, sizeof greeting->in, MPI_BYTE, greeting->rank,
                              SV_DROP_GREETING_TAG, SELVAGE_MESSAGE_NO_STREAM, &greeting->recv) != SELVAGE_SUCCESS)
        return false;
    if (greeting->said == GREETINGS)
        return true;
    greeting->said++;
    return selvage_message_isend(sv_drop_route.world, &greeting->out, sizeof greeting->out, MPI_BYTE, greeting->rank,
                                 SV_DROP_GREETING_TAG, SELVAGE_MESSAGE_NO_STREAM, &send) == SELVAGE_SUCCESS &&
           selvage_message_free(&send) == SELVAGE_SUCCESS;
}

static void begin_greeting(greeting_t *greeting)
{
    greeting->begun = true;
    atomic_fetch_add_explicit(&meet.pending, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&greeting->words->calls, 1, memory_order_relaxed);
    if (!say_next(greeting))
        fail_greeting(greeting);
}

/* Hears what has come of one rank's greetings. */
static void advance_greeting(greeting_t *greeting)
{
    while (!greeting->over) {
        const selvage_status_t status = selvage_message_test(&greeting->recv, NULL);
        if (status == SELVAGE_IN_PROGRESS)
            return;
        if (status != SELVAGE_SUCCESS) {
            fail_greeting(greeting);
            return;
        }
        meet.taken++;
        if (greeting->heard++ == 0)
            atomic_fetch_add_explicit(&meet.heard_first, 1, memory_order_relaxed);
        if (!say_next(greeting)) {
            fail_greeting(greeting);
        } else if (greeting->heard == GREETINGS) {
            atomic_store_explicit(&greeting->met, true, memory_order_relaxed);
            atomic_store_explicit(&greeting->over, true, memory_order_relaxed);
            atomic_fetch_sub_explicit(&meet.pending, 1, memory_order_relaxed);
        }
    }
}

/* Whether somebody greets this rank, or is to answer it. */
static bool has_greetings(void)
{
    return atomic_load_explicit(&meet.pending, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&meet.own->calls, memory_order_relaxed) !=
               atomic_load_explicit(&meet.heard_first, memory_order_relaxed);
}

void sv_drop_meet_poll(void)
{
    selvage_message_status_t from;
    int found = 0;
    if (!meet.own || !sv_drop_fast_is_open() || !has_greetings() || pthread_mutex_trylock(&meet.lock) != 0)
        return;
    /* 1. Of those that this rank has not greeted. The probe polls the engine, too. */
    while (selvage_message_iprobe(sv_drop_route.world, MPI_ANY_SOURCE, SV_DROP_GREETING_TAG, &found, &from) ==
               SELVAGE_SUCCESS && found) {
        greeting_t *greeting = &meet.with[meet.index[from.source]];
        if (greeting->begun) /* its receive is posted before the next one is sent, and has it */
            break;
        begin_greeting(greeting);
    }
    /* 2. Of all others. */
    for (int i = 0; i < meet.n; i++)
        if (meet.with[i].begun)
            advance_greeting(&meet.with[i]);
    pthread_mutex_unlock(&meet.lock);
}

void sv_drop_meet(MPI_Comm comm, int peer)
{
    greeting_t *greeting = NULL;
    if (!meet.own || sv_drop_route.refused || sv_drop_route.retired)
        return;
    const int to = peer >= 0 && peer < sv_drop_size(comm) ? sv_drop_world_rank(comm, peer) : MPI_UNDEFINED;
    if (to != MPI_UNDEFINED && to != sv_drop_rank(MPI_COMM_WORLD) && meet.index[to] >= 0)
        greeting = &meet.with[meet.index[to]];
    if (sv_drop_fast_is_open() && (!greeting || atomic_load_explicit(&greeting->over, memory_order_relaxed))) {
        sv_drop_meet_poll();
        return;
    }
    pthread_mutex_lock(&meet.lock);
    open_own();
    /* Partner: the release in open_own() of the other rank. */
    if (greeting && !greeting->begun && sv_drop_fast_is_open() &&
        atomic_load_explicit(&greeting->words->open, memory_order_acquire))
        begin_greeting(greeting);
    pthread_mutex_unlock(&meet.lock);
    sv_drop_meet_poll();
}

bool sv_drop_meet_open(void)
{
    pthread_mutex_lock(&meet.lock);
    open_own();
    pthread_mutex_unlock(&meet.lock);
    return sv_drop_fast_is_open();
}

bool sv_drop_meet_all(void)
{
    const double limit_s = 60, begin = PMPI_Wtime();
    const int me = meet.index[sv_drop_rank(MPI_COMM_WORLD)];
    bool met = false;
    unsigned turns = 0;
    pthread_mutex_lock(&meet.lock);
    for (int i = 0; i < meet.n; i++)
        if (i != me && !meet.with[i].begun)
            begin_greeting(&meet.with[i]);
    pthread_mutex_unlock(&meet.lock);
    while (!met && PMPI_Wtime() - begin < limit_s) {
        sv_drop_turn(&turns); /* which hears greetings */
        met = true;
        for (int i = 0; i < meet.n; i++)
            met = met && (i == me || atomic_load_explicit(&meet.with[i].over, memory_order_relaxed));
    }
    return met;
}

bool sv_drop_meet_is_over(int rank)
{
    if (!meet.own) /* all ranks of the route have opened it at once */
        return sv_drop_route.on_node[rank];
    return rank == sv_drop_rank(MPI_COMM_WORLD) ||
           (meet.index[rank] >= 0 && atomic_load_explicit(&meet.with[meet.index[rank]].met, memory_order_relaxed));
}

uint64_t sv_drop_meet_greetings(void)
{
    return meet.taken;
}

void sv_drop_meet_end(void)
{
    const double limit_s = 5, begin = PMPI_Wtime();
    if (!meet.own)
        return;
    /* All ranks are here, so that what was begun ends now, but for what fails. */
    while (sv_drop_fast_is_open() && has_greetings() && PMPI_Wtime() - begin < limit_s)
        sv_drop_meet_poll();
    for (int i = 0; i < meet.n; i++)
        if (meet.with[i].recv) {
            (void)selvage_message_cancel(meet.with[i].recv);
            (void)selvage_message_free(&meet.with[i].recv);
        }
    PMPI_Win_free(&meet.window);
    free(meet.with);
    free(meet.index);
    meet.own = NULL;
}
