/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operands of vector instructions, all 64 lanes at once. What an instruction does is computed for every lane, and kept
 * for those that EXEC has.
 */
#ifndef SELVAGE_TESTS_AMDGPU_LANES_H
#define SELVAGE_TESTS_AMDGPU_LANES_H

#include <string.h>

#include "amdgpu/amdgpu_wave.h"

typedef uint32_t amdgpu_lanes32_t[AMDGPU_LANES];
typedef uint64_t amdgpu_lanes64_t[AMDGPU_LANES];

static inline float amdgpu_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t amdgpu_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double amdgpu_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t amdgpu_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint32_t *amdgpu_vector(amdgpu_wave &wave, unsigned index)
{
    return wave.vgpr + index * AMDGPU_LANES;
}

/* A part of a register, with its sign changed; modifiers of signs are those of floats of 32 bits. */
void amdgpu_fetch_modified(const amdgpu_wave &wave, const amdgpu_operand_t &operand, uint32_t *space);

/* The lanes of a source: the register itself, or what is made of it in space. */
static inline const uint32_t *amdgpu_fetch(amdgpu_wave &wave, const amdgpu_operand_t &operand, uint32_t *space)
{
    if (operand.kind == AMDGPU_VECTOR && operand.part == AMDGPU_DWORD && !operand.neg && !operand.abs)
        return amdgpu_vector(wave, operand.index);
    amdgpu_fetch_modified(wave, operand, space);
    return space;
}

static inline void amdgpu_fetch64(amdgpu_wave &wave, const amdgpu_operand_t &operand, uint64_t *lanes)
{
    if (operand.kind == AMDGPU_VECTOR) {
        const uint32_t *low = amdgpu_vector(wave, operand.index), *high = low + AMDGPU_LANES;
        for (unsigned l = 0; l < AMDGPU_LANES; l++)
            lanes[l] = low[l] | (uint64_t)high[l] << 32;
    } else {
        const uint64_t value = amdgpu_scalar64(wave, operand);
        for (unsigned l = 0; l < AMDGPU_LANES; l++)
            lanes[l] = value;
    }
    if (operand.abs)
        for (unsigned l = 0; l < AMDGPU_LANES; l++)
            lanes[l] &= ~(1ull << 63);
    if (operand.neg)
        for (unsigned l = 0; l < AMDGPU_LANES; l++)
            lanes[l] ^= 1ull << 63;
}

/* Puts a result into a part of a register and zeros into the rest. */
void amdgpu_place_part(amdgpu_part_t part, uint32_t *lanes);

static inline void amdgpu_keep(amdgpu_wave &wave, unsigned index, const uint32_t *lanes)
{
    uint32_t *to = amdgpu_vector(wave, index);
    uint64_t exec = amdgpu_exec(wave);
    if (exec == ~0ull) {
        memcpy(to, lanes, sizeof(amdgpu_lanes32_t));
        return;
    }
    for (; exec; exec &= exec - 1)
        to[__builtin_ctzll(exec)] = lanes[__builtin_ctzll(exec)];
}

static inline void amdgpu_keep64(amdgpu_wave &wave, unsigned index, const uint64_t *lanes)
{
    amdgpu_lanes32_t half;
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        half[l] = (uint32_t)lanes[l];
    amdgpu_keep(wave, index, half);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        half[l] = (uint32_t)(lanes[l] >> 32);
    amdgpu_keep(wave, index + 1, half);
}

/* A result goes to the first operand; sources come after it. */
static inline void amdgpu_give(amdgpu_wave &wave, const amdgpu_inst &inst, uint32_t *lanes)
{
    if (inst.dst_part != AMDGPU_DWORD)
        amdgpu_place_part(inst.dst_part, lanes);
    amdgpu_keep(wave, inst.operand[0].index, lanes);
}

template <class F> static inline void amdgpu_unary(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes32_t space, result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        result[l] = f(a[l]);
    amdgpu_give(wave, inst, result);
}

template <class F> static inline void amdgpu_binary(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes32_t space[2], result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space[1]);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        result[l] = f(a[l], b[l]);
    amdgpu_give(wave, inst, result);
}

template <class F> static inline void amdgpu_ternary(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes32_t space[3], result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space[1]);
    const uint32_t *c = amdgpu_fetch(wave, inst.operand[3], space[2]);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        result[l] = f(a[l], b[l], c[l]);
    amdgpu_give(wave, inst, result);
}

/* The same of 64 bits. */
template <class F> static inline void amdgpu_unary64(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes64_t a;
    amdgpu_fetch64(wave, inst.operand[1], a);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        a[l] = f(a[l]);
    amdgpu_keep64(wave, inst.operand[0].index, a);
}

template <class F> static inline void amdgpu_binary64(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes64_t a, b;
    amdgpu_fetch64(wave, inst.operand[1], a);
    amdgpu_fetch64(wave, inst.operand[2], b);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        a[l] = f(a[l], b[l]);
    amdgpu_keep64(wave, inst.operand[0].index, a);
}

template <class F> static inline void amdgpu_ternary64(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes64_t a, b, c;
    amdgpu_fetch64(wave, inst.operand[1], a);
    amdgpu_fetch64(wave, inst.operand[2], b);
    amdgpu_fetch64(wave, inst.operand[3], c);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        a[l] = f(a[l], b[l], c[l]);
    amdgpu_keep64(wave, inst.operand[0].index, a);
}

#endif
