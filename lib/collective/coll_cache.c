/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers, answers, and looking up; see coll_cache.h for the protocol, threads and ownership. */
#include "collective/coll_cache.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_setup.h"
#include "host/memory_shared.h"

enum {
    OFFERS = SV_COLL_CACHED, /* of each rank */
    NUMBERS = 16,            /* of communicators of an arena */
    ONCE = 64,               /* buffers that were in one call, remembered */
    REFUSED_MAX = 4,         /* offers that some rank could not map, after which this rank makes no more */
    UNUSED_LAUNCHES = 256,   /* a window that was in none of so many launches may make way */
    UNTIL_LAUNCHED = 2,      /* a call is in the next launch, or, if that is full, in the one after it */
    SOONER = 10              /* where much is offered, what is idle goes after this part of the time */
};

#define NEVER UINT64_C(1)    /* in an answer: it cannot be mapped here */

/* What an owner tells its peers. Versions are even; while the owner writes, the version is odd. */
typedef struct offer {
    uint64_t version;
    uint64_t offset, bytes;
    sv_device_handle_t handle;
} offer_t;

typedef struct outbox {
    uint64_t changes;        /* how often an offer has changed: what peers poll */
    uint64_t reserved[7];
    offer_t offer[OFFERS];
    uint64_t answer[OFFERS][SV_COLL_RANKS]; /* by rank of the arena: the version that it has mapped, ... */
    uint32_t after[OFFERS][SV_COLL_RANKS][NUMBERS]; /* ... and after which call of each communicator, by its number */
} outbox_t;

/* A buffer of this rank that is offered. */
typedef struct cached {
    uint64_t id;             /* of its allocation; 0: the place is free */
    const uint8_t *ptr;
    uint64_t bytes;
    uint64_t version;
    uint32_t open;           /* bits: numbers of communicators whose ranks have all mapped it before this call */
    uint64_t held_bytes;     /* of its allocation, which peers map as a whole */
    bool offered;            /* peers may have mapped it */
    bool never;              /* some rank cannot map it, or this one cannot export it, or it is a part of too much */
    uint64_t last_launch;    /* in which it may have been said, */
    uint64_t seen_launch;    /* and which one it was at since_ns */
    uint64_t since_ns;
} cached_t;

/* A peer's offer as this rank has mapped it. */
typedef struct accepted {
    uint64_t version;        /* answered; 0: none */
    sv_transfer_mapping_t *mapping;
} accepted_t;

typedef struct once {
    uint64_t id;
    const void *ptr;
    uint64_t bytes;
} once_t;

struct sv_coll_cache {
    sv_shared_segment_t own, peer[SV_COLL_RANKS]; /* not open: no outbox there */
    bool own_open, peer_open[SV_COLL_RANKS];
    uint64_t seen_changes[SV_COLL_RANKS];
    cached_t cached[OFFERS];
    uint64_t held_bytes;     /* of all that is offered */
    unsigned refused;
    bool captured;           /* a call was captured into a graph: nothing is said or answered any more */
    once_t once[ONCE];
    unsigned once_next;
    accepted_t accepted[SV_COLL_RANKS][OFFERS];
    sv_transfer_cache_t mappings;
};

static outbox_t *own_outbox(const sv_coll_cache_t *cache)
{
    return (outbox_t *)(void *)sv_shared_base(&cache->own);
}

static outbox_t *peer_outbox(const sv_coll_cache_t *cache, uint32_t peer)
{
    return (outbox_t *)(void *)sv_shared_base(&cache->peer[peer]);
}

/* --- set-up ------------------------------------------------------------------------------------------------------- */

enum { ITEM_TOKEN, ITEM_BYTES };

static void open_outboxes(sv_coll_arena_t *arena, const sv_team_t *node)
{
    sv_coll_cache_t *cache = arena->cache;
    for (uint32_t peer = 0; peer < arena->nranks; peer++) {
        const sv_gather_item_t *item = sv_gather_item_of(node, (int)peer);
        sv_mapping_handle_t handle;
        if (peer == arena->me || item->value[ITEM_BYTES] != sizeof(outbox_t))
            continue;
        memcpy(&handle, &item->handle, sizeof handle);
        cache->peer_open[peer] = sv_shared_open(arena->comm->dev, &handle, item->value[ITEM_TOKEN],
                                                &cache->peer[peer]) == SELVAGE_SUCCESS;
    }
}

selvage_status_t sv_coll_cache_create(sv_coll_arena_t *arena, sv_team_t *all, sv_team_t *node)
{
    _Static_assert(sizeof(sv_mapping_handle_t) == sizeof(sv_device_handle_t), "it travels in the place of the other");
    selvage_comm_t *comm = arena->comm;
    if (arena->cache_bytes == 0)
        return SELVAGE_SUCCESS;
    const uint64_t token = sv_transfer_token(sv_clock_ns() ^ comm->nonce ^ (uint64_t)comm->wire->rank << 8);
    selvage_status_t status = sv_calloc(1, sizeof *arena->cache, &arena->cache);
    sv_coll_cache_t *cache = arena->cache;
    sv_gather_item_t *item = sv_gather_item_begin(node);
    if (status == SELVAGE_SUCCESS) {
        sv_transfer_cache_init(&cache->mappings, &comm->config);
        cache->own_open = arena->memory && arena->nranks > 1 &&
                          sv_shared_create(comm->dev, sizeof(outbox_t), token, &cache->own) == SELVAGE_SUCCESS;
    }
    if (cache && cache->own_open) {
        item->value[ITEM_TOKEN] = token;
        item->value[ITEM_BYTES] = sizeof(outbox_t);
        memcpy(&item->handle, &cache->own.mapping.handle, sizeof item->handle);
    }
    uint64_t unused = 0;
    SV_TRY(sv_coll_tell_node(all, node, "selvage_coll_create: outboxes", status));
    open_outboxes(arena, node);
    return sv_gather_least(all, "selvage_coll_create: outboxes open", 0, SELVAGE_SUCCESS, &unused, comm->timeout_s);
}

void sv_coll_cache_unmap(sv_coll_arena_t *arena)
{
    sv_coll_cache_t *cache = arena->cache;
    if (!cache)
        return;
    for (uint32_t peer = 0; peer < arena->nranks; peer++) {
        for (unsigned i = 0; i < OFFERS; i++)
            sv_transfer_unmap(cache->accepted[peer][i].mapping);
        memset(cache->accepted[peer], 0, sizeof cache->accepted[peer]);
        if (cache->peer_open[peer])
            sv_shared_close(&cache->peer[peer]);
        cache->peer_open[peer] = false;
    }
    sv_transfer_cache_close(&cache->mappings);
}

void sv_coll_cache_free(sv_coll_arena_t *arena)
{
    sv_coll_cache_t *cache = arena->cache;
    if (!cache)
        return;
    sv_transfer_cache_abandon(&cache->mappings); /* nothing, unless a kernel does not end */
    if (cache->own_open)
        sv_shared_close(&cache->own);
    sv_free(cache);
    arena->cache = NULL;
}

/* --- the peer's side ---------------------------------------------------------------------------------------------- */

/* A whole offer, or false: its owner is writing, and will change it once more. */
static bool read_offer(const offer_t *offer, offer_t *offer_out)
{
    /* Partner: the releases in write_offer(). */
    const uint64_t version = __atomic_load_n(&offer->version, __ATOMIC_ACQUIRE);
    if (version & 1)
        return false;
    const uint64_t *words = (const uint64_t *)(const void *)offer;
    uint64_t *into = (uint64_t *)(void *)offer_out;
    for (size_t w = 0; w < sizeof *offer / sizeof *words; w++)
        into[w] = __atomic_load_n(&words[w], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&offer->version, __ATOMIC_RELAXED) == version && offer_out->version == version;
}

/* Its owner says the number again only after the answer, and said it before only in calls that are over. */
static selvage_status_t accept_offer(sv_coll_arena_t *arena, uint32_t peer, unsigned number, const offer_t *offer)
{
    sv_coll_cache_t *cache = arena->cache;
    accepted_t *accepted = &cache->accepted[peer][number];
    const size_t at = peer * SV_COLL_WINDOW_NUMBERS + SV_COLL_WINDOWS + number;
    const sv_transfer_memory_t place = {.peer = arena->comm->topology.node_ranks[peer], .handle = &offer->handle,
                                        .offset = offer->offset, .bytes = offer->bytes, .kept = true};
    sv_transfer_unmap(accepted->mapping);
    accepted->mapping = NULL;
    arena->window_base[at] = 0;
    if (offer->bytes == 0) /* it is withdrawn: nobody says the number any more */
        return SELVAGE_SUCCESS;
    SV_TRY(sv_transfer_map(&cache->mappings, arena->comm->dev, &place, &accepted->mapping));
    arena->window_base[at] = (uint64_t)(uintptr_t)accepted->mapping->base + offer->offset;
    /* Alone: kernels may be looking at the others. */
    return sv_coll_upload(arena, &arena->priv->window[at], &arena->window_base[at], sizeof arena->window_base[at]);
}

/* Kernels of calls that are launched may be on the device already, and have looked into the table. */
static void tell_calls(const sv_coll_arena_t *arena, uint32_t after[NUMBERS])
{
    for (const sv_list_t *it = arena->colls.next; it != &arena->colls; it = it->next) {
        const selvage_coll_t *coll = SV_CONTAINER_OF(it, selvage_coll_t, link);
        __atomic_store_n(&after[coll->number], coll->sequence, __ATOMIC_RELAXED);
    }
}

static void answer_offers(sv_coll_arena_t *arena, uint32_t peer)
{
    sv_coll_cache_t *cache = arena->cache;
    outbox_t *outbox = peer_outbox(cache, peer);
    for (unsigned i = 0; i < OFFERS; i++) {
        accepted_t *accepted = &cache->accepted[peer][i];
        offer_t offer;
        if (!read_offer(&outbox->offer[i], &offer) || offer.version == accepted->version)
            continue;
        const selvage_status_t status = accept_offer(arena, peer, i, &offer);
        if (status != SELVAGE_SUCCESS)
            sv_log(SV_LOG_INFO, "collective", "a buffer of rank %d is not mapped here, and is copied through slots",
                   arena->comm->topology.node_ranks[peer]);
        accepted->version = offer.version;
        tell_calls(arena, outbox->after[i][arena->me]);
        /* Partner: the acquire in has_mapped(). What it promises has been waited for. */
        __atomic_store_n(&outbox->answer[i][arena->me], offer.version | (status == SELVAGE_SUCCESS ? 0 : NEVER),
                         __ATOMIC_RELEASE);
    }
}

static void answer_peers(sv_coll_arena_t *arena)
{
    sv_coll_cache_t *cache = arena->cache;
    for (uint32_t peer = 0; peer < arena->nranks; peer++) {
        if (!cache->peer_open[peer])
            continue;
        /* Partner: the release in write_offer(). What changes after this look is found by the next one. */
        const uint64_t changes = __atomic_load_n(&peer_outbox(cache, peer)->changes, __ATOMIC_ACQUIRE);
        if (changes == cache->seen_changes[peer])
            continue;
        cache->seen_changes[peer] = changes;
        answer_offers(arena, peer);
    }
}

void sv_coll_cache_poll(sv_coll_arena_t *arena, void *stream)
{
    sv_coll_cache_t *cache = arena->cache;
    if (!cache || arena->stuck || arena->broken != SELVAGE_SUCCESS)
        return;
    cache->captured |= SV_DEVICE_CALL(arena->comm->dev, stream_is_capturing, stream);
    if (!cache->captured)
        answer_peers(arena);
}

/* --- the owner's side --------------------------------------------------------------------------------------------- */

static void write_offer(outbox_t *outbox, unsigned number, const offer_t *content)
{
    offer_t *offer = &outbox->offer[number];
    const uint64_t *words = (const uint64_t *)(const void *)content;
    uint64_t *into = (uint64_t *)(void *)offer;
    __atomic_store_n(&offer->version, content->version - 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* partner: the fence in read_offer() */
    for (size_t w = 1; w < sizeof *offer / sizeof *words; w++)
        __atomic_store_n(&into[w], words[w], __ATOMIC_RELAXED);
    __atomic_store_n(&offer->version, content->version, __ATOMIC_RELEASE); /* partner: the acquire in read_offer() */
    __atomic_store_n(&outbox->changes, outbox->changes + 1, __ATOMIC_RELEASE); /* partner: sv_coll_cache_poll() */
}

/* Whether a rank has mapped it, before the call that has the communicator's sequence number now. */
static bool has_mapped(const selvage_coll_t *coll, unsigned number, cached_t *cached, uint32_t r)
{
    const outbox_t *outbox = own_outbox(coll->arena->cache);
    /* Partner: the release in answer_offers(). */
    const uint64_t answer = __atomic_load_n(&outbox->answer[number][r], __ATOMIC_ACQUIRE);
    const uint32_t after = __atomic_load_n(&outbox->after[number][r][coll->number], __ATOMIC_RELAXED);
    if (answer == (cached->version | NEVER) && !cached->never) {
        cached->never = true;
        coll->arena->cache->refused++;
    }
    return answer == cached->version && (int32_t)(coll->sequence - after) > 0;
}

/* Whether the number may be said in this call. What may be, may be in every later call, too. */
static bool may_be_said(const selvage_coll_t *coll, unsigned number, cached_t *cached)
{
    const sv_coll_arena_t *arena = coll->arena;
    bool all = !cached->never;
    if (cached->open >> coll->number & 1)
        return true;
    for (uint32_t r = 0; r < arena->nranks && all; r++)
        all = r == arena->me || !(coll->members >> r & 1) || has_mapped(coll, number, cached, r);
    cached->open |= all ? 1u << coll->number : 0;
    return all;
}

void sv_coll_cache_begin(const selvage_coll_t *coll)
{
    sv_coll_cache_t *cache = coll->arena->cache;
    for (unsigned i = 0; cache && i < OFFERS; i++) {
        cache->cached[i].open &= ~(1u << coll->number); /* its ranks may be others */
        for (uint32_t peer = 0; peer < coll->arena->nranks; peer++)
            if (cache->peer_open[peer])
                __atomic_store_n(&peer_outbox(cache, peer)->after[i][coll->arena->me][coll->number], 0,
                                 __ATOMIC_RELAXED);
    }
}

static bool is_within(const void *ptr, uint64_t bytes, const void *outer, uint64_t outer_bytes)
{
    const uint64_t offset = (uint64_t)((uintptr_t)ptr - (uintptr_t)outer);
    return offset < outer_bytes && bytes <= outer_bytes - offset;
}

/* Whether the buffer was in a call before; remembers it. */
static bool was_here(sv_coll_cache_t *cache, uint64_t id, const void *ptr, uint64_t bytes)
{
    for (unsigned i = 0; i < ONCE; i++)
        if (cache->once[i].id == id && cache->once[i].ptr == ptr && cache->once[i].bytes == bytes)
            return true;
    cache->once[cache->once_next++ % ONCE] = (once_t){id, ptr, bytes};
    return false;
}

/* Whether the place may be given to another buffer: no kernel looks it up, and it was not used for long, or what was
   there is gone, as another allocation has its address. */
static bool may_make_way(const sv_coll_arena_t *arena, const cached_t *cached, uint64_t id, const void *ptr,
                         uint64_t bytes)
{
    if (cached->id == 0)
        return true;
    if (arena->completed < cached->last_launch)
        return false;
    const bool gone = cached->id != id && (is_within(ptr, 1, cached->ptr, cached->bytes) ||
                                           is_within(cached->ptr, 1, ptr, bytes));
    return gone || cached->never || arena->launches - cached->last_launch > UNUSED_LAUNCHES;
}

bool sv_coll_cache_offers(const selvage_coll_t *coll)
{
    return coll->arena->cache && coll->arena->cache->own_open;
}

/* How long the allocation is that begins at base and has at least so many bytes; more than `most`: that is all that is
   known. It is found out by asking where longer and longer memory lies. */
static uint64_t find_length(sv_device_t *dev, const uint8_t *base, uint64_t least, uint64_t most)
{
    uint64_t within = least, beyond = most + 1;
    if (least > most || SV_DEVICE_CALL(dev, memory_kind, base, beyond) == SV_MEMORY_DEVICE)
        return beyond;
    while (beyond - within > 1) {
        const uint64_t middle = within + (beyond - within) / 2;
        if (SV_DEVICE_CALL(dev, memory_kind, base, middle) == SV_MEMORY_DEVICE)
            within = middle;
        else
            beyond = middle;
    }
    return within;
}

static void offer_buffer(selvage_coll_t *coll, uint64_t id, const void *ptr, uint64_t bytes)
{
    sv_coll_arena_t *arena = coll->arena;
    sv_coll_cache_t *cache = arena->cache;
    sv_device_t *dev = coll->comm->dev;
    offer_t offer = {.bytes = bytes};
    uint64_t held = bytes;
    unsigned number = 0;
    if (cache->refused >= REFUSED_MAX)
        return;
    sv_coll_note_completed(arena);
    bool never = SV_DEVICE_CALL(dev, export_memory, ptr, bytes, &offer.handle, &offer.offset) != SELVAGE_SUCCESS;
    if (!never)
        held = find_length(dev, (const uint8_t *)ptr - offer.offset, offer.offset + bytes, arena->cache_bytes);
    never = never || held > arena->cache_bytes;
    held = never ? 0 : held;
    /* One that may make way, and leaves as much room as there must be. */
    while (number < OFFERS && (cache->held_bytes - cache->cached[number].held_bytes + held > arena->cache_bytes ||
                               !may_make_way(arena, &cache->cached[number], id, ptr, bytes)))
        number++;
    if (number == OFFERS)
        return;
    cached_t *cached = &cache->cached[number];
    const bool was_offered = cached->offered;
    cache->held_bytes += held - cached->held_bytes;
    *cached = (cached_t){.id = id, .ptr = ptr, .bytes = bytes, .held_bytes = held, .version = cached->version + 2,
                         .never = never, .offered = !never, .last_launch = arena->launches};
    offer.version = cached->version;
    if (never) /* peers let go of what the number stood for */
        offer = (offer_t){.version = cached->version};
    if (!never || was_offered)
        write_offer(own_outbox(cache), number, &offer);
}

uint64_t sv_coll_cache_find(selvage_coll_t *coll, uint64_t id, const void *ptr, uint64_t bytes)
{
    sv_coll_arena_t *arena = coll->arena;
    sv_coll_cache_t *cache = arena->cache;
    if (!sv_coll_cache_offers(coll) || id == 0 || cache->captured)
        return 0;
    for (unsigned i = 0; i < OFFERS; i++) {
        cached_t *cached = &cache->cached[i];
        if (cached->id != id || !is_within(ptr, bytes, cached->ptr, cached->bytes))
            continue;
        cached->last_launch = arena->launches + UNTIL_LAUNCHED;
        if (!may_be_said(coll, i, cached))
            return 0;
        return (uint64_t)(SV_COLL_WINDOWS + i) << 48 | (uint64_t)((uintptr_t)ptr - (uintptr_t)cached->ptr);
    }
    if (was_here(cache, id, ptr, bytes))
        offer_buffer(coll, id, ptr, bytes);
    return 0;
}

/* --- what is idle ------------------------------------------------------------------------------------------------- */

static bool has_open_group(const sv_coll_arena_t *arena)
{
    for (const sv_list_t *it = arena->colls.next; it != &arena->colls; it = it->next)
        if (SV_CONTAINER_OF(it, const selvage_coll_t, link)->group_depth > 0)
            return true;
    return false;
}

/* Whether the buffer was in no call for so long that peers are to let go of it. */
static bool is_cached_idle(const sv_coll_arena_t *arena, cached_t *cached, uint64_t now_ns)
{
    const sv_transfer_limits_t *limits = &arena->cache->mappings.limits;
    if (cached->seen_launch != cached->last_launch || cached->since_ns == 0) {
        cached->seen_launch = cached->last_launch;
        cached->since_ns = now_ns;
    }
    const uint64_t idle_ns = now_ns - cached->since_ns;
    return idle_ns >= limits->idle_ns ||
           (arena->cache->held_bytes > limits->idle_bytes && idle_ns >= limits->idle_ns / SOONER);
}

/* All calls are over, so that no kernel looks the number up, and none is going to. */
static void withdraw_cached(sv_coll_cache_t *cache, unsigned number)
{
    cached_t *cached = &cache->cached[number];
    const bool was_offered = cached->offered;
    cache->held_bytes -= cached->held_bytes;
    *cached = (cached_t){.version = cached->version + 2};
    if (was_offered)
        write_offer(own_outbox(cache), number, &(offer_t){.version = cached->version});
}

bool sv_coll_cache_trim(sv_coll_arena_t *arena, bool gives_back)
{
    sv_coll_cache_t *cache = arena->cache;
    const uint64_t now_ns = sv_clock_ns();
    sv_list_t trimmed;
    if (!cache || arena->stuck || arena->broken != SELVAGE_SUCCESS || cache->captured || has_open_group(arena))
        return false;
    sv_coll_note_completed(arena);
    for (unsigned i = 0; i < OFFERS && cache->own_open && arena->completed == arena->launches; i++)
        if (cache->cached[i].id != 0 && is_cached_idle(arena, &cache->cached[i], now_ns))
            withdraw_cached(cache, i);
    answer_peers(arena);
    if (!sv_transfer_cache_is_due(&cache->mappings, now_ns))
        return false;
    if (gives_back) {
        sv_list_init(&trimmed);
        sv_transfer_cache_trim(&cache->mappings, now_ns, &trimmed);
        sv_transfer_close_trimmed(&trimmed);
    }
    return true;
}
