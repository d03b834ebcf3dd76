/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives over whole slots (protocol SIMPLE), and over users' memory: a slice is done as one pass. Waits for the
 * sources' data and the destinations' credit, passes, releases both: send, receive, copy-send, receive-copy-send,
 * receive-reduce-send, receive-reduce-copy and receive-reduce-copy-send are slices with other lists, the direct
 * variants those without a slot.
 *
 *   lane p: wait for rank p   |  all lanes: the pass  |  lane p: tail of rank p, head of rank p
 *                          barrier                 barrier
 */
#ifndef SV_COLL_SLOTS_H
#define SV_COLL_SLOTS_H

#include "kernels/coll_block.h"
#include "kernels/coll_words.h"
#include "kernels/kernel_digest.h"


SV_DEV_FN uint64_t sv_coll_slot_at(const sv_coll_at_t &c, uint64_t connection, uint64_t step)
{
    return connection + c.dev->layout.slot_at +
           step % SV_COLL_STEPS * (c.dev->layout.slot_bytes + static_cast<uint64_t>(SV_COLL_SLOT_RECORD));
}

/* Where the digest of a part of a slot lies. */
SV_DEV_FN uint64_t *sv_coll_slot_record(const sv_coll_at_t &c, uint64_t slot, uint32_t part)
{
    return sv_coll_pointer<uint64_t>(slot + c.dev->layout.slot_bytes) + part;
}

/* Key of what member `from` of the arena puts into a slot: which call, which data, whose. */
SV_DEV_FN uint64_t sv_coll_key(const sv_coll_at_t &c, uint32_t from, uint64_t id)
{
    return digest_mix(c.b.work.key + digest_mix(id + digest_mix(from)));
}

/* Credit for the slots that the slice writes; of SIMPLE also the data that it reads. False, for all lanes: leave. */
SV_DEV_FN bool sv_coll_await_ranks(const sv_coll_at_t &c, bool data)
{
    const sv_coll_slice_t &s = c.b.slice;
    for (unsigned d = c.at.tid; d < s.ndst; d += c.at.nthreads)
        if (s.to[d] != SV_COLL_PLAIN && c.b.state[s.to[d]].sent >= SV_COLL_STEPS)
            sv_coll_wait_word(c, c.b.mine[s.to[d]] + SV_COLL_HEAD_AT, c.b.state[s.to[d]].sent - SV_COLL_STEPS + 1,
                              SV_COLL_AT_CREDIT, s.to[d]);
    for (unsigned k = c.at.tid; data && k < s.nsrc; k += c.at.nthreads)
        if (s.from[k] != SV_COLL_PLAIN)
            sv_coll_wait_word(c, c.b.mine[s.from[k]] + SV_COLL_TAIL_AT, c.b.state[s.from[k]].taken + 1,
                              SV_COLL_AT_SLOT, s.from[k]);
    if (sv_coll_has_failed(c))
        sv_dev_store_u32_system(&c.b.leaves, 1);
    sv_dev_block_sync(); /* and there is another before the next slice's waits */
    return !sv_dev_load_u32_system(&c.b.leaves);
}

/* Ends the steps of the slice: releases what was put into slots, gives back what was read. Partners: the waits above,
   on the other ranks. */
SV_DEV_FN void sv_coll_end_steps(const sv_coll_at_t &c, bool data)
{
    const sv_coll_slice_t &s = c.b.slice;
    sv_dev_block_sync();
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads) {
        if (s.post >> r & 1) {
            uint64_t sent = ++c.b.state[r].sent;
#if defined(SV_DEV_SOFT)
            (void)sv_coll_disturb(c);
#endif
            if (data)
                sv_dev_store_release_system_u64(sv_coll_pointer<uint64_t>(c.b.theirs[r] + SV_COLL_TAIL_AT), sent);
        }
        if (s.take >> r & 1)
            sv_dev_store_release_system_u64(sv_coll_pointer<uint64_t>(c.b.theirs[r] + SV_COLL_HEAD_AT),
                                            ++c.b.state[r].taken);
    }
}

SV_DEV_FN bool sv_coll_has_digest(const sv_coll_at_t &c)
{
    return c.b.work.flags & SV_COLL_DIGEST;
}

/*
 * In steps that the mask ll_clean selects, whatever the protocol: writes the lines of the step's slot of LL behind
 * the `used` ones of the slice (0: it used none), so that no line keeps a flag until it comes round again; see
 * coll_lines.h.
 */
SV_DEV_FN void sv_coll_clean_lines(const sv_coll_at_t &c, uint64_t used)
{
    const sv_coll_slice_t &s = c.b.slice;
    for (unsigned d = 0; d < s.ndst; d++) {
        if (s.to[d] == SV_COLL_PLAIN || !(s.post >> s.to[d] & 1))
            continue;
        uint64_t step = c.b.state[s.to[d]].sent;
        if ((step & c.dev->ll_clean) != c.dev->ll_clean)
            continue;
        uint64_t slot = c.b.theirs[s.to[d]] + c.dev->layout.ll_at + step % SV_COLL_STEPS * c.dev->layout.ll_bytes;
        uint64_t from = used ? s.dst[d] / 8 + used : 0;
        for (uint64_t u = from + c.at.tid; u < c.dev->layout.ll_bytes / SV_COLL_LINE; u += c.at.nthreads)
            sv_coll_line_put(c, slot + u * SV_COLL_LINE, 0, static_cast<uint32_t>(step + 1));
    }
}

/* Sums every slot that the slice reads, and compares with what its sender said. */
SV_DEV_FN void sv_coll_verify_slots(const sv_coll_at_t &c)
{
    const sv_coll_slice_t &s = c.b.slice;
    for (unsigned k = 0; k < s.nsrc; k++) {
        if (s.from[k] == SV_COLL_PLAIN)
            continue;
        uint64_t slot = sv_coll_slot_at(c, c.b.mine[s.from[k]], c.b.state[s.from[k]].taken);
        uint64_t key = sv_coll_key(c, c.dev->member[s.from[k]], s.id_in), sum = 0;
        for (uint64_t at = 8ull * c.at.tid; at < s.bytes; at += 8ull * c.at.nthreads)
            sum += digest_term(sv_coll_word_load(sv_coll_pointer<const uint8_t>(slot + s.src[k] + at), s.bytes - at),
                               key + at / 8 * SV_DIGEST_STEP);
        sum = digest_finish(key, sv_dev_block_sum_u64(sum, c.at));
        uint64_t said = *sv_coll_slot_record(c, slot, s.part_of[k]);
        if (c.at.tid == 0 && said != sum)
            sv_coll_fail(c, SV_COLL_DAMAGED, SV_COLL_AT_SLOT, s.from[k], said, sum, false);
    }
    sv_dev_block_sync();
}

/* The digest of what was just put into the slots of the destinations goes behind it. All lanes call. */
SV_DEV_FN void sv_coll_sign_slots(const sv_coll_at_t &c, uint64_t key, uint64_t sum)
{
    const sv_coll_slice_t &s = c.b.slice;
    sum = digest_finish(key, sv_dev_block_sum_u64(sum, c.at));
    for (unsigned d = c.at.tid; d < s.ndst; d += c.at.nthreads)
        if (s.to[d] != SV_COLL_PLAIN)
            *sv_coll_slot_record(c, sv_coll_slot_at(c, c.b.theirs[s.to[d]], c.b.state[s.to[d]].sent), s.part) = sum;
}

/* The slice as a pass over memory. */
SV_DEV_FN void sv_coll_pass_of(const sv_coll_at_t &c)
{
    sv_coll_pass_t &pass = c.b.pass;
    const sv_coll_slice_t &s = c.b.slice;
    for (unsigned k = c.at.tid; k < s.nsrc; k += c.at.nthreads) {
        uint64_t base = s.from[k] == SV_COLL_PLAIN
                            ? 0 : sv_coll_slot_at(c, c.b.mine[s.from[k]], c.b.state[s.from[k]].taken);
        pass.src[k] = sv_coll_pointer<const uint8_t>(base + s.src[k]);
        pass.scalar[k] = c.b.hello[SV_COLL_HELLO - 1][s.scale_of[k]];
    }
    for (unsigned d = c.at.tid; d < s.ndst; d += c.at.nthreads) {
        uint64_t base = s.to[d] == SV_COLL_PLAIN
                            ? 0 : sv_coll_slot_at(c, c.b.theirs[s.to[d]], c.b.state[s.to[d]].sent);
        pass.dst[d] = sv_coll_pointer<uint8_t>(base + s.dst[d]);
    }
    if (c.at.tid == 0) {
        pass.nsrc = s.nsrc;
        pass.ndst = s.ndst;
        pass.premul = s.premul;
        pass.divisor = static_cast<uint16_t>(s.divisor);
        pass.bytes = s.bytes;
        pass.type = c.b.work.type;
        pass.op = c.b.work.op;
        pass.digest = sv_coll_has_digest(c);
        pass.key = sv_coll_key(c, c.dev->member[c.b.me], s.id_out);
        pass.first_word = 0;
    }
}

SV_DEV_FN bool sv_coll_is_copy(const sv_coll_slice_t &s)
{
    return s.nsrc == 1 && s.premul == 0 && s.divisor <= 1;
}

/* One slice; REDUCES: one with something to compute, too. All lanes call; ends without a barrier. */
template <bool REDUCES> SV_DEV_FN void sv_coll_slots_run(const sv_coll_at_t &c)
{
    const sv_coll_pass_t &pass = c.b.pass;
    if (!sv_coll_await_ranks(c, true))
        return;
    if (sv_coll_has_digest(c))
        sv_coll_verify_slots(c);
    sv_coll_pass_of(c);
    sv_dev_block_sync();
    uint64_t sum = 0;
    if constexpr (REDUCES)
        sum = sv_coll_pass_run(pass, c.at.tid, c.at.nthreads);
    else if (sv_coll_is_copy(c.b.slice))
        sum = coll_pass_all<coll_copy>(pass, c.at.tid, c.at.nthreads);
    if (pass.digest)
        sv_coll_sign_slots(c, pass.key, sum);
    sv_coll_clean_lines(c, 0);
    sv_coll_end_steps(c, true);
}

#endif
