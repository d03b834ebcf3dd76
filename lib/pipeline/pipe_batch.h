/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches: the packets that kernels move, many with one launch. Phases mark packets as due; whoever drives the phases
 * flushes once after its walk over them. Engine thread only.
 */
#ifndef SV_PIPE_BATCH_H
#define SV_PIPE_BATCH_H

#include "pipeline/pipe_exchange.h"
#include "pipeline/route.h"

/* At commit: writes what stays the same about the packets that kernels move into device memory. */
selvage_status_t sv_batch_make_items(selvage_exchange_t *x);
/* The same again where lengths vary, while no kernel of the exchange's is under way: packets have other lengths. */
selvage_status_t sv_batch_update_items(selvage_exchange_t *x);
static inline bool sv_batch_has_item(const sv_packet_t *p)
{
    return p->kernel_copy || sv_packet_is_device_driven(p);
}

/* Whether the record lies in device memory, and after it a word for a pull that waits: after the payload in its slot
   on `peer`, in a place of its own on `self`. */
static inline bool sv_batch_has_device_record(const sv_packet_t *p)
{
    return p->kernel_copy && ((p->ops->maps_device && !p->in_place) || p->ops->within_rank);
}

/* Whether kernels that wait for it read a packet in a slot ahead of its word, which its record and digest allow. */
static inline bool sv_batch_looks_ahead(const sv_packet_t *p)
{
    return sv_batch_has_device_record(p) && !p->in_place && p->x->policy != SV_CONFIG_CHECKSUM_OFF &&
           p->x->comm->config.kernel_look_max_bytes > 0 && p->bytes <= p->x->comm->config.kernel_look_max_bytes;
}

/*
 * How much a share of a packet is, in a launch that moves so many packets of total_bytes with so many blocks at most:
 * little, because latency counts; but no block should have a second share, which waits for the first and starts like
 * it, and every packet may have one that is not full.
 */
static inline uint64_t sv_batch_share_bytes(uint64_t total_bytes, uint32_t packets, unsigned blocks)
{
    enum { SHARE_BYTES = 4096, SHARE_UNIT = 512 };
    unsigned full = blocks > 2 * packets ? blocks - packets : blocks;
    uint64_t each = (total_bytes / full + SHARE_UNIT) / SHARE_UNIT * SHARE_UNIT;
    return each < SHARE_BYTES ? SHARE_BYTES : each;
}

/* The send leaves with the next flush; its receiver is ready. */
static inline void sv_batch_push_later(sv_send_t *send)
{
    selvage_exchange_t *x = send->p.x;
    x->batch.push_due[x->batch.npush_due++] = send->p.own_index;
}

/* The packet lies here and is verified (and copied to its place) with the next flush. */
static inline void sv_batch_pull_later(sv_recv_t *recv)
{
    selvage_exchange_t *x = recv->p.x;
    x->batch.pull_due[x->batch.npull_due++] = recv->p.own_index;
}

/* A push this short goes first on the caller's own stream whatever comes after it there: two orders between streams
   cost more than what it holds that up. */
enum { SV_CALLER_STREAM_MAX_BYTES = 2 << 20 };
static inline bool sv_batch_goes_first(const selvage_exchange_t *x, uint64_t bytes)
{
    return x->in_start && (x->unordered || bytes <= SV_CALLER_STREAM_MAX_BYTES);
}

/* How a flush launches. wait_ns 0: every credit or arrival has been seen. corrupted: a fault, index of the send plus
   1. */
typedef struct sv_batch_how {
    void *stream;
    uint64_t wait_ns;
    bool sticky;
    uint32_t corrupted;
} sv_batch_how_t;

selvage_status_t sv_batch_push_how(selvage_exchange_t *x, const sv_batch_how_t *how);
selvage_status_t sv_batch_pull_how(selvage_exchange_t *x, const sv_batch_how_t *how);
/* Both, with one launch if that takes them all. */
selvage_status_t sv_batch_run_how(selvage_exchange_t *x, const sv_batch_how_t *how);

/* The making of a launch: what it has in common, then packet after packet with its shares. */
void sv_batch_begin(const selvage_exchange_t *x, const sv_batch_how_t *how, const void *items, sv_batch_arg_t *arg);
void sv_batch_add(sv_batch_arg_t *arg, const sv_packet_t *p, uint64_t share_bytes);
/* How many blocks a launch of pushes and pulls may have, so that all of them are on the device at once. */
unsigned sv_batch_run_blocks(const selvage_exchange_t *x);

/* Whether everything ahead of start on the caller's stream is known to be complete: a push after it is. */
bool sv_batch_start_is_passed(const selvage_exchange_t *x);

/* Whether the exchange's own streams may be used without being put after what the caller's stream was given since. */
static inline bool sv_batch_is_after_start(const selvage_exchange_t *x)
{
    return !x->unordered || !x->batch.first_push || sv_batch_start_is_passed(x);
}

/* Launches what is due, as the engine does in a poll: pushes of start on the caller's stream if they are short. */
selvage_status_t sv_batch_flush(selvage_exchange_t *x);

/* Whether all pushes and pulls that were launched have come to their ends, good or bad, and what the last enqueued wait
   joined: SUCCESS, IN_PROGRESS, or the error of a device that is lost. They may be on a stream of the caller's, which
   nobody here can wait for. */
selvage_status_t sv_batch_query(const selvage_exchange_t *x);

/* If kernels take time stamps: a number for a launch, and lines for all shares of its push or pull (pipe_stamps.c). */
uint32_t sv_batch_number_launch(const selvage_exchange_t *x);
void sv_batch_stamp_push(const selvage_exchange_t *x, sv_batch_arg_t *arg, bool in_pieces, uint32_t launch);
void sv_batch_stamp_pull(const selvage_exchange_t *x, sv_batch_arg_t *arg, bool in_pieces, uint32_t launch);

#endif
