/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of 8 bytes at any address, of which the last may be cut short: zeros are read for what is beyond. */
#ifndef SV_COLL_WORDS_H
#define SV_COLL_WORDS_H

#include "kernels/kernel_device.h"

/* Where a call would cost registers; left: bytes from ptr to the end, at least 1. */
SV_DEV_FN uint64_t sv_coll_word_load_here(const uint8_t *ptr, uint64_t left)
{
    uint64_t word = 0;
    if (left >= 8)
        return sv_dev_load_u64_any(ptr);
    SV_DEV_ROLLED
    for (unsigned i = 0; i < left; i++)
        word |= static_cast<uint64_t>(ptr[i]) << 8 * i;
    return word;
}

SV_DEV_FN void sv_coll_word_store_here(uint8_t *ptr, uint64_t word, uint64_t left)
{
    if (left >= 8) {
        sv_dev_store_u64_any(ptr, word);
        return;
    }
    SV_DEV_ROLLED
    for (unsigned i = 0; i < left; i++)
        ptr[i] = static_cast<uint8_t>(word >> 8 * i);
}

SV_DEV_COLD uint64_t sv_coll_word_load_odd(const uint8_t *ptr, uint64_t left)
{
    return sv_coll_word_load_here(ptr, left);
}

SV_DEV_COLD void sv_coll_word_store_odd(uint8_t *ptr, uint64_t word, uint64_t left)
{
    sv_coll_word_store_here(ptr, word, left);
}

/* As sv_coll_word_load_here(). */
SV_DEV_FN uint64_t sv_coll_word_load(const uint8_t *ptr, uint64_t left)
{
    if (left >= 8 && (reinterpret_cast<uintptr_t>(ptr) & 7) == 0)
        return *reinterpret_cast<const uint64_t *>(ptr);
    return sv_coll_word_load_odd(ptr, left);
}

SV_DEV_FN void sv_coll_word_store(uint8_t *ptr, uint64_t word, uint64_t left)
{
    if (left >= 8 && (reinterpret_cast<uintptr_t>(ptr) & 7) == 0)
        *reinterpret_cast<uint64_t *>(ptr) = word;
    else
        sv_coll_word_store_odd(ptr, word, left);
}

#endif
