/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tuning files: which way a call takes up to which size, as measured on a machine. A line is
 *
 *     call ranks bytes algorithm protocol channels          all_reduce 4 32K oneshot ll 8
 *
 * and holds for calls of that many ranks from the bound of the line before (of the same call and ranks) up to this many
 * bytes, all ranks' blocks together, as selvage-bench counts them. Above the last bound the built-in table goes on. The
 * algorithm `direct` leaves to that table which of direct_one and direct_two it is; 0 channels leave their number. What
 * follows a # is not read. Names are those of coll_names.h.
 */
#ifndef SV_COLL_TUNE_H
#define SV_COLL_TUNE_H

#include <stdint.h>

#include <selvage/status.h>

enum { SV_COLL_TUNED_MAX = 4096, SV_COLL_TUNED_DIRECT = 0xff };

typedef struct sv_coll_tuned {
    uint8_t call, ranks, algo, proto; /* SV_COLL_; algo may be SV_COLL_TUNED_DIRECT */
    uint16_t nchannels;        /* 0: by size */
    uint64_t max_bytes;
} sv_coll_tuned_t;

typedef struct sv_coll_tuning {
    uint64_t hash;             /* of what the file says, however it is laid out; never 0 */
    unsigned nentries;
    sv_coll_tuned_t entry[];
} sv_coll_tuning_t;

/*
 * Reads a file; an empty path gives NULL, for which sv_coll_tuning_hash() is 0: ranks compare hashes. Local.
 * SELVAGE_ERR_CONFIG with file, line and reason; ERR_MEMORY. Partner: sv_free().
 */
selvage_status_t sv_coll_tuning_read(const char *path, sv_coll_tuning_t **tuning_out);
uint64_t sv_coll_tuning_hash(const sv_coll_tuning_t *tuning);

/* The line for a call of so many ranks and bytes; NULL: none. */
const sv_coll_tuned_t *sv_coll_tuning_find(const sv_coll_tuning_t *tuning, unsigned call, unsigned ranks,
                                           uint64_t bytes);

#endif
