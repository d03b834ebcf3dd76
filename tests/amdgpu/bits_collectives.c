/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives (bits.h): each case is one launch of each rank, of one or two pieces of work, in the argument or in the
 * FIFO. Types and operations go round; the number of ranks, call, algorithm, sizes, places and flags are drawn. Inputs
 * are all bits that there are, or numbers with which nothing overflows. What lies in arenas afterwards must be the same
 * as well: every step has its slot, its flag and its digest, whoever comes first. In every second case something goes
 * wrong. Then only ranks that have no error are compared. A few cases at the end are of waits for credit at the start.
 */
#include <stdio.h>
#include <string.h>

#include "amdgpu/bits.h"
#include "collective/coll_handle.h"
#include "collective/coll_names.h"
#include "fixtures/check.h"
#include "kernels/coll_args.h"

enum { PIECES = 2, FIFO_BYTES = 1024, LINE = 128, OPERATIONS = 6 };
enum { MOST_BYTES = 5000, SMALL_BYTES = 3000, DIRECT_BYTES = 40000 }; /* the last so that lanes have all units */
enum { HELD_TURNS = 100000, UNCREDITED_CASES = 6 };
enum { NOBODY = 0xff }; /* of a PAIR */
static const uint64_t LONG_NS = 60000000000u, SOON_NS = 20000000, STOPPED_NS = 200000000, LATER_NS = 2000000000;

/* What rank 0 does wrong: nothing; it does not come, or has never given slots back, either; it comes for less, says
   another count, calls something else that sends nothing, signs with another key or not at all, or lags by a round. */
typedef enum cause { NONE, AWAY, UNCREDITED, LESS, OTHER, ANOTHER, KEY, UNSIGNED, LAGGING } cause_t;

/* How waits end, if not well: time is over somewhere, or was at once; the host of the last rank wants an end, or its
   device has stopped already, or another rank has told it that it gives up. */
typedef enum ending { HURRIED, BRIEF, STOPPED, LEFT, GIVEN_UP, ENDINGS } ending_t;

typedef enum form { SLOTS, LINES, SMALL, SMALL_PAIR, FORMS } form_t;

typedef struct rank {
    uint8_t *arena, *src[PIECES], *dst[PIECES], *fifo;
    sv_coll_dev_t *dev;
    sv_coll_state_t *state;
    sv_coll_counts_t *counts;
    uint32_t *stop;
    uint64_t *window;
    union {
        sv_coll_arg_t any;
        sv_coll_small_arg_t small;
        sv_coll_small_pair_arg_t pair;
    } arg;
} rank_t;

typedef struct world {
    form_t form;
    unsigned n, npieces, nthreads, offset[2], most_bytes; /* that a direct call has */
    bool from_fifo;
    sv_coll_layout_t layout;
    uint64_t steps, rounds; /* that were made before */
    sv_coll_work_t work[PIECES];
    unsigned senders;       /* of a PAIR: bits */
    uint64_t pair_count[BITS_RANKS];
    rank_t rank[BITS_RANKS];
} world_t;

/* Of a case in which something goes wrong: the ranks as the machine finds them. */
typedef struct trouble {
    world_t *world;
    cause_t cause;
    ending_t ending;
    rank_t bad[BITS_RANKS];
    const void *args[BITS_RANKS];
} trouble_t;

static unsigned element_bytes(unsigned type)
{
    static const uint8_t bytes[SV_COLL_TYPES] = {0, 1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1};
    return bytes[type];
}

static bool is_pair(const sv_coll_work_t *work)
{
    return work->call == SV_COLL_PAIR;
}

static bool reduces(const sv_coll_work_t *work)
{
    return work->call == SV_COLL_ALL_REDUCE || work->call == SV_COLL_REDUCE_SCATTER || work->call == SV_COLL_REDUCE;
}

/* A kernel reduces by one protocol, and copies by any. */
static void choose_call(const world_t *world, sv_coll_work_t *work)
{
    do {
        work->call = (uint8_t)(bits_draw(3) ? (bits_draw(2) ? SV_COLL_ALL_REDUCE : SV_COLL_REDUCE_SCATTER)
                                            : SV_COLL_ALL_REDUCE + bits_draw(SV_COLL_CALLS - 1));
        work->algo = (uint8_t)(world->form < SMALL ? SV_COLL_ONESHOT + bits_draw(SV_COLL_ALGOS - 1) : SV_COLL_ONESHOT);
        work->proto = world->form == SLOTS ? SV_COLL_SIMPLE : SV_COLL_LL;
        if (world->form < SMALL && !reduces(work) && bits_draw(2))
            work->proto = work->proto == SV_COLL_LL ? SV_COLL_SIMPLE : SV_COLL_LL;
        if (world->form == SMALL_PAIR)
            work->call = SV_COLL_PAIR;
    } while (!sv_coll_exists(work->call, work->algo, work->proto) || (world->form == SMALL && is_pair(work)));
}

/* On AMD GPUs calls that store into others' memory have digests only in slots, which the software device need not do.
 */
static bool may_sign(const sv_coll_work_t *work)
{
    const bool stores = work->call == SV_COLL_ALL_GATHER || work->call == SV_COLL_ALL_TO_ALL;
    return work->algo != SV_COLL_DIRECT_TWO && (work->algo != SV_COLL_DIRECT_ONE || !stores);
}

/* The last operation is an average; a sum may be of products with a scalar of each rank. */
static void choose_operation(sv_coll_work_t *work, unsigned operation)
{
    work->flags = may_sign(work) && bits_draw(2) ? SV_COLL_DIGEST : 0;
    if (!reduces(work))
        return;
    work->op = operation < SV_COLL_MAX ? (uint8_t)(SV_COLL_SUM + operation) : SV_COLL_SUM;
    if (operation == OPERATIONS - 1)
        work->flags |= SV_COLL_DIVIDE;
    if (operation == OPERATIONS - 2)
        work->flags |= bits_draw(2) ? SV_COLL_PREMUL : SV_COLL_PREMUL | SV_COLL_SCALAR_AT;
}

/* As coll_work.c makes it, for one channel. */
static void choose_work(world_t *world, unsigned piece, uint64_t number)
{
    sv_coll_work_t *work = &world->work[piece];
    const unsigned type = SV_COLL_INT8 + (unsigned)(number / 2 % (SV_COLL_TYPES - 1)), each = element_bytes(type);
    *work = (sv_coll_work_t){.type = (uint8_t)type, .nchannels = 1, .sequence = 1 + piece, .peer = 0xff};
    choose_call(world, work);
    choose_operation(work, (unsigned)(number / 2 / (SV_COLL_TYPES - 1) % OPERATIONS));
    work->root = (uint8_t)bits_draw(world->n);
    if (work->algo == SV_COLL_DIRECT_TWO && bits_draw(2))
        work->peer = (uint8_t)bits_draw(3);
    const bool direct = work->algo == SV_COLL_DIRECT_ONE || work->algo == SV_COLL_DIRECT_TWO;
    const uint64_t most = direct ? world->most_bytes : world->form < SMALL ? MOST_BYTES : SMALL_BYTES;
    work->count = bits_draw(bits_draw(3) ? most / each : 20);
    if (work->call == SV_COLL_BARRIER)
        work->count = 0;
    work->count_in = work->count;
    world->senders = bits_draw(2) ? ~0u : (unsigned)bits_draw(UINT64_C(1) << world->n);
    for (unsigned r = 0; r < world->n; r++)
        world->pair_count[r] = bits_draw(3) ? work->count : bits_draw(work->count + 1);
    work->key = 77 + number;
    const uint32_t lines = world->layout.slot_bytes / LINE;
    work->chunk_bytes = (1 + (uint32_t)bits_draw(lines ? lines : 1)) * LINE;
    const bool has_root = work->call == SV_COLL_BROADCAST || work->call == SV_COLL_REDUCE;
    const uint64_t bytes = work->count * each, shards = world->n - has_root > 0 ? world->n - has_root : 1;
    work->shard_bytes = ((bytes + shards - 1) / shards + SV_COLL_UNIT - 1) / SV_COLL_UNIT * SV_COLL_UNIT;
    work->shard_part_bytes = sv_coll_part_bytes(work->shard_bytes, 1);
    work->part_bytes = sv_coll_part_bytes(bytes, 1);
    work->signature = sv_coll_signature(work, 0);
}

static void lay_out(world_t *world)
{
    sv_coll_layout_t *layout = &world->layout;
    layout->nranks = world->n;
    layout->nchannels = 1;
    layout->entry_at = SV_COLL_FIN_AT + LINE;
    layout->ll_at = layout->entry_at + 2 * LINE;
    layout->ll_bytes = world->form >= SMALL ? 2 * SMALL_BYTES + 2 * LINE : (4 + (uint32_t)bits_draw(30)) * LINE;
    layout->ll_bytes = layout->ll_bytes / LINE * LINE;
    layout->long_at = layout->slot_at = layout->ll_at + SV_COLL_STEPS * layout->ll_bytes;
    layout->slot_bytes = world->form < SMALL ? (4 + (uint32_t)bits_draw(36)) * LINE : 0;
    layout->conn_bytes = layout->slot_at + SV_COLL_SLOTS * (layout->slot_bytes + (uint64_t)SV_COLL_SLOT_RECORD);
    layout->channel_bytes = world->n * layout->conn_bytes;
}

/* Numbers as bits_take() makes them, any bits, or zeros of 16 bits of both signs. */
static void fill_input(uint8_t *place, size_t bytes)
{
    const uint64_t kind = bits_draw(5), mask = kind == 4 ? UINT64_C(0x8000800080008000) : ~UINT64_C(0);
    for (size_t at = 0; kind > 1 && at + 8 <= bytes; at += 8) {
        const uint64_t word = (bits_draw(UINT64_C(1) << 63) << 1 ^ bits_draw(2)) & mask;
        memcpy(place + at, &word, sizeof word);
    }
}

/* Lines as the last eight steps have left them: with their flags, so that none of them is taken for a new one. */
static void leave_old_lines(const world_t *world, uint8_t *connection)
{
    for (uint64_t step = world->steps - SV_COLL_STEPS; world->steps && step != world->steps; step++) {
        const uint64_t mark = (uint64_t)(uint32_t)(step + 1) << 32 | 0x0ddba11;
        uint8_t *slot = connection + world->layout.ll_at + step % SV_COLL_STEPS * world->layout.ll_bytes;
        for (uint32_t at = 0; at < world->layout.ll_bytes; at += sizeof mark)
            memcpy(slot + at, &mark, sizeof mark);
    }
}

/* Its counters, and the words that the others have written for it. */
static void start_late(const world_t *world, const rank_t *rank)
{
    for (unsigned r = 0; r < world->n; r++) {
        uint8_t *words = rank->arena + SV_COLL_ARENA_HEAD + r * world->layout.conn_bytes;
        rank->state[r] = (sv_coll_state_t){world->steps, world->steps, world->rounds, world->rounds};
        memcpy(words + SV_COLL_TAIL_AT, &world->steps, sizeof world->steps);
        memcpy(words + SV_COLL_HEAD_AT, &world->steps, sizeof world->steps);
        memcpy(words + SV_COLL_FIN_AT, &world->rounds, sizeof world->rounds);
        leave_old_lines(world, words);
    }
}

static void take_rank(world_t *world, unsigned number)
{
    rank_t *rank = &world->rank[number];
    rank->arena = bits_take_zero(SV_COLL_ARENA_HEAD + world->layout.channel_bytes);
    for (unsigned p = 0; p < world->npieces; p++) {
        const size_t bytes = (size_t)world->n * world->most_bytes + 2 * LINE;
        rank->src[p] = bits_take(bytes, 0);
        rank->dst[p] = bits_take(bytes, 0);
        fill_input(rank->src[p], bytes);
    }
    rank->dev = bits_take_zero(sizeof *rank->dev);
    rank->state = bits_take_zero(SV_COLL_RANKS * sizeof *rank->state);
    rank->stop = bits_take_zero(sizeof *rank->stop);
    rank->window = bits_take_zero(world->n * SV_COLL_WINDOW_NUMBERS * sizeof *rank->window);
    rank->counts = bits_take_zero(sizeof *rank->counts);
    rank->fifo = bits_take_zero(FIFO_BYTES);
    start_late(world, rank);
}

static void fill_dev(const world_t *world, unsigned number)
{
    const rank_t *rank = &world->rank[number];
    sv_coll_dev_t *dev = rank->dev;
    *dev = (sv_coll_dev_t){.n = world->n, .me = number, .nrings = world->n - 1, .ll_clean = SV_COLL_STEPS,
                           .layout = world->layout, .state = rank->state, .stop = rank->stop, .counts = rank->counts,
                           .fifo = rank->fifo, .window = rank->window};
    for (unsigned r = 0; r < world->n; r++) {
        dev->member[r] = (uint8_t)r;
        for (unsigned ring = 0; ring + 1 < world->n; ring++)
            dev->ring[ring][r] = (uint8_t)(ring % 2 ? (world->n - r) % world->n : r);
        dev->arena[r] = (uintptr_t)world->rank[r].arena;
        for (unsigned p = 0; p < world->npieces; p++) {
            rank->window[r * SV_COLL_WINDOW_NUMBERS + 1 + p] = (uintptr_t)world->rank[r].src[p];
            rank->window[r * SV_COLL_WINDOW_NUMBERS + 1 + PIECES + p] = (uintptr_t)world->rank[r].dst[p];
        }
    }
    sv_coll_pat_gather(world->n, number, &dev->gather);
    sv_coll_pat_scatter(world->n, number, &dev->scatter);
    dev->host_stop = bits_take_zero(sizeof *dev->host_stop);
    dev->error = bits_take_zero(sizeof *dev->error);
    dev->error_taken = bits_take_zero(sizeof *dev->error_taken);
    dev->consumed = bits_take_zero(sizeof *dev->consumed);
    dev->arrivals = bits_take_zero(sizeof *dev->arrivals);
}

static sv_coll_work_t work_of(const world_t *world, unsigned number, unsigned piece)
{
    const rank_t *rank = &world->rank[number];
    sv_coll_work_t work = world->work[piece];
    work.src = (uintptr_t)rank->src[piece] + world->offset[0];
    work.dst = (uintptr_t)rank->dst[piece] + world->offset[1];
    work.src_window = (uint64_t)(1 + piece) << 48 | world->offset[0];
    work.dst_window = (uint64_t)(1 + PIECES + piece) << 48 | world->offset[1];
    if (is_pair(&work)) {
        const unsigned from = (number + world->n - 1) % world->n;
        work.root = (uint8_t)(world->senders >> number & 1 ? (number + 1) % world->n : NOBODY);
        work.peer = (uint8_t)(world->senders >> from & 1 ? from : NOBODY);
        work.count = world->pair_count[number];
        work.count_in = world->pair_count[from];
    }
    if (work.flags & SV_COLL_PREMUL) {
        uint8_t *scalar = bits_take(sizeof(uint64_t), 0);
        work.scalar = (uintptr_t)scalar;
        if (!(work.flags & SV_COLL_SCALAR_AT)) {
            work.scalar = 0;
            memcpy(&work.scalar, scalar, element_bytes(work.type));
        }
    }
    return work;
}

static sv_coll_context_t context_of(const world_t *world, unsigned number)
{
    const rank_t *rank = &world->rank[number];
    sv_coll_context_t context = {.dev = rank->dev, .deadline_ns = LONG_NS, .state = rank->state,
                                 .counts = rank->counts, .stop = rank->stop, .window = rank->window,
                                 .arena = (uintptr_t)rank->arena, .channel_bytes = world->layout.channel_bytes,
                                 .n = world->n, .me = number, .entry_at = world->layout.entry_at,
                                 .ll_clean = SV_COLL_STEPS, .slot_at = world->layout.slot_at,
                                 .slot_bytes = world->layout.slot_bytes};
    for (unsigned r = 0; r < world->n; r++) {
        context.mine[r] = (uintptr_t)rank->arena + SV_COLL_ARENA_HEAD + r * world->layout.conn_bytes;
        context.theirs[r] =
            (uintptr_t)world->rank[r].arena + SV_COLL_ARENA_HEAD + number * world->layout.conn_bytes;
        context.member[r] = (uint8_t)r;
    }
    if (bits_draw(3) == 0) {
        context.stamps = bits_take_zero(PIECES * sizeof *context.stamps);
        bits_ignore(context.stamps, PIECES * sizeof *context.stamps);
    }
    return context;
}

static void fill_arg(world_t *world, unsigned number)
{
    rank_t *rank = &world->rank[number];
    const sv_coll_work_t first = work_of(world, number, 0);
    const unsigned each = element_bytes(first.type);
    const uint64_t bytes = first.count * each, in_bytes = first.count_in * each;
    if (world->form >= SMALL) {
        rank->arg.pair = (sv_coll_small_pair_arg_t){
            .small = {.context = context_of(world, number), .block_bytes = bytes,
                      .part_bytes = sv_coll_part_bytes(bytes, 1), .slots_at = world->layout.ll_at,
                      .slot_bytes = world->layout.ll_bytes, .work = first},
            .in_bytes = in_bytes, .in_part_bytes = sv_coll_part_bytes(in_bytes, 1), .line_at = world->layout.ll_at,
            .line_bytes = world->layout.ll_bytes};
        return;
    }
    rank->arg.any = (sv_coll_arg_t){.context = context_of(world, number), .nwork = world->npieces,
                                    .from_fifo = world->from_fifo, .position = 896, .fifo_mask = FIFO_BYTES - 1};
    for (unsigned p = 0; p < world->npieces; p++) {
        const sv_coll_work_t work = p == 0 ? first : work_of(world, number, p);
        rank->arg.any.work[p] = work;
        memcpy(rank->fifo + (896 + p * SV_COLL_FIFO_STRIDE) % FIFO_BYTES, &work, sizeof work);
    }
}

static void print_work(const world_t *world, const sv_coll_work_t *work)
{
    fprintf(stderr, "    %u ranks, call %u, algorithm %u, type %u, op %u, flags %u, root %u, peer %u, count %llu,"
                    " chunk %u, slots of %u, offsets %u and %u\n",
            world->n, work->call, work->algo, work->type, work->op, work->flags, work->root, work->peer,
            (unsigned long long)work->count, work->chunk_bytes, world->layout.slot_bytes, world->offset[0],
            world->offset[1]);
}

/* Output that is there without an error is right. */
static bool is_fine_right(const world_t *world, unsigned number)
{
    const rank_t *rank = &world->rank[number];
    if (rank->dev->error->kind != SV_COLL_FINE)
        return true;
    for (unsigned p = 0; p < world->npieces; p++)
        if (memcmp(rank->dst[p], bits_wanted(rank->dst[p]), (size_t)world->n * world->most_bytes) != 0)
            return false;
    return true;
}

static sv_coll_work_t *first_work(const world_t *world, rank_t *rank)
{
    return world->form >= SMALL ? &rank->arg.small.work
           : world->from_fifo   ? (sv_coll_work_t *)(void *)(rank->fifo + 896) : &rank->arg.any.work[0];
}

/* A call without data, which the ranks that wait for some find out from its entry. */
static void call_another(const world_t *world, rank_t *rank, sv_coll_work_t *work)
{
    if (is_pair(work))
        work->count_in++;
    else
        work->call = SV_COLL_BARRIER;
    work->count = work->op = work->flags = 0;
    if (work->call == SV_COLL_BARRIER) {
        work->algo = SV_COLL_ONESHOT;
        work->proto = SV_COLL_LL;
    }
    work->signature = sv_coll_signature(work, 0);
    if (world->form >= SMALL)
        rank->arg.small.block_bytes = rank->arg.small.part_bytes = 0;
}

static void spoil_rank(const world_t *world, cause_t cause, rank_t *rank)
{
    sv_coll_work_t *work = first_work(world, rank);
    if (cause == LESS && world->form < SMALL)
        rank->arg.any.nwork--;
    if (cause == OTHER) {
        work->signature ^= 1 << 6;
        work->count_in += 1;
    }
    if (cause == ANOTHER)
        call_another(world, rank, work);
    if (cause == KEY)
        work->key ^= 5;
    if (cause == UNSIGNED)
        work->flags &= (uint8_t)~SV_COLL_DIGEST;
    for (unsigned r = 0; cause == LAGGING && r < world->n; r++)
        rank->state[r].fins--;
}

/* Rank 0 has taken nothing of what others put into its slots; they have to wait for it first. */
static void take_credit(const world_t *world)
{
    const uint64_t head = world->steps - SV_COLL_STEPS;
    for (unsigned r = 1; world->steps && r < world->n; r++)
        memcpy(world->rank[r].arena + SV_COLL_ARENA_HEAD + SV_COLL_HEAD_AT, &head, sizeof head);
}

/* When the software device is through: what the machine's launches find. */
static void spoil(void *opaque)
{
    trouble_t *trouble = opaque;
    const world_t *world = trouble->world;
    sv_coll_dev_t *last = world->rank[world->n - 1].dev;
    for (unsigned r = 0; r < world->n; r++) {
        rank_t *rank = &trouble->bad[r];
        *rank = world->rank[r];
        sv_coll_context_t *context = world->form >= SMALL ? &rank->arg.small.context : &rank->arg.any.context;
        context->deadline_ns = trouble->ending == HURRIED ? 1000 * (1 + bits_draw(3000))
                               : trouble->ending == BRIEF ? 1 : trouble->ending == STOPPED ? STOPPED_NS : SOON_NS;
    }
    spoil_rank(world, trouble->cause, &trouble->bad[0]);
    if (trouble->cause == UNCREDITED)
        take_credit(world);
    if (trouble->ending == LEFT) { /* another block has recorded why */
        *last->error_taken = 1;
        last->error->kind = SV_COLL_ABORTED;
    }
}

/* Each cause with each ending, as numbers go round: what makes all others wait more often. Ranks other than 0 that have
   no error have the right output, and so has rank 0 where it comes and calls the same. */
static void run_faulty(world_t *world, const sv_kernel_t *kernel, const void *const *args, uint64_t number)
{
    static const cause_t causes[] = {AWAY, ANOTHER,  NONE,       KEY,   UNSIGNED,
                                    AWAY, LAGGING, UNCREDITED, OTHER, ANOTHER, UNSIGNED, LESS};
    static trouble_t trouble;
    trouble = (trouble_t){.world = world, .cause = causes[number / ENDINGS % (sizeof causes / sizeof *causes)],
                          .ending = (ending_t)(number % ENDINGS)};
    for (unsigned r = 0; r < world->n; r++)
        trouble.args[r] = &trouble.bad[r].arg;
    if (trouble.cause == AWAY || trouble.cause == UNCREDITED)
        trouble.args[0] = NULL;
    const rank_t *last = &world->rank[world->n - 1];
    uint32_t *const stops[ENDINGS] = {
        [STOPPED] = (uint32_t *)(uintptr_t)last->dev->host_stop, [LEFT] = last->stop,
        [GIVEN_UP] = (uint32_t *)(void *)(last->arena + sizeof(uint32_t))}; /* the upper half of the word is the kind */
    const bits_fault_t fault = {.args = trouble.args, .spoil = spoil, .opaque = &trouble,
                                .stop = stops[trouble.ending], .stop_us = (unsigned)bits_draw(3000),
                                .held_turns = trouble.cause == UNCREDITED ? HELD_TURNS : 0};
    bits_run_faulty(kernel, world->n, args, world->nthreads, &fault);
    for (unsigned r = trouble.cause == NONE ? 0 : 1; r < world->n; r++)
        if (!is_fine_right(world, r)) {
            CHECK(!"a call that has no error is right");
            fprintf(stderr, "    %s, rank %u, cause %d, ending %d\n", kernel->name, r, (int)trouble.cause,
                    (int)trouble.ending);
            print_work(world, &world->work[0]);
            print_work(world, &world->work[world->npieces - 1]);
        }
}

static const sv_kernel_t *const kernels[FORMS] = {&sv_kernel_coll, &sv_kernel_coll_ll, &sv_kernel_coll_small,
                                                  &sv_kernel_coll_small_pair};

static void choose_world(world_t *world)
{
    static const uint64_t starts[] = {0, 8, 1000, 0xfffffffd, 0xfffffffffd};
    *world = (world_t){.form = (form_t)(bits_draw(8) ? bits_draw(SMALL_PAIR) : SMALL_PAIR)};
    world->n = 2 + (unsigned)bits_draw(4);
    world->npieces = world->form < SMALL && bits_draw(4) == 0 ? PIECES : 1;
    world->nthreads = 64 * (2 + (unsigned)bits_draw(3));
    world->from_fifo = bits_draw(3) == 0;
    world->steps = starts[bits_draw(5)];
    world->rounds = world->steps ? world->steps + 22 : 0;
    world->most_bytes = world->form < SMALL && bits_draw(3) == 0 ? DIRECT_BYTES : MOST_BYTES;
}

/* All that the work needs. */
static void fill_world(world_t *world, const void **args_out)
{
    static const unsigned offsets[] = {0, 0, 0, 8, 4, 1};
    const unsigned each = element_bytes(world->work[0].type);
    for (unsigned side = 0; side < 2; side++)
        world->offset[side] = offsets[bits_draw(6)] / each * each;
    if (world->npieces > 1) /* whose elements may be larger */
        world->offset[0] = world->offset[1] = 8 * (unsigned)bits_draw(2);
    for (unsigned r = 0; r < world->n; r++)
        take_rank(world, r);
    for (unsigned r = 0; r < world->n; r++)
        fill_dev(world, r);
    for (unsigned r = 0; r < world->n; r++) {
        fill_arg(world, r);
        args_out[r] = &world->rank[r].arg;
    }
}

static void run_case(uint64_t number)
{
    static world_t world;
    const void *args[BITS_RANKS];
    const bool faulty = number % 2;
    choose_world(&world);
    lay_out(&world);
    for (unsigned p = 0; p < world.npieces; p++)
        choose_work(&world, p, number + p);
    fill_world(&world, args);
    if (faulty)
        run_faulty(&world, kernels[world.form], args, number / 2 / (SV_COLL_TYPES - 1));
    else if (!bits_run_ranks(kernels[world.form], world.n, args, world.nthreads))
        for (unsigned p = 0; p < world.npieces; p++)
            print_work(&world, &world.work[p]);
}

/* Rank 0 does not come; or it comes, but by its counters the last rank's old steps are not taken yet. */
static void spoil_credit(void *opaque)
{
    trouble_t *trouble = opaque;
    const world_t *world = trouble->world;
    const unsigned last = world->n - 1;
    take_credit(world);
    world->rank[0].state[last].taken -= SV_COLL_STEPS;
    for (unsigned r = 0; r < world->n; r++) {
        trouble->bad[r] = world->rank[r];
        trouble->bad[r].arg.small.context.deadline_ns = r == last ? SOON_NS : LATER_NS;
    }
}

/*
 * The last rank alone sends, to all or to rank 0, which never gives it a slot. Nothing but the wait for that can fail
 * there. Its last wave, which sets what a block knows of failures, begins as late as can be. The fault must be kept.
 */
static void run_uncredited(form_t form, uint64_t number)
{
    static world_t world;
    static trouble_t trouble;
    const void *args[BITS_RANKS];
    choose_world(&world);
    world.form = form;
    world.npieces = 1;
    world.steps = 1000;
    world.rounds = 1022;
    lay_out(&world);
    const unsigned last = world.n - 1;
    do
        choose_work(&world, 0, number);
    while ((form == SMALL && world.work[0].call != SV_COLL_BROADCAST) || world.work[0].count == 0);
    world.senders = 1u << last;
    world.work[0].root = (uint8_t)last;
    world.work[0].flags = 0; /* so that rank 0 finds its old steps right */
    world.work[0].signature = sv_coll_signature(&world.work[0], 0);
    fill_world(&world, args);
    trouble = (trouble_t){.world = &world};
    for (unsigned r = 0; r < world.n; r++)
        trouble.args[r] = &trouble.bad[r].arg;
    if (form == SMALL_PAIR)
        trouble.args[0] = NULL;
    const bits_fault_t fault = {.args = trouble.args, .spoil = spoil_credit, .opaque = &trouble,
                                .held_turns = HELD_TURNS};
    bits_run_faulty(kernels[form], world.n, args, world.nthreads, &fault);
    const sv_coll_error_t *error = world.rank[last].dev->error;
    CHECK_EQ(error->kind, SV_COLL_LATE);
    if (form == SMALL)
        return; /* an entry line may be late as well */
    CHECK_EQ(error->place, SV_COLL_AT_CREDIT);
    CHECK_EQ(error->peer, 0);
}

void bits_collectives(uint64_t first, uint64_t count)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        bits_reset(seed);
        run_case(seed);
    }
    for (uint64_t seed = first; seed < first + UNCREDITED_CASES; seed++) {
        bits_reset(seed);
        run_uncredited(seed % 2 ? SMALL : SMALL_PAIR, seed);
    }
}
