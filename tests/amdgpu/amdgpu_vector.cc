/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector instructions on integers of 16 and 32 bits, carries, selections, and what passes between lanes and scalars.
 * Rows say what becomes of sources a, b and c in each lane. Results of 16 bits have zeros above them, on gfx90a and
 * gfx942 as on all of their family.
 */
#include "amdgpu/amdgpu_lanes.h"

void amdgpu_fetch_modified(const amdgpu_wave &wave, const amdgpu_operand_t &operand, uint32_t *space)
{
    const uint32_t *from = wave.vgpr + operand.index * AMDGPU_LANES;
    const uint32_t value = operand.kind == AMDGPU_VECTOR ? 0 : amdgpu_scalar32(wave, operand);
    const bool word = operand.part >= AMDGPU_WORD_0;
    const unsigned shift = operand.part == AMDGPU_DWORD ? 0
                           : word                       ? 16 * (operand.part - AMDGPU_WORD_0)
                                                        : 8 * (operand.part - AMDGPU_BYTE_0);
    const uint32_t mask = operand.part == AMDGPU_DWORD ? ~0u : word ? 0xffff : 0xff;
    const uint32_t keep = operand.abs ? 0x7fffffff : ~0u, flip = operand.neg ? 0x80000000 : 0;
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        space[l] = (((operand.kind == AMDGPU_VECTOR ? from[l] : value) >> shift & mask) & keep) ^ flip;
}

void amdgpu_place_part(amdgpu_part_t part, uint32_t *lanes)
{
    const bool word = part >= AMDGPU_WORD_0;
    const unsigned shift = word ? 16 * (part - AMDGPU_WORD_0) : 8 * (part - AMDGPU_BYTE_0);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        lanes[l] = (lanes[l] & (word ? 0xffff : 0xff)) << shift;
}

namespace {

/* Sum or difference of 33 bits; its last one is the carry, for lanes that EXEC has. Operand 1 takes the carries. */
template <class F> void carry(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes32_t space[2], result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[2], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[3], space[1]);
    const uint64_t into = inst.noperands > 4 ? amdgpu_scalar64(wave, inst.operand[4]) : 0;
    uint64_t out = 0;
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        const uint64_t sum = f((uint64_t)a[l], (uint64_t)b[l], into >> l & 1);
        result[l] = (uint32_t)sum;
        out |= (sum >> 32 & 1) << l;
    }
    amdgpu_give(wave, inst, result);
    amdgpu_set_pair(wave, inst.operand[1].index, out & amdgpu_exec(wave));
}

void run_sub_u32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    if (inst.clamp)
        amdgpu_binary(wave, inst, [](uint32_t a, uint32_t b) -> uint32_t { return a < b ? 0 : a - b; });
    else
        amdgpu_binary(wave, inst, [](uint32_t a, uint32_t b) -> uint32_t { return a - b; });
}

void run_add_u32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    if (inst.clamp)
        amdgpu_binary(wave, inst, [](uint32_t a, uint32_t b) -> uint32_t { return a + b < a ? ~0u : a + b; });
    else
        amdgpu_binary(wave, inst, [](uint32_t a, uint32_t b) -> uint32_t { return a + b; });
}

/* The second where the mask has the lane, else the first. */
void run_cndmask(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes32_t space[2], result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space[1]);
    const uint64_t mask = amdgpu_scalar64(wave, inst.operand[3]);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        result[l] = mask >> l & 1 ? b[l] : a[l];
    amdgpu_give(wave, inst, result);
}

/* Adds how many lanes before this one the mask has, of the lower or the upper half. */
void count_before(amdgpu_wave &wave, const amdgpu_inst &inst, unsigned half)
{
    amdgpu_lanes32_t space[2], result;
    const uint32_t *mask = amdgpu_fetch(wave, inst.operand[1], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space[1]);
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        const uint32_t before = (uint32_t)(((1ull << l) - 1) >> (32 * half));
        result[l] = b[l] + (uint32_t)__builtin_popcount(mask[l] & before);
    }
    amdgpu_give(wave, inst, result);
}

void run_mbcnt_lo(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    count_before(wave, inst, 0);
}

void run_mbcnt_hi(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    count_before(wave, inst, 1);
}

/* Of the first lane that EXEC has; of the very first if it has none. */
void run_readfirstlane(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const uint64_t exec = amdgpu_exec(wave);
    const unsigned lane = exec ? (unsigned)__builtin_ctzll(exec) : 0;
    wave.sgpr[inst.operand[0].index] = amdgpu_vector(wave, inst.operand[1].index)[lane];
}

void run_readlane(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const unsigned lane = amdgpu_scalar32(wave, inst.operand[2]) & 63;
    wave.sgpr[inst.operand[0].index] = amdgpu_vector(wave, inst.operand[1].index)[lane];
}

void run_writelane(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const unsigned lane = amdgpu_scalar32(wave, inst.operand[2]) & 63;
    amdgpu_vector(wave, inst.operand[0].index)[lane] = amdgpu_scalar32(wave, inst.operand[1]);
}

uint32_t extract_signed(uint32_t a, uint32_t from, uint32_t bits)
{
    if (bits == 0)
        return 0;
    const uint32_t field = a >> from & (uint32_t)((1ull << bits) - 1);
    return field >> (bits - 1) & 1 ? field | ~(uint32_t)((1ull << bits) - 1) : field;
}

/* Byte b of the eight of high and low, or what the larger selectors stand for. */
uint32_t pick_byte(uint64_t bytes, uint32_t selector)
{
    if (selector >= 13)
        return 0xff;
    if (selector == 12)
        return 0;
    if (selector >= 8)
        return bytes >> (16 * (selector - 8) + 15) & 1 ? 0xff : 0;
    return bytes >> (8 * selector) & 0xff;
}

uint32_t permute(uint32_t high, uint32_t low, uint32_t selectors)
{
    const uint64_t bytes = low | (uint64_t)high << 32;
    uint32_t result = 0;
    for (unsigned b = 0; b < 4; b++)
        result |= pick_byte(bytes, selectors >> (8 * b) & 0xff) << (8 * b);
    return result;
}

uint32_t reverse(uint32_t a)
{
    uint32_t r = 0;
    for (unsigned bit = 0; bit < 32; bit++)
        r |= (a >> bit & 1) << (31 - bit);
    return r;
}

/* Which half of a source the lower and the upper result take. */
uint32_t half_of(const amdgpu_inst &inst, unsigned source, uint32_t value, bool upper)
{
    const bool high = (upper ? inst.op_sel_hi : inst.op_sel) >> source & 1;
    return value >> (high ? 16 : 0) & 0xffff;
}

void run_pk_lshlrev_b16(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_binary(wave, inst, [&](uint32_t a, uint32_t b) -> uint32_t {
        const uint32_t low = half_of(inst, 1, b, false) << (half_of(inst, 0, a, false) & 15);
        const uint32_t high = half_of(inst, 1, b, true) << (half_of(inst, 0, a, true) & 15);
        return (low & 0xffff) | high << 16;
    });
}

} // namespace

#define RUN [](amdgpu_wave & wave, const amdgpu_inst &inst)
#define ONE(expression)                                                                              \
    RUN {                                                                                            \
        amdgpu_unary(wave, inst, [](uint32_t a) -> uint32_t { return expression; });                 \
    }
#define TWO(expression)                                                                              \
    RUN {                                                                                            \
        amdgpu_binary(wave, inst, [](uint32_t a, uint32_t b) -> uint32_t { return expression; });    \
    }
#define THREE(expression)                                                                            \
    RUN {                                                                                            \
        amdgpu_ternary(wave, inst, [](uint32_t a, uint32_t b, uint32_t c) -> uint32_t { return expression; }); \
    }
#define CARRY(expression)                                                                            \
    RUN {                                                                                            \
        carry(wave, inst, [](uint64_t a, uint64_t b, uint64_t in) -> uint64_t {                      \
            (void)in;                                                                                \
            return expression;                                                                       \
        });                                                                                          \
    }

const amdgpu_row_t amdgpu_vector_rows[] = {
    {"v_mov_b32", ONE(a)},
    {"v_not_b32", ONE(~a)},
    {"v_bfrev_b32", ONE(reverse(a))},
    {"v_ffbh_u32", ONE(a ? (uint32_t)__builtin_clz((uint32_t)a) : ~uint32_t{0})},
    {"v_and_b32", TWO(a & b)},
    {"v_or_b32", TWO(a | b)},
    {"v_xor_b32", TWO(a ^ b)},
    {"v_xnor_b32", TWO(~(a ^ b))},
    {"v_lshlrev_b32", TWO(b << (a & 31))},
    {"v_lshrrev_b32", TWO(b >> (a & 31))},
    {"v_ashrrev_i32", TWO((uint32_t)((int32_t)b >> (a & 31)))},
    {"v_add_u32", run_add_u32},
    {"v_sub_u32", run_sub_u32},
    {"v_subrev_u32", TWO(b - a)},
    {"v_min_u32", TWO(a < b ? a : b)},
    {"v_max_u32", TWO(a > b ? a : b)},
    {"v_min_i32", TWO((int32_t)a < (int32_t)b ? a : b)},
    {"v_max_i32", TWO((int32_t)a > (int32_t)b ? a : b)},
    {"v_mul_lo_u32", TWO(a * b)},
    {"v_mul_hi_u32", TWO((uint32_t)((uint64_t)a * b >> 32))},
    {"v_mul_u32_u24", TWO((a & 0xffffff) * (b & 0xffffff))},
    {"v_mul_i32_i24", TWO(extract_signed(a, 0, 24) * extract_signed(b, 0, 24))},
    {"v_mad_u32_u24", THREE((a & 0xffffff) * (b & 0xffffff) + c)},
    {"v_mad_i32_i24", THREE(extract_signed(a, 0, 24) * extract_signed(b, 0, 24) + c)},
    {"v_add_u16", TWO((a + b) & 0xffff)},
    {"v_sub_u16", TWO((a - b) & 0xffff)},
    {"v_mul_lo_u16", TWO(a * b & 0xffff)},
    {"v_min_u16", TWO((uint16_t)a < (uint16_t)b ? a & 0xffff : b & 0xffff)},
    {"v_max_u16", TWO((uint16_t)a > (uint16_t)b ? a & 0xffff : b & 0xffff)},
    {"v_min_i16", TWO((int16_t)a < (int16_t)b ? a & 0xffff : b & 0xffff)},
    {"v_max_i16", TWO((int16_t)a > (int16_t)b ? a & 0xffff : b & 0xffff)},
    {"v_lshlrev_b16", TWO(b << (a & 15) & 0xffff)},
    {"v_lshrrev_b16", TWO((b & 0xffff) >> (a & 15))},
    {"v_pk_lshlrev_b16", run_pk_lshlrev_b16},
    {"v_add3_u32", THREE(a + b + c)},
    {"v_or3_b32", THREE(a | b | c)},
    {"v_and_or_b32", THREE((a & b) | c)},
    {"v_lshl_or_b32", THREE(a << (b & 31) | c)},
    {"v_lshl_add_u32", THREE((a << (b & 31)) + c)},
    {"v_add_lshl_u32", THREE((a + b) << (c & 31))},
    {"v_xad_u32", THREE((a ^ b) + c)},
    {"v_bfi_b32", THREE((a & b) | (~a & c))},
    {"v_bfe_u32", THREE(a >> (b & 31) & (uint32_t)((1ull << (c & 31)) - 1))},
    {"v_bfe_i32", THREE(extract_signed(a, b & 31, c & 31))},
    {"v_alignbit_b32", THREE((uint32_t)((b | (uint64_t)a << 32) >> (c & 31)))},
    {"v_perm_b32", THREE(permute(a, b, c))},
    {"v_add_co_u32", CARRY(a + b)},
    {"v_addc_co_u32", CARRY(a + b + in)},
    {"v_sub_co_u32", CARRY(a - b)},
    {"v_subrev_co_u32", CARRY(b - a)},
    {"v_subb_co_u32", CARRY(a - b - in)},
    {"v_subbrev_co_u32", CARRY(b - a - in)},
    {"v_cndmask_b32", run_cndmask},
    {"v_mbcnt_lo_u32_b32", run_mbcnt_lo},
    {"v_mbcnt_hi_u32_b32", run_mbcnt_hi},
    {"v_readfirstlane_b32", run_readfirstlane},
    {"v_readlane_b32", run_readlane},
    {"v_writelane_b32", run_writelane},
    {nullptr, nullptr},
};
