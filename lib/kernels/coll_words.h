/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of 8 bytes at any address, of which the last may be cut short: zeros are read for what is beyond. */
#ifndef SV_COLL_WORDS_H
#define SV_COLL_WORDS_H

#include "kernels/kernel_device.h"

/* left: bytes from ptr to the end, at least 1. */
SV_DEV_FN uint64_t sv_coll_word_load(const uint8_t *ptr, uint64_t left)
{
    uint64_t word = 0;
    if (left >= 8)
        return sv_dev_load_u64_any(ptr);
    SV_DEV_ROLLED
    for (unsigned i = 0; i < left; i++)
        word |= static_cast<uint64_t>(ptr[i]) << 8 * i;
    return word;
}

SV_DEV_FN void sv_coll_word_store(uint8_t *ptr, uint64_t word, uint64_t left)
{
    if (left >= 8) {
        sv_dev_store_u64_any(ptr, word);
        return;
    }
    SV_DEV_ROLLED
    for (unsigned i = 0; i < left; i++)
        ptr[i] = static_cast<uint8_t>(word >> 8 * i);
}

#endif
