/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Split collective calls on files with device memory. MPI_File_..._begin gave MPI pinned memory. It is kept here, by
 * file and by the program's buffer, until the matching _end. MPI allows one such call at a time for each file. So a
 * second one for the same handle means that the first one's file was closed, and its handle given out again. Files
 * whose calls have host memory are not in the list.
 *
 * Any thread. The lock of requests guards the list, which owns each call until its _end takes it.
 */
#include "interpose/drop_split.h"

#include <stdlib.h>

struct sv_drop_split {
    sv_drop_split_t *next;
    MPI_File file;
    sv_drop_call_t call;
};

static sv_drop_split_t *splits;
static _Atomic int open_splits;

static sv_drop_split_t *take_out(sv_drop_split_t **at)
{
    sv_drop_split_t *split = *at;
    *at = split->next;
    atomic_fetch_sub_explicit(&open_splits, 1, memory_order_relaxed);
    return split;
}

static void end_split(sv_drop_split_t *split)
{
    sv_drop_call_end(&split->call);
    free(split);
}

void sv_drop_split_keep(const sv_drop_call_t *call, MPI_File file)
{
    sv_drop_split_t *made = malloc(sizeof *made);
    if (!made)
        sv_drop_fatal("no memory", call->name);
    sv_drop_lock();
    /* MPI has begun another one, so that it uses nothing else any more that is here for this file. */
    for (sv_drop_split_t **at = &splits; *at;) {
        if ((*at)->file == file)
            end_split(take_out(at));
        else
            at = &(*at)->next;
    }
    *made = (sv_drop_split_t){splits, file, *call};
    sv_drop_call_hold(&made->call);
    splits = made;
    atomic_fetch_add_explicit(&open_splits, 1, memory_order_relaxed);
    sv_drop_unlock();
}

sv_drop_split_t *sv_drop_split_take(MPI_File file, const void *buf)
{
    sv_drop_split_t *found = NULL;
    if (atomic_load_explicit(&open_splits, memory_order_relaxed) == 0)
        return NULL;
    sv_drop_lock();
    for (sv_drop_split_t **at = &splits; *at && !found;) {
        if ((*at)->file == file && (*at)->call.buffer[0].user == buf)
            found = take_out(at);
        else
            at = &(*at)->next;
    }
    sv_drop_unlock();
    return found;
}

void *sv_drop_split_memory(const sv_drop_split_t *split, const void *buf)
{
    return split ? sv_drop_address(&split->call.buffer[0]) : (void *)(uintptr_t)buf;
}

int sv_drop_split_end(sv_drop_split_t *split, int code)
{
    if (!split)
        return code;
    if (code == MPI_SUCCESS)
        sv_drop_unstage_call(&split->call, NULL);
    end_split(split);
    return code;
}

int sv_drop_splits_end(void)
{
    int left = 0;
    sv_drop_lock();
    for (; splits; left++)
        end_split(take_out(&splits));
    sv_drop_unlock();
    return left;
}
