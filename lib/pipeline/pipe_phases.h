/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The seven phases, one file each, and recovery. All run on the engine thread, never block, and neither allocate, lock
 * nor log (but for what went wrong). A function that returns selvage_status_t returns an error only for what ends the
 * exchange; it is poisoned by the caller then (sv_exchange_poison).
 */
#ifndef SV_PIPE_PHASES_H
#define SV_PIPE_PHASES_H

#include "pipeline/pipe_exchange.h"

/* Phase 0: checksum (and small copies) enqueued after the caller's stream. For resends too. */
selvage_status_t sv_phase0_prepare(sv_send_t *send, uint64_t now_ns);
/* Phase 1: post receives, tell one-sided senders "ready", begin copies to the host. */
selvage_status_t sv_phase1_post_recv(sv_recv_t *recv, uint64_t now_ns);
selvage_status_t sv_phase1_stage(sv_send_t *send, uint64_t now_ns);
/* Whether one more copy may be enqueued now; counts it. The caller's interior waits for start to return, so that starts
   a few and leaves the others to the polls after it. */
static inline bool sv_phase1_may_copy(selvage_exchange_t *x)
{
    enum { COPIES_OF_START = 2 };
    return !x->in_start || x->defer_peer || x->start_copies++ < COPIES_OF_START;
}
/* Phase 2: send what is in host memory; start what has credit. Sets *moved if anything happened. */
selvage_status_t sv_phase2_send(sv_send_t *send, uint64_t now_ns, bool *moved);
/* IN_PROGRESS while messages of an earlier epoch still leave from the slots of a staged send. */
selvage_status_t sv_phase2_reap_in_flight(sv_send_t *send, uint64_t now_ns);
/* Phase 3: what arrived goes up; verification after it. */
selvage_status_t sv_phase3_receive(sv_recv_t *recv, uint64_t now_ns, bool *moved);
/* Before destroying: receives and forgets resends that crossed the verdict, so that their senders see them leave. */
selvage_status_t sv_phase3_discard_duplicates(selvage_exchange_t *x);
/* Phase 4: sends reaped and verdicts seen. */
selvage_status_t sv_phase4_drain(sv_send_t *send, uint64_t now_ns, bool *moved);
/* Phase 5: verification done, verdicts out. */
selvage_status_t sv_phase5_complete(sv_recv_t *recv, uint64_t now_ns, bool *moved);
selvage_status_t sv_phase5_verdicts(selvage_exchange_t *x, bool *moved);
/* Phase 6: everything is in place; the caller's stream continues. */
void sv_phase6_join(selvage_exchange_t *x, uint64_t now_ns);

/* One-sided halves of phases 2 and 3 (phase2_onesided.c, phase3_onesided.c). */
selvage_status_t sv_phase2_send_onesided(sv_send_t *send, uint64_t now_ns, bool *moved);
/* Whether the device has read everything that this attempt has sent so far. */
bool sv_phase2_is_sent(const sv_send_t *send);
selvage_status_t sv_phase3_receive_onesided(sv_recv_t *recv, uint64_t now_ns, bool *moved);
/* Enqueues the verification of one landed piece, counted already; after the last one comes recv->done. */
selvage_status_t sv_phase3_verify(sv_recv_t *recv, const uint8_t *src, uint32_t segment);

/*
 * The direct route (phase2_direct.c, phase3_direct.c): payload in one or several messages, then the record. The slots
 * of such a packet are its open messages, the last one the record's; they have no memory of their own.
 */
selvage_status_t sv_phase1_post_direct(sv_recv_t *recv, uint64_t now_ns);
selvage_status_t sv_phase2_send_direct(sv_send_t *send, uint64_t now_ns, bool *moved);
selvage_status_t sv_phase3_receive_direct(sv_recv_t *recv, uint64_t now_ns, bool *moved);
/* Before destroying: takes in doubled messages (a fault), so that their sender sees them leave. */
selvage_status_t sv_phase3_discard_direct(sv_recv_t *recv);
/* SUCCESS once the work before start is done, so that the user's buffers may be read and written; IN_PROGRESS. */
selvage_status_t sv_direct_is_begun(selvage_exchange_t *x);

/* Shared by the routes that send messages: the record (and a small payload) is made; the caps allow one more send. */
bool sv_phase2_is_ready(sv_send_t *send, uint64_t now_ns);
bool sv_phase2_caps_allow(const selvage_comm_t *comm, size_t bytes);
/* Whether two records name the same packet, epoch, attempt, kind and segment apart. */
bool sv_phase3_same_packet(const sv_record_t *a, const sv_record_t *b);

/* Starts the way up of a segment that lies in a slot; notices when the slot is free again. */
selvage_status_t sv_phase3_unstage(sv_recv_t *recv, sv_slot_t *slot, uint32_t segment, uint64_t now_ns);
void sv_phase3_poll_unstaging(sv_recv_t *recv, sv_slot_t *slot, uint64_t now_ns, bool *moved);
void sv_phase3_slot_unstaged(sv_recv_t *recv, sv_slot_t *slot, uint64_t now_ns);

/*
 * Kernels that wait (pipe_prelaunch.c). sv_prelaunch_pulls: a host that waits launches pulls for what is near.
 * sv_prelaunch_pushes: at start of an epoch that is expected to end by an enqueued wait. sv_enqueued_check: poisons the
 * exchange if the device has found a failure after an enqueued wait. sv_enqueued_query: IN_PROGRESS while that runs.
 */
void sv_prelaunch_decide(selvage_exchange_t *x); /* at commit: whether and how long sv_prelaunch_pulls's may wait */
void sv_prelaunch_pulls(selvage_exchange_t *x, void *stream);
/* The first test or wait after start, on this stream; waits: it is not only a look. */
void sv_prelaunch_note_end(selvage_exchange_t *x, void *stream, bool waits);
selvage_status_t sv_prelaunch_pushes(selvage_exchange_t *x, uint64_t now_ns);
void sv_enqueued_check(selvage_exchange_t *x);
selvage_status_t sv_enqueued_query(selvage_exchange_t *x);
uint64_t sv_enqueued_deadline_ns(const selvage_exchange_t *x);

/* Recovery (pipe_recovery.c): the receiver's half ... */
selvage_status_t sv_recovery_bad_record(sv_recv_t *recv, const sv_record_t *arrived, uint64_t now_ns);
selvage_status_t sv_recovery_bad_digest(sv_recv_t *recv, uint64_t now_ns);
selvage_status_t sv_recovery_missing(sv_recv_t *recv, uint64_t now_ns);
selvage_status_t sv_recovery_request_resend(sv_recv_t *recv);
/* ... the sender's ... */
selvage_status_t sv_recovery_query(sv_send_t *send, uint64_t now_ns);
selvage_status_t sv_recovery_resend(sv_send_t *send, uint64_t now_ns);
/* ... and what control messages ask for. */
void sv_recovery_verdict(selvage_exchange_t *x, int source, uint64_t epoch);
void sv_recovery_take_request(selvage_exchange_t *x, int source, uint64_t epoch, uint32_t index, unsigned attempt,
                              sv_resend_reason_t reason);
void sv_recovery_take_query(selvage_exchange_t *x, int source, uint64_t epoch);
/* The abort policy: flight recorder, then the end of the process. */
_Noreturn void sv_recovery_abort(selvage_exchange_t *x);
void sv_recovery_peer_failed(selvage_exchange_t *x, int source, const sv_wire_control_t *message);
/* Poisons the exchange if a neighbour has announced that the epoch that begins now is lost. */
void sv_recovery_begin_lost(selvage_exchange_t *x);
/*
 * What arrived in place of a packet (pipe_misdelivery.c), as text for the report: by its record, and by trying the keys
 * of other packets and of the previous epoch on the data. True if it was recognised.
 */
bool sv_misdelivery_describe(sv_recv_t *recv, const sv_record_t *arrived, bool arrived_segments, char *text,
                             size_t text_bytes);

/* Poisons the exchange: first error and its detail are kept, neighbours are told, the flight recorder is written. */
void sv_exchange_poison(selvage_exchange_t *x, selvage_status_t status, bool tell);
/* Tells one rank that the exchange is lost here. */
void sv_exchange_notify_failure(const selvage_exchange_t *x, int rank);
/* The deadline's report: what every unfinished packet waits for. Returns SELVAGE_ERR_TIMEOUT with the detail set. */
selvage_status_t sv_exchange_report_deadline(selvage_exchange_t *x, double waited_s);

/*
 * Faults of packets (pipe_fault.c). A send has a fault struct only if faults are armed; the decision is made once per
 * attempt, before its first segment leaves.
 */
selvage_status_t sv_fault_send_create(sv_send_t *send);
void sv_fault_send_destroy(sv_send_t *send);
void sv_fault_decide(sv_send_t *send, uint64_t now_ns);
/* staged: the message to send in place of the slot's, and its size; NULL: none at all. */
uint8_t *sv_fault_message(sv_send_t *send, sv_slot_t *slot, size_t *bytes_inout);
/* One-sided: enqueues the copy of a segment as the fault wants it. */
selvage_status_t sv_fault_copy(sv_send_t *send, uint32_t segment, uint8_t *dst, const uint8_t *src, size_t bytes,
                               sv_copy_kind_t kind, void *stream);
/* One-sided, an attempt that is not corrupted: keeps payload and record for a replay in the next epoch. */
selvage_status_t sv_fault_keep(sv_send_t *send);
/* direct: corrupts the message that is to be sent; number is p.nsegments for the record's. */
selvage_status_t sv_fault_direct(sv_send_t *send, uint32_t number, const void **message_inout, size_t *bytes_inout);
/* direct: sends a doubled message's twin, after it: in front, it would be taken, and the other one never leave. */
selvage_status_t sv_fault_double(sv_send_t *send, uint32_t number);
/* One-sided: the record to send: the packet's own, unless a fault swaps it. */
const sv_record_t *sv_fault_record(sv_send_t *send);

sv_peer_t *sv_exchange_peer(selvage_exchange_t *x, int rank);

#endif
