/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging memory: what stands for device memory in MPI's calls. It is pinned up to the bound
 * (SELVAGE_DROPIN_POOL_BYTES) and plain beyond it. Copies of plain memory go through two pinned pieces (drop_copy.c).
 * Pinning and releasing take longer than the copies and make the whole device wait. So chunks are pinned that double
 * the pool, and they are kept until nothing has used them for long (drop_idle.c):
 *
 *   pinned [ chunk 4M ][ chunk 4M ][ chunk 8M ] ... up to the bound      plain [ chunk ] ... kept up to the bound
 *            header block | header block | free ...
 *
 * A chunk is cut into blocks. Free ones stand in lists by length and are joined with free neighbours. Lengths go up in
 * eighths of a power of two. A header is longer than many a message, so the shortest pinned messages share blocks: the
 * slabs, which are cut into parts of one length.
 *
 *   block [ header | memory ]      slab [ header | slab_t | tag, part | tag, part | ... ]
 *
 * The word before memory that is given out tells the two apart: it is the slab of a part, or NULL. Chunks of a device
 * that has given way to another one give out nothing more. Any thread. Memory is also pinned under the one lock, so
 * that no two threads grow the pool at once. The pool owns its chunks, and a block is its taker's until it is given
 * back.
 */
#include "interpose/drop_pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* UNIT_BYTES: of which all lengths are multiples; a header takes one. RESHAPES_MAX: how often in a process's life
   unused chunks are given up for a longer one. */
enum { STEPS = 8, FIRST_SHIFT = 8, LAST_SHIFT = 47, CLASSES = (LAST_SHIFT - FIRST_SHIFT) * STEPS, UNIT_BYTES = 256,
       WORDS = (CLASSES + 63) / 64, LEAST_CHUNK = 4 << 20, MOST_CHUNK = 256 << 20, HUGE_PAGE = 2 << 20,
       RESHAPES_MAX = 4 };

/* Parts of slabs have 32 to 256 bytes, of which TAG_BYTES stand before what is given out. */
enum { SLAB_BYTES = (64 << 10) - UNIT_BYTES, PART_SHIFT = 5, PART_KINDS = 4, TAG_BYTES = 16,
       PART_MOST = (1 << (PART_SHIFT + PART_KINDS - 1)) - TAG_BYTES };

typedef struct chunk {
    struct chunk *next;
    selvage_device_t *device; /* that has pinned it; NULL: plain */
    char *memory;
    size_t bytes, used;
    bool stale; /* of a device that has given way */
    bool touched, idle; /* it was used since it was looked at last; it was not for long */
    int64_t since_ns;   /* when it was first found to be neither used nor touched; 0: it is */
} chunk_t;

/* At the beginning of each block; what is given out is UNIT_BYTES on. */
typedef struct header {
    chunk_t *chunk;
    struct header *before;      /* in the chunk */
    struct header *next, *prev; /* in the list of its class, if it is free */
    size_t bytes;               /* with this */
    bool is_free;
} header_t;
_Static_assert(sizeof(header_t) + TAG_BYTES <= UNIT_BYTES, "a header has room, and the tag after it");

/* At the beginning of the memory of a block. Listed: those that have room. */
typedef struct slab {
    struct slab *next, *prev;
    void *free;   /* parts that were given back, each of which begins with the address of the next */
    size_t at;    /* where those begin that nobody has had yet */
    int used;
    int kind;
    bool listed;
} slab_t;

enum { SLAB_HEAD = (sizeof(slab_t) + TAG_BYTES - 1) / TAG_BYTES * TAG_BYTES };

/* Chunks of one kind. */
typedef struct arena {
    chunk_t *chunks;
    header_t *free[CLASSES];
    uint64_t has[WORDS]; /* a bit for each class that has any */
    size_t bytes;
} pool_t;

static struct {
    pthread_mutex_t lock;
    pool_t pinned, plain;
    size_t most;        /* the most that could be pinned; 0: not known */
    int reshapes;
    _Atomic int plains; /* chunks that are plain */
    sv_drop_pieces_t *pieces;   /* at rest */
    bool pieces_touched, pieces_idle; /* as a chunk's */
    int64_t pieces_since_ns;
    slab_t *slabs[PART_KINDS];  /* pinned, with room */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- lengths ------------------------------------------------------------------------------------------------------ */

/* The class of blocks that are at least so long and shorter than those of the next one. */
static int block_class_of(size_t bytes)
{
    const int shift = 63 - __builtin_clzll(bytes);
    return (shift - FIRST_SHIFT) * STEPS + (int)(bytes >> (shift - 3) & (STEPS - 1));
}
_Static_assert(STEPS == 1 << 3, "a step is an eighth");

/* Rounded up to the least length of a class. */
static size_t round_to_class(size_t bytes)
{
    bytes = (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    const size_t step = (size_t)1 << (63 - __builtin_clzll(bytes) - 3);
    return step > UNIT_BYTES ? (bytes + step - 1) / step * step : bytes;
}

/* --- blocks; the caller has the lock ------------------------------------------------------------------------------ */

static void list_free(pool_t *arena, header_t *header)
{
    const int kind = block_class_of(header->bytes);
    header->is_free = true;
    header->prev = NULL;
    header->next = arena->free[kind];
    if (header->next)
        header->next->prev = header;
    arena->free[kind] = header;
    arena->has[kind / 64] |= UINT64_C(1) << kind % 64;
}

static void unlist_free(pool_t *arena, header_t *header)
{
    const int kind = block_class_of(header->bytes);
    header->is_free = false;
    *(header->prev ? &header->prev->next : &arena->free[kind]) = header->next;
    if (header->next)
        header->next->prev = header->prev;
    if (!arena->free[kind])
        arena->has[kind / 64] &= ~(UINT64_C(1) << kind % 64);
}

static header_t *next_block(const header_t *header)
{
    char *end = (char *)(uintptr_t)header + header->bytes;
    return end < header->chunk->memory + header->chunk->bytes ? (header_t *)(void *)end : NULL;
}

/* Cuts a block after so many bytes. Returns the rest, which is in no list. */
static header_t *split_block(header_t *header, size_t bytes)
{
    header_t *rest = (header_t *)(void *)((char *)header + bytes), *next = next_block(header);
    *rest = (header_t){.chunk = header->chunk, .before = header, .bytes = header->bytes - bytes};
    if (next)
        next->before = rest;
    header->bytes = bytes;
    return rest;
}

/* A block of so many bytes, or NULL if there is none so long. */
static header_t *take_block(pool_t *arena, size_t bytes)
{
    /* The first class from its own on that has a free one. */
    const int kind = block_class_of(bytes);
    uint64_t bits = arena->has[kind / 64] & (UINT64_MAX << kind % 64);
    int word = kind / 64;
    while (bits == 0 && ++word < WORDS)
        bits = arena->has[word];
    if (bits == 0)
        return NULL;
    header_t *header = arena->free[word * 64 + __builtin_ctzll(bits)];
    unlist_free(arena, header);
    /* The rest of a longer block stays free. */
    if (header->bytes >= bytes + 2 * UNIT_BYTES)
        list_free(arena, split_block(header, bytes));
    header->chunk->used += header->bytes;
    header->chunk->touched = true;
    return header;
}

/* The second block, which comes after the first, becomes a part of it. */
static void join_blocks(header_t *first, const header_t *second)
{
    first->bytes += second->bytes;
    header_t *next = next_block(first);
    if (next)
        next->before = first;
}

static void give_block(pool_t *arena, header_t *header)
{
    header_t *next = next_block(header), *before = header->before;
    header->chunk->used -= header->bytes;
    if (header->chunk->stale)
        return;
    if (next && next->is_free) {
        unlist_free(arena, next);
        join_blocks(header, next);
    }
    if (before && before->is_free) {
        unlist_free(arena, before);
        join_blocks(before, header);
        header = before;
    }
    list_free(arena, header);
}

/* --- chunks; the caller has the lock ------------------------------------------------------------------------------ */

/* False: there is no such memory. dev NULL: it is plain. */
static bool add_chunk(pool_t *arena, selvage_device_t *dev, size_t bytes)
{
    chunk_t *chunk = calloc(1, sizeof *chunk);
    void *memory = NULL;
    if (!chunk || (dev ? selvage_device_host_malloc(dev, bytes, &memory) != SELVAGE_SUCCESS
                       : posix_memalign(&memory, HUGE_PAGE, bytes) != 0)) {
        free(chunk);
        return false;
    }
    if (!dev)
        (void)madvise(memory, bytes, MADV_HUGEPAGE); /* else the first use of it takes longer than a copy */
    *chunk = (chunk_t){.next = arena->chunks, .device = dev, .memory = memory, .bytes = bytes};
    arena->chunks = chunk;
    arena->bytes += bytes;
    if (!dev)
        atomic_fetch_add_explicit(&pool.plains, 1, memory_order_relaxed);
    header_t *header = memory;
    *header = (header_t){.chunk = chunk, .bytes = bytes};
    list_free(arena, header);
    return true;
}

/* The chunk has given out nothing. */
static void free_chunk(pool_t *arena, chunk_t *chunk)
{
    chunk_t **at = &arena->chunks;
    while (*at != chunk)
        at = &(*at)->next;
    *at = chunk->next;
    if (!chunk->stale) {
        unlist_free(arena, (header_t *)(void *)chunk->memory);
        arena->bytes -= chunk->bytes;
    }
    if (chunk->device)
        selvage_device_host_free(chunk->device, chunk->memory);
    else {
        atomic_fetch_sub_explicit(&pool.plains, 1, memory_order_relaxed);
        free(chunk->memory);
    }
    free(chunk);
}

/* As much again as there is, but no very short or very long chunk, and at least as much as is asked for. */
static size_t chunk_bytes(const pool_t *arena, size_t bytes)
{
    size_t more = arena->bytes < LEAST_CHUNK ? LEAST_CHUNK : arena->bytes < MOST_CHUNK ? arena->bytes : MOST_CHUNK;
    more = more > bytes ? more : bytes;
    return (more + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* False: no more is to be pinned, or can be. */
static bool grow_pinned(selvage_device_t *dev, size_t bytes)
{
    pool_t *arena = &pool.pinned;
    const size_t set = (size_t)sv_drop_settings()->pool_bytes;
    const size_t most = (pool.most && pool.most < set ? pool.most : set) / UNIT_BYTES * UNIT_BYTES;
    size_t unused = 0;
    if (bytes > most)
        return false;
    /* If the bound does not allow it, unused chunks are given up until it does. This happens RESHAPES_MAX times at
       most, and only if these chunks are enough. */
    if (arena->bytes > most - bytes) {
        for (const chunk_t *at = arena->chunks; at; at = at->next)
            unused += at->used || at->stale ? 0 : at->bytes;
        if (arena->bytes - unused > most - bytes || pool.reshapes == RESHAPES_MAX)
            return false;
        pool.reshapes++;
        for (chunk_t *at = arena->chunks, *next; at && arena->bytes > most - bytes; at = next) {
            next = at->next;
            if (!at->used && !at->stale)
                free_chunk(arena, at);
        }
    }
    /* The last chunk takes all that is left of the bound, so that there are few. */
    const size_t left = most - arena->bytes, wanted = chunk_bytes(arena, bytes), more = wanted < left ? wanted : left;
    if (add_chunk(arena, dev, more) || (more > bytes && add_chunk(arena, dev, bytes)))
        return true;
    pool.most = arena->bytes ? arena->bytes : 1;
    sv_drop_warn("no more than %zu bytes of memory can be pinned: messages beyond that take longer: %s", arena->bytes,
                 selvage_error_detail());
    return false;
}

/* NULL: no more can be pinned, or is to be. */
static header_t *take_pinned(selvage_device_t *dev, size_t needed)
{
    header_t *header = take_block(&pool.pinned, needed);
    if (!header && grow_pinned(dev, needed))
        header = take_block(&pool.pinned, needed);
    return header;
}

/* --- slabs; the caller has the lock ------------------------------------------------------------------------------- */

static slab_t **word_before(void *ptr)
{
    return (slab_t **)ptr - 1;
}

/* The memory of a block that is given out as a whole. */
static void *memory_of(header_t *header)
{
    char *memory = (char *)header + UNIT_BYTES;
    *word_before(memory) = NULL;
    return memory;
}

static void list_slab(slab_t *slab)
{
    slab->prev = NULL;
    slab->next = pool.slabs[slab->kind];
    if (slab->next)
        slab->next->prev = slab;
    pool.slabs[slab->kind] = slab;
    slab->listed = true;
}

static void unlist_slab(slab_t *slab)
{
    if (!slab->listed)
        return;
    *(slab->prev ? &slab->prev->next : &pool.slabs[slab->kind]) = slab->next;
    if (slab->next)
        slab->next->prev = slab->prev;
    slab->listed = false;
}

/* NULL: there is no such memory. */
static void *take_part(selvage_device_t *dev, size_t bytes)
{
    int kind = 0;
    while ((size_t)1 << (PART_SHIFT + kind) < bytes + TAG_BYTES)
        kind++;
    const size_t each = (size_t)1 << (PART_SHIFT + kind);
    slab_t *slab = pool.slabs[kind];
    if (!slab) {
        header_t *header = take_pinned(dev, round_to_class(SLAB_BYTES + UNIT_BYTES));
        if (!header)
            return NULL;
        slab = memory_of(header);
        *slab = (slab_t){.kind = kind, .at = SLAB_HEAD};
        list_slab(slab);
    }
    char *part = slab->free;
    if (part) {
        memcpy(&slab->free, part, sizeof slab->free);
    } else {
        part = (char *)slab + slab->at;
        slab->at += each;
    }
    slab->used++;
    if (!slab->free && slab->at + each > SLAB_BYTES)
        unlist_slab(slab);
    *word_before(part + TAG_BYTES) = slab;
    return part + TAG_BYTES;
}

/* --- staging memory ----------------------------------------------------------------------------------------------- */

static void *take_staging(size_t bytes, selvage_device_t *dev)
{
    if (bytes > SIZE_MAX >> 18)
        sv_drop_fatal("no memory", "a buffer of a length that no address has");
    const size_t needed = round_to_class(bytes + UNIT_BYTES);
    pthread_mutex_lock(&pool.lock);
    void *part = dev && bytes <= PART_MOST ? take_part(dev, bytes) : NULL;
    header_t *header = dev && !part ? take_pinned(dev, needed) : NULL;
    if (!header && !part)
        header = take_block(&pool.plain, needed);
    if (!header && !part && add_chunk(&pool.plain, NULL, chunk_bytes(&pool.plain, needed)))
        header = take_block(&pool.plain, needed);
    pthread_mutex_unlock(&pool.lock);
    if (part)
        return part;
    if (!header)
        sv_drop_fatal("no memory", "for a message");
    return memory_of(header);
}

void *sv_drop_staging(size_t bytes)
{
    return take_staging(bytes, sv_drop_device());
}

void *sv_drop_staging_plain(size_t bytes)
{
    return take_staging(bytes, NULL);
}

void *sv_drop_staging_on(selvage_device_t *dev, size_t bytes)
{
    return take_staging(bytes, dev);
}

void sv_drop_staging_trim(void *ptr, size_t bytes)
{
    const size_t kept = round_to_class(bytes + UNIT_BYTES);
    pthread_mutex_lock(&pool.lock);
    header_t *header = (header_t *)(void *)((char *)ptr - UNIT_BYTES);
    if (!*word_before(ptr) && !header->chunk->stale && header->bytes >= kept + 2 * UNIT_BYTES)
        give_block(header->chunk->device ? &pool.pinned : &pool.plain, split_block(header, kept));
    pthread_mutex_unlock(&pool.lock);
}

void sv_drop_unstage(void *ptr)
{
    if (!ptr)
        return;
    pthread_mutex_lock(&pool.lock);
    slab_t *slab = *word_before(ptr);
    header_t *header = (header_t *)(void *)((char *)(slab ? slab : ptr) - UNIT_BYTES);
    chunk_t *chunk = header->chunk;
    pool_t *arena = chunk->device ? &pool.pinned : &pool.plain;
    if (slab) {
        char *part = (char *)ptr - TAG_BYTES;
        memcpy(part, &slab->free, sizeof slab->free);
        slab->free = part;
        if (--slab->used > 0) {
            if (!slab->listed && !chunk->stale)
                list_slab(slab);
            pthread_mutex_unlock(&pool.lock);
            return;
        }
        unlist_slab(slab); /* and with its last part its block is given back */
    }
    give_block(arena, header);
    if (chunk->used == 0 && (chunk->stale || (!chunk->device && arena->bytes > (size_t)sv_drop_settings()->pool_bytes)))
        free_chunk(arena, chunk);
    pthread_mutex_unlock(&pool.lock);
}

bool sv_drop_is_plain(const void *ptr)
{
    bool found = false;
    /* Whoever has a block of a plain chunk sees that there is one. */
    if (atomic_load_explicit(&pool.plains, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&pool.lock);
    for (const chunk_t *at = pool.plain.chunks; at && !found; at = at->next)
        found = (const char *)ptr >= at->memory && (const char *)ptr < at->memory + at->bytes;
    pthread_mutex_unlock(&pool.lock);
    return found;
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

sv_drop_pieces_t *sv_drop_pieces_take(void)
{
    selvage_device_t *dev = sv_drop_device();
    const size_t each = (size_t)sv_drop_settings()->piece_bytes;
    void *memory = NULL;
    pthread_mutex_lock(&pool.lock);
    sv_drop_pieces_t *pieces = pool.pieces;
    pool.pieces_touched = true;
    if (pieces)
        pool.pieces = pieces->next;
    pthread_mutex_unlock(&pool.lock);
    if (pieces)
        return pieces;
    if (!(pieces = calloc(1, sizeof *pieces)) || selvage_device_host_malloc(dev, 2 * each, &memory) != SELVAGE_SUCCESS)
        sv_drop_fatal("no pinned memory", selvage_error_detail());
    *pieces = (sv_drop_pieces_t){.device = dev, .memory = {memory, (char *)memory + each}, .bytes = each};
    return pieces;
}

static void free_piece(sv_drop_pieces_t *pieces)
{
    selvage_device_host_free(pieces->device, pieces->memory[0]);
    free(pieces);
}

void sv_drop_pieces_give(sv_drop_pieces_t *pieces)
{
    if (pieces->device != sv_drop_device()) { /* that one has given way */
        free_piece(pieces);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    pieces->next = pool.pieces;
    pool.pieces = pieces;
    pthread_mutex_unlock(&pool.lock);
}

static void free_pieces_at_rest(void)
{
    while (pool.pieces) {
        sv_drop_pieces_t *pieces = pool.pieces;
        pool.pieces = pieces->next;
        free_piece(pieces);
    }
}

/* --- what is idle ------------------------------------------------------------------------------------------------- */

/* Whether what is not in use now, and was not touched since the last look, has not been for long. */
static bool is_idle_since(bool used, bool *touched, int64_t *since_ns, int64_t now_ns)
{
    const bool active = used || *touched;
    *touched = false;
    *since_ns = active ? 0 : *since_ns ? *since_ns : now_ns;
    return !active && now_ns - *since_ns >= sv_drop_settings()->idle_ns;
}

/* The first pinned chunk stays, if it is short: most programs go on with a little. */
static bool find_idle_chunks(const pool_t *arena, int64_t now_ns)
{
    bool any = false;
    for (chunk_t *at = arena->chunks; at; at = at->next) {
        at->idle = is_idle_since(at->used > 0 || at->stale, &at->touched, &at->since_ns, now_ns) &&
                   (!at->device || at->next || at->bytes > LEAST_CHUNK);
        any = any || at->idle;
    }
    return any;
}

bool sv_drop_pool_has_idle(int64_t now_ns)
{
    pthread_mutex_lock(&pool.lock);
    const bool pinned = find_idle_chunks(&pool.pinned, now_ns), plain = find_idle_chunks(&pool.plain, now_ns);
    pool.pieces_idle = is_idle_since(!pool.pieces, &pool.pieces_touched, &pool.pieces_since_ns, now_ns);
    const bool any = pinned || plain || pool.pieces_idle;
    pthread_mutex_unlock(&pool.lock);
    return any;
}

static void free_idle_chunks(pool_t *arena)
{
    for (chunk_t *at = arena->chunks, *next; at; at = next) {
        next = at->next;
        if (at->idle && !at->used && !at->touched && !at->stale)
            free_chunk(arena, at);
    }
}

void sv_drop_pool_free_idle(void)
{
    pthread_mutex_lock(&pool.lock);
    free_idle_chunks(&pool.pinned);
    free_idle_chunks(&pool.plain);
    if (pool.pieces_idle && !pool.pieces_touched)
        free_pieces_at_rest();
    pthread_mutex_unlock(&pool.lock);
}

/* --- the end of a device ------------------------------------------------------------------------------------------ */

void sv_drop_pool_empty(selvage_device_t *dev)
{
    pool_t *arena = &pool.pinned;
    pthread_mutex_lock(&pool.lock);
    for (int kind = 0; kind < PART_KINDS; kind++)
        while (pool.slabs[kind])
            unlist_slab(pool.slabs[kind]);
    for (chunk_t *at = arena->chunks, *next; at; at = next) {
        next = at->next;
        if (at->device != dev || at->stale)
            continue;
        for (header_t *header = (header_t *)(void *)at->memory; header; header = next_block(header))
            if (header->is_free)
                unlist_free(arena, header);
        at->stale = true;
        arena->bytes -= at->bytes;
        if (at->used == 0)
            free_chunk(arena, at);
    }
    free_pieces_at_rest();
    pthread_mutex_unlock(&pool.lock);
}
