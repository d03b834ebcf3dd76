/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that may be bound to other memory between two epochs: see pipe_rebind.h. */
#include "pipeline/pipe_rebind.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "host/memory_kind.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_exchange.h"

static const char *const call_name = "selvage_exchange_rebind";

/* --- declaring ---------------------------------------------------------------------------------------------------- */

selvage_status_t sv_rebind_declare(selvage_exchange_t *x, const sv_bound_t *bound, uint32_t *base_out)
{
    sv_rebind_state_t *state = &x->rebind;
    sv_bound_t *larger;
    if (state->count == state->room) {
        const uint32_t wanted = state->room ? 2 * state->room : 8;
        SV_TRY(sv_calloc(wanted, sizeof *larger, &larger));
        if (state->count)
            memcpy(larger, state->bound, state->count * sizeof *larger);
        sv_free(state->bound);
        state->bound = larger;
        state->room = wanted;
    }
    state->bound[state->count++] = *bound;
    *base_out = state->count; /* base 0 is the address 0 */
    return SELVAGE_SUCCESS;
}

/* Two boxes, of whole units of 16 bytes and of what is left: one would have to be moved in units that divide both. */
static selvage_status_t make_run_layout(uint32_t base, int64_t low, uint64_t bytes, sv_layout_t **layout_out)
{
    sv_layout_t *layout;
    const uint64_t tail = bytes % 16, whole = bytes - tail;
    const sv_pack_shape_t head = {.base = (uint8_t *)(uintptr_t)low, .element_bytes = whole};
    const sv_pack_shape_t rest = {.base = (uint8_t *)((uintptr_t)low + whole), .element_bytes = tail};
    SV_TRY(sv_layout_create(SV_LAYOUT_EXACT, &layout));
    selvage_status_t status = SELVAGE_SUCCESS;
    if (whole)
        status = sv_layout_add_box(layout, base, &head, SV_LAYOUT_STORE);
    if (status == SELVAGE_SUCCESS && tail)
        status = sv_layout_add_box(layout, base, &rest, SV_LAYOUT_STORE);
    if (status != SELVAGE_SUCCESS) {
        sv_layout_destroy(layout);
        return status;
    }
    *layout_out = layout;
    return SELVAGE_SUCCESS;
}

static selvage_status_t declare_run(selvage_exchange_t *x, const sv_bound_t *bound, uint32_t *base_out,
                                    sv_layout_t **layout_out)
{
    SV_TRY(sv_rebind_declare(x, bound, base_out));
    return make_run_layout(*base_out, bound->low, (uint64_t)(bound->high - bound->low), layout_out);
}

selvage_status_t sv_rebind_add_send(selvage_exchange_t *x, const sv_bound_t *bound, int peer, int tag,
                                    uint32_t *index_out)
{
    sv_layout_t *layout;
    uint32_t base;
    SV_TRY(declare_run(x, bound, &base, &layout));
    return sv_rebind_add_send_layout(x, layout, base, peer, tag, index_out);
}

selvage_status_t sv_rebind_add_recv(selvage_exchange_t *x, const sv_bound_t *bound, int peer, int tag,
                                    uint32_t *index_out)
{
    sv_layout_t *layout;
    uint32_t base;
    SV_TRY(declare_run(x, bound, &base, &layout));
    return sv_rebind_add_recv_layout(x, layout, base, peer, tag, index_out);
}

selvage_status_t sv_rebind_add_send_layout(selvage_exchange_t *x, sv_layout_t *layout, uint32_t base, int peer,
                                           int tag, uint32_t *index_out)
{
    SV_TRY(sv_exchange_add_send_layout(x, layout, peer, tag, index_out));
    x->sends[x->nsends - 1].p.base = base;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_rebind_add_recv_layout(selvage_exchange_t *x, sv_layout_t *layout, uint32_t base, int peer,
                                           int tag, uint32_t *index_out)
{
    SV_TRY(sv_exchange_add_recv_layout(x, layout, peer, tag, index_out));
    x->recvs[x->nrecvs - 1].p.base = base;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_rebind_prepare(selvage_exchange_t *x)
{
    enum { SETS = SV_REBIND_SETS + 1, KINDS = 2 };
    sv_rebind_state_t *state = &x->rebind;
    if (state->count == 0 || state->now)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc((size_t)state->count * SETS * KINDS, sizeof *state->pointers, &state->pointers));
    for (uint32_t s = 0; s < SETS; s++) {
        sv_rebind_set_t *set = s < SV_REBIND_SETS ? &state->set[s] : &state->fresh;
        set->data = (const void **)(state->pointers + (size_t)s * KINDS * state->count);
        set->base = state->pointers + ((size_t)s * KINDS + 1) * state->count;
    }
    state->set[0].frees = x->frees_seen;
    for (uint32_t i = 0; i < state->count; i++) {
        state->set[0].data[i] = state->bound[i].data;
        state->set[0].base[i] = state->bound[i].base;
    }
    state->nsets = state->next_set = 1;
    SV_TRY(sv_exchange_rebind(x, state->set[0].base, state->count));
    state->now = &state->set[0];
    return SELVAGE_SUCCESS;
}

void sv_rebind_forget(selvage_exchange_t *x)
{
    sv_free(x->rebind.bound);
    sv_free(x->rebind.pointers);
    x->rebind = (sv_rebind_state_t){.allowed = x->rebind.allowed};
}

/* --- binding ------------------------------------------------------------------------------------------------------ */

/* Puts one pointer of the caller's into the fresh set. */
static selvage_status_t take_pointer(selvage_exchange_t *x, const sv_packet_t *p, const char *kind, const void *data)
{
    if (p->bytes == 0)
        return SELVAGE_SUCCESS; /* there is nothing to bind */
    if (!p->base)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %ss[%u] is %p; that packet was declared by a type with addresses, "
                        "and stays where it is: NULL", call_name, kind, p->own_index, data);
    x->rebind.fresh.data[p->base - 1] = data;
    return SELVAGE_SUCCESS;
}

/* The pointers that are wanted: those that are given, and for the others the present ones. */
static selvage_status_t take_pointers(selvage_exchange_t *x, const void *const *sends, void *const *recvs)
{
    if (x->rebind.now)
        memcpy(x->rebind.fresh.data, x->rebind.now->data, x->rebind.count * sizeof *x->rebind.fresh.data);
    for (uint32_t i = 0; sends && i < x->nsends; i++)
        if (sends[i])
            SV_TRY(take_pointer(x, &x->sends[i].p, "send", sends[i]));
    for (uint32_t i = 0; recvs && i < x->nrecvs; i++)
        if (recvs[i])
            SV_TRY(take_pointer(x, &x->recvs[i].p, "recv", recvs[i]));
    return SELVAGE_SUCCESS;
}

/* Where the device reaches a fresh pointer. */
static selvage_status_t admit_pointer(selvage_exchange_t *x, const sv_packet_t *p, const char *kind)
{
    sv_device_t *dev = x->comm->dev;
    if (!p->base)
        return SELVAGE_SUCCESS;
    const sv_bound_t *bound = &x->rebind.bound[p->base - 1];
    const uint8_t *data = x->rebind.fresh.data[p->base - 1];
    const size_t bytes = (size_t)(bound->high - bound->low);
    void *low = (void *)((uintptr_t)data + (uintptr_t)bound->low);
    const sv_memory_kind_t memory = sv_memory_kind(dev, low, bytes);
    if (!sv_memory_kind_is_usable(memory))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %ss[%u]: %zu bytes at %p on device %s: this is %s", call_name, kind,
                        p->own_index, bytes, low, dev->ops->name, sv_memory_kind_text(memory));
    if (memory == SV_MEMORY_PINNED)
        SV_TRY(SV_DEVICE_CALL(dev, host_address, low, &low));
    uint8_t *const base = (uint8_t *)((uintptr_t)low - (uintptr_t)bound->low);
    /* Units were chosen by the address that the packet came with. */
    const unsigned aligned = x->layouts.aligned[p->base];
    if ((uintptr_t)base % aligned != 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %ss[%u]: %p is not a multiple of %u bytes, as the one at commit was",
                        call_name, kind, p->own_index, (const void *)data, aligned);
    x->rebind.fresh.base[p->base - 1] = base;
    return SELVAGE_SUCCESS;
}

static selvage_status_t admit_fresh(selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nsends; i++)
        SV_TRY(admit_pointer(x, &x->sends[i].p, "send"));
    for (uint32_t i = 0; i < x->nrecvs; i++)
        SV_TRY(admit_pointer(x, &x->recvs[i].p, "recv"));
    return sv_commit_check_overlap(x, x->rebind.fresh.base);
}

/* A set of the same pointers that was found good, unless memory was freed since. */
static const sv_rebind_set_t *find_set(const sv_rebind_state_t *state, uint64_t frees)
{
    for (uint32_t s = 0; s < state->nsets; s++)
        if (state->set[s].frees == frees &&
            memcmp(state->set[s].data, state->fresh.data, state->count * sizeof *state->fresh.data) == 0)
            return &state->set[s];
    return NULL;
}

/* The fresh set takes the place of the one that came longest ago, but of that in use: its arrays change hands. */
static const sv_rebind_set_t *keep_fresh(sv_rebind_state_t *state)
{
    if (&state->set[state->next_set] == state->now)
        state->next_set = (state->next_set + 1) % SV_REBIND_SETS;
    sv_rebind_set_t *set = &state->set[state->next_set];
    const sv_rebind_set_t before = *set;
    *set = state->fresh;
    state->fresh = before;
    state->nsets = state->nsets < SV_REBIND_SETS ? state->nsets + 1 : SV_REBIND_SETS;
    state->next_set = (state->next_set + 1) % SV_REBIND_SETS;
    return set;
}

selvage_status_t sv_rebind_bind(selvage_exchange_t *x, const void *const *sends, void *const *recvs)
{
    sv_rebind_state_t *state = &x->rebind;
    const uint64_t frees = sv_device_frees();
    if (!x->committed)
        return sv_error(SELVAGE_ERR_STATE, "%s: the exchange is not committed", call_name);
    if (!state->allowed)
        return sv_error(SELVAGE_ERR_STATE, "%s: the exchange was created without params.rebindable: neighbours may "
                        "write into its buffers", call_name);
    SV_TRY(sv_exchange_check_idle(x));
    SV_TRY(take_pointers(x, sends, recvs));
    if (!state->now) /* no packet has bytes that could be elsewhere */
        return SELVAGE_SUCCESS;
    const sv_rebind_set_t *set = find_set(state, frees);
    if (!set) {
        SV_TRY(admit_fresh(x));
        state->fresh.frees = frees;
    }
    SV_TRY(sv_exchange_rebind(x, set ? set->base : state->fresh.base, state->count));
    state->now = set ? set : keep_fresh(state);
    return SELVAGE_SUCCESS;
}
