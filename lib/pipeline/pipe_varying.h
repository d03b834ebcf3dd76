/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges whose packets may be shorter than they were declared, by another length in each epoch. Everything that
 * commit made is for the declared length: routes, slots, where a record lies in a slot, how long a segment is. A length
 * changes only how many of the bytes and segments there move, what the record says, and the key of the digest. So both
 * ends need not agree on anything: the receiver computes the key of the length that it expects, and what came with
 * another one does not verify.
 *
 * Packets in pieces keep the length that they were declared with. Such an exchange has checksums, since nothing else
 * would tell of another length; it goes by no direct messages, because MPI would write what comes into the user's
 * memory before anything is known of it; and the device numbers none of its epochs.
 *
 * Local. Application thread, while no epoch is under way; the questions: the engine's.
 */
#ifndef SV_PIPE_VARYING_H
#define SV_PIPE_VARYING_H

#include "pipeline/pipe_exchange.h"

/* At commit: what such an exchange cannot be. */
selvage_status_t sv_varying_check(const selvage_exchange_t *x);

/* NULL: these stay as they are. After an error all do. */
selvage_status_t sv_varying_set(selvage_exchange_t *x, const size_t *send_bytes, const size_t *recv_bytes);

/* SELVAGE_ERR_UNSUPPORTED, with the call named, for a capture. */
selvage_status_t sv_varying_refuse(const selvage_exchange_t *x, const char *call);

/* Whether a record is this packet's, of that epoch, in all but its length. */
bool sv_varying_is_other(const sv_packet_t *p, const sv_record_t *record, uint64_t epoch);

/* One-sided, not by kernels: the record is here, and says another length than is waited for. */
bool sv_varying_has_come(const sv_recv_t *recv);

/* The error of such a packet, which came so in every attempt; and its sender's. */
selvage_status_t sv_varying_report(selvage_exchange_t *x, const sv_packet_t *p, const sv_record_t *record);
selvage_status_t sv_varying_report_send(const sv_send_t *send, const sv_wire_control_t *message);

#endif
