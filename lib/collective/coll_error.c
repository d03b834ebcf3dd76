/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of an arena are sticky. The kernel's first record lies in pinned memory and never changes once its kind is
 * there; everybody who asks makes the text from it anew. So any thread may ask without a lock, and the first one logs
 * it. Without a record there is a status only, of an abort that met no kernel, or a status and a text, of the part of a
 * call between nodes. The arena owns all of it.
 */
#include <string.h>

#include "base/base_status.h"
#include "base/base_thread.h"
#include "collective/coll_parts.h"

/* Keeps the first status; true if this one is it. */
static bool keep_first_error(sv_coll_arena_t *arena, selvage_status_t status)
{
    selvage_status_t none = SELVAGE_SUCCESS;
    return __atomic_compare_exchange_n(&arena->broken, &none, status, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

selvage_status_t sv_coll_check(selvage_coll_t *coll)
{
    sv_coll_arena_t *arena = coll->arena;
    /* The engine's comes before that of kernels which it has ended. Partner: the release in sv_coll_note_failure(). */
    if (__atomic_load_n(&arena->has_broken_text, __ATOMIC_ACQUIRE))
        return sv_error_quiet(__atomic_load_n(&arena->broken, __ATOMIC_RELAXED), "%s", arena->broken_text);
    /* Partner: the release in the kernel that recorded the error. */
    if (__atomic_load_n(&arena->pinned->error.kind, __ATOMIC_ACQUIRE) != SV_COLL_FINE) {
        char text[SV_DETAIL_BYTES];
        selvage_status_t status = sv_coll_error_text(&arena->pinned->error, text, sizeof text);
        if (keep_first_error(arena, status))
            return sv_error(status, "%s", text);
        return sv_error_quiet(__atomic_load_n(&arena->broken, __ATOMIC_ACQUIRE), "%s", text);
    }
    selvage_status_t broken = __atomic_load_n(&arena->broken, __ATOMIC_ACQUIRE);
    if (broken == SELVAGE_SUCCESS)
        return SELVAGE_SUCCESS;
    return sv_error_quiet(broken, "collectives of this communicator have ended: %s", selvage_status_string(broken));
}

void sv_coll_note_failure(sv_coll_arena_t *arena, selvage_status_t status)
{
    if (!keep_first_error(arena, status))
        return;
    memcpy(arena->broken_text, sv_thread_detail(), sizeof arena->broken_text);
    /* Partner: the acquire in sv_coll_check(), on any thread. */
    __atomic_store_n(&arena->has_broken_text, true, __ATOMIC_RELEASE);
}

void sv_coll_abort(selvage_coll_t *coll)
{
    keep_first_error(coll->arena, SELVAGE_ERR_ABORTED);
    /* Partner: the kernel's waits, which then end and tell the other ranks. */
    __atomic_store_n(&coll->arena->pinned->host_stop, 1, __ATOMIC_RELEASE);
}
