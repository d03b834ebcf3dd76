/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the software device.
 *
 * Device memory comes from mappings, so that other processes of the node can map it. Small pieces share a slab, because
 * each mapping costs a descriptor. A large one has a mapping of its own, which is a slab with one piece. A slab's
 * pieces are a list in order of address. Free neighbours are joined, and an empty slab is given back.
 *
 * One table, part of the device registry, serves all devices of the process: they see each other's memory, as GPUs of
 * one process do. Its mutex makes every call here safe for any thread. None of them is hot.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_list.h"
#include "base/base_mapping.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "device/soft/soft_priv.h"

#define SLAB_BYTES_MIN ((size_t)1 << 20) /* the first slab; each further one is twice as large */
#define SLAB_BYTES_MAX ((size_t)8 << 20)
#define PIECE_SMALL_MAX ((size_t)1 << 20)

enum { PIECE_ALIGN = 256 };

typedef struct piece {
    struct piece *next;
    size_t offset, bytes;
    bool used;
    uint64_t id;      /* of all pieces that were used */
} piece_t;

typedef struct slab {
    sv_list_t link;
    sv_mapping_t mapping;
    piece_t *pieces;  /* owned; without gaps */
    piece_t *search;  /* where a search for a free piece begins: all before it are used; NULL: all are */
    unsigned used;
    bool small;       /* shared by small pieces */
} slab_t;

/* Memory of somebody else, mapped here once however often it is opened. */
typedef struct opened {
    sv_list_t link;
    sv_mapping_t mapping;
    unsigned users;
} opened_t;

static struct {
    pthread_mutex_t lock;
    sv_list_t slabs, opened;
    uint64_t ids;
} table = {PTHREAD_MUTEX_INITIALIZER, {&table.slabs, &table.slabs}, {&table.opened, &table.opened}, 0};

_Static_assert((int)SV_DEVICE_HANDLE_BYTES == (int)SV_MAPPING_HANDLE_BYTES, "a handle is a mapping's handle");

static selvage_status_t slab_create(size_t bytes, bool small, slab_t **slab_out)
{
    slab_t *slab = NULL;
    selvage_status_t status;
    SV_TRY(sv_calloc(1, sizeof *slab, &slab));
    SV_TRY_GOTO(status, sv_calloc(1, sizeof *slab->pieces, &slab->pieces), fail);
    SV_TRY_GOTO(status, sv_mapping_create(bytes, &slab->mapping), fail);
    slab->pieces->bytes = slab->mapping.bytes;
    slab->search = slab->pieces;
    slab->small = small;
    sv_list_append(&table.slabs, &slab->link);
    *slab_out = slab;
    return SELVAGE_SUCCESS;
fail:
    sv_free(slab->pieces);
    sv_free(slab);
    return status;
}

static void slab_destroy(slab_t *slab)
{
    sv_list_remove(&slab->link);
    sv_mapping_close(&slab->mapping);
    sv_free(slab->pieces);
    sv_free(slab);
}

static slab_t *slab_of(const void *ptr)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &table.slabs) {
        slab_t *slab = SV_CONTAINER_OF(it, slab_t, link);
        if ((uintptr_t)ptr - (uintptr_t)slab->mapping.base < slab->mapping.bytes)
            return slab;
    }
    return NULL;
}

/* The used piece that holds the offset, or NULL; *before_out is the piece in front of it. */
static piece_t *piece_at(slab_t *slab, size_t offset, piece_t **before_out)
{
    *before_out = NULL;
    for (piece_t *piece = slab->pieces; piece; piece = piece->next) {
        if (offset - piece->offset < piece->bytes)
            return piece->used ? piece : NULL;
        *before_out = piece;
    }
    return NULL;
}

/* Joins a free piece with a free one after it. */
static void piece_join(piece_t *piece)
{
    piece_t *next = piece ? piece->next : NULL;
    if (!next || piece->used || next->used)
        return;
    piece->bytes += next->bytes;
    piece->next = next->next;
    sv_free(next);
}

/* Finds a free piece that is large enough, or makes a slab. */
static selvage_status_t find_free_piece(size_t bytes, slab_t **slab_out, piece_t **piece_out)
{
    bool small = bytes <= PIECE_SMALL_MAX;
    size_t slab_bytes = SLAB_BYTES_MIN;
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &table.slabs) {
        slab_t *slab = SV_CONTAINER_OF(it, slab_t, link);
        if (!small || !slab->small)
            continue;
        for (piece_t *piece = slab->search; piece; piece = piece->next) {
            if (!piece->used && piece->bytes >= bytes) {
                *slab_out = slab;
                *piece_out = piece;
                return SELVAGE_SUCCESS;
            }
        }
        slab_bytes = slab_bytes < SLAB_BYTES_MAX ? 2 * slab_bytes : SLAB_BYTES_MAX;
    }
    SV_TRY(slab_create(small ? slab_bytes : bytes, small, slab_out));
    *piece_out = (*slab_out)->pieces;
    return SELVAGE_SUCCESS;
}

selvage_status_t soft_malloc(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    slab_t *slab = NULL;
    piece_t *piece = NULL;
    (void)dev;
    if (bytes > SIZE_MAX / 2)
        return sv_error(SELVAGE_ERR_MEMORY, "soft: %zu bytes of device memory are too many", bytes);
    size_t rounded = bytes ? (bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN : PIECE_ALIGN;
    pthread_mutex_lock(&table.lock);
    selvage_status_t status = find_free_piece(rounded, &slab, &piece);
    if (status == SELVAGE_SUCCESS && piece->bytes > rounded) { /* the rest becomes a piece after it */
        piece_t *rest = NULL;
        status = sv_calloc(1, sizeof *rest, &rest);
        if (status == SELVAGE_SUCCESS) {
            *rest = (piece_t){piece->next, piece->offset + rounded, piece->bytes - rounded, false, 0};
            piece->next = rest;
            piece->bytes = rounded;
        } else if (slab->used == 0) {
            slab_destroy(slab);
        }
    }
    if (status == SELVAGE_SUCCESS) {
        piece->used = true;
        piece->id = ++table.ids;
        slab->used++;
        while (slab->search && slab->search->used)
            slab->search = slab->search->next;
        *ptr_out = (char *)slab->mapping.base + piece->offset;
    }
    pthread_mutex_unlock(&table.lock);
    return status;
}

void soft_free(sv_device_t *dev, void *ptr)
{
    piece_t *before = NULL;
    (void)dev;
    if (!ptr)
        return;
    pthread_mutex_lock(&table.lock);
    slab_t *slab = slab_of(ptr);
    size_t offset = slab ? (size_t)((char *)ptr - (char *)slab->mapping.base) : 0;
    piece_t *piece = slab ? piece_at(slab, offset, &before) : NULL;
    bool is_start = piece && piece->offset == offset;
    if (is_start) {
        piece->used = false;
        if (before && !before->used)
            piece = before;
        if (!slab->search || slab->search->offset > piece->offset)
            slab->search = piece; /* which stays, whatever is joined with it */
        piece_join(piece);
        piece_join(piece);
        if (--slab->used == 0)
            slab_destroy(slab);
    }
    pthread_mutex_unlock(&table.lock);
    if (!is_start)
        (void)sv_error(SELVAGE_ERR_DEVICE, "soft: free of %p, which is no device memory", ptr);
}

selvage_status_t soft_host_malloc(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    void *ptr = NULL;
    (void)dev;
    if (posix_memalign(&ptr, PIECE_ALIGN, bytes ? bytes : PIECE_ALIGN) != 0)
        return sv_error(SELVAGE_ERR_MEMORY, "soft: no %zu bytes of pinned host memory", bytes);
    sv_device_note_pinned();
    *ptr_out = ptr;
    return SELVAGE_SUCCESS;
}

void soft_host_free(sv_device_t *dev, void *ptr)
{
    (void)dev;
    free(ptr);
}

selvage_status_t soft_export_memory(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                                    uint64_t *offset_out)
{
    piece_t *before = NULL;
    (void)dev;
    pthread_mutex_lock(&table.lock);
    slab_t *slab = slab_of(ptr);
    size_t offset = slab ? (size_t)((const char *)ptr - (const char *)slab->mapping.base) : 0;
    const piece_t *piece = slab ? piece_at(slab, offset, &before) : NULL;
    bool inside = piece && bytes <= piece->bytes - (offset - piece->offset);
    if (inside) {
        memcpy(handle_out->bytes, slab->mapping.handle.bytes, sizeof handle_out->bytes);
        *offset_out = offset;
    }
    pthread_mutex_unlock(&table.lock);
    if (!inside)
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "soft: %zu bytes at %p are not within one device allocation",
                              bytes, ptr);
    return SELVAGE_SUCCESS;
}

/* Whatever is not device memory is host memory, and the CPU reaches it. */
sv_memory_kind_t soft_memory_kind(sv_device_t *dev, const void *ptr, size_t bytes)
{
    piece_t *before = NULL;
    sv_memory_kind_t kind = SV_MEMORY_HOST;
    (void)dev;
    pthread_mutex_lock(&table.lock);
    slab_t *slab = slab_of(ptr);
    if (slab) {
        size_t offset = (size_t)((const char *)ptr - (const char *)slab->mapping.base);
        const piece_t *piece = piece_at(slab, offset, &before);
        bool inside = piece && bytes <= piece->bytes - (offset - piece->offset);
        kind = inside ? SV_MEMORY_DEVICE : piece ? SV_MEMORY_SPLIT : SV_MEMORY_FREED;
    }
    pthread_mutex_unlock(&table.lock);
    return kind;
}

uint64_t soft_memory_id(sv_device_t *dev, const void *ptr)
{
    piece_t *before = NULL;
    (void)dev;
    pthread_mutex_lock(&table.lock);
    slab_t *slab = slab_of(ptr);
    const piece_t *piece =
        slab ? piece_at(slab, (size_t)((const char *)ptr - (const char *)slab->mapping.base), &before) : NULL;
    const uint64_t id = piece ? piece->id : 0;
    pthread_mutex_unlock(&table.lock);
    return id;
}

selvage_status_t soft_open_memory(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                  uint64_t *bytes_out)
{
    sv_mapping_handle_t mapping_handle;
    opened_t *opened = NULL;
    sv_list_t *it, *safe;
    selvage_status_t status = SELVAGE_SUCCESS;
    (void)dev;
    memcpy(mapping_handle.bytes, handle->bytes, sizeof mapping_handle.bytes);
    pthread_mutex_lock(&table.lock);
    SV_LIST_FOR_EACH(it, safe, &table.opened) {
        opened_t *known = SV_CONTAINER_OF(it, opened_t, link);
        if (memcmp(&known->mapping.handle, &mapping_handle, sizeof mapping_handle) == 0) {
            opened = known;
            break;
        }
    }
    if (!opened) {
        status = sv_calloc(1, sizeof *opened, &opened);
        if (status == SELVAGE_SUCCESS)
            status = sv_mapping_open(&mapping_handle, &opened->mapping);
        if (status == SELVAGE_SUCCESS)
            sv_list_append(&table.opened, &opened->link);
        else
            sv_free(opened);
    }
    if (status == SELVAGE_ERR_SYSTEM) /* a device has a status of its own for what the operating system refused */
        status = SELVAGE_ERR_DEVICE;
    if (status == SELVAGE_SUCCESS) {
        opened->users++;
        *base_out = opened->mapping.base;
        *bytes_out = opened->mapping.bytes;
    }
    pthread_mutex_unlock(&table.lock);
    return status;
}

void soft_close_memory(sv_device_t *dev, void *base)
{
    sv_list_t *it, *safe;
    (void)dev;
    if (!base)
        return;
    pthread_mutex_lock(&table.lock);
    SV_LIST_FOR_EACH(it, safe, &table.opened) {
        opened_t *opened = SV_CONTAINER_OF(it, opened_t, link);
        if (opened->mapping.base != base)
            continue;
        if (--opened->users == 0) {
            sv_list_remove(&opened->link);
            sv_mapping_close(&opened->mapping);
            sv_free(opened);
        }
        break;
    }
    pthread_mutex_unlock(&table.lock);
}
