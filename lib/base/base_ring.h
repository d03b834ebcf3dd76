/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-producer single-consumer ring of pointers: how work reaches the progress thread without a lock.
 *
 *        head (consumer)            tail (producer)
 *          |                          |
 *   [ . ][ a ][ b ][ c ][ d ][ e ][ . ][ . ]
 *
 * The producer writes a slot, then releases tail. The consumer acquires tail, reads the slot, then releases head. The
 * producer acquires head before it writes a slot again. Both counters only grow. The capacity is a power of two. There
 * is no compare-exchange that could fail.
 */
#ifndef SV_BASE_RING_H
#define SV_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Tests compile it with two. */
#ifndef SV_RING_SLOTS
#define SV_RING_SLOTS 256
#endif
_Static_assert((SV_RING_SLOTS & (SV_RING_SLOTS - 1)) == 0, "counters that wrap need a power of two");

typedef struct sv_ring {
    _Alignas(64) _Atomic uint32_t head;
    _Alignas(64) _Atomic uint32_t tail;
    uint32_t most; /* producer's: most items that were in it at the same time */
    _Alignas(64) void *slot[SV_RING_SLOTS];
} sv_ring_t;

static inline void sv_ring_init(sv_ring_t *ring)
{
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    ring->most = 0;
}

/* Producer only. False if the ring is full. The release is the partner of the acquire in sv_ring_pop(). */
static inline bool sv_ring_push(sv_ring_t *ring, void *item)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    const uint32_t used = tail - atomic_load_explicit(&ring->head, memory_order_acquire);
    if (used == SV_RING_SLOTS)
        return false;
    if (used >= ring->most)
        ring->most = used + 1;
    ring->slot[tail % SV_RING_SLOTS] = item;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

/* Consumer only. Partner of the acquire: the release in sv_ring_push(). */
static inline bool sv_ring_is_empty(sv_ring_t *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_relaxed) ==
           atomic_load_explicit(&ring->tail, memory_order_acquire);
}

/* Consumer only. NULL if the ring is empty. The release is the partner of the acquire in sv_ring_push(). */
static inline void *sv_ring_pop(sv_ring_t *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == atomic_load_explicit(&ring->tail, memory_order_acquire))
        return 0;
    void *item = ring->slot[head % SV_RING_SLOTS];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return item;
}

#endif
