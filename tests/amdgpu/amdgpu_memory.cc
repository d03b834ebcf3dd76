/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads, stores and atomics of memory, by scalar, global and flat instructions. Words of 4 and 8 bytes at their own
 * alignment are read and written whole, because other threads and processes use the same memory.
 *
 * An address of a global instruction is a pair of vector registers, or an offset in one with a base in scalar ones.
 * A flat one may lead into LDS.
 */
#include <string.h>

#include "amdgpu/amdgpu_lanes.h"
#include "amdgpu/amdgpu_weak.h"

namespace {

bool holds(const amdgpu_range_t &range, uint64_t address, unsigned bytes)
{
    return address >= range.base && address + bytes <= range.end;
}

/* Puts the range that holds an access first: one that was found before, what the launch brings with it, or what the
   caller knows. */
void find_range(amdgpu_wave &wave, uint64_t address, unsigned bytes)
{
    amdgpu_run_state_t *run = wave.run;
    amdgpu_range_t found = {0, UINTPTR_MAX};
    for (unsigned r = 1; r < run->nranges; r++)
        if (holds(run->range[r], address, bytes)) {
            found = run->range[r];
            run->range[r] = run->range[0];
            run->range[0] = found;
            return;
        }
    if (run->launch->find_range && !run->launch->find_range(address, &found))
        found.end = 0;
    if (!holds(found, address, bytes))
        amdgpu_fail(wave, "an access to memory that the GPU does not reach");
    run->nranges += run->nranges < AMDGPU_RANGES;
    run->range[run->nranges - 1] = run->range[0];
    run->range[0] = found;
}

} // namespace

uint8_t *amdgpu_reach(amdgpu_wave &wave, uint64_t address, unsigned bytes)
{
    if (address - AMDGPU_SHARED_BASE < 1ull << 32)
        return amdgpu_reach_lds(wave, (uint32_t)address, bytes);
    if (!holds(wave.run->range[0], address, bytes))
        find_range(wave, address, bytes);
    return (uint8_t *)(uintptr_t)address;
}

namespace {

void load_words(const uint8_t *from, unsigned dwords, uint32_t *to)
{
    const uintptr_t address = (uintptr_t)from;
    if (dwords % 2 == 0 && address % 8 == 0) {
        for (unsigned d = 0; d < dwords; d += 2) {
            const uint64_t pair = __atomic_load_n((const uint64_t *)(address + 4 * d), __ATOMIC_RELAXED);
            to[d] = (uint32_t)pair;
            to[d + 1] = (uint32_t)(pair >> 32);
        }
    } else if (address % 4 == 0) {
        for (unsigned d = 0; d < dwords; d++)
            to[d] = __atomic_load_n((const uint32_t *)(address + 4 * d), __ATOMIC_RELAXED);
    } else {
        memcpy(to, from, 4 * dwords);
    }
}

void store_words(uint8_t *to, unsigned dwords, const uint32_t *from)
{
    const uintptr_t address = (uintptr_t)to;
    if (dwords % 2 == 0 && address % 8 == 0) {
        for (unsigned d = 0; d < dwords; d += 2)
            __atomic_store_n((uint64_t *)(address + 4 * d), from[d] | (uint64_t)from[d + 1] << 32, __ATOMIC_RELAXED);
    } else if (address % 4 == 0) {
        for (unsigned d = 0; d < dwords; d++)
            __atomic_store_n((uint32_t *)(address + 4 * d), from[d], __ATOMIC_RELAXED);
    } else {
        memcpy(to, from, 4 * dwords);
    }
}

/* From memory or LDS, or through caches where there are some. */
template <unsigned DWORDS>
void fetch_words(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t address, uint32_t *to)
{
    if (amdgpu_is_cached(wave, address))
        amdgpu_cache_load(wave, inst, address, 4 * DWORDS, to);
    else
        load_words(amdgpu_reach(wave, address, 4 * DWORDS), DWORDS, to);
}

/* Offsets of scalar loads are constants or registers. */
template <unsigned DWORDS> void run_scalar_load(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const uint64_t base = amdgpu_scalar64(wave, inst.operand[1]);
    const uint64_t address = (base + amdgpu_scalar32(wave, inst.operand[2]) + (int64_t)inst.offset) & ~3ull;
    fetch_words<DWORDS>(wave, inst, address, &wave.sgpr[inst.operand[0].index]);
}

/* Where the lanes of an access lie; operand 'at' is its first about addresses. */
void find_addresses(amdgpu_wave &wave, const amdgpu_inst &inst, unsigned at, unsigned base_at, uint64_t *address)
{
    const amdgpu_operand_t &first = inst.operand[at];
    const bool has_base = base_at < inst.noperands && inst.operand[base_at].kind == AMDGPU_SCALAR;
    const uint32_t *low = amdgpu_vector(wave, first.index), *high = low + AMDGPU_LANES;
    if (first.kind != AMDGPU_VECTOR || first.count != (has_base ? 1 : 2))
        amdgpu_fail(wave, "an address of a form that is not known");
    const uint64_t base = has_base ? amdgpu_scalar64(wave, inst.operand[base_at]) : 0;
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        const uint64_t own = has_base ? low[l] : low[l] | (uint64_t)high[l] << 32;
        address[l] = base + own + (uint64_t)(int64_t)inst.offset;
    }
}

/* The lanes that EXEC has, one after another. */
template <class F> void for_each_lane(const amdgpu_wave &wave, F f)
{
    for (uint64_t left = amdgpu_exec(wave); left; left &= left - 1)
        f((unsigned)__builtin_ctzll(left));
}

template <unsigned DWORDS> void run_load(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes64_t address;
    find_addresses(wave, inst, 1, 2, address);
    uint32_t *to = amdgpu_vector(wave, inst.operand[0].index);
    for_each_lane(wave, [&](unsigned l) {
        uint32_t words[DWORDS];
        fetch_words<DWORDS>(wave, inst, address[l], words);
        for (unsigned d = 0; d < DWORDS; d++)
            to[d * AMDGPU_LANES + l] = words[d];
    });
}

template <class T> void run_load_part(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes64_t address;
    find_addresses(wave, inst, 1, 2, address);
    uint32_t *to = amdgpu_vector(wave, inst.operand[0].index);
    for_each_lane(wave, [&](unsigned l) {
        T value;
        if (amdgpu_is_cached(wave, address[l]))
            amdgpu_cache_load(wave, inst, address[l], sizeof value, &value);
        else
            memcpy(&value, amdgpu_reach(wave, address[l], sizeof value), sizeof value);
        to[l] = (uint32_t)(int32_t)value;
    });
}

template <unsigned DWORDS> void run_store(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes64_t address;
    find_addresses(wave, inst, 0, 2, address);
    const uint32_t *from = amdgpu_vector(wave, inst.operand[1].index);
    for_each_lane(wave, [&](unsigned l) {
        uint32_t words[DWORDS];
        for (unsigned d = 0; d < DWORDS; d++)
            words[d] = from[d * AMDGPU_LANES + l];
        if (amdgpu_is_cached(wave, address[l]))
            amdgpu_cache_store(wave, inst, address[l], 4 * DWORDS, words);
        else
            store_words(amdgpu_reach(wave, address[l], 4 * DWORDS), DWORDS, words);
    });
}

/* The lower bits of a register, or those from bit 16 on. */
template <class T, unsigned FROM> void run_store_part(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes64_t address;
    find_addresses(wave, inst, 0, 2, address);
    const uint32_t *from = amdgpu_vector(wave, inst.operand[1].index);
    for_each_lane(wave, [&](unsigned l) {
        const T value = (T)(from[l] >> FROM);
        if (amdgpu_is_cached(wave, address[l]))
            amdgpu_cache_store(wave, inst, address[l], sizeof value, &value);
        else
            memcpy(amdgpu_reach(wave, address[l], sizeof value), &value, sizeof value);
    });
}

/* The value before goes to the first operand, if it is asked for: by sc0 on gfx942, by glc on gfx90a. */
template <class T, class F> void run_atomic(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes64_t address;
    const unsigned at = inst.sc0 ? 1 : 0;
    find_addresses(wave, inst, at, at + 2, address);
    const uint32_t *from = amdgpu_vector(wave, inst.operand[at + 1].index);
    uint32_t *to = amdgpu_vector(wave, inst.operand[0].index);
    for_each_lane(wave, [&](unsigned l) {
        uint8_t *place = amdgpu_is_cached(wave, address[l]) ? amdgpu_cache_atomic(wave, inst, address[l], sizeof(T))
                                                            : amdgpu_reach(wave, address[l], sizeof(T));
        if ((uintptr_t)place % sizeof(T))
            amdgpu_fail(wave, "an atomic access to a word that is not aligned");
        T value = from[l];
        if (sizeof(T) == 8)
            value = (T)((uint64_t)value | (uint64_t)from[AMDGPU_LANES + l] << 32);
        const T before = f((T *)place, value);
        if (inst.sc0) {
            to[l] = (uint32_t)before;
            if (sizeof(T) == 8)
                to[AMDGPU_LANES + l] = (uint32_t)((uint64_t)before >> 32);
        }
    });
}

template <class T> void run_atomic_add(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    run_atomic<T>(wave, inst, [](T *place, T value) { return __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST); });
}

template <class T> void run_atomic_swap(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    run_atomic<T>(wave, inst, [](T *place, T value) { return __atomic_exchange_n(place, value, __ATOMIC_SEQ_CST); });
}

} // namespace

#define BOTH(name, run) {"global_" name, run}, {"flat_" name, run}

const amdgpu_row_t amdgpu_memory_rows[] = {
    {"s_load_dword", run_scalar_load<1>},
    {"s_load_dwordx2", run_scalar_load<2>},
    {"s_load_dwordx4", run_scalar_load<4>},
    {"s_load_dwordx8", run_scalar_load<8>},
    {"s_load_dwordx16", run_scalar_load<16>},
    BOTH("load_dword", run_load<1>),
    BOTH("load_dwordx2", run_load<2>),
    BOTH("load_dwordx3", run_load<3>),
    BOTH("load_dwordx4", run_load<4>),
    BOTH("load_ubyte", run_load_part<uint8_t>),
    BOTH("load_sbyte", run_load_part<int8_t>),
    BOTH("load_ushort", run_load_part<uint16_t>),
    BOTH("load_sshort", run_load_part<int16_t>),
    BOTH("store_dword", run_store<1>),
    BOTH("store_dwordx2", run_store<2>),
    BOTH("store_dwordx3", run_store<3>),
    BOTH("store_dwordx4", run_store<4>),
    BOTH("store_byte", (run_store_part<uint8_t, 0>)),
    BOTH("store_short", (run_store_part<uint16_t, 0>)),
    BOTH("store_byte_d16_hi", (run_store_part<uint8_t, 16>)),
    BOTH("store_short_d16_hi", (run_store_part<uint16_t, 16>)),
    BOTH("atomic_add", run_atomic_add<uint32_t>),
    BOTH("atomic_add_x2", run_atomic_add<uint64_t>),
    BOTH("atomic_swap", run_atomic_swap<uint32_t>),
    BOTH("atomic_swap_x2", run_atomic_swap<uint64_t>),
    {nullptr, nullptr},
};
