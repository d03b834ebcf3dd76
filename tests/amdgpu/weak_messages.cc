/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See weak_messages.h. Memory is as the library allocates it: slots of the reader's device memory with their words are
 * not cached, users' buffers, what a sender copies to lend it, and scratch are ordinary, and the shared segment is
 * pinned.
 *
 *   IN_SLOT   the sender's kernel stores into a slot of the reader's memory, with a record and a word beside it
 *   BY_HOST   the same in the shared segment
 *   PUT       the sender's kernel stores into the reader's buffer, which its L2 may keep, and the record into a slot
 *   LENT      the reader's kernel copies from the sender's buffer; the record is said by a kernel that only sums
 *   COPIED    the same from a copy that the sender's kernel makes in its own memory
 *
 * The reader's kernel is launched after its host has seen the word in the shared segment; or before, and waits for the
 * word beside the record, where the bytes come into a slot, or are lent and may be read before. In an exchange that is
 * DAMAGED, a byte of the last message is changed on the way; in one that is ABSENT it never comes.
 */
#include <stdio.h>
#include <string.h>

#include "amdgpu/amdgpu_weak.h"
#include "amdgpu/weak_messages.h"
#include "kernels/kernel_args.h"

/* As in kernels.h, which is for C only. */
extern "C" {
uint64_t sv_digest_mix(uint64_t x);
uint64_t sv_digest_key(const sv_record_t *identity);
uint64_t sv_digest_sum(uint64_t key, uint64_t first_word, const void *data, uint64_t bytes);
uint64_t sv_digest_finish(uint64_t key, uint64_t sum);
}

namespace {

enum { JOBS = 2, ROUNDS = 3, MOST_BYTES = 1600, SENDER = 0, READER = 1, RECORD = 64, JUNK = 0x5a, LAUNCHES = 2 * JOBS };
const uint64_t PATIENCE = 600000, STEPS = 8 * PATIENCE, TICK_NS = 10, BRIEF_PATIENCE = 8000;

enum way_t { IN_SLOT, BY_HOST, PUT, LENT, COPIED, WAYS };
enum fate_t { SOUND, DAMAGED, ABSENT, FATES };

struct job_t {
    way_t way;
    bool awaits, late;          /* the reader's kernel waits for the word; when it has read the bytes */
    uint64_t bytes, first;      /* of which so many are summed by a launch of their own at the sender, and the reader */
    unsigned nblocks;
    uint8_t *src, *dst, *place; /* place: where the sender's kernel stores; NULL: it does not */
    uint8_t *record, *copy;     /* the sender's; copy: for the reader, if it has another one */
    uint64_t *arrived, *near;   /* in the shared segment; beside the record, or NULL */
    uint64_t *done, *outcome, *stop;
    sv_verify_result_t *result;
    unsigned sent, taken, told; /* rounds that hosts have seen by arrived, done and outcome */
};

/* Of one kernel: a job, and which part of it. */
struct planned_t {
    unsigned job;
    bool begins; /* only sums the first bytes */
};

struct exchange_t {
    const weak_kernels_t *kernels;
    amdgpu_machine_t *machine;
    fate_t fate;
    uint64_t seed;
    bool checks;                /* there are digests */
    unsigned nthreads;
    job_t job[JOBS];
    sv_digest_scratch_t *scratch[2]; /* a line for each job */
    planned_t planned[2][LAUNCHES];
    unsigned nplanned[2], launched[2]; /* of a round; of all rounds */
    uint64_t gives_up;          /* the step in which the host does; 0: it does not */
};

char reason[160];

uint64_t draw(exchange_t *exchange, uint64_t below)
{
    return amdgpu_machine_random(exchange->machine) % below;
}

bool fail(const char *what, unsigned job, unsigned round, way_t way)
{
    const char *const ways[WAYS] = {"in a slot", "by the host", "put", "lent", "copied"};
    snprintf(reason, sizeof reason, "%s, message %u, round %u, %s", what, job, round, ways[way]);
    return false;
}

bool is_group(const exchange_t *exchange)
{
    return exchange->kernels->form == WEAK_GROUPS;
}

/* --- what messages are -------------------------------------------------------------------------------------------- */

void fill_bytes(const exchange_t *exchange, unsigned job, unsigned round, uint8_t *bytes)
{
    const uint64_t from = sv_digest_mix(exchange->seed * 1000 + job * 100 + round);
    for (uint64_t w = 0; w < MOST_BYTES / 8; w++) {
        const uint64_t word = sv_digest_mix(from + w);
        memcpy(bytes + 8 * w, &word, sizeof word);
    }
}

bool holds_bytes(const exchange_t *exchange, unsigned job, unsigned round, const uint8_t *place)
{
    uint8_t wanted[MOST_BYTES];
    fill_bytes(exchange, job, round, wanted);
    return memcmp(place, wanted, exchange->job[job].bytes) == 0;
}

sv_record_t identity_of(const exchange_t *exchange, unsigned job, unsigned round)
{
    sv_record_t identity = {};
    identity.magic = SV_RECORD_MAGIC;
    identity.version = SV_RECORD_VERSION;
    identity.kind = SV_RECORD_PACKET;
    identity.epoch = identity.index = round;
    identity.exchange = 77;
    identity.tag = 5 + job;
    identity.destination = 1;
    identity.bytes = exchange->job[job].bytes;
    identity.salt = identity.index + 1000 * (uint64_t)identity.tag;
    return identity;
}

/* Of a message, one bit of which may be another. */
uint64_t digest_of(const exchange_t *exchange, unsigned job, unsigned round, bool damaged)
{
    const sv_record_t identity = identity_of(exchange, job, round);
    const uint64_t key = sv_digest_key(&identity);
    uint8_t bytes[MOST_BYTES];
    fill_bytes(exchange, job, round, bytes);
    bytes[0] ^= damaged;
    return exchange->checks ? sv_digest_finish(key, sv_digest_sum(key, 0, bytes, exchange->job[job].bytes)) : 0;
}

/* What a word is once the message of a round is there; odd, so that it differs from the reader's numbers. */
uint64_t stamp_of(const exchange_t *exchange, unsigned job, unsigned round)
{
    return round == 0 ? 0 : sv_digest_mix(exchange->seed * 77 + job * 10 + round) | 1;
}

bool is_last(const exchange_t *exchange, unsigned job, unsigned round, fate_t fate)
{
    return exchange->fate == fate && job == 0 && round == ROUNDS;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

uint64_t *take_word(exchange_t *exchange, const char *name)
{
    uint64_t *word =
        (uint64_t *)amdgpu_machine_allocate(exchange->machine, AMDGPU_HOST, AMDGPU_PINNED, sizeof(uint64_t));
    amdgpu_machine_mark(exchange->machine, word, sizeof *word, name);
    return word;
}

uint8_t *take_bytes(exchange_t *exchange, unsigned owner, amdgpu_memory_t kind, uint64_t bytes)
{
    const unsigned alignments[] = {0, 0, 8, 4, 1};
    return (uint8_t *)amdgpu_machine_allocate(exchange->machine, owner, kind, bytes + 16) +
           alignments[draw(exchange, 5)];
}

sv_digest_scratch_t *take_scratch(exchange_t *exchange, unsigned owner)
{
    uint8_t *scratch = (uint8_t *)amdgpu_machine_allocate(exchange->machine, owner, AMDGPU_COARSE, JOBS * 128);
    for (unsigned j = 0; j < JOBS; j++) {
        sv_digest_scratch_t *own = (sv_digest_scratch_t *)(scratch + 128 * j);
        amdgpu_machine_mark(exchange->machine, &own->sum, sizeof own->sum, "sum");
        amdgpu_machine_mark(exchange->machine, &own->blocks_done, sizeof own->blocks_done, "count");
        amdgpu_machine_mark(exchange->machine, &own->go, sizeof own->go, "go");
    }
    return (sv_digest_scratch_t *)scratch;
}

void refill_source(exchange_t *exchange, unsigned job, unsigned round)
{
    uint8_t bytes[MOST_BYTES];
    fill_bytes(exchange, job, round, bytes);
    amdgpu_machine_store(exchange->machine, exchange->job[job].src, bytes, exchange->job[job].bytes);
}

/* Where a message lies on its way. */
void set_up_way(exchange_t *exchange, job_t *job)
{
    amdgpu_machine_t *machine = exchange->machine;
    job->src = take_bytes(exchange, SENDER, AMDGPU_COARSE, job->bytes);
    job->dst = take_bytes(exchange, READER, AMDGPU_COARSE, job->bytes);
    job->arrived = take_word(exchange, "arrived");
    uint8_t *shared = (uint8_t *)amdgpu_machine_allocate(machine, AMDGPU_HOST, AMDGPU_PINNED, RECORD);
    uint8_t *slot = (uint8_t *)amdgpu_machine_allocate(machine, READER, AMDGPU_UNCACHED, RECORD + 16);
    job->record = job->way == BY_HOST || job->way >= LENT ? shared : slot;
    job->copy = job->way >= LENT ? slot : nullptr;
    job->near = job->way == BY_HOST ? nullptr : (uint64_t *)(slot + RECORD);
    amdgpu_machine_mark(machine, slot + RECORD, sizeof(uint64_t), "arrived");
    switch (job->way) {
    case IN_SLOT: job->place = take_bytes(exchange, READER, AMDGPU_UNCACHED, job->bytes); break;
    case BY_HOST: job->place = take_bytes(exchange, AMDGPU_HOST, AMDGPU_PINNED, job->bytes); break;
    case PUT: job->place = job->dst; break;
    case COPIED: job->place = take_bytes(exchange, SENDER, AMDGPU_COARSE, job->bytes); break;
    default: job->place = nullptr; break;
    }
}

/* Other ways lead through ordinary memory, which a kernel that runs need not see as others change it. */
bool may_await(way_t way)
{
    return way == IN_SLOT || way == LENT;
}

void set_up_job(exchange_t *exchange, unsigned number)
{
    job_t *job = &exchange->job[number];
    const bool damaged = number == 0 && exchange->fate == DAMAGED, absent = number == 0 && exchange->fate == ABSENT;
    do
        job->way = (way_t)draw(exchange, WAYS);
    while ((damaged && job->way == LENT) || (absent && !may_await(job->way)));
    job->awaits = absent || (!is_group(exchange) && !damaged && may_await(job->way) && draw(exchange, 2));
    job->late = job->awaits && job->way == LENT;
    job->bytes = 1 + draw(exchange, MOST_BYTES - 16);
    job->nblocks = 1 + (unsigned)draw(exchange, 3);
    if (!job->awaits && !is_group(exchange) && draw(exchange, 3) == 0)
        job->first = job->bytes / 16 * 8;
    set_up_way(exchange, job);
    job->done = take_word(exchange, "done");
    job->outcome = take_word(exchange, "outcome");
    job->stop = take_word(exchange, "stop");
    job->result = (sv_verify_result_t *)amdgpu_machine_allocate(exchange->machine, AMDGPU_HOST, AMDGPU_PINNED,
                                                                sizeof *job->result);
    amdgpu_machine_mark(exchange->machine, &job->result->epoch, sizeof job->result->epoch, "result");
    refill_source(exchange, number, 1);
}

void plan(exchange_t *exchange, unsigned gpu)
{
    unsigned n = 0;
    for (unsigned j = 0; j < (is_group(exchange) ? 1u : unsigned{JOBS}); j++) {
        if (exchange->job[j].first)
            exchange->planned[gpu][n++] = {j, true};
        exchange->planned[gpu][n++] = {j, false};
    }
    exchange->nplanned[gpu] = n;
}

void set_up(exchange_t *exchange)
{
    exchange->fate = (fate_t)draw(exchange, is_group(exchange) ? unsigned{ABSENT} : unsigned{FATES});
    exchange->checks = exchange->fate == DAMAGED || draw(exchange, 4);
    exchange->nthreads = draw(exchange, 2) ? 256 : 64 * (1 + (unsigned)draw(exchange, 4));
    exchange->scratch[SENDER] = take_scratch(exchange, SENDER);
    exchange->scratch[READER] = take_scratch(exchange, READER);
    for (unsigned j = 0; j < JOBS; j++)
        set_up_job(exchange, j);
    plan(exchange, SENDER);
    plan(exchange, READER);
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

sv_digest_arg_t prepare_arg(const exchange_t *exchange, unsigned number, unsigned round)
{
    const job_t &job = exchange->job[number];
    sv_digest_arg_t arg = {};
    arg.src = job.src;
    arg.dst = job.place;
    arg.record = job.record;
    arg.copy = job.copy;
    arg.signal = job.arrived;
    arg.signal_value = stamp_of(exchange, number, round);
    arg.second = job.near;
    arg.second_value = stamp_of(exchange, number, round);
    arg.mode = SV_DIGEST_PREPARE | (job.near ? unsigned{SV_DIGEST_AHEAD} : 0u);
    return arg;
}

sv_digest_arg_t verify_arg(const exchange_t *exchange, unsigned number, unsigned round)
{
    const job_t &job = exchange->job[number];
    sv_digest_arg_t arg = {};
    arg.src = job.way == LENT ? job.src : job.place;
    arg.dst = job.way == PUT ? nullptr : job.dst;
    arg.record = job.copy ? job.copy : job.record;
    arg.result = job.result;
    arg.signal = job.done;
    arg.signal_value = 2 * round;
    arg.away_value = 2 * round + 1;
    arg.second = job.outcome;
    arg.second_value = stamp_of(exchange, number, round);
    arg.mode = SV_DIGEST_VERIFY | SV_DIGEST_PRESET | SV_DIGEST_NEAR;
    if (!job.awaits)
        return arg;
    arg.await = job.near;
    arg.await_before = stamp_of(exchange, number, round - 1);
    arg.await_value = stamp_of(exchange, number, round);
    arg.await_ns = (is_last(exchange, number, round, ABSENT) ? BRIEF_PATIENCE : PATIENCE) * TICK_NS;
    arg.stop = job.stop;
    arg.mode |= job.way == IN_SLOT ? unsigned{SV_DIGEST_ONLY} : job.late ? unsigned{SV_DIGEST_LATE} : 0u;
    return arg;
}

sv_digest_arg_t make_arg(const exchange_t *exchange, unsigned gpu, unsigned number, unsigned round)
{
    sv_digest_arg_t arg =
        gpu == SENDER ? prepare_arg(exchange, number, round) : verify_arg(exchange, number, round);
    arg.identity = identity_of(exchange, number, round);
    arg.key = sv_digest_key(&arg.identity);
    arg.bytes = exchange->job[number].bytes;
    arg.scratch = exchange->scratch[gpu] + number * (128 / sizeof(sv_digest_scratch_t));
    arg.mode |= exchange->checks ? 0u : unsigned{SV_DIGEST_NONE};
    return arg;
}

/* The first bytes are another launch's. */
void cut(sv_digest_arg_t *arg, uint64_t first, bool begins)
{
    if (begins) {
        arg->bytes = first;
        arg->mode = (arg->mode & ~unsigned{SV_DIGEST_FINISH}) | SV_DIGEST_ADD;
    } else {
        arg->src += first;
        arg->dst = arg->dst ? arg->dst + first : nullptr;
        arg->bytes -= first;
        arg->first_word = first / 8;
    }
}

void add_to_group(const sv_digest_arg_t &one, unsigned nblocks, sv_digests_arg_t *all)
{
    sv_digest_job_t *job = &all->job[all->njobs];
    *job = {one.src, one.dst, one.bytes, one.key, one.scratch, one.record, one.copy, one.result, one.signal,
            one.signal_value, one.second, one.second_value, one.identity.epoch, one.identity.tag, one.identity.source,
            one.identity.destination, (uint16_t)one.mode, one.identity.attempt, 0};
    all->exchange = one.identity.exchange;
    all->first_block[all->njobs + 1] = all->first_block[all->njobs] + nblocks;
    all->njobs++;
}

void launch(exchange_t *exchange, unsigned gpu, const planned_t &planned, unsigned round)
{
    const amdgpu_kernel_t *kernel = gpu == SENDER ? exchange->kernels->push : exchange->kernels->pull;
    const sv_verify_result_t preset = {0, 0, 1, 1, 0};
    sv_digests_arg_t all = {};
    sv_digest_arg_t one = {};
    for (unsigned j = 0; j < JOBS; j++) {
        if (!is_group(exchange) && j != planned.job)
            continue;
        if (gpu == READER && !planned.begins)
            amdgpu_machine_store(exchange->machine, exchange->job[j].result, &preset, sizeof preset);
        one = make_arg(exchange, gpu, j, round);
        if (exchange->job[j].first)
            cut(&one, exchange->job[j].first, planned.begins);
        add_to_group(one, exchange->job[j].nblocks, &all);
    }
    const amdgpu_launch_t launch = {kernel, all.first_block[all.njobs], exchange->nthreads, 0, 0, 0,
                                    is_group(exchange) ? (const void *)&all : &one, nullptr};
    amdgpu_machine_launch(exchange->machine, gpu, &launch);
    exchange->launched[gpu]++;
}

/* What the host of a GPU waits for before it launches. */
bool may_launch(const exchange_t *exchange, unsigned gpu, const planned_t &planned, unsigned round)
{
    for (unsigned j = 0; j < JOBS; j++) {
        const job_t &job = exchange->job[j];
        if (job.taken + 1 < round)
            return false;
        if (gpu == READER && !job.awaits && (is_group(exchange) || j == planned.job) && job.sent < round)
            return false;
    }
    return true;
}

void launch_next(exchange_t *exchange, unsigned gpu)
{
    const unsigned round = 1 + exchange->launched[gpu] / exchange->nplanned[gpu];
    if (round > ROUNDS || amdgpu_machine_is_busy(exchange->machine, gpu))
        return;
    const planned_t &planned = exchange->planned[gpu][exchange->launched[gpu] % exchange->nplanned[gpu]];
    if (gpu == SENDER && is_last(exchange, planned.job, round, ABSENT))
        exchange->launched[gpu]++;
    else if (may_launch(exchange, gpu, planned, round))
        launch(exchange, gpu, planned, round);
}

/* --- what words promise ------------------------------------------------------------------------------------------- */

bool is_recorded(const exchange_t *exchange, unsigned job, unsigned round, const uint8_t *place)
{
    sv_record_t wanted = identity_of(exchange, job, round);
    wanted.digest = digest_of(exchange, job, round, false);
    return memcmp(place, &wanted, sizeof wanted) == 0;
}

bool has_arrived(const exchange_t *exchange, unsigned number, unsigned round)
{
    const job_t &job = exchange->job[number];
    if (is_last(exchange, number, round, ABSENT))
        return fail("a message came that was not sent", number, round, job.way);
    if (job.place && !holds_bytes(exchange, number, round, job.place))
        return fail("what has arrived is not all there", number, round, job.way);
    return (is_recorded(exchange, number, round, job.record) &&
            (!job.copy || is_recorded(exchange, number, round, job.copy))) ||
           fail("the record is not there", number, round, job.way);
}

bool look_at_sender(exchange_t *exchange, unsigned number)
{
    job_t *job = &exchange->job[number];
    const unsigned round = job->sent + 1;
    const uint64_t stamp = stamp_of(exchange, number, round);
    if (round > ROUNDS)
        return true;
    if (job->near && *job->near == stamp && job->taken + 1 == round && !has_arrived(exchange, number, round))
        return false;
    if (*job->arrived != stamp)
        return true;
    if (!has_arrived(exchange, number, round))
        return false;
    job->sent = round;
    if (is_last(exchange, number, round, DAMAGED)) {
        const uint8_t other = job->place[0] ^ 1;
        amdgpu_machine_store(exchange->machine, job->place, &other, 1);
    }
    if (job->way != LENT && round < ROUNDS)
        refill_source(exchange, number, round + 1);
    return true;
}

/* What the reader's kernel has found, if it is not what the host has set before. */
bool is_explained(const exchange_t *exchange, unsigned number, unsigned round)
{
    const sv_verify_result_t &result = *exchange->job[number].result;
    if (!is_last(exchange, number, round, DAMAGED))
        return result.record_ok == 1 && result.verified == 1 && result.epoch == 0;
    return result.record_ok == 1 && result.verified == 0 && result.epoch == round &&
           result.expected == digest_of(exchange, number, round, false) &&
           result.found == digest_of(exchange, number, round, true);
}

/* What the host puts into the buffer of a message that never comes, so that a kernel that stores there is noticed. */
void spoil(exchange_t *exchange, const job_t &job)
{
    uint8_t junk[MOST_BYTES];
    memset(junk, JUNK, sizeof junk);
    amdgpu_machine_store(exchange->machine, job.dst, junk, job.bytes);
}

bool is_junk(const uint8_t *place, uint64_t bytes)
{
    for (uint64_t b = 0; b < bytes; b++)
        if (place[b] != JUNK)
            return false;
    return true;
}

bool look_at_end(exchange_t *exchange, unsigned number, unsigned round)
{
    job_t *job = &exchange->job[number];
    const bool away = *job->done == 2 * round + 1, absent = is_last(exchange, number, round, ABSENT);
    if (away != absent)
        return fail(away ? "a message never came" : "a message was taken that never came", number, round, job->way);
    if (!is_explained(exchange, number, round))
        return fail("a message does not verify, or damage is not reported as it was", number, round, job->way);
    if (absent)
        return job->late || is_junk(job->dst, job->bytes) ||
               fail("what never came has been stored", number, round, job->way);
    return is_last(exchange, number, round, DAMAGED) || holds_bytes(exchange, number, round, job->dst) ||
           fail("what has landed is not all there", number, round, job->way);
}

bool look_at_reader(exchange_t *exchange, unsigned number)
{
    job_t *job = &exchange->job[number];
    const unsigned round = job->taken + 1, said = job->told + 1;
    if (job->result->epoch && (round > ROUNDS || !is_explained(exchange, number, round)) &&
        !(round > ROUNDS && is_explained(exchange, number, ROUNDS)))
        return fail("damage is not reported as it was", number, round, job->way);
    if (said <= ROUNDS && *job->outcome == stamp_of(exchange, number, said)) {
        if (is_last(exchange, number, said, DAMAGED) || is_last(exchange, number, said, ABSENT))
            return fail("damage was not noticed", number, said, job->way);
        if (!holds_bytes(exchange, number, said, job->dst))
            return fail("what is said to be good is not all there", number, said, job->way);
        job->told = said;
    }
    if (round > ROUNDS || *job->done < 2 * round)
        return true;
    if (!look_at_end(exchange, number, round))
        return false;
    job->taken = round;
    if (is_last(exchange, number, round + 1, ABSENT))
        spoil(exchange, *job);
    if (job->way == LENT && round < ROUNDS)
        refill_source(exchange, number, round + 1);
    return true;
}

bool is_over(const exchange_t *exchange)
{
    for (const job_t &job : exchange->job)
        if (job.taken < ROUNDS)
            return false;
    return !amdgpu_machine_is_busy(exchange->machine, SENDER) && !amdgpu_machine_is_busy(exchange->machine, READER);
}

bool is_left_clean(const exchange_t *exchange)
{
    for (unsigned gpu = 0; gpu < 2; gpu++)
        for (unsigned j = 0; j < JOBS; j++) {
            const sv_digest_scratch_t &scratch = exchange->scratch[gpu][j * (128 / sizeof(sv_digest_scratch_t))];
            if (scratch.sum || scratch.blocks_done || scratch.go)
                return fail("a scratch is not left as it was", j, ROUNDS, exchange->job[j].way);
        }
    for (unsigned j = 0; j < JOBS; j++)
        if (exchange->job[j].told + (j == 0 && exchange->fate != SOUND) < ROUNDS)
            return fail("the sender is not told", j, ROUNDS, exchange->job[j].way);
    return true;
}

/* The host wants no more of what never comes, sometimes; or another message has taken its slot. */
void give_up(exchange_t *exchange, uint64_t step)
{
    const job_t &job = exchange->job[0];
    const uint64_t stop = 2 * ROUNDS, other = stamp_of(exchange, 0, ROUNDS + 1);
    if (exchange->fate != ABSENT || exchange->launched[READER] <= (ROUNDS - 1) * exchange->nplanned[READER])
        return;
    if (!exchange->gives_up)
        exchange->gives_up = step + 1 + draw(exchange, 2 * BRIEF_PATIENCE);
    if (step != exchange->gives_up)
        return;
    if (job.way == IN_SLOT && draw(exchange, 2))
        amdgpu_machine_store(exchange->machine, job.near, &other, sizeof other);
    else
        amdgpu_machine_store(exchange->machine, job.stop, &stop, sizeof stop);
}

bool run(exchange_t *exchange)
{
    for (uint64_t step = 0; step < STEPS; step++) {
        launch_next(exchange, SENDER);
        launch_next(exchange, READER);
        amdgpu_machine_step(exchange->machine);
        give_up(exchange, step);
        for (unsigned j = 0; j < JOBS; j++)
            if (!look_at_sender(exchange, j) || !look_at_reader(exchange, j))
                return false;
        if (is_over(exchange))
            return is_left_clean(exchange);
    }
    return fail("it never ends", 0, exchange->job[0].taken + 1, exchange->job[0].way);
}

} // namespace

const char *weak_messages_run(const weak_kernels_t *kernels, uint64_t seed)
{
    static exchange_t exchange;
    exchange = exchange_t();
    exchange.kernels = kernels;
    exchange.seed = seed;
    exchange.machine = amdgpu_machine_open(kernels->arch, 2, seed);
    set_up(&exchange);
    const bool good = run(&exchange);
    amdgpu_machine_close(exchange.machine);
    return good ? nullptr : reason;
}
