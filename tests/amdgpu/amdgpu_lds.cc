/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LDS, the memory of a block. An address is an offset in it; an access outside of what the kernel asked for ends the
 * run, though a GPU would give 0. Offsets of the instructions with two addresses count elements, or 64 of them (st64).
 */
#include <string.h>

#include "amdgpu/amdgpu_lanes.h"

uint8_t *amdgpu_reach_lds(amdgpu_wave &wave, uint32_t address, unsigned bytes, const void *next)
{
    const uint32_t size = wave.run->launch->kernel->lds_bytes;
    if (address > size || bytes > size - address)
        amdgpu_fail(wave, "an access outside of LDS");
    uint8_t *there = wave.block->lds + address;
    if (wave.noting && !(next && memcmp(there, next, bytes) == 0))
        amdgpu_note_lds(wave, address, bytes);
    return there;
}

namespace {

template <class F> void for_each_lane(amdgpu_wave &wave, const amdgpu_operand_t &operand, F f)
{
    const uint32_t *address = amdgpu_vector(wave, operand.index);
    for (uint64_t left = amdgpu_exec(wave); left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctzll(left);
        f(l, address[l]);
    }
}

void read_words(amdgpu_wave &wave, uint32_t address, unsigned dwords, uint32_t *to)
{
    uint32_t words[4];
    memcpy(words, amdgpu_reach_lds(wave, address, 4 * dwords), 4 * dwords);
    for (unsigned d = 0; d < dwords; d++)
        to[d * AMDGPU_LANES] = words[d];
}

void write_words(amdgpu_wave &wave, uint32_t address, unsigned dwords, const uint32_t *from)
{
    uint32_t words[4];
    for (unsigned d = 0; d < dwords; d++)
        words[d] = from[d * AMDGPU_LANES];
    memcpy(amdgpu_reach_lds(wave, address, 4 * dwords, words), words, 4 * dwords);
}

template <unsigned DWORDS> void run_read(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes32_t at;
    memcpy(at, amdgpu_vector(wave, inst.operand[1].index), sizeof at); /* which the result may be put over */
    uint32_t *to = amdgpu_vector(wave, inst.operand[0].index);
    for (uint64_t left = amdgpu_exec(wave); left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctzll(left);
        read_words(wave, at[l] + (uint32_t)inst.offset, DWORDS, to + l);
    }
}

template <unsigned DWORDS, unsigned COUNTED = 1> void run_read2(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const uint32_t scale = 4 * DWORDS * COUNTED;
    amdgpu_lanes32_t at;
    memcpy(at, amdgpu_vector(wave, inst.operand[1].index), sizeof at);
    uint32_t *to = amdgpu_vector(wave, inst.operand[0].index);
    for (uint64_t left = amdgpu_exec(wave); left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctzll(left);
        read_words(wave, at[l] + (uint32_t)inst.offset * scale, DWORDS, to + l);
        read_words(wave, at[l] + (uint32_t)inst.offset1 * scale, DWORDS, to + DWORDS * AMDGPU_LANES + l);
    }
}

template <class T> void run_read_part(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    uint32_t *to = amdgpu_vector(wave, inst.operand[0].index);
    for_each_lane(wave, inst.operand[1], [&](unsigned l, uint32_t address) {
        T value;
        memcpy(&value, amdgpu_reach_lds(wave, address + (uint32_t)inst.offset, sizeof value), sizeof value);
        to[l] = (uint32_t)(int32_t)value;
    });
}

template <unsigned DWORDS> void run_write(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const uint32_t *from = amdgpu_vector(wave, inst.operand[1].index);
    for_each_lane(wave, inst.operand[0], [&](unsigned l, uint32_t address) {
        write_words(wave, address + (uint32_t)inst.offset, DWORDS, from + l);
    });
}

template <unsigned DWORDS, unsigned COUNTED = 1> void run_write2(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const uint32_t scale = 4 * DWORDS * COUNTED;
    const uint32_t *first = amdgpu_vector(wave, inst.operand[1].index);
    const uint32_t *second = amdgpu_vector(wave, inst.operand[2].index);
    for_each_lane(wave, inst.operand[0], [&](unsigned l, uint32_t address) {
        write_words(wave, address + (uint32_t)inst.offset * scale, DWORDS, first + l);
        write_words(wave, address + (uint32_t)inst.offset1 * scale, DWORDS, second + l);
    });
}

template <class T> void run_write_part(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const uint32_t *from = amdgpu_vector(wave, inst.operand[1].index);
    for_each_lane(wave, inst.operand[0], [&](unsigned l, uint32_t address) {
        const T value = (T)from[l];
        memcpy(amdgpu_reach_lds(wave, address + (uint32_t)inst.offset, sizeof value, &value), &value, sizeof value);
    });
}

/* One lane after the other. */
void run_exchange(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes32_t value;
    memcpy(value, amdgpu_vector(wave, inst.operand[2].index), sizeof value); /* which the result may be put over */
    uint32_t *to = amdgpu_vector(wave, inst.operand[0].index);
    for_each_lane(wave, inst.operand[1], [&](unsigned l, uint32_t address) {
        uint8_t *word = amdgpu_reach_lds(wave, address + (uint32_t)inst.offset, sizeof *value);
        memcpy(&to[l], word, sizeof *to);
        memcpy(word, &value[l], sizeof *value);
    });
}

} // namespace

const amdgpu_row_t amdgpu_lds_rows[] = {
    {"ds_read_u8", run_read_part<uint8_t>},
    {"ds_read_u16", run_read_part<uint16_t>},
    {"ds_read_b32", run_read<1>},
    {"ds_read_b64", run_read<2>},
    {"ds_read_b96", run_read<3>},
    {"ds_read_b128", run_read<4>},
    {"ds_read2_b32", run_read2<1>},
    {"ds_read2_b64", run_read2<2>},
    {"ds_read2st64_b32", run_read2<1, 64>},
    {"ds_read2st64_b64", run_read2<2, 64>},
    {"ds_write_b8", run_write_part<uint8_t>},
    {"ds_write_b16", run_write_part<uint16_t>},
    {"ds_write_b32", run_write<1>},
    {"ds_write_b64", run_write<2>},
    {"ds_write_b96", run_write<3>},
    {"ds_write_b128", run_write<4>},
    {"ds_write2_b32", run_write2<1>},
    {"ds_write2_b64", run_write2<2>},
    {"ds_write2st64_b32", run_write2<1, 64>},
    {"ds_write2st64_b64", run_write2<2, 64>},
    {"ds_wrxchg_rtn_b32", run_exchange},
    {nullptr, nullptr},
};
