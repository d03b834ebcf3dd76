/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective call, checked: what all ranks call, and what each finds afterwards. All ranks know the whole case, so
 * none asks another. Memory is reached by copies of the device only, so that the same cases run on GPUs.
 *
 * A try is one rank's part: its buffers, on the device and here. Beside every byte of output there are guards, and
 * input that is not output must be as it was.
 */
#ifndef SELVAGE_TESTS_COLL_CASE_H
#define SELVAGE_TESTS_COLL_CASE_H

#include "coll_reference.h"
#include <selvage/device.h>

enum {
    COLL_ALL_REDUCE, COLL_REDUCE_SCATTER, COLL_ALL_GATHER, COLL_BROADCAST, COLL_REDUCE, COLL_ALL_TO_ALL,
    COLL_PAIRS,                /* a group: every rank sends to one and receives from one, by a permutation of seed */
    COLL_BARRIER, COLL_CALLS
};

typedef struct coll_case {
    int call;
    coll_terms_t terms;        /* nranks is the size of the communicator */
    uint64_t count;            /* as in the call */
    int root;
    bool in_place;             /* ignored where there is no such thing */
    bool device_scalar;        /* of a scaled sum */
    bool any_order;            /* the algorithm may add in another order than that of ranks */
    unsigned shift;            /* buffers begin up to this many elements after an aligned address, by seed and rank */
    uint32_t registered;       /* bit r: buffers of rank r lie in a window, if its try has one */
} coll_case_t;

typedef struct coll_try {
    const coll_case_t *what;
    selvage_coll_t *coll;
    selvage_device_t *dev;
    int rank;
    size_t capacity;           /* bytes of each buffer */
    uint8_t *block[2][2];      /* device memory: [plain, in a window][send, recv] */
    selvage_window_t *window[2];
    void *scalar;              /* on the device */
    uint8_t *host[2];          /* send and recv as they were before */
    uint8_t *found;            /* recv as it is now */
    size_t at[2];              /* where the buffers begin in their blocks */
    selvage_op_t op;           /* what op_create gave, or that of terms */
    bool op_created;
} coll_try_t;

const char *coll_call_name(int call);
/* Whether the call adds. */
bool coll_call_reduces(int call);
/* Bytes of the larger buffer, with guards and shift: what capacity has to be at least. */
size_t coll_case_bytes(const coll_case_t *what);
/* A line that says what the case is. */
void coll_case_text(const coll_case_t *what, char *text, size_t text_bytes);

/* Makes buffers; with_windows: half of them registered, which is collective. Failures are failed checks. */
void coll_try_open(coll_try_t *try, selvage_coll_t *coll, selvage_device_t *dev, size_t capacity, bool with_windows);
void coll_try_close(coll_try_t *try);
/* Fills buffers, and enqueues that they are copied there. what must live until the check. */
void coll_try_fill(coll_try_t *try, const coll_case_t *what, void *stream);
selvage_status_t coll_try_call(coll_try_t *try, void *stream);
/* Enqueues that output is copied back; synchronises; says how many elements or guards are wrong, and which is first. */
long coll_try_wrong(coll_try_t *try, void *stream);
/* All three: a case from its beginning to its end. Wrong results are failed checks. Returns whether all was right. */
bool coll_try_run(coll_try_t *try, const coll_case_t *what, void *stream);
/* The bytes of output, after the check. */
const uint8_t *coll_try_output(const coll_try_t *try, size_t *bytes_out);

/* A case by chance, of at most so many bytes in a buffer: all ranks draw the same. terms.nranks is the caller's. */
coll_case_t coll_case_random(uint64_t *state, int nranks, size_t bytes_max);
/* Case number i of the systematic list: every call, type and operation. False after the last. */
bool coll_case_systematic(unsigned i, int nranks, coll_case_t *what_out);

#endif
