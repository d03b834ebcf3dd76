/* SPDX-License-Identifier: BSD-3-Clause */
/* Some messages at once, for dropin_random: see dropin_random.h. No order of calls here waits for what comes later. */
#include "dropin_random.h"

#include <stdio.h>
#include <string.h>

#include "fixtures/check.h"

enum { MESSAGES = 8, BEFORE, AFTER, AGAIN, AROUND, WAYS };

/* One of the messages of a step. */
typedef struct message {
    int source, dest, tag;
    element_t element;
    int n, room;         /* elements sent, and received at most */
    bool sends, receives; /* this rank */
    bool any_source, any_tag;
    shape_t out, in;
    place_t from, to;
} message_t;

static bool is_only_one(const message_t *messages, int count, const message_t *message)
{
    int alike = 0;
    for (int i = 0; i < count; i++)
        alike += messages[i].source == message->source && messages[i].dest == message->dest;
    return alike == 1;
}

static void draw_messages(message_t *messages, int count)
{
    const unsigned size = (unsigned)now.size;
    for (int i = 0; i < count; i++) {
        message_t *m = &messages[i];
        *m = (message_t){.source = (int)draw_alike(size, "source", i), .dest = (int)draw_alike(size, "dest", i)};
        m->tag = now.step % 2000 * MESSAGES + i; /* which no other step's are */
        m->element = draw_element(i);
        m->n = draw_count("elements", i, ELEMENTS_MOST - 40);
        m->room = m->n + (draw_alike(3, "room", i) ? 0 : (int)draw_alike(40, "more room", i));
        m->sends = now.me == m->source;
        m->receives = now.me == m->dest;
        m->any_source = draw_alike(5, "any source", i) == 0;
    }
    for (int i = 0; i < count; i++)
        messages[i].any_tag = !messages[i].any_source && draw_alike(5, "any tag", i) == 0 &&
                              is_only_one(messages, count, &messages[i]);
}

static void open_message(message_t *m, int i)
{
    if (m->sends) {
        m->out = make_shape(m->element, m->n, i, false);
        m->from = open_place(i, m->out.span, m->element);
    }
    if (m->receives) {
        m->in = make_shape(m->element, m->room, MESSAGES + i, false);
        m->to = open_place(MESSAGES + i, m->in.span, m->element);
        if (now.says)
            printf("step %d, rank %d: receives message %d in memory %d, %d of a type\n", now.step, now.rank, i,
                   m->to.memory, m->in.count);
    }
}

static void close_message(message_t *m)
{
    if (m->sends) {
        check_place(&m->from);
        free_shape(&m->out);
    }
    if (m->receives) {
        check_place(&m->to);
        free_shape(&m->in);
    }
}

static void check_status(const message_t *m, MPI_Status *status, int elements)
{
    CHECK_EQ(elements, m->n);
    CHECK_EQ(status->MPI_SOURCE, m->source);
    CHECK_EQ(status->MPI_TAG, m->tag);
    if (elements != m->n || status->MPI_SOURCE != m->source || status->MPI_TAG != m->tag)
        printf("rank %d, seed %llu, step %d: %d of %d elements of %d bytes from %d with tag %d: %s\n", now.rank,
               (unsigned long long)now.seed, now.step, elements, m->n, m->element.bytes, status->MPI_SOURCE,
               status->MPI_TAG, now.text);
    fflush(stdout);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

#define CALL(name, ...) (plain ? PMPI_##name(__VA_ARGS__) : MPI_##name(__VA_ARGS__))

/* A send that some other one need not come after. Returns whether it has a request. */
static bool send_one(const message_t *m, int i, bool plain, bool may_block, MPI_Request *request)
{
    const void *buf = side_of(&m->from, plain);
    MPI_Comm const comm = comm_of(plain);
    int code = MPI_SUCCESS;
    const unsigned way = draw_alike(may_block ? 5 : 2, "send", i);
    switch (way) {
    case 0: code = CALL(Isend, buf, m->out.count, m->out.type, m->dest, m->tag, comm, request); break;
    case 1: code = CALL(Issend, buf, m->out.count, m->out.type, m->dest, m->tag, comm, request); break;
    case 2: code = CALL(Send, buf, m->out.count, m->out.type, m->dest, m->tag, comm); break;
    case 3: code = CALL(Ssend, buf, m->out.count, m->out.type, m->dest, m->tag, comm); break;
    default: code = CALL(Rsend, buf, m->out.count, m->out.type, m->dest, m->tag, comm); break;
    }
    CHECK_EQ(code, MPI_SUCCESS);
    return way < 2;
}

static int source_of(const message_t *m)
{
    return m->any_source ? MPI_ANY_SOURCE : m->source;
}

static int tag_of(const message_t *m)
{
    return m->any_tag ? MPI_ANY_TAG : m->tag;
}

/* Receives it whole, maybe after a look. */
static void receive_one(const message_t *m, int i, bool plain)
{
    void *buf = side_of(&m->to, plain);
    MPI_Comm const comm = comm_of(plain);
    MPI_Status status, seen;
    MPI_Message taken;
    int elements = -1, code = MPI_SUCCESS, found = 0;
    switch (draw_alike(4, "receive", i)) {
    case 0:
        code = CALL(Recv, buf, m->in.count, m->in.type, source_of(m), tag_of(m), comm, &status);
        break;
    case 1:
        CALL(Probe, source_of(m), tag_of(m), comm, &seen);
        code = CALL(Recv, buf, m->in.count, m->in.type, seen.MPI_SOURCE, seen.MPI_TAG, comm, &status);
        break;
    case 2:
        while (!found)
            CALL(Improbe, source_of(m), tag_of(m), comm, &found, &taken, &seen);
        CALL(Get_elements, &seen, m->element.type, &elements);
        check_status(m, &seen, elements);
        code = CALL(Mrecv, buf, m->in.count, m->in.type, &taken, &status);
        break;
    default:
        while (!found)
            CALL(Iprobe, source_of(m), tag_of(m), comm, &found, &seen);
        CALL(Get_elements, &seen, m->element.type, &elements);
        check_status(m, &seen, elements);
        code = CALL(Recv, buf, m->in.count, m->in.type, source_of(m), tag_of(m), comm, &status);
        break;
    }
    CHECK_EQ(code, MPI_SUCCESS);
    CALL(Get_elements, &status, m->in.type, &elements);
    check_status(m, &status, elements);
}

/* Whether nothing was written from a status on. */
static bool is_untouched(const MPI_Status *begin, const MPI_Status *end)
{
    for (const unsigned char *at = (const void *)begin; at < (const unsigned char *)(const void *)end; at++)
        if (*at != 0x77)
            return false;
    return true;
}

/* Ends them all. whose[i]: the message that request i receives, or NULL. */
static void complete_all(MPI_Request *requests, const message_t **whose, int count, bool plain)
{
    enum { ANY, SOME, EACH, TEST_ALL, WAIT_ALL, COMPLETIONS };
    MPI_Status statuses[2 * MESSAGES];
    int indices[2 * MESSAGES], order[2 * MESSAGES], ended = 0, flag = 0, code = MPI_SUCCESS;
    const unsigned way = draw(COMPLETIONS, "completion", 0, now.rank);
    memset(statuses, 0x77, sizeof statuses);
    if (now.says && !plain)
        printf("step %d, rank %d: completes %d requests by way %u\n", now.step, now.rank, count, way);
    fflush(stdout);
    for (int i = 0; i < count; i++)
        order[i] = i;
    while (way <= EACH && ended < count && code == MPI_SUCCESS) {
        int n = 1;
        indices[0] = ended;
        if (way == ANY) {
            code = CALL(Waitany, count, requests, &indices[0], &statuses[ended]);
        } else if (way == SOME) { /* there is room for what can end, not for all that there were */
            code = CALL(Waitsome, count, requests, &n, indices, &statuses[ended]);
            CHECK(is_untouched(&statuses[ended + n], &statuses[2 * MESSAGES]));
        } else {
            for (flag = 0; !flag && code == MPI_SUCCESS;)
                code = CALL(Test, &requests[ended], &flag, &statuses[ended]);
        }
        for (int i = 0; i < n; i++)
            order[ended++] = indices[i];
    }
    while (way == TEST_ALL && !flag && code == MPI_SUCCESS)
        code = CALL(Testall, count, requests, &flag, statuses);
    if (way == WAIT_ALL)
        code = CALL(Waitall, count, requests, statuses);
    CHECK_EQ(code, MPI_SUCCESS);
    for (int i = 0; i < count; i++) {
        const message_t *m = whose[order[i]];
        int elements = -1;
        if (!m)
            continue;
        CALL(Get_elements, &statuses[i], m->in.type, &elements);
        check_status(m, &statuses[i], elements);
    }
}

/* Receives are there before anything is sent. */
static void receive_before(const message_t *messages, int count, bool plain)
{
    MPI_Request requests[2 * MESSAGES];
    const message_t *whose[2 * MESSAGES] = {NULL};
    int open = 0;
    for (int i = 0; i < count; i++) {
        const message_t *m = &messages[i];
        if (!m->receives)
            continue;
        whose[open] = m;
        CHECK_EQ(CALL(Irecv, side_of(&m->to, plain), m->in.count, m->in.type, source_of(m), tag_of(m), comm_of(plain),
                      &requests[open++]), MPI_SUCCESS);
    }
    CALL(Barrier, comm_of(plain)); /* as sends need that want a receive to be there */
    for (int i = 0; i < count; i++)
        if (messages[i].sends)
            open += send_one(&messages[i], i, plain, true, &requests[open]);
    complete_all(requests, whose, open, plain);
}

/* All is sent before anything is received. */
static void receive_after(const message_t *messages, int count, bool plain)
{
    MPI_Request requests[2 * MESSAGES];
    const message_t *whose[2 * MESSAGES] = {NULL};
    int open = 0;
    for (int i = 0; i < count; i++)
        if (messages[i].sends)
            open += send_one(&messages[i], i, plain, false, &requests[open]);
    for (int i = 0; i < count; i++)
        if (messages[i].receives)
            receive_one(&messages[i], i, plain);
    complete_all(requests, whose, open, plain);
}

/* By persistent requests, twice. */
static void pass_again(const message_t *messages, int count, bool plain)
{
    MPI_Request requests[2 * MESSAGES];
    const message_t *whose[2 * MESSAGES] = {NULL};
    int open = 0;
    for (int i = 0; i < count; i++) {
        const message_t *m = &messages[i];
        if (m->receives) {
            whose[open] = m;
            CALL(Recv_init, side_of(&m->to, plain), m->in.count, m->in.type, source_of(m), tag_of(m), comm_of(plain),
                 &requests[open++]);
        }
        if (m->sends)
            CALL(Send_init, side_of(&m->from, plain), m->out.count, m->out.type, m->dest, m->tag, comm_of(plain),
                 &requests[open++]);
    }
    for (int turn = 0; turn < 2; turn++) {
        CALL(Barrier, comm_of(plain)); /* tags are the same in both */
        CHECK_EQ(CALL(Startall, open, requests), MPI_SUCCESS);
        complete_all(requests, whose, open, plain);
    }
    for (int i = 0; i < open; i++)
        CALL(Request_free, &requests[i]);
}

/* Each rank to one and from another: in one call, from one buffer to another or within one. */
static void pass_around(void)
{
    const element_t element = draw_element(0);
    const int n = draw_count("elements", 0, ELEMENTS_MOST), by = (int)draw_alike((unsigned)now.size, "by", 0);
    const int dest = (now.me + by) % now.size, source = (now.me + now.size - by) % now.size, tag = now.step % 2000;
    const bool replaces = draw_alike(3, "replaces", 0) == 0;
    shape_t out = make_shape(element, n, 0, false), in = make_shape(element, n, 1, false);
    const place_t from = open_place(0, out.span, element), to = open_place(1, in.span, element);
    MPI_Status status;
    snprintf(now.text, sizeof now.text, "%d elements of %d bytes around %d ranks by %d%s", n, element.bytes, now.size,
             by, replaces ? ", in place" : "");
    for (int plain = 0; plain < 2; plain++) {
        int elements = -1, code;
        if (replaces)
            code = CALL(Sendrecv_replace, side_of(&from, plain), out.count, out.type, dest, tag, source, tag,
                        comm_of(plain), &status);
        else
            code = CALL(Sendrecv, side_of(&from, plain), out.count, out.type, dest, tag, side_of(&to, plain), in.count,
                        in.type, source, tag, comm_of(plain), &status);
        CHECK_EQ(code, MPI_SUCCESS);
        CALL(Get_elements, &status, replaces ? out.type : in.type, &elements);
        CHECK_EQ(elements, n);
        CHECK_EQ(status.MPI_SOURCE, source);
        CHECK_EQ(status.MPI_TAG, tag);
    }
    check_place(&from);
    check_place(&to);
    free_shape(&out);
    free_shape(&in);
}

void pass_messages(void)
{
    message_t messages[MESSAGES];
    const int count = 1 + (int)draw_alike(MESSAGES, "messages", 0);
    const unsigned way = draw_alike(WAYS - BEFORE, "way", 0) + BEFORE;
    if (way == AROUND) {
        pass_around();
        return;
    }
    draw_messages(messages, count);
    snprintf(now.text, sizeof now.text, "%d messages of %d ranks, the first of %d elements of %d bytes, way %u", count,
             now.size, messages[0].n, messages[0].element.bytes, way - BEFORE);
    for (int i = 0; i < count; i++)
        open_message(&messages[i], i);
    for (int i = 0; i < count && now.says && now.rank == 0; i++)
        printf("step %d: %s: %d elements of %d bytes from %d to %d, room for %d, send %u, receive %u%s%s\n", now.step,
               now.text, messages[i].n, messages[i].element.bytes, messages[i].source, messages[i].dest,
               messages[i].room, draw_alike(way == BEFORE ? 5 : 2, "send", i), draw_alike(4, "receive", i),
               messages[i].any_source ? ", any source" : "", messages[i].any_tag ? ", any tag" : "");
    fflush(stdout);
    for (int plain = 0; plain < 2; plain++)
        (way == BEFORE ? receive_before : way == AFTER ? receive_after : pass_again)(messages, count, plain);
    for (int i = 0; i < count; i++)
        close_message(&messages[i]);
}
