/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets with layouts at commit: which way each takes (see layout_parts.h), memory for those that are bounced, and one
 * block of device memory with everything that kernels read about them:
 *
 *   [ tables of base addresses | items that pack | items that unpack | scratch | pieces and their tables, by packet ]
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/layout_parts.h"
#include "pipeline/route.h"
#include "pipeline/pipe_commit.h"

enum { BOUNCE_ALIGN = 256 };

static size_t round_up_bounce(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* --- which way ---------------------------------------------------------------------------------------------------- */

/* Faults corrupted copies of packets, which must lie in one piece for it. */
static bool in_one_piece(const sv_packet_t *p)
{
    return p->x->comm->fault.armed;
}

bool sv_layouts_by_kernel(const sv_packet_t *p)
{
    return p->layout && !in_one_piece(p) && sv_packet_stays_on_device(p);
}

static bool is_plain_packet(const sv_packet_t *p)
{
    uint32_t base;
    int64_t offset;
    return p->layout && sv_layout_is_plain(p->layout, &base, &offset);
}

/* A packet to the rank itself lands before it is scattered, because sender and receiver have no slot between them. */
static bool needs_bounce_in(const sv_packet_t *p)
{
    return p->layout && !p->plain && (!p->fused || p->ops->within_rank);
}

static bool needs_bounce_out(const sv_packet_t *p)
{
    return p->layout && !p->plain && !p->fused;
}

/* Layouts name addresses that exist. */
static selvage_status_t check_layout(const selvage_exchange_t *x, const sv_packet_t *p)
{
    if (p->layout && sv_layout_base_max(p->layout) >= x->layouts.nbases)
        return sv_error(SELVAGE_ERR_ARGUMENT, "packet %u lies at address %u, and %u are given", p->own_index,
                        sv_layout_base_max(p->layout), x->layouts.nbases - 1);
    return SELVAGE_SUCCESS;
}

static selvage_status_t begin_layouts(selvage_exchange_t *x)
{
    x->layouts.packets = 0;
    for (uint32_t i = 0; i < x->nsends; i++)
        x->layouts.packets += x->sends[i].p.layout != NULL;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        x->layouts.packets += x->recvs[i].p.layout != NULL;
    if (!x->layouts.bases)
        SV_TRY(sv_exchange_rebind(x, NULL, 0));
    for (uint32_t i = 0; i < x->nsends; i++)
        SV_TRY(check_layout(x, &x->sends[i].p));
    for (uint32_t i = 0; i < x->nrecvs; i++)
        SV_TRY(check_layout(x, &x->recvs[i].p));
    return SELVAGE_SUCCESS;
}

static selvage_status_t make_bounce(selvage_exchange_t *x, size_t bytes, uint8_t **block_out)
{
    void *block;
    if (bytes == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(SV_DEVICE_CALL(x->comm->dev, malloc, bytes, &block));
    *block_out = block;
    x->memory.device_bytes += bytes;
    return SELVAGE_SUCCESS;
}

/* Those receives that have fallen back to staged after they were placed once, or those that have not. */
static selvage_status_t place_recvs(selvage_exchange_t *x, bool fallen, uint8_t **block_out)
{
    size_t bytes = 0, at = 0;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_packet_t *p = &x->recvs[i].p;
        if (p->fallen != fallen)
            continue;
        if (p->layout) {
            p->fused = p->kernel_copy && !p->layout->adds && !in_one_piece(p);
            p->plain = !p->kernel_copy && (p->ops->through_host || p->ops->maps_device) && is_plain_packet(p);
        }
        bytes += needs_bounce_in(p) ? round_up_bounce(p->bytes + 1, BOUNCE_ALIGN) : 0;
    }
    SV_TRY(make_bounce(x, bytes, block_out));
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        if (recv->p.fallen != fallen)
            continue;
        if (recv->p.plain)
            recv->buf = sv_layouts_plain_address(&recv->p);
        if (!needs_bounce_in(&recv->p))
            continue;
        recv->buf = *block_out + at;
        at += round_up_bounce(recv->p.bytes + 1, BOUNCE_ALIGN);
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_layouts_place_recvs(selvage_exchange_t *x)
{
    SV_TRY(begin_layouts(x));
    return place_recvs(x, false, &x->layouts.bounce_in);
}

selvage_status_t sv_layouts_place_fallen(selvage_exchange_t *x)
{
    return place_recvs(x, true, &x->layouts.bounce_fallen);
}

selvage_status_t sv_layouts_place_sends(selvage_exchange_t *x)
{
    size_t bytes = 0, at = 0;
    for (uint32_t i = 0; i < x->nsends; i++) {
        sv_packet_t *p = &x->sends[i].p;
        if (p->layout) {
            const bool unaligned = p->in_place && (uintptr_t)x->sends[i].target % 16 != 0;
            p->fused = p->kernel_copy && !in_one_piece(p) && !unaligned;
            p->plain = !p->kernel_copy && !sv_packet_is_device_driven(p) && is_plain_packet(p);
        }
        bytes += needs_bounce_out(p) ? round_up_bounce(p->bytes + 1, BOUNCE_ALIGN) : 0;
    }
    SV_TRY(make_bounce(x, bytes, &x->layouts.bounce_out));
    for (uint32_t i = 0; i < x->nsends; i++) {
        sv_send_t *send = &x->sends[i];
        if (send->p.plain)
            send->buf = sv_layouts_plain_address(&send->p);
        if (!needs_bounce_out(&send->p))
            continue;
        send->buf = x->layouts.bounce_out + at;
        at += round_up_bounce(send->p.bytes + 1, BOUNCE_ALIGN);
    }
    return SELVAGE_SUCCESS;
}

/* --- what kernels read -------------------------------------------------------------------------------------------- */

/* One walk over all packets; the first only measures, and the second fills what the first has counted. */
typedef struct walk {
    selvage_exchange_t *x;
    sv_layout_bump_t bump;
    sv_push_item_t *pack;
    sv_pull_item_t *unpack;
    sv_digest_scratch_t *scratch_there;
    uint32_t npacks, nunpacks;
    uint32_t *waves;             /* per base: how many pieces were added to it so far */
} walk_t;

static selvage_status_t walk_send(walk_t *walk, sv_send_t *send)
{
    sv_packet_t *p = &send->p;
    sv_layout_state_t *layouts = &walk->x->layouts;
    sv_piece_t *here;
    if (!p->layout || p->plain)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_layout_make_pieces(p->layout, layouts->bases, &walk->bump, &here, &p->pieces, &p->npieces));
    if (p->fused)
        return SELVAGE_SUCCESS;
    uint32_t n = walk->npacks++;
    if (!walk->bump.here)
        return SELVAGE_SUCCESS;
    uint8_t *place = layouts->bounce_out + (send->buf - layouts->bounce_out); /* buf is for reading; this is its own
                                                                                 memory */
    walk->pack[n] = (sv_push_item_t){.dst = place, .scratch = p->scratch, .nslots = 1, .pieces = p->pieces,
                                     .npieces = p->npieces, .identity = {.bytes = p->bytes}};
    layouts->packs[n] = (sv_layout_entry_t){.item = n, .bytes = p->bytes};
    return SELVAGE_SUCCESS;
}

static void add_unpack(walk_t *walk, const sv_pull_item_t *item, uint32_t wave)
{
    uint32_t n = walk->nunpacks++;
    if (!walk->bump.here)
        return;
    walk->unpack[n] = *item;
    walk->unpack[n].scratch = walk->scratch_there + n;
    walk->unpack[n].nslots = 1;
    walk->x->layouts.unpacks[n] = (sv_layout_entry_t){.item = n, .wave = wave, .bytes = item->identity.bytes};
}

static selvage_status_t walk_recv(walk_t *walk, sv_recv_t *recv)
{
    sv_packet_t *p = &recv->p;
    sv_piece_t *here;
    if (!p->layout || p->plain)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_layout_make_pieces(p->layout, walk->x->layouts.bases, &walk->bump, &here, &p->pieces, &p->npieces));
    if (p->fused)
        return SELVAGE_SUCCESS;
    if (!p->layout->adds) {
        add_unpack(walk, &(sv_pull_item_t){.src = recv->buf, .pieces = p->pieces, .npieces = p->npieces,
                                           .identity = {.bytes = p->bytes}}, 0);
        return SELVAGE_SUCCESS;
    }
    /* Every piece is a stream of its own here, so that each can be in the launch that it belongs to. */
    for (uint32_t i = 0; i < p->npieces; i++) {
        sv_pull_item_t item = {.npieces = 1};
        uint32_t wave = 0;
        if (here) {
            item.pieces = p->pieces + i;
            item.src = recv->buf + 8 * here[i].first_word;
            item.identity.bytes = here[i].padded ? round_up_bounce(here[i].bytes, 16) : here[i].bytes;
            here[i].first_word = 0;
            wave = ++walk->waves[here[i].base]; /* wave 0 is of what is stored */
        }
        add_unpack(walk, &item, wave);
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t walk_all(walk_t *walk, uint32_t npacks, uint32_t nunpacks)
{
    selvage_exchange_t *x = walk->x;
    sv_layout_state_t *layouts = &x->layouts;
    walk->bump.used = walk->npacks = walk->nunpacks = 0;
    (void)sv_layout_bump_alloc(&walk->bump, SV_LAYOUT_SETS * layouts->nbases * sizeof(uint8_t *), &layouts->sets_there);
    walk->pack = sv_layout_bump_alloc(&walk->bump, npacks * sizeof *walk->pack, &layouts->pack_items);
    walk->unpack = sv_layout_bump_alloc(&walk->bump, nunpacks * sizeof *walk->unpack, &layouts->unpack_items);
    (void)sv_layout_bump_alloc(&walk->bump, nunpacks * sizeof *walk->scratch_there, &walk->scratch_there);
    for (uint32_t i = 0; i < x->nsends; i++)
        SV_TRY(walk_send(walk, &x->sends[i]));
    for (uint32_t i = 0; i < x->nrecvs; i++)
        SV_TRY(walk_recv(walk, &x->recvs[i]));
    return SELVAGE_SUCCESS;
}

static int compare_waves(const void *a, const void *b)
{
    const sv_layout_entry_t *x = a, *y = b;
    if (x->wave != y->wave)
        return x->wave < y->wave ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* The block here: filled, and copied to the device. */
static selvage_status_t fill_exchange_block(selvage_exchange_t *x, walk_t *walk, size_t bytes, void *here)
{
    sv_device_t *dev = x->comm->dev;
    uint32_t npacks = walk->npacks, nunpacks = walk->nunpacks;
    memset(here, 0, bytes);
    walk->bump = (sv_layout_bump_t){.here = here, .there = x->layouts.block};
    SV_TRY(walk_all(walk, npacks, nunpacks));
    x->layouts.npacks = npacks;
    x->layouts.nunpacks = nunpacks;
    qsort(x->layouts.unpacks, nunpacks, sizeof *x->layouts.unpacks, compare_waves);
    selvage_status_t status = SV_DEVICE_CALL(dev, copy_async, x->layouts.block, here, bytes, SV_COPY_H2D,
                                             x->streams.kernel);
    if (status == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(dev, stream_sync, x->streams.kernel);
    if (status != SELVAGE_SUCCESS) /* the copy may be under way; no injected fault may keep this from waiting for it */
        (void)SV_DEVICE_CALL(x->comm->dev_under, stream_sync, x->streams.kernel);
    return status;
}

static selvage_status_t upload_block(selvage_exchange_t *x, walk_t *walk)
{
    sv_device_t *dev = x->comm->dev;
    sv_layout_state_t *layouts = &x->layouts;
    const size_t table_bytes = layouts->nbases * sizeof *layouts->bases;
    void *block, *here, *upload_table;
    /* 1. How much there is. */
    SV_TRY(walk_all(walk, 0, 0));
    SV_TRY(walk_all(walk, walk->npacks, walk->nunpacks));
    const size_t bytes = walk->bump.used;
    /* 2. Tables here. */
    SV_TRY(sv_calloc((size_t)SV_LAYOUT_SETS * layouts->nbases, sizeof *layouts->set, &layouts->set));
    SV_TRY(sv_calloc(walk->npacks, sizeof *layouts->packs, &layouts->packs));
    SV_TRY(sv_calloc(walk->nunpacks, sizeof *layouts->unpacks, &layouts->unpacks));
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, table_bytes, &upload_table));
    layouts->upload_table = upload_table;
    x->memory.pinned_bytes += table_bytes;
    SV_TRY(dev->ops->event_create(dev, &layouts->event));
    /* 3. The block, here and there. */
    SV_TRY(SV_DEVICE_CALL(dev, malloc, bytes, &block));
    layouts->block = block;
    x->memory.device_bytes += bytes;
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, bytes, &here));
    selvage_status_t status = fill_exchange_block(x, walk, bytes, here);
    SV_DEVICE_CALL(dev, host_free, here);
    SV_TRY(status);
    return sv_layouts_first_set(x);
}

selvage_status_t sv_layouts_upload(selvage_exchange_t *x)
{
    walk_t walk = {.x = x};
    if (x->layouts.packets == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc(x->layouts.nbases, sizeof *walk.waves, &walk.waves));
    selvage_status_t status = upload_block(x, &walk);
    sv_free(walk.waves);
    return status;
}

/* --- undoing ------------------------------------------------------------------------------------------------------ */

void sv_layouts_undo(selvage_exchange_t *x)
{
    sv_layout_state_t *layouts = &x->layouts;
    sv_device_t *dev = x->comm->dev;
    /* In quarantine others may still write what lands, and MPI may still read what leaves. */
    uint8_t *memory[] = {layouts->block, x->failure.quarantined ? NULL : layouts->bounce_out,
                         x->failure.quarantined ? NULL : layouts->bounce_in,
                         x->failure.quarantined ? NULL : layouts->bounce_fallen};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        if (memory[i] && !x->failure.device_busy)
            SV_DEVICE_CALL(dev, free, memory[i]);
    if (layouts->upload_table)
        SV_DEVICE_CALL(dev, host_free, layouts->upload_table);
    if (layouts->event)
        dev->ops->event_destroy(dev, layouts->event);
    sv_free(layouts->set);
    sv_free(layouts->packs);
    sv_free(layouts->unpacks);
    *layouts = (sv_layout_state_t){.bases = layouts->bases, .nbases = layouts->nbases, .aligned = layouts->aligned};
}

void sv_layouts_forget(selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nsends; i++)
        sv_layout_destroy(x->sends[i].p.layout);
    for (uint32_t i = 0; i < x->nrecvs; i++)
        sv_layout_destroy(x->recvs[i].p.layout);
    sv_free(x->layouts.bases);
    x->layouts.bases = NULL;
    x->layouts.aligned = NULL;
    x->layouts.nbases = 0;
}
