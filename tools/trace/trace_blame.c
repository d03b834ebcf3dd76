/* SPDX-License-Identifier: BSD-3-Clause */
/* Spans from ends, and causes from spans. See trace_blame.h. */
#include "tools/trace/trace_blame.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

typedef struct span {
    const trace_end_t *ends;     /* of its rank and epoch */
    size_t count;
    const trace_end_t *last;     /* the receive that was over last, or the call; NULL: it only sends */
    int64_t start_ns, done_ns;
} span_t;

typedef struct blamer {
    const trace_file_t *file;
    span_t *spans;               /* in the order of ends */
    span_t **of_rank;            /* by rank, then by end */
    size_t *first_of_rank;       /* of_rank[first_of_rank[r]] to before [r + 1] */
    size_t nspans;
    trace_blame_t *blame;
    const span_t *now;           /* whose time is being explained at last */
    bool out_of_memory;
} blamer_t;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* --- spans -------------------------------------------------------------------------------------------------------- */

static bool is_one_span(const trace_end_t *a, const trace_end_t *b)
{
    const bool packets = a->role <= TRACE_RECV && b->role <= TRACE_RECV;
    return (packets || a->role == b->role) && a->exchange == b->exchange && a->epoch == b->epoch &&
           a->turn == b->turn && a->rank == b->rank;
}

static void make_spans(blamer_t *k)
{
    const trace_file_t *file = k->file;
    for (size_t i = 0; i < file->nends; i++) {
        const trace_end_t *end = &file->ends[i];
        span_t *span = k->nspans > 0 ? &k->spans[k->nspans - 1] : NULL;
        if (!span || !is_one_span(span->ends, end)) {
            span = &k->spans[k->nspans++];
            *span = (span_t){.ends = end, .start_ns = end->at_ns[TRACE_BEGAN], .done_ns = end->at_ns[TRACE_LEFT]};
        }
        span->count++;
        if (end->at_ns[TRACE_BEGAN] < span->start_ns)
            span->start_ns = end->at_ns[TRACE_BEGAN];
        span->done_ns = larger(span->done_ns, end->at_ns[TRACE_LEFT]);
        if (end->role != TRACE_SEND && (!span->last || end->at_ns[TRACE_LEFT] > span->last->at_ns[TRACE_LEFT]))
            span->last = end;
    }
}

static int compare_spans(const void *a, const void *b)
{
    const span_t *one = *(span_t *const *)a, *other = *(span_t *const *)b;
    if (one->ends->rank != other->ends->rank)
        return one->ends->rank < other->ends->rank ? -1 : 1;
    if (one->done_ns != other->done_ns)
        return one->done_ns < other->done_ns ? -1 : 1;
    return (one->start_ns > other->start_ns) - (one->start_ns < other->start_ns);
}

/* After this, spans of a rank follow each other. */
static void sort_spans(blamer_t *k)
{
    int rank = 0;
    for (size_t i = 0; i < k->nspans; i++)
        k->of_rank[i] = &k->spans[i];
    qsort(k->of_rank, k->nspans, sizeof *k->of_rank, compare_spans);
    for (size_t i = 0; i < k->nspans; i++) {
        span_t *span = k->of_rank[i];
        while (rank <= span->ends->rank)
            k->first_of_rank[rank++] = i;
        if (i > k->first_of_rank[span->ends->rank])
            span->start_ns = larger(span->start_ns, k->of_rank[i - 1]->done_ns);
    }
    while (rank <= k->file->nranks)
        k->first_of_rank[rank++] = k->nspans;
}

static int compare_to_end(const void *a, const void *b)
{
    const trace_end_t *key = a;
    const span_t *span = b;
    return is_one_span(key, span->ends) ? 0 : trace_end_order(key, span->ends);
}

static const span_t *find_span(const blamer_t *k, const trace_end_t *like, int rank)
{
    trace_end_t key = *like;
    key.rank = rank;
    return bsearch(&key, k->spans, k->nspans, sizeof *k->spans, compare_to_end);
}

/* The other end of a packet that is received. */
static const trace_end_t *find_send(const span_t *span, const trace_end_t *recv)
{
    for (size_t i = 0; i < span->count; i++) {
        const trace_end_t *end = &span->ends[i];
        if (end->role == TRACE_SEND && end->packet == recv->packet && end->peer == recv->rank)
            return end;
    }
    return NULL;
}

/* --- causes ------------------------------------------------------------------------------------------------------- */

/* Causes of ranks come first, by kind and rank; links are added after them. */
static trace_cause_t *find_cause(blamer_t *k, trace_cause_kind_t kind, int rank, int peer)
{
    trace_blame_t *blame = k->blame;
    const size_t nranks = (size_t)k->file->nranks;
    if (kind != TRACE_LINK)
        return &blame->causes[(size_t)kind * nranks + (size_t)rank];
    for (size_t i = TRACE_CAUSES * nranks; i < blame->ncauses; i++)
        if (blame->causes[i].rank == rank && blame->causes[i].peer == peer)
            return &blame->causes[i];
    if (blame->ncauses == blame->room) {
        trace_cause_t *causes = realloc(blame->causes, 2 * blame->room * sizeof *causes);
        if (!causes)
            return NULL;
        blame->causes = causes;
        blame->room *= 2;
    }
    trace_cause_t *cause = &blame->causes[blame->ncauses++];
    *cause = (trace_cause_t){.kind = kind, .rank = rank, .peer = peer};
    return cause;
}

static void add_to_cause(blamer_t *k, trace_cause_kind_t kind, int rank, int peer, int64_t ns)
{
    trace_cause_t *cause = find_cause(k, kind, rank, peer);
    if (!cause) {
        k->out_of_memory = true;
        return;
    }
    cause->ns += ns;
    cause->times++;
    if (ns > cause->longest_ns) {
        cause->longest_ns = ns;
        cause->exchange = k->now->ends->exchange;
        cause->epoch = k->now->ends->epoch;
    }
}

/* Time that is being cut from its beginning on. */
typedef struct cutting {
    blamer_t *k;
    int64_t at_ns, end_ns;
} cutting_t;

/* What lies before until_ns has that cause. 0: nothing is known of that time. */
static void cut(cutting_t *c, int64_t until_ns, trace_cause_kind_t kind, int rank, int peer)
{
    const int64_t until = until_ns < c->end_ns ? until_ns : c->end_ns;
    if (until <= c->at_ns)
        return;
    add_to_cause(c->k, kind, rank, peer, until - c->at_ns);
    c->at_ns = until;
}

static void explain_span(blamer_t *k, const span_t *span, int64_t from_ns, int64_t to_ns, int depth);

/* What the rank did in that time, the last thing first. */
static void explain_rank(blamer_t *k, int rank, int64_t from_ns, int64_t to_ns, int depth)
{
    size_t low = k->first_of_rank[rank], high = k->first_of_rank[rank + 1];
    const size_t first = low;
    while (low < high) { /* the number of spans that began before */
        const size_t middle = low + (high - low) / 2;
        if (k->of_rank[middle]->start_ns < to_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i > first && to_ns > from_ns && depth < DEPTH_MAX; i--) {
        const span_t *span = k->of_rank[i - 1];
        const int64_t done_ns = larger(span->done_ns, from_ns), start_ns = larger(span->start_ns, from_ns);
        if (done_ns < to_ns) {
            add_to_cause(k, TRACE_BUSY, rank, -1, to_ns - done_ns);
            to_ns = done_ns;
        }
        if (start_ns < to_ns)
            explain_span(k, span, start_ns, to_ns, depth + 1);
        to_ns = start_ns < to_ns ? start_ns : to_ns;
    }
    if (to_ns > from_ns)
        add_to_cause(k, TRACE_BUSY, rank, -1, to_ns - from_ns);
}

/* What lies before another rank's span has whatever cause that rank says. */
static void cut_before_span(cutting_t *c, const span_t *other, int depth)
{
    const int64_t until = other->start_ns < c->end_ns ? other->start_ns : c->end_ns;
    if (until <= c->at_ns)
        return;
    explain_rank(c->k, other->ends->rank, c->at_ns, until, depth);
    c->at_ns = until;
}

static void explain_packet(cutting_t *c, const trace_end_t *recv, int depth)
{
    const int me = recv->rank, from = recv->peer;
    const span_t *other = find_span(c->k, recv, from);
    const trace_end_t *send = other ? find_send(other, recv) : NULL;
    const trace_cause_kind_t link = from == me ? TRACE_MOVE : TRACE_LINK;
    const int to = from == me ? -1 : me;
    if (other && from != me)
        cut_before_span(c, other, depth);
    if (send) {
        cut(c, send->at_ns[TRACE_BEGAN], TRACE_STORE, from, -1);
        cut(c, send->at_ns[TRACE_SAW], TRACE_LEAVE, me, -1);
        cut(c, larger(send->at_ns[TRACE_STORED], send->at_ns[TRACE_PACKED]), TRACE_STORE, from, -1);
        cut(c, send->at_ns[TRACE_SIGNALLED], TRACE_SIGNAL, from, -1);
    }
    if (recv->at_ns[TRACE_SAW]) {
        cut(c, recv->at_ns[TRACE_BEGAN], TRACE_BUSY, me, -1);
        cut(c, recv->at_ns[TRACE_SAW], link, from, to);
    } else { /* the host saw it, and launched then */
        cut(c, recv->at_ns[TRACE_BEGAN], link, from, to);
    }
    cut(c, recv->at_ns[TRACE_STORED], TRACE_MOVE, me, -1);
    cut(c, recv->at_ns[TRACE_VERIFIED], TRACE_VERIFY, me, -1);
    cut(c, c->end_ns, TRACE_END, me, -1);
}

static bool is_one_call(const trace_end_t *a, const trace_end_t *b)
{
    return a->role == TRACE_COLL && b->role == TRACE_COLL && a->exchange == b->exchange && a->epoch == b->epoch &&
           a->turn == b->turn;
}

/* The rank that came last to a call. */
static const trace_end_t *find_last_comer(const blamer_t *k, const trace_end_t *call)
{
    const trace_end_t *begin = k->file->ends, *end = begin + k->file->nends, *last = call;
    const trace_end_t *first = call;
    while (first > begin && is_one_call(first - 1, call))
        first--;
    for (; first < end && is_one_call(first, call); first++)
        if (first->at_ns[TRACE_BEGAN] > last->at_ns[TRACE_BEGAN])
            last = first;
    return last;
}

static void explain_call(cutting_t *c, const trace_end_t *call, int depth)
{
    const trace_end_t *last = call->role == TRACE_COLL ? find_last_comer(c->k, call) : call;
    const span_t *other = last != call ? find_span(c->k, last, last->rank) : NULL;
    if (other)
        cut_before_span(c, other, depth);
    cut(c, c->end_ns, TRACE_CALL, call->rank, -1);
}

static void explain_span(blamer_t *k, const span_t *span, int64_t from_ns, int64_t to_ns, int depth)
{
    cutting_t c = {.k = k, .at_ns = from_ns, .end_ns = to_ns};
    const span_t *const before = k->now;
    k->now = span;
    if (!span->last)
        cut(&c, to_ns, TRACE_STORE, span->ends->rank, -1);
    else if (span->last->role == TRACE_RECV)
        explain_packet(&c, span->last, depth);
    else
        explain_call(&c, span->last, depth);
    k->now = before;
}

/* --- shares ------------------------------------------------------------------------------------------------------- */

/* A rank's own view of a span. */
static void add_to_share(trace_share_t *share, const blamer_t *k, const span_t *span)
{
    const trace_end_t *last = span->last;
    int64_t saw_ns = span->start_ns, stored_ns = span->done_ns, verified_ns = span->done_ns;
    if (last && last->role == TRACE_RECV) {
        saw_ns = last->at_ns[TRACE_SAW] ? last->at_ns[TRACE_SAW] : last->at_ns[TRACE_BEGAN];
        stored_ns = last->at_ns[TRACE_STORED];
        verified_ns = last->at_ns[TRACE_VERIFIED];
    } else if (last && last->role == TRACE_COLL) {
        saw_ns = find_last_comer(k, last)->at_ns[TRACE_BEGAN];
    }
    int64_t at_ns = span->start_ns;
    const int64_t until[3] = {saw_ns, stored_ns, verified_ns};
    int64_t *part[3] = {&share->wait_ns, &share->store_ns, &share->verify_ns};
    for (int i = 0; i < 3; i++) {
        const int64_t next = until[i] < span->done_ns ? until[i] : span->done_ns;
        if (next <= at_ns)
            continue;
        *part[i] += next - at_ns;
        at_ns = next;
    }
    share->end_ns += span->done_ns - at_ns;
    if (share->spans++ == 0)
        share->first_ns = span->start_ns;
    else
        share->between_ns += span->start_ns - share->last_ns;
    share->last_ns = span->done_ns;
}

/* --- all together ------------------------------------------------------------------------------------------------- */

static int compare_causes(const void *a, const void *b)
{
    const trace_cause_t *one = a, *other = b;
    return (one->ns < other->ns) - (one->ns > other->ns);
}

static bool make_blamer(blamer_t *k)
{
    const size_t nranks = (size_t)k->file->nranks, nends = k->file->nends;
    trace_blame_t *blame = k->blame;
    k->spans = calloc(nends + 1, sizeof *k->spans);
    k->of_rank = calloc(nends + 1, sizeof(span_t *));
    k->first_of_rank = calloc(nranks + 1, sizeof *k->first_of_rank);
    blame->ncauses = TRACE_CAUSES * nranks;
    blame->room = blame->ncauses + 64;
    blame->causes = calloc(blame->room, sizeof *blame->causes);
    blame->shares = calloc(nranks + 1, sizeof *blame->shares);
    if (!k->spans || !k->of_rank || !k->first_of_rank || !blame->causes || !blame->shares)
        return false;
    for (size_t i = 0; i < blame->ncauses; i++)
        blame->causes[i] =
            (trace_cause_t){.kind = (trace_cause_kind_t)(i / nranks), .rank = (int)(i % nranks), .peer = -1};
    return true;
}

bool trace_blame_find(const trace_file_t *file, trace_blame_t *blame_out)
{
    trace_blame_t blame = {0};
    blamer_t k = {.file = file, .blame = &blame};
    bool good = make_blamer(&k);
    if (good) {
        make_spans(&k);
        sort_spans(&k);
        for (size_t i = 0; i < k.nspans; i++) {
            const span_t *span = k.of_rank[i];
            add_to_share(&blame.shares[span->ends->rank], &k, span);
            blame.total_ns += span->done_ns - span->start_ns;
            explain_span(&k, span, span->start_ns, span->done_ns, 0);
        }
        good = !k.out_of_memory;
        if (blame.ncauses > 0)
            qsort(blame.causes, blame.ncauses, sizeof *blame.causes, compare_causes);
    }
    free(k.spans);
    free(k.of_rank);
    free(k.first_of_rank);
    if (!good)
        trace_blame_free(&blame);
    *blame_out = blame;
    return good;
}

void trace_blame_free(trace_blame_t *blame)
{
    free(blame->causes);
    free(blame->shares);
    *blame = (trace_blame_t){0};
}

const trace_cause_t *trace_blame_worst(const trace_blame_t *blame, int nranks, int64_t *excess_ns_out)
{
    const trace_cause_t *worst = NULL;
    *excess_ns_out = 0;
    for (int kind = 0; kind < TRACE_CAUSES; kind++) {
        /* Causes stand in the order of their times: the lower median of a kind is its n / 2 th from the end. */
        size_t count = 0, seen = 0;
        int64_t median_ns = 0;
        const trace_cause_t *first = NULL;
        for (size_t i = 0; i < blame->ncauses; i++)
            count += (int)blame->causes[i].kind == kind && blame->causes[i].rank < nranks;
        for (size_t i = 0; i < blame->ncauses && seen <= count / 2; i++) {
            if ((int)blame->causes[i].kind != kind)
                continue;
            first = first ? first : &blame->causes[i];
            median_ns = blame->causes[i].ns;
            seen++;
        }
        if (first && first->ns - median_ns > *excess_ns_out) {
            *excess_ns_out = first->ns - median_ns;
            worst = first;
        }
    }
    return worst;
}
