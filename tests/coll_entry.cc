/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll_entry.h"
#include "kernels/coll_pass.h"

uint64_t coll_entry_pass(const coll_case_t *c, unsigned nthreads)
{
    sv_coll_pass_t pass = {};
    uint64_t sum = 0;

    for (unsigned s = 0; s < SV_COLL_RANKS; s++) {
        pass.src[s] = c->src[s];
        pass.scalar[s] = c->scalar[s];
    }
    for (unsigned d = 0; d < SV_COLL_RANKS + 1; d++)
        pass.dst[d] = c->dst[d];
    pass.premul = c->premul;
    pass.nsrc = c->nsrc;
    pass.ndst = c->ndst;
    pass.bytes = c->bytes;
    pass.type = static_cast<uint8_t>(c->type);
    pass.op = static_cast<uint8_t>(c->op);
    pass.divisor = static_cast<uint16_t>(c->divisor);
    pass.digest = c->digest;
    pass.key = c->key;
    pass.first_word = c->first_word;
    for (unsigned tid = nthreads; tid-- > 0;)
        sum += sv_coll_pass_at(&pass, tid, nthreads).given;
    return sum;
}

unsigned coll_entry_type_bytes(unsigned type)
{
    return sv_coll_type_bytes(type);
}

namespace {

struct word_runner {
    const coll_case_t *c;
    const uint64_t *words;
    uint64_t result;

    template <unsigned TYPE>
    void run()
    {
        typename sv_coll_word<TYPE>::acc a = {};

        for (unsigned s = 0; s < c->nsrc; s++) {
            const bool scaled = (c->premul >> s & 1) != 0;
            const uint64_t word = scaled ? sv_coll_word<TYPE>::scale(words[s], c->scalar[s]) : words[s];
            if (s == 0)
                sv_coll_word<TYPE>::begin(a, word);
            else
                sv_coll_word<TYPE>::add(a, word, c->op);
        }
        result = sv_coll_word<TYPE>::end(a, c->divisor);
    }
};

} // namespace

uint64_t coll_entry_word(const coll_case_t *c, const uint64_t *words)
{
    word_runner runner{c, words, 0};

    sv_coll_with_type(c->type, runner);
    return runner.result;
}
