/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The digest of a packet in plain C, written from its specification and not from the device code. The kernels are
 * tested against it, it sums host memory, and reports use it to say which packet a buffer holds. Words are
 * little-endian, as on all machines that have these devices. Pure functions, any thread.
 *
 * Words are summed in any order, so that processors with wide registers take 32 of them at a time.
 */
#include <stddef.h>
#include <string.h>

#include "kernels/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define SV_DIGEST_WIDE 1
#endif

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

#define STEP UINT64_C(0x9e3779b97f4a7c15) /* from the salt of a word to that of the next one */

#if defined(SV_DIGEST_WIDE)
enum { LANES = 8, VECTORS = 4, WIDE_BYTES = 8 * LANES * VECTORS };

static bool has_wide_words(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

/* The sum of whole groups of words; sv_digest_mix() in every lane. */
__attribute__((target("avx512f,avx512dq"))) static uint64_t sum_wide_words(uint64_t salt, const uint8_t *byte,
                                                                           uint64_t bytes)
{
    const __m512i factor = _mm512_set1_epi64((long long)UINT64_C(0xd6e8feb86659fd93));
    const __m512i next = _mm512_set1_epi64((long long)(STEP * LANES * VECTORS));
    __m512i salts[VECTORS], sum = _mm512_setzero_si512();
    uint64_t each[LANES], total = 0;

    for (unsigned v = 0; v < VECTORS; v++) {
        for (unsigned lane = 0; lane < LANES; lane++)
            each[lane] = salt + (v * LANES + lane) * STEP;
        salts[v] = _mm512_loadu_si512(each);
    }
    for (; bytes >= WIDE_BYTES; bytes -= WIDE_BYTES, byte += WIDE_BYTES)
        for (unsigned v = 0; v < VECTORS; v++) {
            __m512i x = _mm512_xor_si512(_mm512_loadu_si512(byte + 8 * LANES * v), salts[v]);
            x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 32)), factor);
            x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 32)), factor);
            sum = _mm512_add_epi64(sum, _mm512_xor_si512(x, _mm512_srli_epi64(x, 32)));
            salts[v] = _mm512_add_epi64(salts[v], next);
        }
    _mm512_storeu_si512(each, sum);
    for (unsigned lane = 0; lane < LANES; lane++)
        total += each[lane];
    return total;
}
#endif

uint64_t sv_digest_sum(uint64_t key, uint64_t first_word, const void *data, uint64_t bytes)
{
    const uint64_t step = STEP;
    const uint8_t *byte = data;
    uint64_t sum = 0, salt = key + first_word * step, word;

#if defined(SV_DIGEST_WIDE)
    if (bytes >= WIDE_BYTES && has_wide_words()) {
        const uint64_t wide = bytes / WIDE_BYTES * WIDE_BYTES;
        sum = sum_wide_words(salt, byte, wide);
        byte += wide;
        bytes -= wide;
        salt += wide / sizeof word * step;
    }
#endif
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
