/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of messages, below the public ones: with maps in place of datatypes, SV_MESSAGE_ANY and SV_MESSAGE_NOBODY
 * in place of MPI's constants. Any thread.
 */
#ifndef SV_MESSAGE_CALLS_H
#define SV_MESSAGE_CALLS_H

#include <stdbool.h>

#include "wire/wire_type_map.h"
#include <selvage/message.h>

/* A buffer and where in it bytes lie. */
typedef struct sv_message_buffer {
    void *buf;
    const sv_type_map_t *map;
} sv_message_buffer_t;

typedef enum sv_send_kind { SV_SEND_PLAIN, SV_SEND_SYNCHRONOUS, SV_SEND_BUFFERED, SV_SEND_HELD } sv_send_kind_t;

/* A buffered one is refused, with ERR_LIMIT and nothing logged, if it would wait for its receiver. A held one is
   buffered, and if it has no stream and goes to a slot, sv_message_launch() begins it. */
selvage_status_t sv_message_isend(selvage_comm_t *comm, const char *call, const sv_message_buffer_t *buffer, int peer,
                                  int tag, sv_send_kind_t kind, void *stream, selvage_request_t **request_out);
/* taken: what a probe has taken, whatever peer and tag are; it is NULL after that. Else NULL. */
selvage_status_t sv_message_irecv(selvage_comm_t *comm, const char *call, const sv_message_buffer_t *buffer, int peer,
                                  int tag, selvage_message_t **taken, void *stream, selvage_request_t **request_out);

/* Looks for the first message that fits, and takes it if taken_out is not NULL. Never blocks. */
selvage_status_t sv_message_probe(selvage_comm_t *comm, int peer, int tag, bool *found_out,
                                  selvage_message_t **taken_out, selvage_message_status_t *status_out);
/* As sv_message_probe(), but waits until there is one. */
selvage_status_t sv_message_probe_wait(selvage_comm_t *comm, int peer, int tag, selvage_message_status_t *status_out);

/* The completing calls fill a status as sv_message_probe() does. Members that mean nothing have SV_MESSAGE_ANY or
   SV_MESSAGE_NOBODY. */
selvage_status_t sv_message_test(selvage_request_t **request, selvage_message_status_t *status_out);
selvage_status_t sv_message_wait(selvage_request_t **request, selvage_message_status_t *status_out);
selvage_status_t sv_message_waitall(size_t count, selvage_request_t **requests, selvage_message_status_t *statuses_out);
selvage_status_t sv_message_waitany(size_t count, selvage_request_t **requests, size_t *index_out,
                                    selvage_message_status_t *status_out);
/* An error ends the request, too. What is not held is left alone. */
selvage_status_t sv_message_launch(selvage_request_t *request);
/* The caller knows that this receive's message, of so many bytes, is sent by now, from another GPU. */
void sv_message_expect(selvage_request_t *request, uint64_t bytes);
/* Advances messages. Whether anything is kept that nobody has used for long; with gives_back it is given back, which
   may wait for the device. */
bool sv_message_give_back(selvage_comm_t *comm, bool gives_back);
bool sv_message_prefers_host(selvage_comm_t *comm, int peer);
bool sv_message_is_shared(selvage_comm_t *comm, int peer);
/* Between these two, kernels of the communicator's messages are kept, and then launched together. They nest; partners
   of each other. end returns an error if the launch has failed for a message whose request cannot say so. */
selvage_status_t sv_message_open_group(selvage_comm_t *comm);
selvage_status_t sv_message_close_group(selvage_comm_t *comm);
void sv_message_cancel(selvage_request_t *request);
void sv_message_detach(selvage_request_t **request);
/* A call that returns this error gives its request up. After that its receive buffer is not written any more, or the
   detail says that it may be. */
void sv_message_abandon(selvage_request_t **request, selvage_status_t status);

/* Whose communicator. */
selvage_comm_t *sv_message_comm(const selvage_request_t *request);
selvage_comm_t *sv_message_taken_comm(const selvage_message_t *message);

#endif
