/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows are user memory that the ranks of a communicator on this node have mapped. All ranks use one number for a
 * window, the first that is free on all of them. The table of a rank says where the windows of the others lie here. An
 * entry is 0 until all have mapped the window, and 0 again before anybody lets go of it. Entries change while kernels
 * run, but never those that a kernel may look at: only calls after the registration tell the number, and unregistering
 * waits for all.
 *
 * One thread at a time is inside. The user owns the memory and the window; the window owns its mappings.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_setup.h"
#include "host/memory_kind.h"

enum { ITEM_OFFSET, ITEM_USED, ITEM_BYTES };

typedef struct window_task {
    selvage_coll_t *coll;
    uint8_t *ptr;
    size_t bytes;
    selvage_window_t *window;
} window_task_t;

uint64_t sv_coll_window_find(const selvage_coll_t *coll, const void *ptr, uint64_t bytes)
{
    const sv_list_t *windows = &coll->arena->windows;
    for (const sv_list_t *it = windows->next; it != windows; it = it->next) {
        const selvage_window_t *window = SV_CONTAINER_OF(it, selvage_window_t, link);
        uint64_t offset = (uint64_t)((uintptr_t)ptr - (uintptr_t)window->ptr);
        if (offset < window->bytes && bytes <= window->bytes - offset && (coll->members & ~window->members) == 0)
            return (uint64_t)window->number << 48 | offset;
    }
    return 0;
}

/* Gives the device the table as the host has it. */
static selvage_status_t upload_table(sv_coll_arena_t *arena)
{
    _Static_assert(sizeof arena->window_base <= SV_COLL_SCRATCH_BYTES, "the table is copied at once");
    return sv_coll_upload(arena, arena->priv->window, arena->window_base, sizeof arena->window_base);
}

static uint64_t *entry_of(sv_coll_arena_t *arena, uint32_t rank, unsigned number)
{
    return &arena->window_base[rank * SV_COLL_WINDOW_NUMBERS + number];
}

/* Takes the window out of the tables and lets go of peers' memory. */
static void unmap_window(sv_coll_arena_t *arena, selvage_window_t *window)
{
    for (uint32_t peer = 0; peer < arena->nranks; peer++)
        *entry_of(arena, peer, window->number) = 0;
    (void)upload_table(arena); /* a device that fails here has no more kernels to read it */
    for (uint32_t peer = 0; peer < arena->nranks; peer++) {
        sv_transfer_unmap(window->mapping[peer]);
        window->mapping[peer] = NULL;
    }
    arena->windows_used &= ~(UINT64_C(1) << window->number);
    sv_list_remove(&window->link);
}

void sv_coll_withdraw_windows(sv_coll_arena_t *arena, const selvage_coll_t *coll)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &arena->windows) {
        selvage_window_t *window = SV_CONTAINER_OF(it, selvage_window_t, link);
        if (coll && window->coll != coll)
            continue;
        unmap_window(arena, window);
        window->coll = NULL;
        window->arena = NULL;
        if (!coll || window->is_own)
            sv_free(window);
    }
}

/* From the items of all: the first number that is free on every rank. */
static selvage_status_t pick_number(const sv_team_t *team, unsigned *number_out)
{
    uint64_t used = 0;
    for (int r = 0; r < team->size; r++)
        used |= sv_gather_item_of(team, r)->value[ITEM_USED];
    for (unsigned number = 1; number < SV_COLL_WINDOWS; number++)
        if (!(used >> number & 1)) {
            *number_out = number;
            return SELVAGE_SUCCESS;
        }
    return sv_error(SELVAGE_ERR_LIMIT, "selvage_coll_register: all %d windows of this communicator are in use",
                    SV_COLL_WINDOWS - 1);
}

static selvage_status_t open_windows(selvage_coll_t *coll, selvage_window_t *window)
{
    selvage_comm_t *comm = coll->comm;
    sv_coll_arena_t *arena = coll->arena;
    const sv_team_t *team = sv_coll_node_team(coll);
    for (int r = 0; r < team->size; r++) {
        const sv_gather_item_t *item = sv_gather_item_of(team, r);
        uint32_t peer = coll->dev.member[r];
        uint64_t *entry = entry_of(arena, peer, window->number);
        *entry = (uint64_t)(uintptr_t)window->ptr;
        if (r == team->me)
            continue;
        *entry = 0;
        sv_transfer_mapping_t **mapping = &window->mapping[peer];
        const sv_transfer_memory_t place = {.peer = team->ranks[r], .handle = &item->handle,
                                            .offset = item->value[ITEM_OFFSET], .bytes = item->value[ITEM_BYTES]};
        SV_TRY(sv_transfer_map(&comm->mappings, comm->dev, &place, mapping));
        *entry = (uint64_t)(uintptr_t)(*mapping)->base + item->value[ITEM_OFFSET];
    }
    return upload_table(arena);
}

static selvage_status_t run_window_register(void *arg)
{
    window_task_t *call = arg;
    selvage_coll_t *coll = call->coll;
    sv_team_t *team = sv_coll_node_team(coll);
    sv_coll_arena_t *arena = coll->arena;
    sv_device_t *dev = coll->comm->dev;
    const double timeout_s = coll->comm->timeout_s;
    selvage_window_t *window = NULL;
    /* 1. Tell all the handle of the memory; one rank alone needs none, so any memory will do. */
    sv_gather_item_t *item = sv_gather_item_begin(team);
    item->value[ITEM_USED] = arena->windows_used;
    item->value[ITEM_BYTES] = call->bytes;
    selvage_status_t status = sv_calloc(1, sizeof *window, &window);
    if (status == SELVAGE_SUCCESS) {
        *window = (selvage_window_t){.coll = coll, .arena = arena, .ptr = call->ptr, .bytes = call->bytes,
                                     .members = coll->members};
        sv_list_init(&window->link);
        if (coll->dev.n > 1)
            status = SV_DEVICE_CALL(dev, export_memory, call->ptr, call->bytes, &item->handle,
                                    &item->value[ITEM_OFFSET]);
        if (status == SELVAGE_ERR_UNSUPPORTED)
            status = sv_error(status, "selvage_coll_register: %zu bytes at %p cannot be exported to the ranks of the "
                              "node: this is %s; leave it unregistered: collectives copy through the arena",
                              call->bytes, (void *)call->ptr,
                              sv_memory_kind_text(sv_memory_kind(dev, call->ptr, call->bytes)));
    }
    SV_TRY_GOTO(status, sv_gather(team, "selvage_coll_register", coll->number, status, timeout_s), fail);
    /* 2. Map the memory of all; the window is there once all have. */
    SV_TRY_GOTO(status, pick_number(team, &window->number), fail);
    arena->windows_used |= UINT64_C(1) << window->number;
    status = open_windows(coll, window);
    status = sv_gather(team, "selvage_coll_register: mapping", window->number, status, timeout_s);
    if (status == SELVAGE_SUCCESS) {
        sv_list_append(&arena->windows, &window->link);
        call->window = window;
        return status;
    }
    unmap_window(arena, window); /* and nobody leaves before all have, because users free their memory then */
    (void)sv_gather(team, "selvage_coll_register: unmapping", window->number, SELVAGE_SUCCESS, timeout_s);
fail:
    sv_free(window);
    return status;
}

selvage_status_t sv_coll_window_own(selvage_coll_t *coll, void *ptr, size_t bytes)
{
    window_task_t call = {.coll = coll, .ptr = ptr, .bytes = bytes};
    if (sv_coll_window_find(coll, ptr, bytes))
        return SELVAGE_SUCCESS;
    SV_TRY(run_window_register(&call));
    call.window->is_own = true;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_register(selvage_coll_t *coll, void *ptr, size_t bytes, selvage_window_t **window_out)
{
    window_task_t call = {.coll = coll, .ptr = ptr, .bytes = bytes};
    sv_coll_queue_wait(coll->arena);
    SV_TRY(sv_comm_run(coll->comm, run_window_register, &call));
    *window_out = call.window;
    return SELVAGE_SUCCESS;
}

/* The gathering is after letting go, so that the user's memory is his alone again when the call returns. */
static selvage_status_t run_window_unregister(void *arg)
{
    window_task_t *call = arg;
    selvage_coll_t *coll = call->coll;
    selvage_status_t status = SELVAGE_SUCCESS;
    unsigned number = call->window->number;
    if (coll->arena->stuck)
        status = sv_error(SELVAGE_ERR_TIMEOUT, "selvage_coll_unregister: a kernel of this rank does not end");
    else
        unmap_window(coll->arena, call->window);
    return sv_gather(sv_coll_node_team(coll), "selvage_coll_unregister", number, status, coll->comm->timeout_s);
}

selvage_status_t sv_coll_unregister(selvage_window_t *window)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    if (!window)
        return status;
    if (window->coll) {
        window_task_t call = {.coll = window->coll, .window = window};
        sv_coll_queue_wait(window->arena);
        sv_coll_arena_drain(window->arena);
        status = sv_comm_run(window->coll->comm, run_window_unregister, &call);
    }
    if (!window->arena || !window->arena->stuck)
        sv_free(window);
    return status;
}
