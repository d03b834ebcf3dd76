/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See weak_collectives.h. Memory is as the library allocates it: arenas are not cached, users' buffers, counters and
 * the device communicator are ordinary, and what hosts look at is pinned. Each host launches a call when its last one
 * has ended, and by then has overwritten that one's buffers. So a rank that still read or wrote there would be noticed.
 *
 * In one exchange of four the last rank does not come to the last launch. The others must say that it is late, or that
 * their host has given up. Of short calls with two channels, in every second of these, the last rank makes another call
 * in the first channel instead, of which the first rank alone hears, and nothing but errors ends waits: what one block
 * finds must end the other one's, too.
 */
#include <stdio.h>
#include <string.h>

#include "amdgpu/amdgpu_weak.h"
#include "amdgpu/weak_collectives.h"
#include "kernels/coll_args.h"

/* As in kernels.h and coll_handle.h, which are for C only. */
extern "C" {
uint64_t sv_digest_mix(uint64_t x);
void sv_coll_pat_gather(unsigned n, unsigned me, sv_coll_pat_t *pat_out);
void sv_coll_pat_scatter(unsigned n, unsigned me, sv_coll_pat_t *pat_out);
bool sv_coll_exists(unsigned call, unsigned algo, unsigned proto);
}

namespace {

enum { ROUNDS = 3, PIECES = 2, CHANNELS = 2, FIFO_BYTES = 1024, MOST_BYTES = 1280, LINE = 128, JUNK = 0x5a };
/* Waits look at clock and host seldom, so that one in vain takes many steps where waves rest. */
const uint64_t PATIENCE = 600000, STEPS = 16 * PATIENCE, STEPS_IN_VAIN = 32 * PATIENCE, TICK_NS = 10,
               BRIEF_PATIENCE = 30000;

/* What a rank has beside its arena. */
struct rank_t {
    uint8_t *arena, *src[PIECES], *dst[PIECES], *fifo;
    sv_coll_dev_t *dev;
    sv_coll_state_t *state;
    uint32_t *stop, *error_taken, *arrivals, *host_stop, *consumed;
    uint64_t *window;
    sv_coll_error_t *error;
    sv_coll_counts_t *counts;
    unsigned launched, ended;
    uint32_t position;   /* in the FIFO */
    bool told;           /* of an error */
};

struct exchange_t {
    const weak_kernels_t *kernels;
    amdgpu_machine_t *machine;
    uint64_t seed;
    unsigned n, nchannels, npieces, nthreads;
    bool absent, strange, from_fifo; /* strange: absent, but for the beginning of another call */
    sv_coll_layout_t layout;
    sv_coll_work_t work[ROUNDS][PIECES]; /* as all ranks have it */
    uint64_t offset[2];   /* of src and dst in their windows */
    rank_t rank[AMDGPU_GPUS];
    uint64_t gives_up;
};

char reason[160];
const char *const call_names[] = {"", "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce",
                                  "all-to-all"};

uint64_t draw(exchange_t *exchange, uint64_t below)
{
    return amdgpu_machine_random(exchange->machine) % below;
}

bool fail(const char *what, unsigned rank, unsigned round, const sv_coll_work_t &work)
{
    snprintf(reason, sizeof reason, "%s, rank %u, launch %u, %s, algorithm %u, protocol %u", what, rank, round,
             call_names[work.call], work.algo, work.proto);
    return false;
}

/* --- what calls are about ----------------------------------------------------------------------------------------- */

unsigned element_bytes(const sv_coll_work_t &work)
{
    return work.type == SV_COLL_UINT64 ? 8 : 4;
}

bool has_blocks_in(const sv_coll_work_t &work)
{
    return work.call == SV_COLL_REDUCE_SCATTER || work.call == SV_COLL_ALL_TO_ALL;
}

bool has_blocks_out(const sv_coll_work_t &work)
{
    return work.call == SV_COLL_ALL_GATHER || work.call == SV_COLL_ALL_TO_ALL;
}

uint64_t input_of(const exchange_t *exchange, unsigned rank, const sv_coll_work_t &work, uint64_t element)
{
    return sv_digest_mix(exchange->seed * 1000003 + work.sequence * 10007 + rank * 100003 + element);
}

uint64_t sum_of(const exchange_t *exchange, const sv_coll_work_t &work, uint64_t element)
{
    uint64_t sum = 0;
    for (unsigned r = 0; r < exchange->n; r++)
        sum += input_of(exchange, r, work, element);
    return sum;
}

/* An element of a rank's output. False: the call leaves it alone. */
bool output_of(const exchange_t *exchange, unsigned rank, const sv_coll_work_t &work, uint64_t element,
               uint64_t *value_out)
{
    const uint64_t block = element / work.count, at = element % work.count;
    switch (work.call) {
    case SV_COLL_ALL_REDUCE: *value_out = sum_of(exchange, work, element); return true;
    case SV_COLL_REDUCE_SCATTER: *value_out = sum_of(exchange, work, rank * work.count + element); return true;
    case SV_COLL_ALL_GATHER: *value_out = input_of(exchange, (unsigned)block, work, at); return true;
    case SV_COLL_ALL_TO_ALL:
        *value_out = input_of(exchange, (unsigned)block, work, rank * work.count + at);
        return true;
    case SV_COLL_BROADCAST: *value_out = input_of(exchange, work.root, work, element); return true;
    default: *value_out = sum_of(exchange, work, element); return rank == work.root;
    }
}

uint64_t elements_in(const exchange_t *exchange, const sv_coll_work_t &work)
{
    return work.count * (has_blocks_in(work) ? exchange->n : 1);
}

uint64_t elements_out(const exchange_t *exchange, const sv_coll_work_t &work)
{
    return work.count * (has_blocks_out(work) ? exchange->n : 1);
}

/* The host fills in the inputs of a launch, and spoils the outputs. */
void fill_buffers(exchange_t *exchange, unsigned rank, unsigned round)
{
    uint8_t bytes[MOST_BYTES * AMDGPU_GPUS];
    for (unsigned p = 0; p < exchange->npieces; p++) {
        const sv_coll_work_t &work = exchange->work[round][p];
        const unsigned each = element_bytes(work);
        for (uint64_t e = 0; e < elements_in(exchange, work); e++) {
            const uint64_t value = input_of(exchange, rank, work, e);
            memcpy(bytes + e * each, &value, each);
        }
        amdgpu_machine_store(exchange->machine, exchange->rank[rank].src[p] + exchange->offset[0], bytes,
                             elements_in(exchange, work) * each);
        memset(bytes, JUNK, sizeof bytes);
        amdgpu_machine_store(exchange->machine, exchange->rank[rank].dst[p] + exchange->offset[1], bytes,
                             elements_out(exchange, work) * each);
    }
}

bool is_output_right(const exchange_t *exchange, unsigned rank, unsigned piece, const sv_coll_work_t &work)
{
    const uint8_t *place = exchange->rank[rank].dst[piece] + exchange->offset[1];
    const unsigned each = element_bytes(work);
    for (uint64_t e = 0; e < elements_out(exchange, work); e++) {
        uint64_t value = 0;
        if (!output_of(exchange, rank, work, e, &value))
            memset(&value, JUNK, sizeof value);
        if (memcmp(place + e * each, &value, each) != 0)
            return false;
    }
    return true;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Cut to what the calls need; a slot of lines of a call alone holds all of a channel's part. */
void lay_out(exchange_t *exchange)
{
    const weak_form_t form = exchange->kernels->form;
    sv_coll_layout_t *layout = &exchange->layout;
    layout->nranks = exchange->n;
    layout->nchannels = exchange->nchannels;
    layout->entry_at = SV_COLL_FIN_AT + LINE;
    layout->ll_at = layout->entry_at + 2 * LINE;
    layout->ll_bytes = form == WEAK_COLL_SMALL ? 9 * LINE : form == WEAK_COLL_LINES ? 2 * LINE : 0;
    layout->long_at = layout->slot_at = layout->ll_at + SV_COLL_STEPS * layout->ll_bytes;
    layout->slot_bytes = form == WEAK_COLL_SLOTS ? 4 * LINE : 0;
    layout->conn_bytes = layout->slot_at + SV_COLL_SLOTS * (layout->slot_bytes + SV_COLL_SLOT_RECORD);
    layout->channel_bytes = exchange->n * layout->conn_bytes;
}

void *take(exchange_t *exchange, unsigned owner, amdgpu_memory_t kind, size_t bytes, const char *name)
{
    void *memory = amdgpu_machine_allocate(exchange->machine, owner, kind, bytes);
    if (name)
        amdgpu_machine_mark(exchange->machine, memory, (bytes + 3) / 4 * 4, name);
    return memory;
}

void mark_connection(exchange_t *exchange, uint8_t *connection)
{
    const sv_coll_layout_t &layout = exchange->layout;
    amdgpu_machine_mark(exchange->machine, connection + SV_COLL_TAIL_AT, sizeof(uint64_t), "tail");
    amdgpu_machine_mark(exchange->machine, connection + SV_COLL_HEAD_AT, sizeof(uint64_t), "head");
    amdgpu_machine_mark(exchange->machine, connection + SV_COLL_FIN_AT, sizeof(uint64_t), "fin");
    amdgpu_machine_mark(exchange->machine, connection + layout.entry_at, 2 * SV_COLL_ENTRIES * SV_COLL_LINE, "entry");
    if (layout.ll_bytes)
        amdgpu_machine_mark(exchange->machine, connection + layout.ll_at, SV_COLL_STEPS * layout.ll_bytes, "line");
}

void set_up_memory(exchange_t *exchange, unsigned number)
{
    rank_t *rank = &exchange->rank[number];
    const uint64_t bytes = SV_COLL_ARENA_HEAD + exchange->nchannels * exchange->layout.channel_bytes;
    rank->arena = (uint8_t *)take(exchange, number, AMDGPU_UNCACHED, bytes, nullptr);
    amdgpu_machine_mark(exchange->machine, rank->arena, sizeof(uint64_t), "abort");
    for (unsigned c = 0; c < exchange->nchannels * exchange->n; c++)
        mark_connection(exchange, rank->arena + SV_COLL_ARENA_HEAD + c * exchange->layout.conn_bytes);
    for (unsigned p = 0; p < exchange->npieces; p++) {
        rank->src[p] = (uint8_t *)take(exchange, number, AMDGPU_COARSE, exchange->n * MOST_BYTES + 32, nullptr);
        rank->dst[p] = (uint8_t *)take(exchange, number, AMDGPU_COARSE, exchange->n * MOST_BYTES + 32, nullptr);
    }
    rank->state = (sv_coll_state_t *)take(exchange, number, AMDGPU_COARSE,
                                          CHANNELS * SV_COLL_RANKS * sizeof *rank->state, nullptr);
    rank->stop = (uint32_t *)take(exchange, number, AMDGPU_COARSE, 4, "stop");
    rank->error_taken = (uint32_t *)take(exchange, number, AMDGPU_COARSE, 4, "taken");
    rank->arrivals = (uint32_t *)take(exchange, number, AMDGPU_COARSE, 4, "count");
    rank->window = (uint64_t *)take(exchange, number, AMDGPU_COARSE,
                                    exchange->n * SV_COLL_WINDOW_NUMBERS * sizeof(uint64_t), nullptr);
    rank->dev = (sv_coll_dev_t *)take(exchange, number, AMDGPU_COARSE, sizeof *rank->dev, nullptr);
    rank->host_stop = (uint32_t *)take(exchange, AMDGPU_HOST, AMDGPU_PINNED, 4, "host's stop");
    rank->consumed = (uint32_t *)take(exchange, AMDGPU_HOST, AMDGPU_PINNED, 4, "consumed");
    rank->error = (sv_coll_error_t *)take(exchange, AMDGPU_HOST, AMDGPU_PINNED, sizeof *rank->error, nullptr);
    amdgpu_machine_mark(exchange->machine, &rank->error->kind, 4, "error");
    rank->counts = (sv_coll_counts_t *)take(exchange, AMDGPU_HOST, AMDGPU_PINNED, CHANNELS * sizeof *rank->counts,
                                            "progress");
    rank->fifo = (uint8_t *)take(exchange, AMDGPU_HOST, AMDGPU_PINNED, FIFO_BYTES, nullptr);
}

/* Windows 1 and on are the inputs of pieces; after them come the outputs. */
void set_up_windows(exchange_t *exchange, unsigned number)
{
    uint64_t window[AMDGPU_GPUS * SV_COLL_WINDOW_NUMBERS] = {};
    for (unsigned r = 0; r < exchange->n; r++)
        for (unsigned p = 0; p < exchange->npieces; p++) {
            window[r * SV_COLL_WINDOW_NUMBERS + 1 + p] = (uintptr_t)exchange->rank[r].src[p];
            window[r * SV_COLL_WINDOW_NUMBERS + 1 + PIECES + p] = (uintptr_t)exchange->rank[r].dst[p];
        }
    rank_t *rank = &exchange->rank[number];
    const size_t bytes = exchange->n * SV_COLL_WINDOW_NUMBERS * sizeof(uint64_t);
    amdgpu_machine_store(exchange->machine, rank->window, window, bytes);
    amdgpu_machine_keep(exchange->machine, rank->window, bytes);
}

void set_up_dev(exchange_t *exchange, unsigned number)
{
    static sv_coll_dev_t dev;
    rank_t *rank = &exchange->rank[number];
    dev = sv_coll_dev_t();
    dev.n = exchange->n;
    dev.me = number;
    dev.nrings = exchange->n - 1;
    dev.ll_clean = SV_COLL_LL_CLEAN;
    dev.layout = exchange->layout;
    for (unsigned r = 0; r < exchange->n; r++) {
        dev.member[r] = (uint8_t)r;
        dev.ring[0][r] = (uint8_t)r;
        dev.ring[1][r] = (uint8_t)((exchange->n - r) % exchange->n);
        dev.arena[r] = (uintptr_t)exchange->rank[r].arena;
    }
    sv_coll_pat_gather(dev.n, dev.me, &dev.gather);
    sv_coll_pat_scatter(dev.n, dev.me, &dev.scatter);
    dev.state = rank->state;
    dev.stop = rank->stop;
    dev.host_stop = rank->host_stop;
    dev.error = rank->error;
    dev.error_taken = rank->error_taken;
    dev.counts = rank->counts;
    dev.fifo = rank->fifo;
    dev.consumed = rank->consumed;
    dev.arrivals = rank->arrivals;
    dev.window = rank->window;
    amdgpu_machine_store(exchange->machine, rank->dev, &dev, sizeof dev);
    amdgpu_machine_keep(exchange->machine, rank->dev, sizeof dev);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

void choose_algorithm(exchange_t *exchange, sv_coll_work_t *work)
{
    const weak_form_t form = exchange->kernels->form;
    work->proto = form == WEAK_COLL_SLOTS ? SV_COLL_SIMPLE : SV_COLL_LL;
    do {
        work->call = (uint8_t)(SV_COLL_ALL_REDUCE + draw(exchange, 6));
        work->algo = form == WEAK_COLL_SMALL ? uint8_t{SV_COLL_ONESHOT}
                                             : (uint8_t)(SV_COLL_ONESHOT + draw(exchange, SV_COLL_ALGOS - 1));
    } while (!sv_coll_exists(work->call, work->algo, work->proto));
    /* Who stores into others' memory cannot verify that where kernels do not see such stores. */
    const bool stores = work->algo == SV_COLL_DIRECT_TWO ||
                        (work->algo == SV_COLL_DIRECT_ONE && (has_blocks_out(*work)));
    work->flags = !stores && draw(exchange, 2) ? uint8_t{SV_COLL_DIGEST} : uint8_t{0};
}

/* As coll_work.c makes it. */
void choose_work(exchange_t *exchange, unsigned round, unsigned piece)
{
    sv_coll_work_t *work = &exchange->work[round][piece];
    *work = sv_coll_work_t();
    choose_algorithm(exchange, work);
    work->type = draw(exchange, 2) ? SV_COLL_UINT64 : SV_COLL_UINT32;
    work->op = work->call == SV_COLL_BROADCAST || has_blocks_out(*work) ? uint8_t{0} : uint8_t{SV_COLL_SUM};
    work->root = (uint8_t)draw(exchange, exchange->n);
    work->peer = 0xff;
    work->nchannels = (uint16_t)exchange->nchannels;
    work->sequence = 1 + round * exchange->npieces + piece;
    const uint64_t most = exchange->kernels->form == WEAK_COLL_SMALL ? 512 * exchange->nchannels : unsigned{MOST_BYTES};
    work->count = 1 + draw(exchange, (most < MOST_BYTES ? most : unsigned{MOST_BYTES}) / element_bytes(*work));
    work->key = sv_digest_mix(exchange->seed ^ (uint64_t)work->sequence << 32);
    work->chunk_bytes = (1 + (uint32_t)draw(exchange, 4)) * LINE;
    const bool has_root = work->call == SV_COLL_BROADCAST || work->call == SV_COLL_REDUCE;
    const uint64_t bytes = work->count * element_bytes(*work), shards = exchange->n - has_root;
    work->shard_bytes = ((bytes + shards - 1) / shards + SV_COLL_UNIT - 1) / SV_COLL_UNIT * SV_COLL_UNIT;
    work->shard_part_bytes = sv_coll_part_bytes(work->shard_bytes, work->nchannels);
    work->part_bytes = sv_coll_part_bytes(bytes, work->nchannels);
    work->signature = sv_coll_signature(work, 0);
}

sv_coll_work_t work_of(const exchange_t *exchange, unsigned rank, unsigned round, unsigned piece)
{
    sv_coll_work_t work = exchange->work[round][piece];
    work.src = (uintptr_t)exchange->rank[rank].src[piece] + exchange->offset[0];
    work.dst = (uintptr_t)exchange->rank[rank].dst[piece] + exchange->offset[1];
    work.src_window = (uint64_t)(1 + piece) << 48 | exchange->offset[0];
    work.dst_window = (uint64_t)(1 + PIECES + piece) << 48 | exchange->offset[1];
    return work;
}

void set_up(exchange_t *exchange)
{
    const weak_form_t form = exchange->kernels->form;
    exchange->n = 2 + (unsigned)draw(exchange, 2);
    exchange->nchannels = 1 + (unsigned)draw(exchange, CHANNELS);
    exchange->npieces = form == WEAK_COLL_SMALL ? 1 : 1 + (unsigned)draw(exchange, PIECES);
    exchange->nthreads = 64 * (2 + (unsigned)draw(exchange, 3));
    exchange->absent = draw(exchange, 4) == 0;
    exchange->strange =
        exchange->absent && form == WEAK_COLL_SMALL && exchange->nchannels == CHANNELS && draw(exchange, 2);
    exchange->from_fifo = form != WEAK_COLL_SMALL && draw(exchange, 2);
    exchange->offset[0] = 8 * draw(exchange, 3);
    exchange->offset[1] = 8 * draw(exchange, 3);
    lay_out(exchange);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned p = 0; p < exchange->npieces; p++)
            choose_work(exchange, round, p);
    for (unsigned r = 0; r < exchange->n; r++)
        set_up_memory(exchange, r);
    for (unsigned r = 0; r < exchange->n; r++) {
        set_up_windows(exchange, r);
        set_up_dev(exchange, r);
        fill_buffers(exchange, r, 0);
    }
}

bool is_in_vain(const exchange_t *exchange, unsigned round)
{
    return exchange->absent && round + 1 == ROUNDS;
}

sv_coll_context_t context_of(const exchange_t *exchange, unsigned number, unsigned round)
{
    const rank_t &rank = exchange->rank[number];
    sv_coll_context_t context = {};
    for (unsigned r = 0; r < exchange->n; r++) {
        context.mine[r] = (uintptr_t)rank.arena + SV_COLL_ARENA_HEAD + r * exchange->layout.conn_bytes;
        context.theirs[r] =
            (uintptr_t)exchange->rank[r].arena + SV_COLL_ARENA_HEAD + number * exchange->layout.conn_bytes;
        context.member[r] = (uint8_t)r;
    }
    context.dev = rank.dev;
    context.deadline_ns = (is_in_vain(exchange, round) ? BRIEF_PATIENCE : PATIENCE) * TICK_NS;
    if (is_in_vain(exchange, round) && exchange->strange)
        context.deadline_ns = 0;
    context.state = rank.state;
    context.counts = rank.counts;
    context.stop = rank.stop;
    context.window = rank.window;
    context.arena = (uintptr_t)rank.arena;
    context.channel_bytes = exchange->layout.channel_bytes;
    context.n = exchange->n;
    context.me = number;
    context.entry_at = exchange->layout.entry_at;
    context.ll_clean = SV_COLL_LL_CLEAN;
    context.slot_at = exchange->layout.slot_at;
    context.slot_bytes = exchange->layout.slot_bytes;
    return context;
}

/* The last rank tells the first one of a call that nobody makes: an entry line, as coll_entry_lines.h has it. */
void begin_strange_call(exchange_t *exchange, unsigned round)
{
    const rank_t &rank = exchange->rank[0];
    const unsigned last = exchange->n - 1;
    const uint64_t entries = rank.state[last].entries, flag = (entries + 1) << 32;
    const uint64_t signature = ~exchange->work[round][0].signature;
    const uint64_t line[2] = {(signature & 0xffffffffu) | flag, signature >> 32 | flag};
    amdgpu_machine_store(exchange->machine,
                         rank.arena + SV_COLL_ARENA_HEAD + last * exchange->layout.conn_bytes +
                             exchange->layout.entry_at + (entries & 1) * SV_COLL_ENTRIES * SV_COLL_LINE,
                         line, sizeof line);
}

void launch(exchange_t *exchange, unsigned number, unsigned round)
{
    rank_t *rank = &exchange->rank[number];
    static sv_coll_arg_t arg;
    sv_coll_small_arg_t small = {};
    arg = sv_coll_arg_t();
    arg.context = small.context = context_of(exchange, number, round);
    arg.nwork = exchange->npieces;
    arg.from_fifo = exchange->from_fifo;
    arg.position = rank->position;
    arg.fifo_mask = FIFO_BYTES - 1;
    for (unsigned p = 0; p < exchange->npieces; p++) {
        const sv_coll_work_t work = work_of(exchange, number, round, p);
        if (exchange->from_fifo)
            amdgpu_machine_store(exchange->machine,
                                 rank->fifo + (rank->position + p * SV_COLL_FIFO_STRIDE) % FIFO_BYTES, &work,
                                 sizeof work);
        else
            arg.work[p] = work;
        small.work = work;
    }
    small.block_bytes = small.work.count * element_bytes(small.work);
    small.part_bytes = small.work.part_bytes;
    small.slots_at = exchange->layout.ll_at;
    small.slot_bytes = exchange->layout.ll_bytes;
    if (exchange->strange && number == 0 && is_in_vain(exchange, round))
        begin_strange_call(exchange, round);
    const bool alone = exchange->kernels->form == WEAK_COLL_SMALL;
    const amdgpu_launch_t launch = {exchange->kernels->push, exchange->nchannels, exchange->nthreads, 0, 0, 0,
                                    alone ? (const void *)&small : &arg, nullptr};
    amdgpu_machine_launch(exchange->machine, number, &launch);
    rank->launched++;
    if (exchange->from_fifo)
        rank->position += exchange->npieces * SV_COLL_FIFO_STRIDE;
}

/* --- what hosts see ----------------------------------------------------------------------------------------------- */

/* The first error is complete once its kind is there. */
bool is_error_right(const exchange_t *exchange, unsigned number, unsigned round)
{
    const sv_coll_error_t &error = *exchange->rank[number].error;
    const sv_coll_work_t &first = exchange->work[round][0];
    const bool known = exchange->strange ? error.kind == SV_COLL_DIFFERS
                                         : error.kind == SV_COLL_LATE || error.kind == SV_COLL_ABORTED;
    return is_in_vain(exchange, round) && known && error.sequence >= first.sequence &&
           error.sequence < first.sequence + exchange->npieces &&
           error.call == exchange->work[round][error.sequence - first.sequence].call;
}

bool look_at_words(exchange_t *exchange, unsigned number)
{
    rank_t *rank = &exchange->rank[number];
    const unsigned round = rank->launched ? rank->launched - 1 : 0;
    if (rank->error->kind && !rank->told && !is_error_right(exchange, number, round))
        return fail("an error that is none, or not whole", number, round, exchange->work[round][0]);
    rank->told = rank->error->kind != 0;
    if (!exchange->from_fifo || *rank->consumed != rank->position || rank->position == 0)
        return true;
    uint8_t junk[FIFO_BYTES]; /* there is room, and something else may be there at once */
    memset(junk, JUNK, sizeof junk);
    if (memcmp(junk, rank->fifo, sizeof junk) != 0)
        amdgpu_machine_store(exchange->machine, rank->fifo, junk, sizeof junk);
    return true;
}

bool is_end_right(exchange_t *exchange, unsigned number, unsigned round)
{
    const rank_t &rank = exchange->rank[number];
    const sv_coll_work_t &first = exchange->work[round][0];
    if (*rank.arrivals)
        return fail("blocks are not counted back", number, round, first);
    if (is_in_vain(exchange, round))
        return rank.error->kind != 0 || fail("nobody missed a rank", number, round, first);
    if (exchange->from_fifo && *rank.consumed != rank.position)
        return fail("the FIFO is not given back", number, round, first);
    /* What is over is told when the next piece begins; short calls tell of all of them once in a while. */
    const unsigned pieces = (round + 1) * exchange->npieces;
    const unsigned told = exchange->kernels->form == WEAK_COLL_SMALL ? pieces / SV_COLL_TELL_EVERY * SV_COLL_TELL_EVERY
                                                                     : pieces;
    for (unsigned c = 0; c < exchange->nchannels; c++)
        if (rank.counts[c].started != told || rank.counts[c].completed != told - (told > 0))
            return fail("work is not counted", number, round, first);
    for (unsigned p = 0; p < exchange->npieces; p++)
        if (!is_output_right(exchange, number, p, exchange->work[round][p]))
            return fail("the result is wrong", number, round, exchange->work[round][p]);
    return true;
}

unsigned rounds_of(const exchange_t *exchange, unsigned number)
{
    return exchange->absent && number + 1 == exchange->n ? ROUNDS - 1 : unsigned{ROUNDS};
}

bool advance_rank(exchange_t *exchange, unsigned number)
{
    rank_t *rank = &exchange->rank[number];
    if (!look_at_words(exchange, number))
        return false;
    if (amdgpu_machine_is_busy(exchange->machine, number))
        return true;
    if (rank->ended < rank->launched) {
        if (!is_end_right(exchange, number, rank->ended))
            return false;
        rank->ended++;
        if (rank->ended < ROUNDS)
            fill_buffers(exchange, number, rank->ended);
    }
    if (rank->launched < rounds_of(exchange, number))
        launch(exchange, number, rank->launched);
    return true;
}

bool is_over(const exchange_t *exchange)
{
    for (unsigned r = 0; r < exchange->n; r++)
        if (exchange->rank[r].ended < rounds_of(exchange, r))
            return false;
    return true;
}

/* The host of the first rank wants no more, sometimes. */
void give_up(exchange_t *exchange, uint64_t step)
{
    const uint32_t yes = 1;
    if (!exchange->absent || exchange->strange || exchange->rank[0].launched < ROUNDS)
        return;
    if (!exchange->gives_up)
        exchange->gives_up = step + 1 + draw(exchange, 2 * BRIEF_PATIENCE);
    if (step == exchange->gives_up)
        amdgpu_machine_store(exchange->machine, exchange->rank[0].host_stop, &yes, sizeof yes);
}

bool run(exchange_t *exchange)
{
    for (uint64_t step = 0; step < (exchange->absent ? STEPS_IN_VAIN : STEPS); step++) {
        for (unsigned r = 0; r < exchange->n; r++)
            if (!advance_rank(exchange, r))
                return false;
        if (is_over(exchange))
            return true;
        amdgpu_machine_step(exchange->machine);
        give_up(exchange, step);
    }
    return fail("it never ends", 0, exchange->rank[0].launched, exchange->work[0][0]);
}

} // namespace

const char *weak_collectives_run(const weak_kernels_t *kernels, uint64_t seed)
{
    static exchange_t exchange;
    exchange = exchange_t();
    exchange.kernels = kernels;
    exchange.seed = seed;
    /* How many ranks there are is drawn from the machine's numbers, which must not depend on it. */
    exchange.machine = amdgpu_machine_open(kernels->arch, AMDGPU_GPUS, seed);
    set_up(&exchange);
    const bool good = run(&exchange);
    amdgpu_machine_close(exchange.machine);
    return good ? nullptr : reason;
}
