/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See coll_case.h. A block of device memory is GUARD bytes, the buffer at its shift, and at least GUARD bytes; what is
 * not input is filled with a pattern, and all of it is compared. In place, the one block is that of send.
 */
#include "coll_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { SEND, RECV, GUARD = 256, FILLING = 0x6b };

static const char *const call_names[COLL_CALLS] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                                   "reduce", "all_to_all", "pairs", "barrier"};

const char *coll_call_name(int call)
{
    return call_names[call];
}

bool coll_call_reduces(int call)
{
    return call == COLL_ALL_REDUCE || call == COLL_REDUCE_SCATTER || call == COLL_REDUCE;
}

/* Elements of a buffer of the call. */
static uint64_t elements(const coll_case_t *what, int side)
{
    uint64_t all = what->count * (uint64_t)what->terms.nranks;
    switch (what->call) {
    case COLL_REDUCE_SCATTER: return side == SEND ? all : what->count;
    case COLL_ALL_GATHER: return side == RECV ? all : what->count;
    case COLL_ALL_TO_ALL: return all;
    case COLL_BARRIER: return 0;
    default: return what->count;
    }
}

size_t coll_case_bytes(const coll_case_t *what)
{
    uint64_t most = elements(what, SEND) > elements(what, RECV) ? elements(what, SEND) : elements(what, RECV);
    return (size_t)(most + what->shift) * coll_type_bytes(what->terms.type) + 2 * GUARD;
}

void coll_case_text(const coll_case_t *what, char *text, size_t text_bytes)
{
    static const char *const operations[] = {"?", "sum", "prod", "min", "max", "avg"};
    const coll_terms_t *terms = &what->terms;
    snprintf(text, text_bytes, "%s of %llu %s, %s%s, root %d, %d ranks, values %d, seed %llu%s, windows %#x, shift %u",
             call_names[what->call], (unsigned long long)what->count, selvage_type_name(terms->type),
             terms->scaled ? what->device_scalar ? "device-scaled " : "scaled " : "", operations[terms->op], what->root,
             terms->nranks, (int)terms->values, (unsigned long long)terms->seed, what->in_place ? ", in place" : "",
             what->registered, what->shift);
}

static void *device_memory(selvage_device_t *dev, size_t bytes)
{
    void *memory = NULL;
    CHECK_STATUS(selvage_device_malloc(dev, bytes, &memory), SELVAGE_SUCCESS);
    return memory;
}

void coll_try_open(coll_try_t *try, selvage_coll_t *coll, selvage_device_t *dev, size_t capacity, bool with_windows)
{
    *try = (coll_try_t){.coll = coll, .dev = dev, .rank = selvage_coll_rank(coll), .capacity = capacity};
    for (int side = SEND; side <= RECV; side++) {
        try->block[0][side] = device_memory(dev, capacity);
        try->block[1][side] = with_windows ? device_memory(dev, capacity) : NULL;
        try->host[side] = malloc(capacity);
        if (with_windows)
            CHECK_STATUS(selvage_coll_register(coll, try->block[1][side], capacity, &try->window[side]),
                         SELVAGE_SUCCESS);
    }
    try->found = malloc(capacity);
    try->scalar = device_memory(dev, sizeof(uint64_t));
}

void coll_try_close(coll_try_t *try)
{
    for (int side = SEND; side <= RECV; side++) {
        if (try->window[side])
            CHECK_STATUS(selvage_coll_unregister(try->window[side]), SELVAGE_SUCCESS);
        for (int kind = 0; kind < 2; kind++)
            if (try->block[kind][side])
                selvage_device_free(try->dev, try->block[kind][side]);
        free(try->host[side]);
    }
    free(try->found);
    selvage_device_free(try->dev, try->scalar);
}

static bool is_in_place(const coll_case_t *what)
{
    return what->in_place && what->call != COLL_ALL_TO_ALL && what->call != COLL_PAIRS;
}

static size_t bytes_of(const coll_try_t *try, int side)
{
    return (size_t)elements(try->what, side) * coll_type_bytes(try->what->terms.type);
}

/* The blocks of this case, and where its buffers begin in them. */
static uint8_t **place(coll_try_t *try)
{
    const coll_case_t *what = try->what;
    const size_t element = coll_type_bytes(what->terms.type);
    uint64_t state = what->terms.seed * 16 + (uint64_t)try->rank;
    for (int side = SEND; side <= RECV; side++)
        try->at[side] = GUARD + element * (size_t)coll_random(&state, what->shift + 1u);
    if (is_in_place(what)) {
        size_t own = (size_t)try->rank * (size_t)what->count * element;
        try->at[RECV] = try->at[SEND] + (what->call == COLL_REDUCE_SCATTER ? own : 0);
        if (what->call == COLL_ALL_GATHER)
            try->at[SEND] += own;
    }
    return try->block[what->registered >> try->rank & 1 && try->block[1][SEND]];
}

/* Whom this rank sends to and receives from, in pairs: a permutation drawn from the seed. */
static void partners(const coll_case_t *what, int rank, int *to, int *from)
{
    int order[16];
    uint64_t state = what->terms.seed ^ 0x5a5a;
    for (int r = 0; r < what->terms.nranks; r++)
        order[r] = r;
    for (int r = what->terms.nranks - 1; r > 0; r--) {
        int other = (int)coll_random(&state, (uint64_t)r + 1), held = order[r];
        order[r] = order[other];
        order[other] = held;
    }
    *to = order[rank];
    for (int r = 0; r < what->terms.nranks; r++)
        if (order[r] == rank)
            *from = r;
}

/* Element i of what this rank sends; every element of a reduce-scatter counts, as those of all-to-all do. */
static void fill_elements(coll_try_t *try, uint8_t *to)
{
    const coll_case_t *what = try->what;
    const size_t element = coll_type_bytes(what->terms.type);
    for (uint64_t i = 0; i < elements(what, SEND); i++)
        coll_terms_value(&what->terms, try->rank, i, to + i * element);
}

static void prepare_operation(coll_try_t *try, void *stream)
{
    const coll_case_t *what = try->what;
    uint8_t scalar[8];
    try->op = what->terms.op;
    try->op_created = what->terms.scaled && coll_call_reduces(what->call);
    if (!try->op_created)
        return;
    coll_terms_scalar(&what->terms, try->rank, scalar);
    if (what->device_scalar) {
        CHECK_STATUS(selvage_device_copy(try->dev, try->scalar, scalar, coll_type_bytes(what->terms.type),
                                         SELVAGE_COPY_HOST_TO_DEVICE, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(try->dev, stream), SELVAGE_SUCCESS); /* scalar is on the stack */
    }
    CHECK_STATUS(selvage_coll_op_create(try->coll, what->device_scalar ? try->scalar : scalar, what->terms.type,
                                        what->device_scalar ? SELVAGE_SCALAR_DEVICE : SELVAGE_SCALAR_HOST, &try->op),
                 SELVAGE_SUCCESS);
}

void coll_try_fill(coll_try_t *try, const coll_case_t *what, void *stream)
{
    try->what = what;
    uint8_t **block = place(try);
    const size_t used = coll_case_bytes(what);
    for (int side = SEND; side <= RECV; side++)
        memset(try->host[side], FILLING + side, used);
    fill_elements(try, try->host[SEND] + try->at[SEND]);
    for (int side = SEND; side <= (is_in_place(what) ? SEND : RECV); side++)
        CHECK_STATUS(selvage_device_copy(try->dev, block[side], try->host[side], used, SELVAGE_COPY_HOST_TO_DEVICE,
                                         stream), SELVAGE_SUCCESS);
    prepare_operation(try, stream);
}

static selvage_status_t call_pairs(coll_try_t *try, const void *send, void *recv, void *stream)
{
    const coll_case_t *what = try->what;
    int to = 0, from = 0;
    partners(what, try->rank, &to, &from);
    selvage_status_t status = selvage_coll_group_begin(try->coll);
    if (status == SELVAGE_SUCCESS)
        status = selvage_coll_recv(try->coll, recv, what->count, what->terms.type, from, stream);
    if (status == SELVAGE_SUCCESS)
        status = selvage_coll_send(try->coll, send, what->count, what->terms.type, to, stream);
    selvage_status_t ended = selvage_coll_group_end(try->coll);
    return status == SELVAGE_SUCCESS ? ended : status;
}

selvage_status_t coll_try_call(coll_try_t *try, void *stream)
{
    const coll_case_t *what = try->what;
    uint8_t **block = place(try);
    const void *send = block[SEND] + try->at[SEND];
    void *recv = block[is_in_place(what) ? SEND : RECV] + try->at[RECV];
    const selvage_type_t type = what->terms.type;
    selvage_coll_t *coll = try->coll;
    switch (what->call) {
    case COLL_ALL_REDUCE: return selvage_coll_all_reduce(coll, send, recv, what->count, type, try->op, stream);
    case COLL_REDUCE_SCATTER: return selvage_coll_reduce_scatter(coll, send, recv, what->count, type, try->op, stream);
    case COLL_ALL_GATHER: return selvage_coll_all_gather(coll, send, recv, what->count, type, stream);
    case COLL_BROADCAST: return selvage_coll_broadcast(coll, send, recv, what->count, type, what->root, stream);
    case COLL_REDUCE: return selvage_coll_reduce(coll, send, recv, what->count, type, try->op, what->root, stream);
    case COLL_ALL_TO_ALL: return selvage_coll_all_to_all(coll, send, recv, what->count, type, stream);
    case COLL_PAIRS: return call_pairs(try, send, recv, stream);
    default: return selvage_coll_barrier(coll, stream);
    }
}

/* Whether output element i is what it must be. */
static bool is_right(const coll_try_t *try, uint64_t i, const void *found)
{
    const coll_case_t *what = try->what;
    const coll_terms_t *terms = &what->terms;
    uint8_t wanted[8];
    int source = what->root, to;
    uint64_t index = i;
    if (coll_call_reduces(what->call)) {
        index += what->call == COLL_REDUCE_SCATTER ? (uint64_t)try->rank * what->count : 0;
        return what->any_order ? coll_terms_near(terms, index, found) : coll_terms_exact(terms, index, found);
    }
    if (what->call == COLL_PAIRS)
        partners(what, try->rank, &to, &source);
    if (what->call == COLL_ALL_GATHER || what->call == COLL_ALL_TO_ALL) {
        source = (int)(i / what->count);
        index = i % what->count + (what->call == COLL_ALL_TO_ALL ? (uint64_t)try->rank * what->count : 0);
    }
    coll_terms_value(terms, source, index, wanted);
    return memcmp(wanted, found, coll_type_bytes(terms->type)) == 0;
}

static bool has_output(const coll_try_t *try)
{
    return try->what->call != COLL_BARRIER && (try->what->call != COLL_REDUCE || try->rank == try->what->root);
}

static void report_first(const coll_try_t *try, uint64_t i, const uint8_t *found)
{
    const coll_terms_t *terms = &try->what->terms;
    char text[320];
    uint8_t wanted[8] = {0};
    coll_case_text(try->what, text, sizeof text);
    if (coll_call_reduces(try->what->call))
        coll_terms_result(terms, i + (try->what->call == COLL_REDUCE_SCATTER ? (uint64_t)try->rank * try->what->count
                                                                              : 0), wanted);
    fprintf(stderr, "rank %d: element %llu is %.17g, the reference %.17g (0 for copies): %s\n", try->rank,
            (unsigned long long)i, coll_number(terms->type, found), coll_number(terms->type, wanted), text);
}

static long wrong_elements(const coll_try_t *try)
{
    const size_t element = coll_type_bytes(try->what->terms.type);
    const uint64_t count = has_output(try) ? elements(try->what, RECV) : 0;
    long wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *found = try->found + try->at[RECV] + i * element;
        if (!is_right(try, i, found) && wrong++ == 0)
            report_first(try, i, found);
    }
    return wrong;
}

/* Bytes of a block, outside of the output if it is that block, that are not as before. */
static long touched(const coll_try_t *try, int side, bool output)
{
    const size_t used = coll_case_bytes(try->what);
    const size_t begin = output && has_output(try) ? try->at[RECV] : used;
    const size_t end = begin + (begin < used ? bytes_of(try, RECV) : 0);
    long wrong = memcmp(try->found, try->host[side], begin) != 0;
    wrong += end < used && memcmp(try->found + end, try->host[side] + end, used - end) != 0;
    if (wrong)
        fprintf(stderr, "rank %d: memory beside the output was touched (%s)\n", try->rank, side ? "recv" : "send");
    return wrong;
}

static void fetch(coll_try_t *try, int side, void *stream)
{
    CHECK_STATUS(selvage_device_copy(try->dev, try->found, place(try)[side], coll_case_bytes(try->what),
                                     SELVAGE_COPY_DEVICE_TO_HOST, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(try->dev, stream), SELVAGE_SUCCESS);
}

long coll_try_wrong(coll_try_t *try, void *stream)
{
    long wrong = 0;
    const bool in_place = is_in_place(try->what);
    fetch(try, SEND, stream);
    wrong += touched(try, SEND, in_place);
    if (!in_place) {
        fetch(try, RECV, stream);
        wrong += touched(try, RECV, true);
    }
    wrong += wrong_elements(try);
    if (try->op_created)
        CHECK_STATUS(selvage_coll_op_destroy(try->coll, try->op), SELVAGE_SUCCESS);
    try->op_created = false;
    return wrong;
}

bool coll_try_run(coll_try_t *try, const coll_case_t *what, void *stream)
{
    coll_try_fill(try, what, stream);
    selvage_status_t status = coll_try_call(try, stream);
    long wrong = coll_try_wrong(try, stream);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    CHECK_EQ(wrong, 0);
    CHECK_STATUS(selvage_coll_error(try->coll), SELVAGE_SUCCESS);
    if (status != SELVAGE_SUCCESS || wrong) {
        char text[320];
        coll_case_text(what, text, sizeof text);
        fprintf(stderr, "rank %d: %s\n", try->rank, text);
    }
    return status == SELVAGE_SUCCESS && wrong == 0 && selvage_coll_error(try->coll) == SELVAGE_SUCCESS;
}

const uint8_t *coll_try_output(const coll_try_t *try, size_t *bytes_out)
{
    *bytes_out = has_output(try) ? bytes_of(try, RECV) : 0;
    return try->found + try->at[RECV];
}

/* 0, 1, few, odd, up to all that fits: small ones as often as large ones. */
static uint64_t random_count(uint64_t *state, uint64_t most)
{
    static const uint64_t bound[] = {2, 20, 300, 5000, 100000, 1 << 22};
    uint64_t limit = bound[coll_random(state, 6)];
    return coll_random(state, limit < most ? limit : most + 1);
}

coll_case_t coll_case_random(uint64_t *state, int nranks, size_t bytes_max)
{
    coll_case_t what = {.call = (int)coll_random(state, COLL_CALLS)};
    what.terms = (coll_terms_t){.type = (selvage_type_t)(1 + coll_random(state, 12)), .nranks = nranks,
                                .op = (selvage_op_t)(1 + coll_random(state, 5)),
                                .values = (coll_values_t)coll_random(state, COLL_VALUES)};
    what.terms.scaled = what.terms.op == SELVAGE_OP_SUM && coll_random(state, 2);
    what.terms.seed = coll_random(state, 1 << 20);
    what.device_scalar = coll_random(state, 2);
    what.root = (int)coll_random(state, (uint64_t)nranks);
    what.in_place = coll_random(state, 2);
    what.shift = coll_random(state, 2) ? (unsigned)coll_random(state, 20) : 0;
    what.registered = (uint32_t)(coll_random(state, 3) == 0 ? coll_random(state, 1 << 16)
                                                            : coll_random(state, 2) * 0xffff);
    size_t room = bytes_max - 2 * GUARD - 20 * sizeof(uint64_t);
    what.count = random_count(state, room / coll_type_bytes(what.terms.type) / (size_t)nranks);
    return what;
}

bool coll_case_systematic(unsigned i, int nranks, coll_case_t *what_out)
{
    enum { TYPES = 12, OPERATIONS = 6, ADDING = 3 * TYPES * OPERATIONS, COPYING = 5 * TYPES };
    static const int adds[] = {COLL_ALL_REDUCE, COLL_REDUCE_SCATTER, COLL_REDUCE};
    static const int copies[] = {COLL_ALL_GATHER, COLL_BROADCAST, COLL_ALL_TO_ALL, COLL_PAIRS, COLL_BARRIER};
    static const unsigned counts[] = {37, 1, 515, 64, 0, 9};
    const bool reduces = i < ADDING;
    const unsigned number = reduces ? i : i - ADDING;
    if (i >= ADDING + COPYING)
        return false;
    *what_out = (coll_case_t){.call = reduces ? adds[number / (TYPES * OPERATIONS)] : copies[number / TYPES],
                              .count = counts[(i + i / 6 + i / 36) % 6], .root = (int)i % nranks,
                              .in_place = i / 7 % 2, .device_scalar = i / 12 % 2, .shift = i % 4,
                              .registered = i / 5 % 2 ? 0xffff : 0};
    unsigned op = reduces ? number / TYPES % OPERATIONS : 0; /* the last is the scaled sum */
    what_out->terms = (coll_terms_t){.type = (selvage_type_t)(1 + number % TYPES), .nranks = nranks, .seed = i,
                                     .op = op < 5 ? (selvage_op_t)(1 + op) : SELVAGE_OP_SUM, .scaled = op == 5,
                                     .values = (coll_values_t)(i / 3 % COLL_VALUES)};
    return true;
}
