/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of collectives on the host, for what goes between nodes: the same code as in the kernels. Pure. */
#ifndef SV_COLL_PASS_HOST_H
#define SV_COLL_PASS_HOST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* sum[i] = first[i] op sum[i], then divided by divisor unless that is 0. bytes: whole elements. */
void sv_coll_pass_host(uint8_t *sum, const uint8_t *first, uint64_t bytes, unsigned type, unsigned op,
                       unsigned divisor);
/* sum[i] = (rows[first][i] op rows[first + 1][i]) op ... round to rows[first - 1], rounded each time as above, then
   divided. Rows lie one after the other; there are two at least. sum is none of them. */
void sv_coll_pass_host_rows(uint8_t *sum, const uint8_t *rows, uint64_t bytes, unsigned nrows, unsigned first,
                            unsigned type, unsigned op, unsigned divisor);
/* The same by what all processors of this make have. */
void sv_coll_pass_host_plain(uint8_t *sum, const uint8_t *first, uint64_t bytes, unsigned type, unsigned op,
                             unsigned divisor);

#ifdef __cplusplus
}
#endif
#endif
