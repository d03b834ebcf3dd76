/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit: from two lists of packets to a machine that only has to be started. Collective, sparse, bounded in time, all
 * ranks or none. Nothing here is sized by the number of ranks.
 *
 *   plan      alone         who are my peers; route, wire tag and receive place of every receive   commit_plan.c
 *   handshake  with peers    each tells each what it sends to it and expects from it                commit_handshake.c
 *   -- agreement 1: every handshake has been received, everybody commits the same exchange --
 *   match     alone         i-th send meets i-th receive of (source, destination, tag)             commit_match.c
 *   map       with peers    map segments and buffers of the node, prove it both ways               commit_map.c
 *   -- agreement 2: every rank matched; did every mapping work? --
 *   probe     with peers    hand device memory to the wire where packets shall go direct           commit_direct.c
 *   allocate  alone         streams, events, staging, scratch                                      commit_alloc.c
 *   -- agreement 3: all ranks commit, or none; did every mapping prove right? --
 *
 * If a mapping failed or was not proved, the two ranks remember the best route that is left to them
 * (commit_fallback.c), everybody lets go of everything, and all begin again: agreement 4 sees to it that nobody frees
 * memory that another rank still has mapped. Staged needs no mapping, so this ends. Nobody waits for a peer between two
 * mappings.
 *
 * An exchange of scope SELVAGE_SCOPE_NEIGHBORS goes another way through the same steps: commit_scope.c, where the peers
 * take the place of all ranks.
 *
 * A handshake is answered by an ack as soon as it is received, wanted or not. Since nobody enters agreement 1 before
 * all his handshakes are acked, nobody leaves it with a handshake still unseen: a send without a receive cannot hide
 * (the idea of the non-blocking consensus of Hoefler, Siebert, Lumsdaine 2010, with acks in place of synchronous
 * sends).
 */
#ifndef SV_PIPE_COMMIT_H
#define SV_PIPE_COMMIT_H

#include "pipeline/pipe_exchange.h"

/* Set in the numbers of commits by neighbours only, so that they are none of those of all ranks. */
#define SV_NEIGHBOR_NUMBER (UINT64_C(1) << 62)

enum { SV_HANDSHAKE_VERSION = 6, SV_HANDSHAKE_KIND = 0x4f4c4c48 };

/* First part of a handshake on the set-up channel; nsends sv_handshake_send_t and nrecvs sv_handshake_recv_t follow. */
typedef struct sv_handshake_head {
    uint64_t check;              /* of all that follows, and of its length */
    uint32_t kind, version;
    uint32_t source, destination;
    uint64_t nonce, commit;      /* the communicator's and the commit's */
    uint32_t policy, varying;
    uint32_t nsends, nrecvs;
    uint64_t create_number;
    uint64_t has_segment;
    uint64_t direct_able;        /* the wire may be handed memory of this rank's device */
    uint64_t token;              /* proves the segment's mapping to its opener */
    uint64_t proof_offset;       /* in the segment: where the opener proves that it mapped it ... */
    uint64_t proof_token;        /* ... by writing this */
    sv_mapping_handle_t segment;
    uint64_t has_slab;
    uint64_t slab_token_offset;  /* in the memory after slab: where its token stands, made of that of the segment */
    sv_device_handle_t slab;
} sv_handshake_head_t;

/* "I send you this." */
typedef struct sv_handshake_send {
    uint64_t bytes;
    uint64_t words_offset;       /* of sv_send_words_t in the sender's segment */
    uint64_t credit_offset;      /* peer: of the second credit word, in the memory of the sender's slab ... */
    uint32_t has_credit;         /* ... if there is one */
    uint32_t index, tag, reserved;
} sv_handshake_send_t;

/* "I expect this from you, and it shall travel so." */
typedef struct sv_handshake_recv {
    uint64_t bytes;
    uint64_t words_offset;       /* of sv_recv_words_t in the receiver's segment */
    uint64_t target_offset;      /* peer: in the memory of handle; shared: in the receiver's segment; self: the
                                    address of the record and word of a packet that kernels move, or 0 */
    uint64_t target_stride;      /* between slots */
    uint64_t own_pointer;        /* self: the buffer itself */
    uint32_t tag, wire_tag;
    uint32_t route, in_place;
    uint32_t nslots, kernel_copy;
    uint32_t record_tag, reserved; /* record_tag: direct */
    sv_device_handle_t handle;   /* peer */
} sv_handshake_recv_t;

_Static_assert(sizeof(sv_handshake_head_t) == 312 && sizeof(sv_handshake_send_t) == 40 &&
               sizeof(sv_handshake_recv_t) == 168, "doc/protocol.md has the offsets of all members");

/* Messages that concern commits; see comm_control.h. */
selvage_status_t sv_commit_receive_handshake(selvage_comm_t *comm, int source, const sv_wire_control_t *message);
void sv_commit_receive_ack(selvage_comm_t *comm, int source, uint64_t commit);
selvage_status_t sv_commit_receive_resend(selvage_comm_t *comm, int source, uint64_t commit);

/* Whether a received handshake is whole and meant for this commit. */
bool sv_commit_handshake_is_whole(const selvage_comm_t *comm, const sv_peer_t *peer, size_t bytes);
/* How much of the receiver's memory a send on a one-sided route writes. */
uint64_t sv_commit_target_bytes(const sv_packet_t *p);
/* Bounds everything that a handshake says of memory, before any of it is used. */
selvage_status_t sv_commit_bound_segment(const sv_peer_t *peer);
selvage_status_t sv_commit_bound_send(const sv_send_t *send);
selvage_status_t sv_commit_bound_recv(const sv_recv_t *recv);

/* The steps, in order. */
selvage_status_t sv_commit_plan(selvage_exchange_t *x);

/* ERR_ARGUMENT, with both named, if a receive shares bytes with another packet. bases: where packets lie that may be
   bound to other memory, in the order of their bases. Local. */
selvage_status_t sv_commit_check_overlap(const selvage_exchange_t *x, void *const *bases);
selvage_status_t sv_commit_handshake(selvage_exchange_t *x, selvage_status_t status);
selvage_status_t sv_commit_handshake_drain(selvage_exchange_t *x, double timeout_s);
selvage_status_t sv_commit_match(selvage_exchange_t *x);
selvage_status_t sv_commit_map(selvage_exchange_t *x, bool *all_mapped_out);
/* After agreement 2: whether every peer has mapped this rank's memory. Takes the answer back from one that has not. */
bool sv_commit_is_proved(selvage_exchange_t *x);
/* Some mapping failed, here or elsewhere: finds out with which peers, and limits their routes; attempt counts from 0.
   SELVAGE_ERR_UNSUPPORTED if the exchange asked for one of those routes. */
selvage_status_t sv_commit_fall_back(selvage_exchange_t *x, int attempt);
/* Lets go of all memory of peers. */
void sv_commit_unmap(selvage_exchange_t *x);
selvage_status_t sv_commit_alloc(selvage_exchange_t *x);
void sv_commit_forget_handshakes(selvage_exchange_t *x);

/* The parts of a handshake. Writes the descriptors for a peer; sends them. */
selvage_status_t sv_commit_write_descriptors(selvage_exchange_t *x, sv_peer_t *peer);
selvage_status_t sv_commit_send_descriptors(selvage_exchange_t *x, sv_peer_t *peer);
/* The announcement of a peer's commit: posts the receive of its descriptors. */
selvage_status_t sv_commit_accept_handshake(selvage_exchange_t *x, sv_peer_t *peer, uint64_t number, uint64_t bytes);
/* Tests the descriptors to a peer and from it; true when all that were sent or announced are through. */
selvage_status_t sv_commit_test_descriptors(selvage_exchange_t *x, sv_peer_t *peer, bool *through);

/*
 * Commit by neighbours only (commit_scope.c). On failure neighbours know, and either hold nothing of this rank's any
 * more, or the exchange is quarantined.
 */
selvage_status_t sv_neighbors_commit(selvage_exchange_t *x);
/* The words between neighbours (commit_neighbors.c). The turns of all pairs begin, before anything else is said, and
   end with the commit. */
selvage_status_t sv_neighbors_begin_turns(selvage_exchange_t *x);
void sv_neighbors_end_turns(selvage_exchange_t *x, selvage_status_t status);
/* Handshakes with all peers: on success descriptors are here. */
selvage_status_t sv_neighbors_meet(selvage_exchange_t *x);
/* Says a stage to one peer; it is repeated by sv_neighbors_repeat(), with whatever else is due. */
selvage_status_t sv_neighbors_say(selvage_exchange_t *x, sv_peer_t *peer, sv_neighbor_stage_t stage);
void sv_neighbors_repeat(selvage_exchange_t *x);
/* Says a stage to all peers, with talk.said_value, and waits until all have said it. The error of one that left. */
selvage_status_t sv_neighbors_agree(selvage_exchange_t *x, sv_neighbor_stage_t stage);
/* Tells all peers that this rank leaves the commit with an error; sets quarantined if one may use its memory still. */
void sv_neighbors_leave(selvage_exchange_t *x, selvage_status_t status);
/* At destroying: returns once all peers that committed it have parted, or with an error. */
selvage_status_t sv_neighbors_part(selvage_exchange_t *x, double timeout_s);
/* The peer that has left with an error, or NULL. */
const sv_peer_t *sv_neighbors_lost(const selvage_exchange_t *x);
selvage_status_t sv_neighbors_take_handshake(selvage_comm_t *comm, int source, const sv_wire_control_t *message);
selvage_status_t sv_neighbors_take_word(selvage_comm_t *comm, int source, const sv_wire_control_t *message);
void sv_neighbors_take_ack(selvage_comm_t *comm, int source, const sv_wire_control_t *message);

/* Turns a packet whose route does not work into a staged one; before commit allocates. */
void sv_commit_stage_instead(sv_packet_t *p);
/* The best route that mappings of a pair leave, as far as this end knows. */
selvage_route_t sv_commit_reach_of_pair(const sv_peer_t *peer);
/* Remembers the best route of a pair, and tells of it. SELVAGE_ERR_UNSUPPORTED as sv_commit_fall_back(). */
selvage_status_t sv_commit_limit_pair(selvage_exchange_t *x, sv_peer_t *peer, selvage_route_t best);
/* Lets go of the memory of one peer. */
void sv_commit_unmap_peer(selvage_exchange_t *x, sv_peer_t *peer);

/* The best route to a rank that earlier commits left: peer, unless its memory could not be mapped. */
selvage_route_t sv_fallback_find(const selvage_comm_t *comm, int rank);
selvage_status_t sv_fallback_set(selvage_comm_t *comm, int rank, selvage_route_t best);
void sv_fallback_forget(selvage_comm_t *comm);

/* Stores the token in this rank's slab that proves its mappings to peers. */
selvage_status_t sv_slab_mark(selvage_exchange_t *x, void *place);

/* Finds or makes the peer for a rank. */
selvage_status_t sv_commit_peer(selvage_exchange_t *x, int rank, bool unmatched, sv_peer_t **peer_out);
/* Proves the direct route pair by pair, and sends packets staged where it does not hold. */
selvage_status_t sv_commit_probe_direct(selvage_exchange_t *x);
/* Sends probes between all pairs that want it and are able; peer->direct_proved says what came of it. IN_PROGRESS:
   they were given up, because another rank has failed the commit. */
selvage_status_t sv_commit_probe_pairs(selvage_exchange_t *x);
/* Whether this rank may hand memory of its device to the wire at all; and what the peer said of itself. */
bool sv_commit_direct_is_able(const selvage_comm_t *comm);
bool sv_commit_peer_is_able(const sv_peer_t *peer);
/* The tags of the set-up channel that belong to a commit, by its number at the sender: of handshakes, which may come
   twice, and of probes. */
int sv_commit_setup_tag(const selvage_comm_t *comm, uint64_t number);
int sv_commit_probe_tag(const selvage_comm_t *comm, uint64_t number);
/* Cuts a packet into segments and slots according to its route. */
void sv_commit_cut(sv_packet_t *p);
/* Whether kernels move it, in batches; the receiver decides, but on the staged route each end for itself. */
bool sv_commit_is_small(const sv_packet_t *p);
/* Where the record of a small packet lies in its slot; after it comes a line for the arrival word. */
size_t sv_commit_trailer(const sv_packet_t *p);
/* Bytes of one slot: a segment (or the whole packet, if smaller), its record and a word, rounded up. */
size_t sv_commit_slot_bytes(const sv_packet_t *p);

#endif
