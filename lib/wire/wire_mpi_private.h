/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the MPI wire share. One struct owns four private communicators and the fixed slots of the control
 * channel. Nothing is allocated after open. It belongs to one thread at a time, like every wire.
 */
#ifndef SV_WIRE_MPI_PRIVATE_H
#define SV_WIRE_MPI_PRIVATE_H

#include <mpi.h>
#include <stdbool.h>

#include "wire/wire.h"
#include "wire/wire_mpi.h"

enum {
    SV_WIRE_MPI_CONTROL = SV_WIRE_CHANNELS, /* index of the control communicator, after the channels */
    SV_WIRE_MPI_COMMS,
    SV_WIRE_MPI_RECV_SLOTS = 64,
    SV_WIRE_MPI_SEND_SLOTS = 256
};

typedef struct sv_wire_mpi {
    sv_wire_t base; /* first, so that the public pointer is this one */
    MPI_Comm comm[SV_WIRE_MPI_COMMS];
    bool unquiet[SV_WIRE_MPI_COMMS]; /* a request of it was given up while active: the communicator is never freed */

    /* Control, incoming: a ring in the order of posting. MPI fills posted receives in that order. */
    MPI_Request recv_request[SV_WIRE_MPI_RECV_SLOTS];
    sv_wire_control_t recv_message[SV_WIRE_MPI_RECV_SLOTS];
    unsigned recv_head;
    /* Control, outgoing: MPI_REQUEST_NULL marks a free slot. */
    MPI_Request send_request[SV_WIRE_MPI_SEND_SLOTS];
    sv_wire_control_t send_message[SV_WIRE_MPI_SEND_SLOTS];
    unsigned send_next;
    bool stopped; /* neither ring is in use any more */
    uint64_t sent, received;                 /* messages so far, damaged ones too; compared at close */
    uint64_t drain_mine[2], drain_sum[2];    /* operands of the reduction at close, which may outlive the call */
    uint64_t nonce; /* agreed at open, mixed into check words: MPI may give a dead wire's context to a new one */

    int keyval; /* on MPI_COMM_SELF; MPI_KEYVAL_INVALID: none */
    bool detaching;   /* the attribute is deleted by close, not by MPI_Finalize */
    bool finalising;  /* MPI_Finalize has begun */
    bool in_callback; /* the finalize function runs: close leaves the memory to the callback */
    bool closed;
    sv_wire_finalize_fn finalize_fn;
    void *finalize_arg;
} sv_wire_mpi_t;

/* Sets an ERR_MPI detail of the form "<what>: <text of MPI>". Returns SELVAGE_ERR_MPI. */
selvage_status_t sv_wire_mpi_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Tries for a bounded time to complete a request, a receive by cancelling it. True: complete, its buffer is quiet. */
bool sv_wire_mpi_withdraw(MPI_Request *request, bool is_recv);

selvage_status_t sv_wire_mpi_send(sv_wire_t *base, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer,
                                  int tag, sv_wire_request_t *request_out);
selvage_status_t sv_wire_mpi_recv(sv_wire_t *base, sv_wire_channel_t channel, void *buf, size_t capacity, int peer,
                                  int tag, sv_wire_request_t *request_out);
selvage_status_t sv_wire_mpi_test(sv_wire_t *base, sv_wire_request_t *request, size_t *bytes_out);
selvage_status_t sv_wire_mpi_cancel(sv_wire_t *base, sv_wire_request_t *request);

/* Posts all control receives. Partner: sv_wire_mpi_control_stop(), which accepts a half-started ring. */
selvage_status_t sv_wire_mpi_control_start(sv_wire_mpi_t *wire);
/*
 * Collective as far as the others come too: receives and forgets what is under way, completes sends, withdraws the
 * receives, all for a bounded time. Sets unquiet if something stayed active. A second call does nothing.
 */
void sv_wire_mpi_control_stop(sv_wire_mpi_t *wire);
selvage_status_t sv_wire_mpi_control_send(sv_wire_t *base, int peer, sv_wire_control_t *message);
selvage_status_t sv_wire_mpi_control_poll(sv_wire_t *base, int *source_out, sv_wire_control_t *message_out);

#endif
