/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's kernels, as seen from the host: argument structs with asserted layout, and descriptors. The bodies
 * (kernel_*.cc) are one source for AMD, NVIDIA and soft; see kernel_device.h for the rules they obey.
 *
 * Also here: the record of 64 bytes that follows every packet, and the arithmetic of its digest on the host.
 */
#ifndef SV_KERNELS_H
#define SV_KERNELS_H

#include <stdint.h>

#include "device/device.h"
#include "kernels/kernel_args.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const sv_kernel_t sv_kernel_digest; /* sv_digest_arg_t: sum, copy, write or check a record, signal */
extern const sv_kernel_t sv_kernel_digests; /* sv_digests_arg_t: the same for several packets */
extern const sv_kernel_t sv_kernel_rest;   /* sv_rest_arg_t: brings the rest of a packet, and sums all of it */
extern const sv_kernel_t sv_kernel_pack;   /* sv_pack_arg_t: box to packed stream, with the digest; see pack_plan.h */
extern const sv_kernel_t sv_kernel_unpack; /* sv_pack_arg_t: packed stream to box */
extern const sv_kernel_t sv_kernel_runs;   /* sv_runs_arg_t: between runs of any size and their packed stream */
extern const sv_kernel_t sv_kernel_sum;    /* sv_sum_arg_t: reads memory and adds it up, for measurements */
extern const sv_kernel_t sv_kernel_touch;  /* sv_touch_arg_t: moves faces of a cube, for measurements */
extern const sv_kernel_t sv_kernel_signal; /* sv_signal_arg_t: release one word at system scope */
extern const sv_kernel_t sv_kernel_push;   /* sv_batch_arg_t of sv_push_item_t: small packets leave */
extern const sv_kernel_t sv_kernel_pull;   /* sv_batch_arg_t of sv_pull_item_t: small packets land */
extern const sv_kernel_t sv_kernel_gather; /* the same, and packed on the way: sv_piece_t */
extern const sv_kernel_t sv_kernel_scatter; /* the same as sv_pull, and unpacked on the way */
extern const sv_kernel_t sv_kernel_run;    /* sv_run_arg_t: push and pull in one launch */
extern const sv_kernel_t sv_kernel_run_pieces; /* the same of sv_gather and sv_scatter */
extern const sv_kernel_t sv_kernel_replay; /* sv_run_arg_t: push, pull or both, of the epoch that the device is at */
extern const sv_kernel_t sv_kernel_replay_pieces; /* the same of sv_gather and sv_scatter */
extern const sv_kernel_t sv_kernel_await;  /* sv_await_arg_t: holds a stream until a word says so */
extern const sv_kernel_t sv_kernel_clock;  /* sv_clock_arg_t: reads the device's clock for the host */
extern const sv_kernel_t sv_kernel_delay;  /* sv_delay_arg_t: takes time */
extern const sv_kernel_t sv_kernel_coll;   /* sv_coll_arg_t: collectives that reduce in slots; see coll_run.h */
extern const sv_kernel_t sv_kernel_coll_ll; /* the same, in lines of 16 bytes */
extern const sv_kernel_t sv_kernel_coll_ll128; /* the same, in long lines */
extern const sv_kernel_t sv_kernel_coll_small; /* sv_coll_small_arg_t: a short call alone, in lines of 16 bytes */
extern const sv_kernel_t sv_kernel_coll_small_ll128; /* the same, in long lines */
extern const sv_kernel_t sv_kernel_coll_small_pair; /* sv_coll_small_pair_arg_t: a short send and receive, in lines of
                                                       16 bytes */
extern const sv_kernel_t sv_kernel_coll_small_pair_ll128; /* the same, in long lines */
extern const sv_kernel_t sv_kernel_exact_scale; /* sv_exact_arg_t: sums that do not depend on the order; coll_exact.h */
extern const sv_kernel_t sv_kernel_exact_split;
extern const sv_kernel_t sv_kernel_exact_join;
extern const sv_kernel_t sv_kernel_exact_pack;
extern const sv_kernel_t sv_kernel_exact_add;
extern const sv_kernel_t sv_kernel_exact_unpack;
extern const sv_kernel_t sv_kernel_fold;   /* sv_fold_arg_t: combines what ranks gave, element by element */
extern const sv_kernel_t sv_kernel_flip;   /* sv_flip_arg_t: damage one byte, for fault injection */

/* Bodies for soft, one call per block; reached through the descriptors above. arg is aligned to 8 bytes. */
void sv_digest_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_digests_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_rest_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_pack_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_unpack_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_runs_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_sum_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_touch_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_signal_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_push_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_pull_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_gather_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_scatter_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_run_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_run_pieces_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_replay_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_replay_pieces_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_await_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_clock_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_delay_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_coll_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_coll_ll_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_coll_ll128_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_coll_small_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_coll_small_ll128_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_coll_small_pair_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_coll_small_pair_ll128_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_exact_scale_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_exact_split_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_exact_join_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_exact_pack_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_exact_add_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_exact_unpack_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_fold_soft(const void *arg, unsigned block, unsigned nblocks);
void sv_flip_soft(const void *arg, unsigned block, unsigned nblocks);

/* How many blocks a pass over bytes bytes should have: up to dev->launch_blocks, and each with work for its lanes. */
unsigned sv_kernel_blocks(const sv_device_t *dev, uint64_t bytes);
/* Like sv_kernel_blocks(), with pieces of share_bytes: at least one block, at most as many as the device should
   have. */
unsigned sv_kernel_shares(const sv_device_t *dev, uint64_t bytes, uint64_t share_bytes);

/* One turn of a spin in device code on soft: yields, and sleeps when it has turned often, longer and longer, up to
   1.6 ms. *turns starts at 0. */
void sv_kernel_backoff(unsigned *turns);
uint64_t sv_kernel_clock_ns(void);

/* mix_check() of the design: two rounds of multiply and shift; a bijection of 64 bits. */
uint64_t sv_digest_mix(uint64_t x);

/* Key of a packet: chains everything the packet is. exchange must not be 0. The salt is computed, not read. */
uint64_t sv_digest_key(const sv_record_t *identity);

/* Sum over the words of a piece that starts at word first_word of the packet. Reference for tests and reports. */
uint64_t sv_digest_sum(uint64_t key, uint64_t first_word, const void *data, uint64_t bytes);

/* Closes a digest; never 0. */
uint64_t sv_digest_finish(uint64_t key, uint64_t sum);

#ifdef __cplusplus
}
#endif
#endif
