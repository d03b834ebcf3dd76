/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks tell each other at the beginning of a call, on every channel that it uses: what is called, where the
 * buffers are, by how much the input is multiplied. Lines with flags; only where buffers are told, for the direct
 * algorithms, are they fenced: what lies there, written by work before this launch on one device, is then read by
 * another, whose caches may hold what an earlier call read. Two halves take turns: a rank writes half h again two
 * calls later, for which it has heard everybody's next hello, and nobody says that before having read this one:
 * everybody hears everybody before a call ends.
 */
#ifndef SV_COLL_HELLO_H
#define SV_COLL_HELLO_H

#include "kernels/coll_block.h"

SV_DEV_FN uint64_t sv_coll_hello_at(const sv_coll_at_t &c, uint64_t connection, uint64_t hellos, unsigned line)
{
    return connection + c.dev->layout.hello_at + ((hellos & 1) * SV_COLL_HELLO + line) * SV_COLL_LINE;
}

SV_DEV_FN uint64_t sv_coll_hello_word(const sv_coll_work_t &work, unsigned line)
{
    return line == 0 ? work.signature : line == 1 ? work.src_window : line == 2 ? work.dst_window : work.scalar;
}

/* Whether so many lines tell of buffers, too. */
SV_DEV_FN bool sv_coll_hello_tells(unsigned nlines)
{
    return nlines > 1;
}

/* Tells all ranks the first nlines lines. All lanes call. */
SV_DEV_FN void sv_coll_hello_say(const sv_coll_at_t &c, unsigned nlines)
{
    if (sv_coll_hello_tells(nlines) && c.at.tid < c.b.n * nlines)
        sv_dev_fence_system(); /* partner: sv_coll_hello_hear() */
    for (unsigned i = c.at.tid; i < c.b.n * nlines; i += c.at.nthreads) {
        unsigned r = i / nlines, line = i % nlines;
        uint64_t hellos = c.b.state[r].hellos;
        if (r != c.b.me)
            sv_coll_line_put(c, sv_coll_hello_at(c, c.b.theirs[r], hellos, line),
                             sv_coll_hello_word(c.b.work, line), static_cast<uint32_t>(hellos + 1));
        else
            c.b.hello[line][r] = sv_coll_hello_word(c.b.work, line);
    }
}

/* Hears all ranks, and compares what they call. All lanes call; afterwards hello[line][rank] is there for all. */
SV_DEV_FN void sv_coll_hello_hear(const sv_coll_at_t &c, unsigned nlines)
{
    for (unsigned i = c.at.tid; i < c.b.n * nlines; i += c.at.nthreads) {
        unsigned r = i / nlines, line = i % nlines;
        uint64_t hellos = c.b.state[r].hellos;
        if (r == c.b.me)
            continue;
        uint64_t word = sv_coll_line_take(c, sv_coll_hello_at(c, c.b.mine[r], hellos, line),
                                          static_cast<uint32_t>(hellos + 1), SV_COLL_AT_HELLO, r);
        c.b.hello[line][r] = word;
        if (line == 0 && word != c.b.work.signature && !sv_coll_has_failed(c))
            sv_coll_fail(c, SV_COLL_DIFFERS, SV_COLL_AT_HELLO, r, c.b.work.signature, word, false);
    }
    if (sv_coll_hello_tells(nlines) && c.at.tid < c.b.n * nlines)
        sv_dev_fence_system(); /* partner: sv_coll_hello_say() */
    sv_dev_block_sync();
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        c.b.state[r].hellos++;
    sv_dev_block_sync();
}

/* Everybody has ended its passes over everybody's memory on this channel. Partner: itself, on the other ranks. */
SV_DEV_FN void sv_coll_fin(const sv_coll_at_t &c)
{
    sv_dev_block_sync();
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        if (r != c.b.me)
            sv_dev_store_release_system_u64(sv_coll_pointer<uint64_t>(c.b.theirs[r] + SV_COLL_FIN_AT),
                                            c.b.state[r].fins + 1);
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        if (r != c.b.me)
            sv_coll_wait_word(c, c.b.mine[r] + SV_COLL_FIN_AT, ++c.b.state[r].fins, SV_COLL_AT_FIN, r);
    sv_dev_block_sync();
}

#endif
