/* SPDX-License-Identifier: BSD-3-Clause */
/* See weak_history.h. Meanwhile an object's marks of what has run are those of one seed; at its end they are of all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amdgpu/weak_history.h"

namespace {

enum { OBJECTS = 2, WORDS = WEAK_REMEMBERED / 64 + 1 };

struct history_t {
    const amdgpu_object_t *object;
    uint8_t *executed;          /* by any seed */
    uint64_t (*seeds)[WORDS];   /* of each dword, a bit for each seed */
} histories[OBJECTS];

unsigned nhistories;
uint64_t last_seed;

} // namespace

void weak_history_open(const amdgpu_object_t *object)
{
    const size_t ndwords = object->text_bytes / 4;
    history_t *history = &histories[nhistories++];
    history->object = object;
    history->executed = (uint8_t *)calloc(ndwords, 1);
    history->seeds = (uint64_t(*)[WORDS])calloc(ndwords, sizeof *history->seeds);
    if (!history->executed || !history->seeds) {
        fprintf(stderr, "weak_history: no memory\n");
        abort();
    }
    memcpy(history->executed, object->executed, ndwords);
    memset(object->executed, 0, ndwords);
}

void weak_history_add(uint64_t seed)
{
    for (unsigned h = 0; h < nhistories; h++) {
        const history_t &history = histories[h];
        for (size_t d = 0; d < history.object->text_bytes / 4; d++) {
            history.executed[d] |= history.object->executed[d];
            if (seed <= WEAK_REMEMBERED && history.object->executed[d])
                history.seeds[d][seed / 64] |= 1ull << seed % 64;
        }
        memset(history.object->executed, 0, history.object->text_bytes / 4);
    }
    last_seed = seed > last_seed && seed <= WEAK_REMEMBERED ? seed : last_seed;
}

void weak_history_end(void)
{
    for (unsigned h = 0; h < nhistories; h++)
        memcpy(histories[h].object->executed, histories[h].executed, histories[h].object->text_bytes / 4);
}

uint64_t weak_history_next(const amdgpu_object_t *object, uintptr_t pc, uint64_t seed)
{
    const size_t dword = (pc - (uintptr_t)object->text) / 4;
    for (unsigned h = 0; h < nhistories; h++)
        for (uint64_t s = seed + 1; histories[h].object == object && s <= last_seed; s++)
            if (histories[h].seeds[dword][s / 64] >> s % 64 & 1)
                return s;
    return 0;
}
