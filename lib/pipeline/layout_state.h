/* SPDX-License-Identifier: BSD-3-Clause */
/* What an exchange keeps about its packets with layouts; see layout_parts.h for what becomes of them. */
#ifndef SV_LAYOUT_STATE_H
#define SV_LAYOUT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "pipeline/pipe_layout.h"

enum { SV_LAYOUT_SETS = 8 }; /* tables of base addresses that the device keeps at once */

/* A launch's packet: its item, and how many bytes it has. */
typedef struct sv_layout_entry {
    uint32_t item, wave;
    uint64_t bytes;
} sv_layout_entry_t;

typedef struct sv_layout_state {
    uint32_t packets;            /* that have a layout */
    uint8_t **bases;             /* nbases addresses, the first NULL; owned */
    uint32_t nbases;
    uint8_t *aligned;            /* of what those given at commit were multiples, up to 16; after the bases */
    uint8_t **set;               /* what the tables on the device hold: SETS times nbases; owned */
    uint32_t nsets, next_set;
    uint8_t **sets_there;        /* device: the tables ... */
    uint8_t *const *bases_there; /* ... and the one in use */
    uint8_t **upload_table;      /* pinned: a table on its way to the device */
    uint8_t *bounce_in, *bounce_out; /* device: bounced receives and sends; owned */
    uint8_t *bounce_fallen;          /* the same of receives that fell back to staged after bounce_in was made */
    uint8_t *block;              /* device: tables, pieces, items; owned */
    sv_push_item_t *pack_items;  /* device, in the block */
    sv_pull_item_t *unpack_items;
    sv_layout_entry_t *packs, *unpacks; /* the latter in the order of their waves; owned */
    uint32_t npacks, nunpacks;
    struct selvage_event *event; /* after what was launched last on a stream of the caller's */
    bool launched;               /* there was something */
    bool due;                    /* what landed in this epoch is to be unpacked by whoever waits for it */
} sv_layout_state_t;

struct selvage_exchange;
struct sv_packet;

/* At commit: where receives land, after their routes were chosen; where sends leave from, after they were matched; and
   everything for the device, once there are streams. */
selvage_status_t sv_layouts_place_recvs(struct selvage_exchange *x);
/* Again, for receives that have fallen back to staged since. */
selvage_status_t sv_layouts_place_fallen(struct selvage_exchange *x);
selvage_status_t sv_layouts_place_sends(struct selvage_exchange *x);
selvage_status_t sv_layouts_upload(struct selvage_exchange *x);
/* What commit made; and all of it. */
void sv_layouts_undo(struct selvage_exchange *x);
void sv_layouts_forget(struct selvage_exchange *x);

/* Whether kernels move a receive of any size because of its layout. */
bool sv_layouts_by_kernel(const struct sv_packet *p);
/* Where a packet lies that has no gaps; and the first table of addresses, which ends the commit. */
uint8_t *sv_layouts_plain_address(const struct sv_packet *p);
selvage_status_t sv_layouts_first_set(struct selvage_exchange *x);

/* On the caller's stream: before an epoch starts, and when everything of it was verified. unless_failed: it may turn
   out after this call, on the device, that it was not. Application thread. */
selvage_status_t sv_layouts_pack(struct selvage_exchange *x, void *stream);
selvage_status_t sv_layouts_unpack(struct selvage_exchange *x, void *stream, bool unless_failed);
/* Into a launch: where the present addresses are found. */
void sv_layouts_give_bases(const struct selvage_exchange *x, sv_batch_arg_t *arg);
/* The same for a host that has seen the end of the epoch. What another stream was given to unpack is waited for. */
selvage_status_t sv_layouts_finish(struct selvage_exchange *x, void *stream);
/* The same two passes into a graph, which keep nothing for later. */
selvage_status_t sv_layouts_capture_pack(struct selvage_exchange *x, void *stream);
selvage_status_t sv_layouts_capture_unpack(struct selvage_exchange *x, void *stream);
/* Whether a packing or unpacking is under way on a stream of the caller's. */
bool sv_layouts_under_way(const struct selvage_exchange *x);

#endif
