/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The digest of a packet in plain C, written from its specification and not from the device code. The kernels are
 * tested against it, it sums host memory, and reports use it to say which packet a buffer holds. Words are
 * little-endian, as on all machines that have these devices. Pure functions, any thread.
 */
#include <stddef.h>
#include <string.h>

#include "kernels/kernels.h"

uint64_t sv_digest_mix(uint64_t x)
{
    for (int round = 0; round < 2; round++) {
        x ^= x >> 32;
        x *= UINT64_C(0xd6e8feb86659fd93);
    }
    return x ^ (x >> 32);
}

uint64_t sv_digest_key(const sv_record_t *identity)
{
    /* From the inside of the chain outwards. */
    const uint64_t chain[] = {identity->bytes,  identity->epoch, identity->destination,
                              identity->source, identity->tag,   identity->index};
    uint64_t key = sv_digest_mix(identity->exchange);

    for (size_t i = 0; i < sizeof chain / sizeof *chain; i++)
        key = sv_digest_mix(chain[i] + key);
    return sv_digest_mix(identity->index + UINT64_C(1000) * identity->tag + key);
}

uint64_t sv_digest_sum(uint64_t key, uint64_t first_word, const void *data, uint64_t bytes)
{
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    const uint8_t *byte = data;
    uint64_t sum = 0, salt = key + first_word * step, word;

    for (; bytes >= sizeof word; bytes -= sizeof word, byte += sizeof word, salt += step) {
        memcpy(&word, byte, sizeof word);
        sum += sv_digest_mix(word ^ salt);
    }
    if (bytes == 0) /* of no bytes there need be no address */
        return sum;
    word = 0;
    memcpy(&word, byte, bytes);
    return sum + sv_digest_mix(word ^ salt);
}

uint64_t sv_digest_finish(uint64_t key, uint64_t sum)
{
    uint64_t digest = sv_digest_mix(key ^ sum);
    return digest != 0 ? digest : 1;
}
