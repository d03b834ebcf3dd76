/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code that gathers runs of any size to a packed stream, and scatters a stream to them: whatever their number,
 * in one launch. The table says where they lie. It is in pinned memory, so a block reads the part for its group once,
 * and then searches it where that costs little.
 *
 * Words of the stream are counted from the beginning of their group; what is no whole word there goes byte by byte, so
 * that neither side is touched beyond the bytes that move. No two blocks have the same group.
 */
#include "kernels/kernel_box.h"

namespace {

/* A group, as the functions of kernel_box.h take it: box is what offsets are relative to. */
struct runs_part : sv_pack_arg_t {
    const int64_t *offsets;
    const uint32_t *begins;
    uint32_t count;
};

/* The last run that begins not after the unit. */
template <unsigned GRANULE>
struct group_finder {
    SV_DEV_FN box_place find(const sv_pack_arg_t &arg, uint32_t unit)
    {
        const runs_part &part = static_cast<const runs_part &>(arg);
        const uint32_t byte = unit * GRANULE;
        const uint32_t run = box_run_at(part.begins, part.count, byte);
        return box_place{part.box + part.offsets[run] + (byte - part.begins[run]),
                         static_cast<int32_t>((part.begins[run + 1] - byte) / GRANULE)};
    }
};

/* Bytes begin to end of a group, none of which is a part of a whole word. */
template <typename FROM, typename TO>
SV_DEV_FN void runs_bytes(const runs_part &part, uint32_t begin, uint32_t end, sv_dev_block_t at)
{
    SV_DEV_ROLLED
    for (uint32_t byte = begin + at.tid; byte < end; byte += at.nthreads)
        *TO::tail_byte(part, byte) = *FROM::tail_byte(part, byte);
}

template <unsigned GRANULE, typename FROM, typename TO>
SV_DEV_FN void runs_range(const runs_part &part, uint32_t begin, uint32_t end, sv_dev_block_t at)
{
    const uint32_t first = (begin + 7) / 8, last = end / 8;

    if (first >= last) {
        runs_bytes<FROM, TO>(part, begin, end, at);
        return;
    }
    runs_bytes<FROM, TO>(part, begin, 8 * first, at);
    box_pieces<GRANULE, FROM, TO, 1>(part, first, last, true, false, at);
    runs_bytes<FROM, TO>(part, 8 * last, end, at);
}

template <unsigned GRANULE>
SV_DEV_FN void runs_move(const runs_part &part, uint32_t begin, uint32_t end, bool scatters, sv_dev_block_t at)
{
    typedef placed_side<GRANULE, group_finder<GRANULE>> runs;
    typedef stream_side<GRANULE> stream;

    if (scatters)
        runs_range<GRANULE, stream, runs>(part, begin, end, at);
    else
        runs_range<GRANULE, runs, stream>(part, begin, end, at);
}

SV_DEV_FN void runs_found(const sv_runs_arg_t &arg, const runs_part &part, uint32_t begin, uint32_t end,
                          sv_dev_block_t at)
{
    switch (arg.granule) {
    case 8:
        return runs_move<8>(part, begin, end, arg.scatters != 0, at);
    case 4:
        return runs_move<4>(part, begin, end, arg.scatters != 0, at);
    case 2:
        return runs_move<2>(part, begin, end, arg.scatters != 0, at);
    default:
        return runs_move<1>(part, begin, end, arg.scatters != 0, at);
    }
}

/* The part of the table that is a group's, where all lanes of its block read it soonest. */
SV_DEV_FN void runs_fetch(runs_part &part, const sv_runs_arg_t &arg, const sv_runs_group_t &group, uint32_t number,
                          sv_dev_block_t at)
{
    const int64_t *offsets = arg.offsets + group.first;
    const uint32_t *begins = arg.begins + group.first + number;
#if defined(SV_DEV_GPU)
    SV_DEV_SHARED int64_t near_offsets[SV_RUNS_GROUP_RUNS];
    SV_DEV_SHARED uint32_t near_begins[SV_RUNS_GROUP_RUNS + 1];

    sv_dev_block_sync(); /* the last group's may still be read */
    for (uint32_t i = at.tid; i < group.count; i += at.nthreads)
        near_offsets[i] = offsets[i];
    for (uint32_t i = at.tid; i <= group.count; i += at.nthreads)
        near_begins[i] = begins[i];
    sv_dev_block_sync();
    offsets = near_offsets;
    begins = near_begins;
#else
    (void)at;
#endif
    part.offsets = offsets;
    part.begins = begins;
    part.count = group.count;
}

SV_DEV_FN void runs_body(const sv_runs_arg_t &arg, sv_dev_block_t at)
{
    SV_DEV_ROLLED
    for (uint32_t number = arg.first_group + at.block; number < arg.end_group; number += at.nblocks) {
        const sv_runs_group_t group = arg.groups[number];
        const uint64_t begin = arg.from > group.at ? arg.from - group.at : 0;
        const uint64_t left = arg.end - group.at;
        runs_part part;

        part.box = arg.base;
        part.packed = arg.packed + group.at;
        part.first_unit = 0;
        part.key = part.first_word = 0; /* nothing is summed */
        runs_fetch(part, arg, group, number, at);
        runs_found(arg, part, static_cast<uint32_t>(begin),
                   left < group.bytes ? static_cast<uint32_t>(left) : group.bytes, at);
    }
}

} // namespace

SV_KERNEL(sv_runs, sv_runs_arg_t, runs_body)
