/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The check words of control messages and of messages of the set-up. A control message decides whether memory may be
 * reused, so it is verified as packets are. It is 64 bytes and made by the host, so a chain over its words is enough.
 * Source and destination are part of the chain: a message that reaches the wrong rank, or claims another sender, does
 * not verify. All functions are pure; any thread.
 */
#include <string.h>

#include "wire/wire.h"

static uint64_t mix_check(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

/* Not 0, because mix_check(0) is 0 and a message of zeros must not verify by accident. */
static const uint64_t chain_start = 0x9e3779b97f4a7c15u;

uint64_t sv_wire_control_check(const sv_wire_control_t *message, int source, int destination)
{
    uint64_t chain = chain_start;
    for (int i = 0; i < SV_WIRE_CONTROL_WORDS; i++)
        chain = mix_check(chain + message->word[i]) + 1;
    chain = mix_check(chain + (uint32_t)source) + 1;
    return mix_check(chain + (uint32_t)destination);
}
