/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file orders the sends and receives of a group, in rounds (j, k). The j-th send to rank me + k goes with the j-th
 * receive from rank me - k, both modulo n; k = 0 is a copy. Where both go the same way they are one piece of work. Else
 * they are two, in the order of a number that is made from the message alone (coll_work.c). So the two ends of a
 * message find the same place for it, (j, k, number), without knowing what else the other end does. Every rank works
 * through its places in ascending order, one after another on each channel. The least place that is not over is the
 * next one of all ranks that are in it, and nobody waits for a later one: a group that matches comes to an end.
 *
 * The lists live as long as the launch; the application's one thread uses them.
 */
#include "base/base_status.h"
#include "collective/coll_parts.h"

enum { NONE = 0xffff };

/* Messages to itself have both ends here, where a mistake would leave one of them waiting. */
static selvage_status_t check_own(const sv_coll_pairs_t *pairs)
{
    unsigned send = pairs->head[1][0], recv = pairs->head[0][0];
    for (; send != NONE && recv != NONE; send = pairs->next[send], recv = pairs->next[recv]) {
        const sv_coll_call_t *s = &pairs->calls[send], *r = &pairs->calls[recv];
        if (s->count != r->count || s->type != r->type)
            return sv_error(SELVAGE_ERR_ARGUMENT, "a send of %llu %s to the own rank meets a receive of %llu %s",
                            (unsigned long long)s->count, selvage_type_name(s->type), (unsigned long long)r->count,
                            selvage_type_name(r->type));
        uint64_t bytes = s->count * selvage_type_bytes(s->type);
        uintptr_t from = (uintptr_t)s->send, to = (uintptr_t)r->recv;
        if (from != to && from < to + bytes && to < from + bytes)
            return sv_error(SELVAGE_ERR_ARGUMENT, "a message of %llu bytes to the own rank overlaps itself",
                            (unsigned long long)bytes);
    }
    if (send != recv)
        return sv_error(SELVAGE_ERR_ARGUMENT, "a %s rank %u itself has no partner in the same group",
                        send != NONE ? "send to" : "receive from", pairs->me);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_pairs_begin(sv_coll_pairs_t *pairs, const sv_coll_call_t *calls, unsigned ncalls, unsigned n,
                                     unsigned me)
{
    pairs->calls = calls;
    pairs->n = n;
    pairs->me = me;
    pairs->distance = pairs->left = 0;
    for (unsigned k = 0; k < n; k++)
        pairs->head[0][k] = pairs->head[1][k] = NONE;
    for (unsigned i = 0; i < ncalls; i++) {
        if (calls[i].call != SV_COLL_PAIR)
            continue;
        unsigned other = (unsigned)calls[i].root, is_send = calls[i].is_send;
        unsigned distance = (is_send ? other + n - me : me + n - other) % n;
        pairs->next[i] = NONE;
        if (pairs->head[is_send][distance] == NONE)
            pairs->head[is_send][distance] = (uint16_t)i;
        else
            pairs->next[pairs->tail[is_send][distance]] = (uint16_t)i;
        pairs->tail[is_send][distance] = (uint16_t)i;
        pairs->left++;
    }
    return check_own(pairs);
}

static const sv_coll_call_t *take_pair(sv_coll_pairs_t *pairs, bool is_send)
{
    uint16_t *head = &pairs->head[is_send][pairs->distance];
    if (*head == NONE)
        return NULL;
    const sv_coll_call_t *call = &pairs->calls[*head];
    *head = pairs->next[*head];
    pairs->left--;
    return call;
}

bool sv_coll_pairs_next(sv_coll_pairs_t *pairs, const sv_coll_call_t **send_out, const sv_coll_call_t **recv_out)
{
    bool found = false;
    while (!found && pairs->left > 0) {
        *send_out = take_pair(pairs, true);
        *recv_out = take_pair(pairs, false);
        found = *send_out || *recv_out;
        pairs->distance = (pairs->distance + 1) % pairs->n;
    }
    return found;
}
