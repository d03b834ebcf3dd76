/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel with a stack, which the interpreter refuses. */
extern "C" __attribute__((global)) void stack(unsigned *word)
{
    volatile unsigned local[64];
    for (unsigned i = 0; i < 64; i++)
        local[i] = word[i];
    for (unsigned i = 0; i < 64; i++)
        word[i] = local[63 - i];
}
