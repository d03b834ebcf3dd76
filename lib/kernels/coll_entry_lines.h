/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks tell each other at the beginning of a call, on every channel that it uses: the call, the buffers, and the
 * factor of the input.
 *
 * Entries are lines with flags. They are fenced only where buffers are told, for the direct algorithms. Work before
 * this launch wrote those buffers on one device, and another device then reads them, whose caches may hold what an
 * earlier call read.
 *
 * Two halves take turns. A rank writes half h again two calls later. By then it has read everybody's next entry. A rank
 * sends that only after it has read this one, because everybody reads everybody's entry before a call ends.
 */
#ifndef SV_COLL_ENTRY_LINES_H
#define SV_COLL_ENTRY_LINES_H

#include "kernels/coll_block.h"

SV_DEV_FN uint64_t sv_coll_entry_at(const sv_coll_at_t &c, uint64_t connection, uint64_t entries, unsigned line)
{
    return connection + c.context.entry_at + ((entries & 1) * SV_COLL_ENTRIES + line) * SV_COLL_LINE;
}

SV_DEV_FN uint64_t sv_coll_entry_word(const sv_coll_work_t &work, unsigned line)
{
    return line == 0 ? work.signature : line == 1 ? work.src_window : line == 2 ? work.dst_window : work.scalar;
}

/* The word that opens a PAIR, in place of an entry: nobody waits for a receiver that is late. */
SV_DEV_FN uint64_t sv_coll_pair_word(const sv_coll_work_t &work, uint64_t elements)
{
    sv_coll_work_t pair = work;
    pair.sequence = 0;
    pair.op = pair.root = 0;
    pair.count = elements;
    return sv_coll_signature(&pair, work.communicator);
}

/* Writes to rank r the lines `from` to `until` that the call has no use for, in the rounds that the mask ll_clean
   selects. So none keeps a flag until that comes round again. */
SV_DEV_FN void sv_coll_entry_clean(const sv_coll_at_t &c, uint32_t r, unsigned from, unsigned until)
{
    const uint64_t entries = c.b.state[r].entries;
    if ((entries & c.context.ll_clean) != c.context.ll_clean)
        return;
    SV_DEV_ROLLED
    for (unsigned line = from; line < until; line++)
        sv_coll_line_put(c, sv_coll_entry_at(c, c.b.theirs[r], entries, line), 0, static_cast<uint32_t>(entries + 1));
}

/* Tells all ranks the signature. All lanes call. */
SV_DEV_FN void sv_coll_entry_send(const sv_coll_at_t &c)
{
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        if (r != c.b.me) {
            sv_coll_line_put(c, sv_coll_entry_at(c, c.b.theirs[r], c.b.state[r].entries, 0), c.b.work.signature,
                             static_cast<uint32_t>(c.b.state[r].entries + 1));
            sv_coll_entry_clean(c, r, 1, SV_COLL_ENTRIES);
        }
}

/* Hears all ranks, and compares what they call. All lanes call. */
SV_DEV_FN void sv_coll_entry_check(const sv_coll_at_t &c)
{
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads) {
        uint64_t entries = c.b.state[r].entries++;
        if (r == c.b.me)
            continue;
        uint64_t word = sv_coll_line_take(c, sv_coll_entry_at(c, c.b.mine[r], entries, 0),
                                          static_cast<uint32_t>(entries + 1), SV_COLL_AT_ENTRY, r);
        if (word != c.b.work.signature && !sv_coll_has_failed(c))
            sv_coll_fail(c, SV_COLL_DIFFERS, SV_COLL_AT_ENTRY, r, c.b.work.signature, word);
    }
    sv_dev_block_sync();
}

/*
 * Buffers that are told need something that says they are what they were before. On NVIDIA the start of the launch says
 * so, for its first piece of work.
 */
SV_DEV_FN void sv_coll_entry_fence(const sv_coll_at_t &c)
{
#if defined(SV_DEV_CUDA)
    if (c.b.begun > 1)
#else
    (void)c;
#endif
        sv_dev_fence_system();
}

/* Scalars are told where inputs are multiplied. */
SV_DEV_FN unsigned sv_coll_entry_lines(const sv_coll_at_t &c)
{
    return c.b.work.flags & SV_COLL_PREMUL ? SV_COLL_ENTRY : SV_COLL_ENTRY - 1;
}

/* Tells rank r everything. Partner: sv_coll_entry_read_all(). */
SV_DEV_FN void sv_coll_entry_send_all(const sv_coll_at_t &c, uint32_t r)
{
    const uint64_t entries = c.b.state[r].entries;
    const unsigned nlines = sv_coll_entry_lines(c);
    if (r == c.b.me)
        return;
    sv_coll_entry_fence(c);
    SV_DEV_UNROLL
    for (unsigned line = 0; line < SV_COLL_ENTRY; line++)
        if (line < nlines)
            sv_coll_line_put(c, sv_coll_entry_at(c, c.b.theirs[r], entries, line), sv_coll_entry_word(c.b.work, line),
                             static_cast<uint32_t>(entries + 1));
    sv_coll_entry_clean(c, r, nlines, c.b.work.flags & SV_COLL_DIGEST ? SV_COLL_ENTRY : SV_COLL_ENTRIES);
}

/* Takes everything that rank r tells, with one look at all of it. What is not told stays as it is. */
SV_DEV_FN void sv_coll_entry_read_all(const sv_coll_at_t &c, uint32_t r, uint64_t (&word)[SV_COLL_ENTRY])
{
    const uint64_t entries = c.b.state[r].entries, at = sv_coll_entry_at(c, c.b.mine[r], entries, 0);
    const uint32_t flag = static_cast<uint32_t>(entries + 1), nlines = sv_coll_entry_lines(c);
    sv_coll_spin_t spin = {};
    uint64_t low[SV_COLL_ENTRY], high[SV_COLL_ENTRY], missing;
    do {
        missing = 0;
        SV_DEV_UNROLL
        for (unsigned line = 0; line < SV_COLL_ENTRY; line++) {
            low[line] = high[line] = static_cast<uint64_t>(flag) << 32;
            if (line < nlines)
                sv_coll_line_poll(at + line * SV_COLL_LINE, &low[line], &high[line]);
        }
        SV_DEV_UNROLL
        for (unsigned line = 0; line < SV_COLL_ENTRY; line++)
            missing |= (low[line] >> 32 ^ flag) | (high[line] >> 32 ^ flag);
    } while (missing && sv_coll_wait_more(c, spin, SV_COLL_AT_ENTRY, r, flag, low[0] >> 32));
    SV_DEV_UNROLL
    for (unsigned line = 0; line < SV_COLL_ENTRY; line++)
        if (line < nlines)
            word[line] = missing ? 0 : (low[line] & 0xffffffffu) | high[line] << 32;
    sv_coll_entry_fence(c);
}

/* Waits until everybody has ended its passes over everybody's memory on this channel. `stored`: they have stored there,
   and not only read. On soft a lane may put off its loads, so it releases those as well. All lanes do `meanwhile`, when
   this rank has said so. Partner: itself, on the other ranks. */
template <class MEANWHILE> SV_DEV_FN void sv_coll_fin(const sv_coll_at_t &c, bool stored, const MEANWHILE &meanwhile)
{
#if defined(SV_DEV_SOFT)
    stored = true;
#endif
    sv_dev_block_sync();
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads) {
        uint64_t *word = sv_coll_pointer<uint64_t>(c.b.theirs[r] + SV_COLL_FIN_AT);
        if (r == c.b.me)
            continue;
        if (stored)
            sv_dev_store_release_system_u64(word, c.b.state[r].fins + 1);
        else
            sv_dev_store_word_system(word, c.b.state[r].fins + 1);
    }
    meanwhile.run();
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        if (r != c.b.me)
            sv_coll_wait_word(c, c.b.mine[r] + SV_COLL_FIN_AT, ++c.b.state[r].fins, SV_COLL_AT_FIN, r);
    sv_dev_block_sync();
}

#endif
