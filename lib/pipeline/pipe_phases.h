/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the engine's files offer each other beside the routes (route.h): pre-launched kernels, recovery, reports and
 * faults. All run on the engine thread.
 */
#ifndef SV_PIPE_PHASES_H
#define SV_PIPE_PHASES_H

#include "pipeline/pipe_exchange.h"

/* Phase 6 (pipe_run.c): everything is in place; the caller's stream continues. */
void sv_exchange_join(selvage_exchange_t *x, uint64_t now_ns);

/* Kernels that wait for packets of an epoch that the host ends (pipe_prelaunch.c). At commit: whether and how long they
   may wait. */
void sv_prelaunch_decide(selvage_exchange_t *x);
/* A host that waits launches pulls for what is near. */
void sv_prelaunch_pulls(selvage_exchange_t *x, void *stream);
/* The first test or wait after start, on this stream; waits: it is not only a look. */
void sv_prelaunch_note_end(selvage_exchange_t *x, void *stream, bool waits);

/* Epochs that the device ends (pipe_enqueued.c). At start of an epoch that is expected to: its pushes. */
selvage_status_t sv_enqueued_push(selvage_exchange_t *x, uint64_t now_ns);
/* Poisons the exchange if the device has found a failure after an enqueued wait. */
void sv_enqueued_check(selvage_exchange_t *x);
/* IN_PROGRESS while the last enqueued wait is under way on the device. */
selvage_status_t sv_enqueued_query(selvage_exchange_t *x);
uint64_t sv_enqueued_deadline_ns(const selvage_exchange_t *x);
/* SELVAGE_ERR_UNSUPPORTED with the first packet that the device cannot bring to its end alone. */
selvage_status_t sv_enqueued_refuse(const selvage_exchange_t *x, const char *call);

/* Recovery (pipe_recovery.c): the receiver's half ... */
selvage_status_t sv_recovery_bad_record(sv_recv_t *recv, const sv_record_t *arrived, uint64_t now_ns);
selvage_status_t sv_recovery_bad_digest(sv_recv_t *recv, uint64_t now_ns);
/* At each poll of a receive that waits: asks for its packet if its time is up. */
selvage_status_t sv_recovery_request_if_missing(sv_recv_t *recv, uint64_t now_ns);
selvage_status_t sv_recovery_request_resend(sv_recv_t *recv);
/* ... the sender's ... */
selvage_status_t sv_recovery_query(sv_send_t *send, uint64_t now_ns);
selvage_status_t sv_recovery_resend(sv_send_t *send, uint64_t now_ns);
/* ... and what control messages ask for. */
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
 * of other packets and of the previous epoch on the data, if that is in the receive buffer (data_arrived), which writes
 * to *recv->result. True if it was recognised.
 */
bool sv_misdelivery_describe(sv_recv_t *recv, const sv_record_t *arrived, bool data_arrived, char *text,
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
/* The functions of a send's route with the faults that delay it or keep it from leaving put before them. */
const struct sv_route_ops *sv_fault_route_ops(selvage_route_t route);
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

sv_peer_t *sv_exchange_peer(const selvage_exchange_t *x, int rank);

#endif
