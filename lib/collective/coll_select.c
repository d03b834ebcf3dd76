/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file chooses algorithm, protocol and channels of a call: by the tuning file if it has a line for the call, else
 * by the table below; then as the user forces them. It looks only at facts that are the same on all ranks, so that all
 * of them choose alike without a message; the signature of the call tells if ever they do not. Sizes are those of the
 * call as a whole: of the vector of an all-reduce, of the blocks of all ranks of a reduce-scatter, all-gather or
 * all-to-all. The functions are pure, and on the hot path: nothing allocates, nothing waits.
 */
#include "base/base_config.h"
#include "collective/coll_handle.h"
#include "collective/coll_names.h"
#include "collective/coll_tune.h"

typedef struct rule {
    uint8_t call, ranks_max, algo, proto;
    uint64_t max_bytes;
    const char *why;
    bool verified;             /* only where results are verified */
    bool one_step;             /* only if it fits into one step of its lines */
} rule_t;

enum { UNIT_K = 1 << 10, UNIT_M = 1 << 20 };
#define ANY_SIZE UINT64_MAX
#define WAY(call, ranks, algo, proto) SV_COLL_##call, ranks, SV_COLL_##algo, SV_COLL_##proto
#define UPTO(call, ranks, number, unit, algo, proto) \
    {WAY(call, ranks, algo, proto), (uint64_t)(number) * UNIT_##unit, "up to " #number #unit, false, false}
#define ONE_STEP_UPTO(call, ranks, number, unit) \
    {WAY(call, ranks, ONESHOT, LL), (uint64_t)(number) * UNIT_##unit, "up to " #number #unit, false, true}
#define LONG_LINES_UPTO(call, ranks, number, unit) \
    {WAY(call, ranks, ONESHOT, LL128), (uint64_t)(number) * UNIT_##unit, "up to " #number #unit, false, true}
#define VERIFIED_UPTO(call, ranks, number, unit) \
    {WAY(call, ranks, ONESHOT, LL128), (uint64_t)(number) * UNIT_##unit, "verified, up to " #number #unit, \
     true, true}
#define REST(call, ranks, algo) {WAY(call, ranks, algo, SIMPLE), ANY_SIZE, "larger sizes", false, false}
#define VERIFIED_REST(call, ranks, algo) \
    {WAY(call, ranks, algo, SIMPLE), ANY_SIZE, "verified, larger sizes", true, false}

/*
 * The first line that fits is taken: ranks, then size, then whether the way is open (whole lines, direct access). The
 * ways through slots after the direct ones are for when those are not open. Up to four ranks these are the fastest
 * ways on H100s and H200s (doc/measured.md), beyond that estimates; a tuning file improves them. Lines of LL carry as
 * much flag as data, so they win while latency is all that counts, and the sooner others win the more ranks there are
 * to send to; of two ranks one pass over all inputs is as short as two. Digests cost a direct way a look at all that
 * others read or stored here, and lines next to nothing.
 */
static const rule_t rules[] = {
    UPTO(ALL_REDUCE, 2, 128, K, ONESHOT, LL),
    UPTO(ALL_REDUCE, 2, 512, K, ONESHOT, LL128),
    VERIFIED_UPTO(ALL_REDUCE, 2, 1, M),
    REST(ALL_REDUCE, 2, DIRECT_ONE),
    REST(ALL_REDUCE, 2, ONESHOT),
    UPTO(ALL_REDUCE, 4, 64, K, ONESHOT, LL),
    UPTO(ALL_REDUCE, 4, 256, K, ONESHOT, LL128),
    VERIFIED_UPTO(ALL_REDUCE, 4, 512, K),
    REST(ALL_REDUCE, 4, DIRECT_TWO),
    REST(ALL_REDUCE, 4, TWOSHOT),
    UPTO(ALL_REDUCE, 16, 16, K, ONESHOT, LL),
    UPTO(ALL_REDUCE, 16, 64, K, ONESHOT, LL128),
    REST(ALL_REDUCE, 16, DIRECT_TWO),
    REST(ALL_REDUCE, 16, TWOSHOT),

    UPTO(REDUCE_SCATTER, 4, 256, K, ONESHOT, LL),
    UPTO(REDUCE_SCATTER, 16, 64, K, ONESHOT, LL),
    UPTO(REDUCE_SCATTER, 16, 512, K, ONESHOT, LL128),
    VERIFIED_UPTO(REDUCE_SCATTER, 4, 2, M),
    REST(REDUCE_SCATTER, 16, DIRECT_ONE),
    REST(REDUCE_SCATTER, 16, ONESHOT),

    UPTO(ALL_GATHER, 4, 256, K, ONESHOT, LL),
    UPTO(ALL_GATHER, 16, 128, K, ONESHOT, LL),
    UPTO(ALL_GATHER, 16, 512, K, ONESHOT, LL128),
    VERIFIED_UPTO(ALL_GATHER, 2, 2, M),
    VERIFIED_UPTO(ALL_GATHER, 4, 1, M),
    REST(ALL_GATHER, 16, DIRECT_ONE),
    REST(ALL_GATHER, 16, ONESHOT),

    ONE_STEP_UPTO(BROADCAST, 2, 256, K),
    UPTO(BROADCAST, 16, 64, K, ONESHOT, LL),
    UPTO(BROADCAST, 16, 512, K, ONESHOT, LL128),
    VERIFIED_UPTO(BROADCAST, 2, 1, M),
    REST(BROADCAST, 2, DIRECT_ONE),
    REST(BROADCAST, 2, ONESHOT),
    UPTO(BROADCAST, 16, 4, M, DIRECT_TWO, SIMPLE),
    VERIFIED_REST(BROADCAST, 4, TWOSHOT),
    REST(BROADCAST, 16, DIRECT_TWO),
    REST(BROADCAST, 16, TWOSHOT),

    UPTO(REDUCE, 16, 64, K, ONESHOT, LL),
    UPTO(REDUCE, 4, 512, K, ONESHOT, LL128),
    VERIFIED_UPTO(REDUCE, 2, 1, M),
    UPTO(REDUCE, 16, 256, K, ONESHOT, LL128),
    REST(REDUCE, 2, DIRECT_ONE),
    REST(REDUCE, 2, ONESHOT),
    UPTO(REDUCE, 16, 512, K, DIRECT_ONE, SIMPLE),
    REST(REDUCE, 16, DIRECT_TWO),
    REST(REDUCE, 16, TWOSHOT),

    UPTO(ALL_TO_ALL, 4, 256, K, ONESHOT, LL),
    UPTO(ALL_TO_ALL, 16, 128, K, ONESHOT, LL),
    UPTO(ALL_TO_ALL, 16, 512, K, ONESHOT, LL128),
    VERIFIED_UPTO(ALL_TO_ALL, 4, 2, M),
    REST(ALL_TO_ALL, 16, DIRECT_ONE),
    REST(ALL_TO_ALL, 16, ONESHOT),

    UPTO(PAIR, 16, 64, K, ONESHOT, LL),
    LONG_LINES_UPTO(PAIR, 2, 1, M),
    LONG_LINES_UPTO(PAIR, 4, 512, K),
    UPTO(PAIR, 16, 256, K, ONESHOT, LL128),
    REST(PAIR, 16, ONESHOT),
};
enum { RULES = sizeof rules / sizeof rules[0] };

/* For an algorithm that was forced, where the table has nothing to say: protocols by size, whatever the call. */
enum { FORCED_LL_MAX = 64 << 10, FORCED_LL128_MAX = 1 << 20 };

/* Bytes of one rank's share that are worth another channel, and parts of it that overlap in slots. */
enum { LL_GRAIN = 1 << 10, LL128_GRAIN = 4 << 10, DIRECT_GRAIN = 16 << 10, SLOT_GRAIN = 32 << 10, CHUNKS = 4 };
enum { VERIFIED_GRAIN = 4 << 10 }; /* of direct ways: a channel's sums take the longer the more memory they are of */
enum { CHUNK_UNIT = 128, CHUNK_MIN = 64 << 10, SOFT_CHANNELS = 2 };
enum { PUSH_PIECE = 64 << 10, PUSH_PIECES_LOG2 = 2, DIRECT_CHANNELS = 32, LONG_BYTES = 64 << 20 };

typedef struct pick {
    unsigned algo, proto;
    unsigned nchannels;        /* 0: by size */
    const char *why;
    bool fell;                 /* what was forced is not there, and why says so */
} pick_t;

typedef struct question {
    const sv_coll_facts_t *facts;
    unsigned call, n;
    uint64_t bytes;
} question_t;

enum { DIRECT_ONLY = 1, SIMPLE_ONLY = 2 };

static bool is_direct_algo(unsigned algo)
{
    return algo == SV_COLL_DIRECT_ONE || algo == SV_COLL_DIRECT_TWO;
}

/* Calls whose count is that of one rank's block. */
static bool has_blocks(unsigned call)
{
    return call == SV_COLL_REDUCE_SCATTER || call == SV_COLL_ALL_GATHER || call == SV_COLL_ALL_TO_ALL;
}

/* The user's bound for a protocol, or the given one. */
static uint64_t bound_of(const sv_config_t *config, unsigned proto, uint64_t bound)
{
    uint64_t users = proto == SV_COLL_LL ? config->coll_ll_max : SV_CONFIG_BYTES_AUTO;
    if (proto == SV_COLL_LL128)
        users = config->coll_ll128_max;
    return users == SV_CONFIG_BYTES_AUTO || bound == ANY_SIZE ? bound : users;
}

static bool is_usable(const sv_coll_facts_t *facts, unsigned call, unsigned algo, unsigned proto)
{
    /* What is stored in users' memory can be verified by the kernel that runs only where that sees it. */
    const bool stores = algo == SV_COLL_DIRECT_TWO || call == SV_COLL_ALL_GATHER || call == SV_COLL_ALL_TO_ALL;
    const bool is_verified = !is_direct_algo(algo) || !facts->config->coll_checksum || facts->shows_stores || !stores;
    return (proto != SV_COLL_LL128 || facts->has_ll128) && is_verified;
}

/* What one rank sends to, or reads from, each other rank. */
static uint64_t share_of(const question_t *q, unsigned algo)
{
    bool whole = algo == SV_COLL_ONESHOT || algo == SV_COLL_DIRECT_ONE;
    return whole && !has_blocks(q->call) ? q->bytes : (q->bytes + q->n - 1) / q->n;
}

/* Whether the part of each channel fits into one step of lines, of long ones with a digest even if there is none. Steps
   that wait for each other are slower than any other way. */
static bool fits_one_step(const question_t *q, unsigned proto)
{
    const bool signs = proto == SV_COLL_LL128 || q->facts->config->coll_checksum;
    const sv_coll_work_t work = {.flags = signs ? SV_COLL_DIGEST : 0};
    return sv_coll_part_bytes(share_of(q, SV_COLL_ONESHOT), q->facts->nchannels) <=
           sv_coll_slot_capacity(&q->facts->layout, &work, proto);
}

/* The table's way, of all or of some kind; NULL: none of that kind. */
static const rule_t *find_rule(const question_t *q, unsigned only)
{
    for (unsigned i = 0; i < RULES; i++) {
        const rule_t *rule = &rules[i];
        if (rule->call != q->call || rule->ranks_max < q->n || !is_usable(q->facts, q->call, rule->algo, rule->proto))
            continue;
        if (rule->verified && !q->facts->config->coll_checksum)
            continue;
        if (rule->one_step && !fits_one_step(q, rule->proto))
            continue;
        if ((only & DIRECT_ONLY && !is_direct_algo(rule->algo)) ||
            (only & SIMPLE_ONLY && rule->proto != SV_COLL_SIMPLE))
            continue;
        if (q->bytes <= bound_of(q->facts->config, rule->proto, rule->max_bytes))
            return rule;
    }
    return NULL;
}

static void take_rule(pick_t *pick, const question_t *q, const rule_t *rule)
{
    pick->algo = rule->algo;
    pick->proto = rule->proto;
    if (pick->fell)
        return;
    pick->why = rule->why;
    if (bound_of(q->facts->config, rule->proto, rule->max_bytes) != rule->max_bytes)
        pick->why = rule->proto == SV_COLL_LL ? "SELVAGE_COLL_LL_MAX" : "SELVAGE_COLL_LL128_MAX";
}

static void fall_back(pick_t *pick, const char *why)
{
    pick->why = pick->fell ? pick->why : why;
    pick->fell = true;
}

/* What the tuning file says, or the table where that has no line or its way is not open. */
static void set_default(pick_t *pick, const question_t *q)
{
    const rule_t *rule = find_rule(q, 0);
    if (rule) /* always: every call has a line for any size that is open to all */
        take_rule(pick, q, rule);
    const sv_coll_tuned_t *tuned = sv_coll_tuning_find(q->facts->tuning, q->call, q->n, q->bytes);
    if (!tuned)
        return;
    const rule_t *direct = tuned->algo == SV_COLL_TUNED_DIRECT ? find_rule(q, DIRECT_ONLY) : NULL;
    unsigned algo = direct ? direct->algo : tuned->algo;
    if (!sv_coll_exists(q->call, algo, tuned->proto) || !is_usable(q->facts, q->call, algo, tuned->proto)) {
        pick->why = "the line in SELVAGE_COLL_TUNE cannot be followed here";
        return;
    }
    *pick = (pick_t){.algo = algo, .proto = tuned->proto, .nchannels = tuned->nchannels, .why = "SELVAGE_COLL_TUNE"};
}

/* Where a call has no such algorithm: a schedule of many steps gives way to the other, and that to one step. */
static void force_algo(pick_t *pick, const question_t *q)
{
    static const unsigned algos[] = {0, SV_COLL_ONESHOT, SV_COLL_TWOSHOT, 0, SV_COLL_RING, SV_COLL_PAT, 0};
    int forced = q->facts->config->coll_algo;
    unsigned algo = algos[forced];
    if (forced == SV_CONFIG_COLL_ALGO_AUTO)
        return;
    if (forced == SV_CONFIG_COLL_ALGO_NVLS) {
        fall_back(pick, "SELVAGE_COLL_ALGO=nvls: multicast is not used");
        return;
    }
    if (forced == SV_CONFIG_COLL_ALGO_DIRECT) {
        const rule_t *rule = find_rule(q, DIRECT_ONLY);
        if (!rule) {
            fall_back(pick, q->call == SV_COLL_PAIR || q->call == SV_COLL_BARRIER
                                ? "SELVAGE_COLL_ALGO: the call has no such algorithm"
                                : "SELVAGE_COLL_ALGO=direct: not with SELVAGE_COLL_CHECKSUM here");
            return;
        }
        if (!is_direct_algo(pick->algo)) {
            take_rule(pick, q, rule);
            pick->nchannels = 0;
        }
        pick->why = "SELVAGE_COLL_ALGO";
        return;
    }
    if (!sv_coll_exists(q->call, algo, SV_COLL_LL))
        fall_back(pick, "SELVAGE_COLL_ALGO: the call has no such algorithm");
    if (!sv_coll_exists(q->call, algo, SV_COLL_LL) && algo == SV_COLL_PAT)
        algo = SV_COLL_RING;
    if (!sv_coll_exists(q->call, algo, SV_COLL_LL))
        algo = SV_COLL_ONESHOT;
    /* The table does not say at which size this algorithm uses which protocol. */
    if (pick->algo != algo) {
        const bool lines =
            q->facts->has_ll128 && q->bytes <= bound_of(q->facts->config, SV_COLL_LL128, FORCED_LL128_MAX);
        const bool few = q->bytes <= bound_of(q->facts->config, SV_COLL_LL, FORCED_LL_MAX);
        pick->proto = few ? SV_COLL_LL : lines ? SV_COLL_LL128 : SV_COLL_SIMPLE;
        pick->nchannels = 0;
    }
    pick->algo = algo;
    pick->why = pick->fell ? pick->why : "SELVAGE_COLL_ALGO";
}

static void force_proto(pick_t *pick, const question_t *q)
{
    static const unsigned protos[] = {0, SV_COLL_LL, SV_COLL_LL128, SV_COLL_SIMPLE};
    const sv_config_t *config = q->facts->config;
    bool free_algo = config->coll_algo == SV_CONFIG_COLL_ALGO_AUTO || config->coll_algo == SV_CONFIG_COLL_ALGO_NVLS;
    unsigned proto = protos[config->coll_proto];
    if (proto == 0)
        return;
    if (proto == SV_COLL_LL128 && !q->facts->has_ll128) {
        fall_back(pick, "SELVAGE_COLL_PROTO=ll128: this device is not known to store lines whole");
        return;
    }
    const rule_t *rule = free_algo && proto == SV_COLL_SIMPLE ? find_rule(q, SIMPLE_ONLY) : NULL;
    unsigned algo = pick->algo;
    if (free_algo && is_direct_algo(algo)) /* the one through slots stands for it where lines are wanted */
        algo = q->n > 2 && sv_coll_exists(q->call, SV_COLL_TWOSHOT, SV_COLL_LL) ? SV_COLL_TWOSHOT : SV_COLL_ONESHOT;
    if (pick->proto != proto && rule) {
        take_rule(pick, q, rule);
        pick->nchannels = 0;
    } else if (pick->proto != proto && sv_coll_exists(q->call, algo, proto)) {
        *pick = (pick_t){.algo = algo, .proto = proto, .why = pick->why, .fell = pick->fell};
    } else if (pick->proto != proto) {
        fall_back(pick, "SELVAGE_COLL_PROTO: the algorithm has no such protocol");
    }
    pick->why = pick->fell ? pick->why : "SELVAGE_COLL_PROTO";
}

static unsigned smaller_count(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned channels_of(const question_t *q, const pick_t *pick)
{
    static const unsigned grains[SV_COLL_PROTOS] = {
        [SV_COLL_LL] = LL_GRAIN, [SV_COLL_LL128] = LL128_GRAIN, [SV_COLL_SIMPLE] = SLOT_GRAIN};
    const sv_config_t *config = q->facts->config;
    const bool sums = config->coll_checksum;
    unsigned grain = !is_direct_algo(pick->algo) ? grains[pick->proto] : sums ? VERIFIED_GRAIN : DIRECT_GRAIN;
    uint64_t by_size = (share_of(q, pick->algo) + grain - 1) / grain;
    unsigned channels = by_size < SV_COLL_CHANNELS ? (unsigned)by_size : SV_COLL_CHANNELS;
    if (is_direct_algo(pick->algo) && !sums && (q->bytes < LONG_BYTES || q->call == SV_COLL_BROADCAST))
        channels = smaller_count(channels, DIRECT_CHANNELS); /* reading needs no more */
    channels = q->facts->soft ? smaller_count(channels, SOFT_CHANNELS) : channels;
    channels = pick->nchannels ? pick->nchannels : channels;
    if (channels < (unsigned)config->coll_channels_min)
        channels = (unsigned)config->coll_channels_min;
    if (config->coll_channels_max > 0)
        channels = smaller_count(channels, (unsigned)config->coll_channels_max);
    channels = smaller_count(channels, q->facts->nchannels);
    return channels ? channels : 1;
}

void sv_coll_select(const sv_coll_facts_t *facts, const sv_coll_call_t *call, sv_coll_choice_t *choice_out)
{
    /* 1. How large the call is. Counts that no memory could hold are all the same to the table. */
    const uint64_t max_count = UINT64_C(1) << 48;
    const uint64_t count = call->count < max_count ? call->count : max_count;
    const uint64_t bytes = count * selvage_type_bytes((selvage_type_t)call->type);
    const question_t q = {facts, call->call, facts->nranks, has_blocks(call->call) ? bytes * facts->nranks : bytes};
    /* 2. Algorithm and protocol: by file or table, then as users force them. */
    pick_t pick = {.algo = SV_COLL_ONESHOT, .proto = SV_COLL_LL, .nchannels = 1, .why = "one rank"};
    if (q.n > 1 && q.call == SV_COLL_BARRIER) {
        pick.why = "barrier";
    } else if (q.n > 1) {
        pick.nchannels = 0;
        set_default(&pick, &q);
        force_algo(&pick, &q);
        force_proto(&pick, &q);
    }
    /* 3. Whether to push alone, which takes two passes: where there is much to move, and a kernel sees in users' memory
       what others store there while it runs. */
    const bool pushed = q.call == SV_COLL_ALL_REDUCE && is_direct_algo(pick.algo) && facts->shows_stores &&
                        q.bytes >= facts->config->coll_push_min;
    pick.algo = pushed ? (unsigned)SV_COLL_DIRECT_TWO : pick.algo;
    /* 4. Channels, and a channel's share in a few chunks, so that one is in flight while the next is filled; each costs
       microseconds. */
    const unsigned nchannels = q.n == 1 || q.call == SV_COLL_BARRIER ? 1 : channels_of(&q, &pick);
    const uint64_t max_chunk = facts->layout.slot_bytes / CHUNK_UNIT * CHUNK_UNIT;
    uint64_t chunk = share_of(&q, pick.algo) / nchannels / CHUNKS;
    chunk = (chunk + CHUNK_UNIT - 1) / CHUNK_UNIT * CHUNK_UNIT;
    chunk = chunk < CHUNK_MIN ? CHUNK_MIN : chunk;
    /* 5. What is pushed is cut into enough pieces for the steps to overlap. */
    const uint64_t piece = facts->soft ? SV_COLL_PART : PUSH_PIECE;
    const uint64_t share = share_of(&q, SV_COLL_DIRECT_TWO) / nchannels;
    uint8_t pieces_log2 = 1;
    while (pieces_log2 < PUSH_PIECES_LOG2 && share >> (pieces_log2 + 1) >= piece)
        pieces_log2++;
    *choice_out = (sv_coll_choice_t){.algo = (uint8_t)pick.algo,
                                     .proto = (uint8_t)pick.proto,
                                     .nchannels = (uint16_t)nchannels,
                                     .chunk_bytes = (uint32_t)(chunk < max_chunk ? chunk : max_chunk),
                                     .pieces_log2 = pushed ? pieces_log2 : SV_COLL_NOT_PUSHED,
                                     .why = pick.why};
}
