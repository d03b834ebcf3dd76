/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded between Selvage and MPI: it has MPI's own names (PMPI_...), counts what Selvage sends by what it is, and
 * hurts some of it, as a network, a driver or a host's memory would, where nothing above can know of it. Messages of
 * the library are known by who calls (all that libselvage sends is its own), announcements of the drop-in by their
 * length and what repeats in them; what the program sends is never touched. MPI's inner traffic does not pass here.
 *
 * Damage, cuts, swaps, losses and doubles are done where a message is sent, delays where it is received: its request is
 * said to be open for a while longer. What is sent in place of something else is never freed, MPI may still read it.
 * What is to be done says BELOW_MPI, or the program by below_mpi_arm(): see below_mpi.h. Any thread; one lock.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT and dl_iterate_phdr */
#endif
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "below_parts.h"

/* The function of MPI that has this name. */
#define BEYOND(name)                                                                                                   \
    static __typeof__(&name) beyond;                                                                                   \
    if (!beyond) {                                                                                                     \
        void *found = dlsym(RTLD_NEXT, #name);                                                                         \
        memcpy(&beyond, &found, sizeof found);                                                                         \
    }

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- who is who --------------------------------------------------------------------------------------------------- */

/* The library's code: all that it sends is its own. */
static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (!strstr(info->dlpi_name, "libselvage.so"))
        return 0;
    below.low = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
        if (part->p_type != PT_LOAD)
            continue;
        below.low = from < below.low ? from : below.low;
        below.high = to > below.high ? to : below.high;
    }
    return 1;
}

/* With the lock held: the first call that comes finds out who is who. */
void below_begin(void)
{
    if (below.rank >= 0)
        return;
    dl_iterate_phdr(find_library, NULL);
    PMPI_Comm_rank(MPI_COMM_WORLD, &below.rank);
    const char *text = getenv("BELOW_MPI");
    below_arm(text ? text : "");
}

static bool is_library(const void *caller)
{
    if (!below.high) {
        pthread_mutex_lock(&below.lock);
        below_begin();
        pthread_mutex_unlock(&below.lock);
    }
    return (uintptr_t)caller >= below.low && (uintptr_t)caller < below.high;
}

#define IS_LIBRARY() is_library(__builtin_return_address(0))

/* Communicators of the library, in the order in which every wire makes them. */
static void learn_comm(MPI_Comm comm)
{
    int at = 0;
    pthread_mutex_lock(&below.lock);
    below_begin();
    while (at < below.ncomms && below.comm_of[at].comm != comm)
        at++;
    if (at == below.ncomms && below.ncomms < COMMS_MAX)
        below.ncomms++;
    if (at < COMMS_MAX) {
        below.comm_of[at].comm = comm;
        below.comm_of[at].channel = below.made++ % SV_WIRE_MPI_COMMS;
    }
    pthread_mutex_unlock(&below.lock);
}

static int channel_of(MPI_Comm comm)
{
    for (int i = 0; i < below.ncomms; i++)
        if (below.comm_of[i].comm == comm)
            return below.comm_of[i].channel;
    return NOT_OURS;
}

/* --- sends -------------------------------------------------------------------------------------------------------- */

/* Fills in what is sent, if it is Selvage's. */
static bool is_ours(bool library, const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                    below_message_t *m)
{
    MPI_Count each = 0;
    uint64_t number;
    if (peer < 0 || !buf || PMPI_Type_size_x(type, &each) != MPI_SUCCESS)
        return false;
    *m = (below_message_t){.buf = buf, .bytes = (size_t)(each * count), .peer = peer, .tag = tag, .comm = comm};
    if (library) {
        pthread_mutex_lock(&below.lock);
        m->channel = channel_of(comm);
        pthread_mutex_unlock(&below.lock);
        return m->channel != NOT_OURS;
    }
    if (m->bytes != LETTER_BYTES)
        return false;
    m->channel = LETTER; /* the same notice again and again, beginning with a number that is not zero */
    memcpy(&number, buf, sizeof number);
    return number && memcmp(buf, (const char *)buf + NOTICE_BYTES, LETTER_BYTES - NOTICE_BYTES) == 0;
}

static void send_behind(const below_fate_t *fate)
{
    BEYOND(PMPI_Isend)
    const below_message_t *m = &fate->following;
    MPI_Request request;
    if (fate->also && beyond(m->buf, (int)m->bytes, MPI_BYTE, m->peer, m->tag, m->comm, &request) == MPI_SUCCESS)
        PMPI_Request_free(&request);
}

#define NONBLOCKING(name)                                                                                              \
    int name(const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)    \
    {                                                                                                                  \
        BEYOND(name)                                                                                                   \
        below_message_t m;                                                                                             \
        below_fate_t fate;                                                                                             \
        if (!is_ours(IS_LIBRARY(), buf, count, type, peer, tag, comm, &m))                                             \
            return beyond(buf, count, type, peer, tag, comm, request);                                                 \
        below_decide(&m, &fate);                                                                                       \
        int code = beyond(fate.buf, (int)fate.bytes, MPI_BYTE, fate.lost ? MPI_PROC_NULL : peer, tag, comm, request);  \
        send_behind(&fate);                                                                                            \
        return code;                                                                                                   \
    }

#define BLOCKING(name)                                                                                                 \
    int name(const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)                          \
    {                                                                                                                  \
        BEYOND(name)                                                                                                   \
        below_message_t m;                                                                                             \
        below_fate_t fate;                                                                                             \
        if (!is_ours(IS_LIBRARY(), buf, count, type, peer, tag, comm, &m))                                             \
            return beyond(buf, count, type, peer, tag, comm);                                                          \
        below_decide(&m, &fate);                                                                                       \
        int code = beyond(fate.buf, (int)fate.bytes, MPI_BYTE, fate.lost ? MPI_PROC_NULL : peer, tag, comm);           \
        send_behind(&fate);                                                                                            \
        return code;                                                                                                   \
    }

NONBLOCKING(PMPI_Isend)
NONBLOCKING(PMPI_Issend)
NONBLOCKING(PMPI_Irsend)
BLOCKING(PMPI_Send)
BLOCKING(PMPI_Ssend)
BLOCKING(PMPI_Rsend)

/* --- receives and reductions -------------------------------------------------------------------------------------- */

static below_open_t **place_of_open(MPI_Request request)
{
    uint64_t word = 0;
    memcpy(&word, &request, sizeof request);
    below_open_t **at = &below.open[(word * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    while (*at && (*at)->request != request)
        at = &(*at)->next;
    return at;
}

static void remember(MPI_Request request, const below_message_t *m)
{
    pthread_mutex_lock(&below.lock);
    below_open_t **at = place_of_open(request), *next = *at ? (*at)->next : NULL;
    if (!*at)
        *at = malloc(sizeof **at);
    if (*at)
        **at = (below_open_t){.next = next, .request = request, .message = *m};
    pthread_mutex_unlock(&below.lock);
}

static void forget(MPI_Request request)
{
    pthread_mutex_lock(&below.lock);
    below_open_t **at = place_of_open(request), *gone = *at;
    if (gone)
        *at = gone->next;
    free(gone);
    pthread_mutex_unlock(&below.lock);
}

int PMPI_Irecv(void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    BEYOND(PMPI_Irecv)
    const bool library = IS_LIBRARY();
    const int code = beyond(buf, count, type, peer, tag, comm, request);
    if (library && code == MPI_SUCCESS) {
        below_message_t m = {.buf = buf, .bytes = (size_t)count, .peer = peer, .tag = tag, .comm = comm};
        pthread_mutex_lock(&below.lock);
        m.channel = channel_of(comm);
        pthread_mutex_unlock(&below.lock);
        remember(*request, &m);
    }
    return code;
}

int PMPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                    MPI_Request *request)
{
    BEYOND(PMPI_Iallreduce)
    const bool library = IS_LIBRARY();
    MPI_Count each = 0;
    const int code = beyond(sendbuf, recvbuf, count, type, op, comm, request);
    PMPI_Type_size_x(type, &each);
    if (library && code == MPI_SUCCESS)
        remember(*request, &(below_message_t){
                               .buf = recvbuf, .bytes = (size_t)(each * count), .comm = comm, .channel = AGREEMENT});
    return code;
}

/* A message or a result has come: whether it is late, and damage to results, which nobody sent. */
static bool is_late(below_open_t *open, const MPI_Status *status)
{
    below_part_t part;
    below_message_t m = open->message;
    int bytes = 0;
    if (!open->judged && m.channel != NOT_OURS) {
        open->judged = true;
        if (m.channel != AGREEMENT) {
            PMPI_Get_count(status, MPI_BYTE, &bytes);
            m.bytes = bytes > 0 ? (size_t)bytes : 0;
            m.peer = status->MPI_SOURCE;
            m.tag = status->MPI_TAG;
        } else {
            below.class_of[below_find_class("reduction")].sent++;
        }
        const unsigned of_results = 1u << BELOW_FLIP | 1u << BELOW_MANY | 1u << BELOW_DELAY;
        const unsigned able = m.channel == AGREEMENT ? of_results : 1u << BELOW_DELAY;
        const int kind = below_choose(&m, below.kinds & able, &below.seen_in, &part);
        if (kind == BELOW_DELAY)
            open->due_s = seconds_now() + below.delay_s;
        else if (kind >= 0)
            below_damage((uint8_t *)(uintptr_t)m.buf, m.bytes, kind);
    }
    return open->due_s > seconds_now();
}

int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    BEYOND(PMPI_Test)
    const MPI_Request given = *request;
    MPI_Status seen;
    int done = 0, cancelled = 0;
    bool late = false;
    if (given == MPI_REQUEST_NULL || !IS_LIBRARY())
        return beyond(request, flag, status);
    pthread_mutex_lock(&below.lock);
    below_open_t *open = below.kinds ? *place_of_open(given) : NULL;
    pthread_mutex_unlock(&below.lock);
    if (open && PMPI_Request_get_status(given, &done, &seen) == MPI_SUCCESS) {
        if (done)
            PMPI_Test_cancelled(&seen, &cancelled);
        pthread_mutex_lock(&below.lock);
        late = !done || (!cancelled && is_late(open, &seen));
        pthread_mutex_unlock(&below.lock);
    }
    if (late) { /* what is not there yet must not come between the two questions */
        *flag = 0;
        return MPI_SUCCESS;
    }
    const int code = beyond(request, flag, status);
    if (code != MPI_SUCCESS || *flag)
        forget(given);
    return code;
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *copy, MPI_Request *request)
{
    BEYOND(PMPI_Comm_idup)
    const bool library = IS_LIBRARY();
    const int code = beyond(comm, copy, request);
    (void)library; /* learnt from its error handler: the handle need not be there yet */
    return code;
}

int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    BEYOND(PMPI_Comm_set_errhandler)
    if (IS_LIBRARY())
        learn_comm(comm);
    return beyond(comm, handler);
}

/* What was sent and hit, by what it was. */
__attribute__((destructor)) static void tell_sums(void)
{
    if (!getenv("BELOW_MPI_SUMS") || below.rank < 0)
        return;
    for (int i = 0; i < below.nclasses; i++) {
        fprintf(stderr, "below: rank %d: sent %s %llu", below.rank, below.class_of[i].name,
                (unsigned long long)below.class_of[i].sent);
        for (int k = 0; k < BELOW_KINDS; k++)
            if (below.class_of[i].hits[k])
                fprintf(stderr, " %s %llu", below_kind_name(k), (unsigned long long)below.class_of[i].hits[k]);
        fputc('\n', stderr);
    }
}
