/* SPDX-License-Identifier: BSD-3-Clause */
/* A pass of the collectives' device code, called from C as the lanes of one block would. */
#ifndef SELVAGE_TESTS_COLL_ENTRY_H
#define SELVAGE_TESTS_COLL_ENTRY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { COLL_SOURCES = 16, COLL_TARGETS = 17 };

typedef struct coll_case {
    unsigned type, op, nsrc, ndst, premul, divisor, digest;
    const uint8_t *src[COLL_SOURCES];
    uint8_t *dst[COLL_TARGETS];
    uint64_t scalar[COLL_SOURCES];
    uint64_t bytes, key, first_word;
} coll_case_t;

/* Runs all lanes, the last one first, and gives the sum of what they give. */
uint64_t coll_entry_pass(const coll_case_t *c, unsigned nthreads);
unsigned coll_entry_type_bytes(unsigned type);
/* One word by the functions on words alone: the reduction of nsrc words. */
uint64_t coll_entry_word(const coll_case_t *c, const uint64_t *words);

#ifdef __cplusplus
}
#endif
#endif
