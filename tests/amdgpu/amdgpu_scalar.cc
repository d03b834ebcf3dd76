/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scalar instructions that compute. Each row of the table at the end says what an instruction does to its operands a
 * and b, of 32 or 64 bits, and what SCC becomes of the result r.
 */
#include "amdgpu/amdgpu_wave.h"

namespace {

enum { LOGIC, KEEP }; /* SCC: whether the result is not 0, or what it was */

void set32(amdgpu_wave &wave, const amdgpu_inst &inst, uint32_t value)
{
    wave.sgpr[inst.operand[0].index] = value;
}

void set64(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t value)
{
    amdgpu_set_pair(wave, inst.operand[0].index, value);
}

template <int SCC, class F> void apply32(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    const uint32_t a = amdgpu_scalar32(wave, inst.operand[1]);
    const uint32_t b = inst.noperands > 2 ? amdgpu_scalar32(wave, inst.operand[2]) : 0;
    const uint32_t r = f(a, b);
    set32(wave, inst, r);
    if (SCC == LOGIC)
        wave.scc = r != 0;
}

template <int SCC, class F> void apply64(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    const uint64_t a = amdgpu_scalar64(wave, inst.operand[1]);
    const uint64_t b = inst.noperands > 2 ? amdgpu_scalar64(wave, inst.operand[2]) : 0;
    const uint64_t r = f(a, b);
    set64(wave, inst, r);
    if (SCC == LOGIC)
        wave.scc = r != 0;
}

/* The operand in the place of b is of 32 bits. */
template <class F> void shift64(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    const uint64_t r = f(amdgpu_scalar64(wave, inst.operand[1]), amdgpu_scalar32(wave, inst.operand[2]) & 63);
    set64(wave, inst, r);
    wave.scc = r != 0;
}

/* SCC is the carry, or the borrow, of what fits into 33 bits. */
template <class F> void carry32(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    const uint64_t a = amdgpu_scalar32(wave, inst.operand[1]), b = amdgpu_scalar32(wave, inst.operand[2]);
    const uint64_t r = f(a, b, (uint64_t)wave.scc);
    set32(wave, inst, (uint32_t)r);
    wave.scc = r >> 32 & 1;
}

/* SCC says that the sum or difference does not fit. */
template <class F> void overflow32(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    const int64_t a = (int32_t)amdgpu_scalar32(wave, inst.operand[1]);
    const int64_t b = (int32_t)amdgpu_scalar32(wave, inst.operand[2]);
    const int64_t r = f(a, b);
    set32(wave, inst, (uint32_t)r);
    wave.scc = r != (int32_t)r;
}

/* With a constant of 16 bits, which operand 1 is, sign and all. */
int64_t immediate(const amdgpu_inst &inst)
{
    return (int16_t)inst.operand[1].narrow;
}

void run_addk(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const int64_t r = (int32_t)wave.sgpr[inst.operand[0].index] + immediate(inst);
    set32(wave, inst, (uint32_t)r);
    wave.scc = r != (int32_t)r;
}

void run_mulk(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    set32(wave, inst, (uint32_t)((int32_t)wave.sgpr[inst.operand[0].index] * immediate(inst)));
}

void run_movk(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    set32(wave, inst, (uint32_t)immediate(inst));
}

template <class F> void compare32(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    wave.scc = f(amdgpu_scalar32(wave, inst.operand[0]), amdgpu_scalar32(wave, inst.operand[1]));
}

template <class F> void compare64(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    wave.scc = f(amdgpu_scalar64(wave, inst.operand[0]), amdgpu_scalar64(wave, inst.operand[1]));
}

template <class F> void compare_immediate(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    wave.scc = f((int64_t)(int32_t)amdgpu_scalar32(wave, inst.operand[0]), immediate(inst));
}

template <class F> void compare_unsigned(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    wave.scc = f(amdgpu_scalar32(wave, inst.operand[0]), (uint32_t)(uint16_t)immediate(inst));
}

/* EXEC is kept in the destination, and combined with the source. */
template <class F> void saveexec(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    const uint64_t before = amdgpu_exec(wave), source = amdgpu_scalar64(wave, inst.operand[1]);
    const uint64_t exec = f(source, before);
    set64(wave, inst, before);
    amdgpu_set_pair(wave, AMDGPU_EXEC, exec);
    wave.scc = exec != 0;
}

void run_min_u32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const uint32_t a = amdgpu_scalar32(wave, inst.operand[1]), b = amdgpu_scalar32(wave, inst.operand[2]);
    set32(wave, inst, a < b ? a : b);
    wave.scc = a < b;
}

void run_max_u32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const uint32_t a = amdgpu_scalar32(wave, inst.operand[1]), b = amdgpu_scalar32(wave, inst.operand[2]);
    set32(wave, inst, a > b ? a : b);
    wave.scc = a > b;
}

void run_bcnt1_i32_b64(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const uint32_t r = (uint32_t)__builtin_popcountll(amdgpu_scalar64(wave, inst.operand[1]));
    set32(wave, inst, r);
    wave.scc = r != 0;
}

/* The field begins at b[4:0] and has b[22:16] bits. */
uint32_t extract(uint32_t a, uint32_t b, bool with_sign)
{
    const unsigned from = b & 31, bits = b >> 16 & 127;
    if (bits == 0)
        return 0;
    const int64_t wide = with_sign ? (int64_t)(int32_t)a : (int64_t)(uint64_t)a;
    const uint64_t shifted = (uint64_t)(wide >> from);
    if (bits >= 32)
        return (uint32_t)shifted;
    const uint32_t field = (uint32_t)shifted & ((1u << bits) - 1);
    return with_sign && field >> (bits - 1) ? field | ~((1u << bits) - 1) : field;
}

uint32_t reverse(uint32_t a)
{
    uint32_t r = 0;
    for (unsigned bit = 0; bit < 32; bit++)
        r |= (a >> bit & 1) << (31 - bit);
    return r;
}

void run_bitset1(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    wave.sgpr[inst.operand[0].index] |= 1u << (amdgpu_scalar32(wave, inst.operand[1]) & 31);
}

void run_cselect_b32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    set32(wave, inst, amdgpu_scalar32(wave, inst.operand[wave.scc ? 1 : 2]));
}

void run_cselect_b64(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    set64(wave, inst, amdgpu_scalar64(wave, inst.operand[wave.scc ? 1 : 2]));
}

} // namespace

#define RUN [](amdgpu_wave & wave, const amdgpu_inst &inst)
#define OP32(scc, expression)                                                                  \
    RUN {                                                                                      \
        apply32<scc>(wave, inst, [](uint32_t a, uint32_t b) -> uint32_t {                      \
            (void)b;                                                                           \
            return expression;                                                                 \
        });                                                                                    \
    }
#define OP64(scc, expression)                                                                  \
    RUN {                                                                                      \
        apply64<scc>(wave, inst, [](uint64_t a, uint64_t b) -> uint64_t {                      \
            (void)b;                                                                           \
            return expression;                                                                 \
        });                                                                                    \
    }
#define SHIFT64(expression)                                                                    \
    RUN {                                                                                      \
        shift64(wave, inst, [](uint64_t a, uint32_t b) -> uint64_t { return expression; });    \
    }
#define CARRY(expression)                                                                      \
    RUN {                                                                                      \
        carry32(wave, inst, [](uint64_t a, uint64_t b, uint64_t scc) -> uint64_t {             \
            (void)scc;                                                                         \
            return expression;                                                                 \
        });                                                                                    \
    }
#define OVERFLOW(expression)                                                                   \
    RUN {                                                                                      \
        overflow32(wave, inst, [](int64_t a, int64_t b) -> int64_t { return expression; });    \
    }
#define COMPARE32(type, expression)                                                            \
    RUN {                                                                                      \
        compare32(wave, inst, [](type a, type b) -> bool { return expression; });              \
    }
#define COMPARE64(expression)                                                                  \
    RUN {                                                                                      \
        compare64(wave, inst, [](uint64_t a, uint64_t b) -> bool { return expression; });      \
    }
#define COMPAREK(expression)                                                                   \
    RUN {                                                                                      \
        compare_immediate(wave, inst, [](int64_t a, int64_t b) -> bool { return expression; }); \
    }
#define COMPAREKU(expression)                                                                  \
    RUN {                                                                                      \
        compare_unsigned(wave, inst, [](uint32_t a, uint32_t b) -> bool { return expression; }); \
    }
#define SAVEEXEC(expression)                                                                   \
    RUN {                                                                                      \
        saveexec(wave, inst, [](uint64_t source, uint64_t exec) -> uint64_t { return expression; }); \
    }

const amdgpu_row_t amdgpu_scalar_rows[] = {
    {"s_mov_b32", OP32(KEEP, a)},
    {"s_mov_b64", OP64(KEEP, a)},
    {"s_movk_i32", run_movk},
    {"s_not_b32", OP32(LOGIC, ~a)},
    {"s_not_b64", OP64(LOGIC, ~a)},
    {"s_brev_b32", OP32(KEEP, reverse(a))},
    {"s_and_b32", OP32(LOGIC, a & b)},
    {"s_and_b64", OP64(LOGIC, a & b)},
    {"s_or_b32", OP32(LOGIC, a | b)},
    {"s_or_b64", OP64(LOGIC, a | b)},
    {"s_xor_b32", OP32(LOGIC, a ^ b)},
    {"s_xor_b64", OP64(LOGIC, a ^ b)},
    {"s_andn2_b32", OP32(LOGIC, a & ~b)},
    {"s_andn2_b64", OP64(LOGIC, a & ~b)},
    {"s_orn2_b64", OP64(LOGIC, a | ~b)},
    {"s_nor_b32", OP32(LOGIC, ~(a | b))},
    {"s_lshl_b32", OP32(LOGIC, a << (b & 31))},
    {"s_lshr_b32", OP32(LOGIC, a >> (b & 31))},
    {"s_ashr_i32", OP32(LOGIC, (uint32_t)((int32_t)a >> (b & 31)))},
    {"s_lshl_b64", SHIFT64(a << b)},
    {"s_lshr_b64", SHIFT64(a >> b)},
    {"s_bfe_u32", OP32(LOGIC, extract(a, b, false))},
    {"s_bfe_i32", OP32(LOGIC, extract(a, b, true))},
    {"s_bcnt1_i32_b64", run_bcnt1_i32_b64},
    {"s_bitset1_b32", run_bitset1},
    {"s_add_u32", CARRY(a + b)},
    {"s_addc_u32", CARRY(a + b + scc)},
    {"s_sub_u32", CARRY(a - b)},
    {"s_subb_u32", CARRY(a - b - scc)},
    {"s_add_i32", OVERFLOW(a + b)},
    {"s_sub_i32", OVERFLOW(a - b)},
    {"s_addk_i32", run_addk},
    {"s_mulk_i32", run_mulk},
    {"s_mul_i32", OP32(KEEP, a * b)},
    {"s_mul_hi_u32", OP32(KEEP, (uint32_t)((uint64_t)a * b >> 32))},
    {"s_mul_hi_i32", OP32(KEEP, (uint32_t)((int64_t)(int32_t)a * (int32_t)b >> 32))},
    {"s_min_u32", run_min_u32},
    {"s_max_u32", run_max_u32},
    {"s_cselect_b32", run_cselect_b32},
    {"s_cselect_b64", run_cselect_b64},
    {"s_and_saveexec_b64", SAVEEXEC(source & exec)},
    {"s_or_saveexec_b64", SAVEEXEC(source | exec)},
    {"s_andn2_saveexec_b64", SAVEEXEC(source & ~exec)},
    {"s_cmp_eq_u32", COMPARE32(uint32_t, a == b)},
    {"s_cmp_lg_u32", COMPARE32(uint32_t, a != b)},
    {"s_cmp_lt_u32", COMPARE32(uint32_t, a < b)},
    {"s_cmp_le_u32", COMPARE32(uint32_t, a <= b)},
    {"s_cmp_gt_u32", COMPARE32(uint32_t, a > b)},
    {"s_cmp_ge_u32", COMPARE32(uint32_t, a >= b)},
    {"s_cmp_eq_i32", COMPARE32(int32_t, a == b)},
    {"s_cmp_lg_i32", COMPARE32(int32_t, a != b)},
    {"s_cmp_lt_i32", COMPARE32(int32_t, a < b)},
    {"s_cmp_le_i32", COMPARE32(int32_t, a <= b)},
    {"s_cmp_gt_i32", COMPARE32(int32_t, a > b)},
    {"s_cmp_ge_i32", COMPARE32(int32_t, a >= b)},
    {"s_cmp_eq_u64", COMPARE64(a == b)},
    {"s_cmp_lg_u64", COMPARE64(a != b)},
    {"s_cmpk_eq_i32", COMPAREK(a == b)},
    {"s_cmpk_lg_i32", COMPAREK(a != b)},
    {"s_cmpk_lt_u32", COMPAREKU(a < b)},
    {"s_bitcmp0_b32", COMPARE32(uint32_t, (a >> (b & 31) & 1) == 0)},
    {"s_bitcmp1_b32", COMPARE32(uint32_t, (a >> (b & 31) & 1) == 1)},
    {nullptr, nullptr},
};
