/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a block of the collective kernel knows, in memory that its lanes share; how it waits, and how it fails.
 *
 * Block c works on channel c, with its own counters, and meets only blocks c of other ranks. Every wait goes through
 * sv_coll_wait_more(), which looks for the ways to end:
 *
 *   - an error that another block of this device recorded (stop),
 *   - an end that the host wants (host_stop),
 *   - an error that another rank tells of (the first word of the arena),
 *   - the deadline.
 *
 * A lane that gives up keeps the fault and sets `failed`. Its block goes on to the next barrier without waiting for
 * anything again, and leaves, when one lane records the fault (coll_settle.h). Lanes may see `failed` at different
 * times, but must leave between the same two barriers. Where a lane could still fail after the barrier, they ask for
 * what was settled before it: `leaves` or `more`.
 */
#ifndef SV_COLL_BLOCK_H
#define SV_COLL_BLOCK_H

#include "kernels/coll_args.h"
#include "kernels/coll_pass.h"
#include "kernels/kernel_block.h"
#include "kernels/kernel_device.h"

/* Where a piece of a slice comes from or goes to: memory, or a slot of the connection with a rank. */
enum { SV_COLL_PLAIN = 0xff };

/*
 * One step of an algorithm: element i of every destination becomes the combination of the sources, in their order.
 * Slots are those of the next step of a connection. `post` and `take` say for which ranks that step is then over.
 */
typedef struct sv_coll_slice {
    uint64_t src[SV_COLL_RANKS], dst[SV_COLL_RANKS + 1]; /* address, or offset in the slot */
    uint8_t from[SV_COLL_RANKS], to[SV_COLL_RANKS + 1];  /* rank, or SV_COLL_PLAIN */
    uint8_t part_of[SV_COLL_RANKS]; /* of a source: which part of its slot it is */
    uint32_t part;                  /* which part the destinations are; says where the digest of the part lies */
    uint32_t nsrc, ndst;
    uint32_t premul;           /* mask of sources that are to be multiplied first, by the scalar of scale_of[] */
    uint8_t scale_of[SV_COLL_RANKS];
    uint32_t post, take;       /* masks of ranks */
    uint32_t divisor;          /* of the result; 0: none */
    uint32_t reserved;
    uint64_t id_in, id_out;    /* what the data in the source slots is, and in those of the destinations: a salt */
    uint64_t bytes;
} sv_coll_slice_t;

/* Why a block fails. ENDED: somebody else has said that all is to end, as sv_coll_ended() sees. */
enum { SV_COLL_ENDED = 0xff };
typedef struct sv_coll_fault {
    uint64_t wanted, seen;
    uint32_t kind, place_of_peer; /* kind as in sv_coll_error_t, or SV_COLL_ENDED; place << 16 | rank */
} sv_coll_fault_t;

/* What comes next in a piece of work: a slice, its end, or the end of all because something has failed. */
enum { SV_COLL_MORE_SLICE, SV_COLL_MORE_NONE, SV_COLL_MORE_FAILED };

typedef struct sv_coll_block {
    sv_coll_work_t work;
    sv_coll_slice_t slice, ahead;   /* being done, and the next one as it is made */
    sv_coll_pass_t pass;            /* the slice as a pass over memory */
    uint64_t mine[SV_COLL_RANKS];   /* connection of rank r in this rank's arena: where r writes */
    uint64_t theirs[SV_COLL_RANKS]; /* that of this rank in r's */
    sv_coll_state_t state[SV_COLL_RANKS];
    uint64_t entry[SV_COLL_ENTRY][SV_COLL_RANKS];
    uint64_t key_of[SV_COLL_RANKS]; /* of the sources' digests */
    uint64_t key_to[SV_COLL_RANKS]; /* of short calls: of the digests for these ranks */
    uint64_t lent[SV_COLL_RANKS];   /* of a direct call that pushes: the sum of what each makes results of, */
    uint64_t given[SV_COLL_RANKS];  /* of any: the sum of all that this rank has given to each, */
    uint64_t taken;                 /* that of what it has taken from all (of a message: what its sender says), */
    uint32_t given_to, lent_to;     /* and, bits, to whom the pass gives, and to whom what it gives is no result */
    uint64_t slot_in[SV_COLL_RANKS], slot_out[SV_COLL_RANKS]; /* of a call alone: the slot from each rank, and to it, */
    uint64_t head[SV_COLL_RANKS];   /* the credit that was there at the beginning, */
    uint64_t lacks[SV_COLL_RANKS / sizeof(uint64_t)]; /* and, bytes, for which ranks it is too little; coll_small.h */
    uint64_t arena;                 /* own */
    uint64_t deadline_ns;
    uint32_t n, me, channel;
    uint32_t failed, fault_taken;
    sv_coll_fault_t fault;          /* the first one of the block, where `failed` says that there is one */
    uint8_t unposted[SV_COLL_RANKS]; /* of rank r: whether it has not been told yet of a step that is in its slot */
    uint32_t blocked;               /* a lane has to wait for a slice */
    uint32_t begun;                 /* pieces of work of this launch */
    uint32_t leaves;                /* a lane saw `failed` before the barrier after the waits of a slice */
    uint32_t more;                  /* lane 0: SV_COLL_MORE_ */
    uint32_t random;                /* soft, stores that are late: how late */
} sv_coll_block_t;

/* What all lanes of a block are given. */
typedef struct sv_coll_at {
    sv_coll_block_t &b;
    const sv_coll_dev_t *dev;
    const sv_coll_context_t &context;
    sv_dev_block_t at;
} sv_coll_at_t;

typedef struct sv_coll_spin {
    uint64_t begin_ns;         /* 0 and 1: not known yet */
    uint32_t turns;
} sv_coll_spin_t;

template <typename T> SV_DEV_FN T *sv_coll_pointer(uint64_t address)
{
    return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
}

/* Whatever only errors and long waits need is a function of its own, which is given this. */
SV_DEV_FN sv_coll_at_t sv_coll_at_of(sv_coll_block_t *block, const sv_coll_context_t *context)
{
    return sv_coll_at_t{*block, context->dev, *context, sv_dev_block_t{0, 1, block->channel, 1}};
}

/* Keeps the first fault of the block, which sv_coll_settle() records. */
SV_DEV_COLD void sv_coll_keep(sv_coll_block_t *block, uint32_t kind, uint32_t place_of_peer, uint64_t wanted,
                              uint64_t seen)
{
    if (sv_dev_exchange_block_u32(&block->fault_taken, 1) == 0)
        block->fault = sv_coll_fault_t{wanted, seen, kind, place_of_peer};
    sv_dev_store_u32_system(&block->failed, 1);
}

SV_DEV_FN void sv_coll_fail(const sv_coll_at_t &c, uint32_t kind, uint32_t place, uint32_t peer, uint64_t wanted,
                            uint64_t seen)
{
    sv_coll_keep(&c.b, kind, place << 16 | peer, wanted, seen);
}

/* The word by which another rank tells of an error, or 0. */
SV_DEV_FN uint64_t sv_coll_notice(const sv_coll_at_t &c)
{
    return c.b.arena ? sv_dev_load_word_system(sv_coll_pointer<uint64_t>(c.b.arena)) : 0;
}

/* Whether everything is to end: partners are sv_coll_record() here, on other ranks, and the host's abort. */
SV_DEV_FN bool sv_coll_ended(const sv_coll_at_t &c)
{
    const uint32_t stop = sv_dev_load_acquire_u32(c.dev->stop), host_stop = sv_dev_load_u32_system(c.dev->host_stop);
    return (stop | host_stop | sv_coll_notice(c)) != 0;
}

#if defined(SV_DEV_SOFT)
enum { SV_COLL_POLL_TURNS = 1, SV_COLL_POLL_HOST_TURNS = 1 };
#else
enum { SV_COLL_POLL_TURNS = 64, SV_COLL_POLL_HOST_TURNS = 4096 }; /* turns; the far look crosses to the host */
#endif

/*
 * Whether a wait for a slot began before all entry lines were read. Such a slot may never come. A rank may have made
 * another call, or the rank that is to fill it may wait for a third one.
 */
SV_DEV_FN bool sv_coll_is_entry_missing(const sv_coll_at_t &c, uint32_t place)
{
#if defined(SV_COLL_PAIRS_ALONE) /* a kernel of nothing else says so */
    (void)c, (void)place;
    return false;
#else
    const sv_coll_work_t &work = c.b.work;
    return place != SV_COLL_AT_ENTRY && place != SV_COLL_AT_FIN && work.call != SV_COLL_PAIR &&
           work.algo != SV_COLL_DIRECT_ONE && work.algo != SV_COLL_DIRECT_TWO;
#endif
}

/* What rank r says first, if it has come. */
SV_DEV_FN bool sv_coll_peek(const sv_coll_at_t &c, uint32_t r, uint64_t *signature, uint64_t *flag)
{
    const uint64_t entries = c.b.state[r].entries;
    const uint64_t line = c.b.mine[r] + c.dev->layout.entry_at + (entries & 1) * SV_COLL_ENTRIES * SV_COLL_LINE;
    uint64_t low, high;
    sv_dev_load_line(sv_coll_pointer<const void>(line), &low, &high);
    *signature = (low & 0xffffffffu) | high << 32;
    *flag = low >> 32;
    return *flag == static_cast<uint32_t>(entries + 1) && high >> 32 == *flag;
}

/* Looks at what ranks say first. One that has come with another call becomes the fault. If that is that time is over,
   the first rank that has not come is to blame. */
SV_DEV_FN void sv_coll_look_at_entries(const sv_coll_at_t &c, sv_coll_fault_t &fault)
{
    bool is_late = fault.kind == SV_COLL_LATE;
    SV_DEV_ROLLED
    for (uint32_t r = 0; r < c.b.n; r++) {
        uint64_t signature = 0, flag;
        if (r == c.b.me)
            continue;
        const bool has_come = sv_coll_peek(c, r, &signature, &flag);
        const bool differs = has_come && signature != c.b.work.signature;
        if (differs)
            fault = sv_coll_fault_t{c.b.work.signature, signature, SV_COLL_DIFFERS,
                                    static_cast<uint32_t>(SV_COLL_AT_ENTRY) << 16 | r};
        else if (!has_come && is_late)
            fault = sv_coll_fault_t{static_cast<uint32_t>(c.b.state[r].entries + 1), flag, SV_COLL_LATE,
                                    static_cast<uint32_t>(SV_COLL_AT_ENTRY) << 16 | r};
        if (differs)
            return;
        is_late = is_late && has_come;
    }
}

/* Whether to go on with a wait. Returns when it began, 1 for "not long ago", or 0 for giving up, when the fault is
   kept. */
SV_DEV_COLD uint64_t sv_coll_poll_for_end(sv_coll_block_t *block, const sv_coll_context_t *context,
                                          uint32_t place_of_peer, uint32_t turns, uint64_t wanted, uint64_t seen,
                                          uint64_t begin_ns)
{
    const sv_coll_at_t c = sv_coll_at_of(block, context);
    unsigned relaxed = turns / SV_COLL_POLL_TURNS;
    if (sv_dev_load_u32_system(&c.b.failed))
        return 0;
    if (turns % SV_COLL_POLL_HOST_TURNS == 0 || sv_dev_load_acquire_u32(c.context.stop)) {
        const uint64_t now_ns = sv_dev_clock_ns();
        if (begin_ns <= 1)
            begin_ns = now_ns;
        const bool is_late = c.b.deadline_ns && now_ns - begin_ns > c.b.deadline_ns;
        sv_coll_fault_t fault = {wanted, seen, is_late ? uint32_t{SV_COLL_LATE} : uint32_t{SV_COLL_FINE},
                                 place_of_peer};
        if (sv_coll_ended(c))
            fault.kind = SV_COLL_ENDED;
        else if (sv_coll_is_entry_missing(c, place_of_peer >> 16))
            sv_coll_look_at_entries(c, fault);
        if (fault.kind != SV_COLL_FINE) {
            sv_coll_keep(block, fault.kind, fault.place_of_peer, fault.wanted, fault.seen);
            return 0;
        }
    }
    sv_dev_backoff(&relaxed);
    return begin_ns ? begin_ns : 1;
}

/* One turn of a wait for `wanted` of peer, where `seen` is there. False: give up; the fault is kept. */
SV_DEV_FN bool sv_coll_wait_more(const sv_coll_at_t &c, sv_coll_spin_t &spin, uint32_t place, uint32_t peer,
                                 uint64_t wanted, uint64_t seen)
{
    spin.turns++;
    if (spin.turns % SV_COLL_POLL_TURNS)
        return true;
    spin.begin_ns = sv_coll_poll_for_end(&c.b, &c.context, place << 16 | peer, spin.turns, wanted, seen, spin.begin_ns);
    return spin.begin_ns != 0;
}

SV_DEV_COLD void sv_coll_wait_long(sv_coll_block_t *block, const sv_coll_context_t *context, uint64_t address,
                                   uint64_t wanted, uint32_t place, uint32_t peer)
{
    const sv_coll_at_t c = sv_coll_at_of(block, context);
    const uint64_t *word = sv_coll_pointer<const uint64_t>(address);
    sv_coll_spin_t spin = {};
    uint64_t seen = sv_dev_load_acquire_system_u64(word);
    while (static_cast<int64_t>(seen - wanted) < 0 && sv_coll_wait_more(c, spin, place, peer, wanted, seen))
        seen = sv_dev_load_acquire_system_u64(word);
}

/* Waits until *word is `wanted` or later, and acquires what came before it. */
SV_DEV_FN void sv_coll_wait_word(const sv_coll_at_t &c, uint64_t address, uint64_t wanted, uint32_t place,
                                 uint32_t peer)
{
    uint64_t seen = sv_dev_load_acquire_system_u64(sv_coll_pointer<const uint64_t>(address));
    if (static_cast<int64_t>(seen - wanted) < 0)
        sv_coll_wait_long(&c.b, &c.context, address, wanted, place, peer);
}

#if defined(SV_DEV_SOFT)
/* Where stores are to be late: now and then gives way to others. A random number, 0 where they are not. */
SV_DEV_FN uint32_t sv_coll_jitter(const sv_coll_at_t &c)
{
    if (c.dev->stores == SV_COLL_STORES_WHOLE)
        return 0;
    c.b.random = c.b.random * 1664525u + 1013904223u;
    unsigned turns = 0;
    if (c.b.random >> 28 == 0)
        sv_dev_backoff(&turns);
    return c.b.random >> 16;
}
#endif

/*
 * A line of LL: 8 bytes of data, of which each half travels with the flag. It orders nothing else: who says by it what
 * is true of other memory fences. On soft the line releases: the end of a kernel, which does that on a GPU, is nothing
 * there.
 */
SV_DEV_FN void sv_coll_line_put(const sv_coll_at_t &c, uint64_t address, uint64_t data, uint32_t flag)
{
    const uint64_t mark = static_cast<uint64_t>(flag) << 32;
    const uint64_t low = mark | (data & 0xffffffffu), high = mark | data >> 32;
#if defined(SV_DEV_SOFT)
    const unsigned first = sv_coll_jitter(c) & 1;
    sv_dev_store_release_system_u64(sv_coll_pointer<uint64_t>(address) + first, first ? high : low);
    (void)sv_coll_jitter(c);
    sv_dev_store_release_system_u64(sv_coll_pointer<uint64_t>(address) + !first, first ? low : high);
#else
    (void)c;
    sv_dev_store_line(sv_coll_pointer<void>(address), low, high);
#endif
}

SV_DEV_FN void sv_coll_line_poll(uint64_t address, uint64_t *low, uint64_t *high)
{
#if defined(SV_DEV_SOFT)
    *low = sv_dev_load_acquire_system_u64(sv_coll_pointer<const uint64_t>(address));
    *high = sv_dev_load_acquire_system_u64(sv_coll_pointer<const uint64_t>(address) + 1);
#else
    sv_dev_load_line(sv_coll_pointer<const void>(address), low, high);
#endif
}

/* Waits for it. False, and 0, if that failed. */
SV_DEV_FN bool sv_coll_line_come(const sv_coll_at_t &c, uint64_t address, uint32_t flag, uint32_t place, uint32_t peer,
                                 uint64_t *word_out)
{
    sv_coll_spin_t spin = {};
    *word_out = 0;
    for (;;) {
        uint64_t low, high;
        sv_coll_line_poll(address, &low, &high);
        if (low >> 32 == flag && high >> 32 == flag) {
            *word_out = (low & 0xffffffffu) | high << 32;
            return true;
        }
        if (!sv_coll_wait_more(c, spin, place, peer, flag, low >> 32))
            return false;
    }
}

/* The same, where 0 says enough. */
SV_DEV_FN uint64_t sv_coll_line_take(const sv_coll_at_t &c, uint64_t address, uint32_t flag, uint32_t place,
                                     uint32_t peer)
{
    uint64_t word;
    (void)sv_coll_line_come(c, address, flag, place, peer, &word);
    return word;
}

/* Says that so many steps of rank r's are taken. On a GPU all loads from its slots have come before a barrier, or in an
   earlier launch. */
SV_DEV_FN void sv_coll_release_credit(const sv_coll_at_t &c, uint32_t r, uint64_t taken)
{
    uint64_t *head = sv_coll_pointer<uint64_t>(c.b.theirs[r] + SV_COLL_HEAD_AT);
#if defined(SV_DEV_SOFT)
    sv_dev_store_release_system_u64(head, taken);
#else
    sv_dev_store_word_system(head, taken);
#endif
}

/* Tells the host that the channel begins a piece of work. Its counters are those of the connection with itself, whose
   pieces begun do not count this one yet. Of short calls, one in `every` tells of all of them. One lane. */
SV_DEV_FN void sv_coll_tell_begun(const sv_coll_at_t &c, const sv_coll_state_t &own, uint32_t every)
{
    sv_coll_counts_t *counts = &c.context.counts[c.at.block];
    if ((own.sent + 1) % every != 0)
        return;
    sv_dev_store_word_system(reinterpret_cast<uint64_t *>(counts),
                             static_cast<uint32_t>(own.sent + 1) | static_cast<uint64_t>(own.taken) << 32);
}

/*
 * Tells the host that the block is through, if it waits for that: all that the block has stored comes before the word.
 * The host sees it sooner than that the launch is over, which takes longer by the word. All lanes call it as the last
 * thing. Partner: sv_coll_wait().
 */
SV_DEV_FN void sv_coll_tell_ended(const sv_coll_context_t &context, const sv_dev_block_t &at)
{
    if (!context.ended)
        return;
    sv_dev_block_sync();
    if (at.tid == 0)
        sv_dev_store_release_system_u64(&context.ended[at.block], context.launch);
}

/*
 * Takes connections, counters and credit of this channel, and what waits need to know, with one look into memory. All
 * lanes call, before a barrier. Before it no lane may wait or fail, because what that uses, `failed` above all, may not
 * be there yet. After it `leaves` says whether an earlier launch has failed, or another rank tells of an error, which
 * sv_coll_settle() then records.
 *
 * Gives back what earlier launches have taken, too. Kernels of one short call leave that to the next launch, because
 * the end of a kernel waits for what it has stored into other devices. Whoever waits for that credit is a call ahead,
 * and waits for this rank's next call anyway.
 */
SV_DEV_FN void sv_coll_come_in(const sv_coll_at_t &c)
{
    sv_coll_block_t &b = c.b;
    const uint64_t channel = c.at.block * c.context.channel_bytes;
    for (unsigned r = c.at.tid; r < c.context.n; r += c.at.nthreads) {
        const uint64_t mine = c.context.mine[r] + channel;
        if (r != c.context.me)
            b.head[r] = sv_dev_load_word_system(sv_coll_pointer<const uint64_t>(mine + SV_COLL_HEAD_AT));
        b.state[r] = c.context.state[c.at.block * SV_COLL_RANKS + c.context.member[r]];
        b.mine[r] = mine;
        b.theirs[r] = c.context.theirs[r] + channel;
        b.unposted[r] = 0;
        if (r != c.context.me)
            sv_coll_release_credit(c, r, b.state[r].taken); /* partner: whoever waits for credit */
    }
    if (c.at.tid != c.at.nthreads - 1)
        return;
    /* Partners: sv_coll_record() of an earlier launch, and on another rank while nothing waited here. */
    const uint32_t stopped = sv_dev_load_u32_system(c.context.stop);
    const uint64_t from_peer =
        c.context.arena ? sv_dev_load_word_system(sv_coll_pointer<const uint64_t>(c.context.arena)) : 0;
    b.n = c.context.n;
    b.me = c.context.me;
    b.channel = c.at.block;
    b.arena = c.context.arena;
    b.deadline_ns = c.context.deadline_ns;
    b.random = c.at.block + 16 * c.context.me;
    b.blocked = 0;
    b.failed = b.fault_taken = b.leaves = stopped || from_peer;
    b.fault.kind = SV_COLL_ENDED;
}

/* Whether the block is to leave; asked by all lanes between two barriers where none of them can fail. */
SV_DEV_FN bool sv_coll_has_failed(const sv_coll_at_t &c)
{
    return sv_dev_load_u32_system(&c.b.failed) != 0;
}

#endif
