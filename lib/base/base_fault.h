/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults on purpose. SELVAGE_FAULT is a comma-separated list, parsed once per communicator:
 *
 *   flip=P swap=P replay=P truncate=P drop=P delay=P duplicate=P   probability (0..1) per packet send attempt
 *   delay_ms=M        how long a delayed packet is held (default 20)
 *   attempts=N        corrupt only attempts below N of a packet, so that retries succeed (default 1; 255: all)
 *   only=I            corrupt only the packet with send index I
 *   epochs=E          corrupt packets only in the first E epochs of an exchange (default 0: in all)
 *   rank=R            all of this holds on rank R only
 *   seed=S            of the generator (default 1); the rank is mixed in
 *   alloc=N device=N wire=N   fail the Nth host allocation, device call, wire call (from 1); with a trailing '+' that
 *                     one and all after it
 *   map=N ipc=N       fail the Nth mapping of other ranks' host memory, or device memory; '+' as above
 *   stop_ms=M stop_epoch=E    the rank stands still for M ms when it starts epoch E of an exchange
 *   never=E           the rank never sends anything in epoch E of an exchange
 *   graph=E           corrupt a packet in epoch E of an exchange if a graph replays it, and none else: the one that
 *                     only names (or the first), in the way of flip, swap, replay and drop that has a probability
 *
 * Packet faults are decided here and done by the routes, after the digest was computed.
 */
#ifndef SV_BASE_FAULT_H
#define SV_BASE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <selvage/status.h>

typedef enum sv_fault_kind {
    SV_FAULT_NONE,
    SV_FAULT_FLIP,      /* one bit of payload or record */
    SV_FAULT_SWAP,      /* the content of another packet of the exchange */
    SV_FAULT_REPLAY,    /* the same packet's content of the previous epoch */
    SV_FAULT_TRUNCATE,  /* the tail is missing */
    SV_FAULT_DROP,      /* never sent */
    SV_FAULT_DELAY,     /* sent delay_ms later */
    SV_FAULT_DUPLICATE, /* sent twice */
    SV_FAULT_KINDS
} sv_fault_kind_t;

typedef enum sv_fault_call {
    SV_FAULT_CALL_ALLOC,
    SV_FAULT_CALL_DEVICE,
    SV_FAULT_CALL_WIRE,
    SV_FAULT_CALL_MAP,  /* of a peer's node-shared host memory */
    SV_FAULT_CALL_IPC,  /* opening of a peer's device memory */
    SV_FAULT_CALLS
} sv_fault_call_t;

typedef struct sv_fault {
    bool armed;                              /* any packet fault wanted on this rank */
    double probability[SV_FAULT_KINDS];
    uint32_t delay_ms, attempts, stop_ms;
    int64_t only_index;                      /* -1: every packet */
    uint64_t stop_epoch, never_epoch;        /* 0: no */
    uint64_t graph_epoch;                    /* 0: packet faults are those of epochs that the host starts */
    uint64_t epochs;                         /* 0: no limit; kept by whoever knows the epoch */
    uint64_t random;                         /* generator state */
    uint64_t injected[SV_FAULT_KINDS];       /* counts, for reports */
    _Atomic int64_t call_countdown[SV_FAULT_CALLS]; /* fails when it reaches 0; negative: passed */
    bool call_sticky[SV_FAULT_CALLS];
    bool call_armed[SV_FAULT_CALLS];
} sv_fault_t;

/* Parses spec ("" is no faults) for this rank. SELVAGE_ERR_CONFIG with the offending word in the detail. */
selvage_status_t sv_fault_parse(const char *spec, int rank, sv_fault_t *fault_out);

/* Decides about one send attempt of a packet, counts it. Hot only when armed; the caller checks armed first. */
sv_fault_kind_t sv_fault_packet(sv_fault_t *fault, uint32_t index, unsigned attempt);

/* Uniform number below bound (bound > 0), from the same generator. */
uint64_t sv_fault_random(sv_fault_t *fault, uint64_t bound);

/* True if this call of the calling thread's binding must fail. Thread-safe. NULL binding: false. */
bool sv_fault_call_fails(sv_fault_call_t call);

/* Name of a packet fault ("flip"). */
const char *sv_fault_name(sv_fault_kind_t kind);

#endif
