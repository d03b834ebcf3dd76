/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the UCX wire share. Everything here belongs to the wire's lock: the channel MESSAGE may be driven
 * by a thread of its own, and a UCX worker takes one thread at a time. Callbacks of UCX run within
 * ucp_worker_progress() or the call that began, so they have the lock.
 */
#ifndef SV_WIRE_UCX_PRIVATE_H
#define SV_WIRE_UCX_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <ucp/api/ucp.h>

#include "base/base_list.h"
#include "wire/wire.h"
#include "wire/wire_ucx.h"
#include "wire/wire_ucx_watch.h"

/* libucp's calls that are used, as it is loaded when it is asked for: programs that do not ask never have it. */
#define SV_UCX_CALLS(X)                                                                                            \
    X(config_read) X(config_modify) X(config_release) X(init_version) X(cleanup) X(get_version_string)             \
    X(worker_create) X(worker_destroy) X(worker_get_address) X(worker_release_address) X(worker_progress)          \
    X(worker_set_am_recv_handler) X(ep_create) X(ep_close_nbx) X(tag_send_nbx) X(tag_recv_nbx) X(am_send_nbx)      \
    X(request_check_status) X(request_cancel) X(request_free) X(context_print_info) X(ep_print_info)

typedef struct sv_ucx_library {
#define SV_UCX_MEMBER(call) __typeof__(&ucp_##call) call;
    SV_UCX_CALLS(SV_UCX_MEMBER)
#undef SV_UCX_MEMBER
    __typeof__(&ucs_status_string) status_string;
} sv_ucx_library_t;

/* SELVAGE_ERR_UNSUPPORTED if it is not there; what has been loaded stays. Any thread. */
selvage_status_t sv_ucx_load(const sv_ucx_library_t **library_out);

/* A transport on a device, such as tcp on eth0. */
typedef struct sv_ucx_resource {
    char transport[16];
    char device[SV_UCX_RAIL_NAME_BYTES];
} sv_ucx_resource_t;

enum { SV_UCX_RESOURCES_MAX = 32 };

/* What the context has, and what the lanes of an endpoint are; how many. There is room for SV_UCX_RESOURCES_MAX. */
unsigned sv_ucx_list_resources(const sv_ucx_library_t *ucp, ucp_context_h context, sv_ucx_resource_t *resources_out);
unsigned sv_ucx_list_lanes(const sv_ucx_library_t *ucp, ucp_ep_h endpoint, sv_ucx_resource_t *resources_out);
/* What the context has, for people: UCX's version and the resources but for this process's own memory. */
void sv_ucx_describe(const sv_ucx_library_t *ucp, ucp_context_h context, char *text, size_t text_bytes);

typedef enum sv_ucx_kind { SV_UCX_SEND, SV_UCX_RECV, SV_UCX_CONTROL } sv_ucx_kind_t;

/* A control message as it travels: UCX does not say whose endpoint one came by. Its header is empty, since UCX would
   gather one with a system call that costs more. */
typedef struct sv_ucx_control {
    sv_wire_control_t message;
    int64_t source;
} sv_ucx_control_t;

/* One message under way. Those of senders wait in their peer's list until its address is there. */
typedef struct sv_ucx_operation {
    sv_list_t link; /* idle, or waiting for a peer's address */
    struct sv_wire_ucx *wire;
    sv_ucx_kind_t kind;
    int peer; /* or SV_WIRE_ANY_SOURCE */
    int tag;
    void *buf;
    size_t bytes; /* of a receive: its capacity; then what came */
    ucp_tag_t word;
    void *request; /* of UCX; NULL: none, or over */
    bool over;
    bool abandoned; /* nobody asks about it any more; UCX still has it */
    ucs_status_t status;
    sv_ucx_control_t control; /* of a control message */
} sv_ucx_operation_t;

typedef struct sv_ucx_chunk sv_ucx_chunk_t;

typedef enum sv_ucx_state {
    SV_UCX_ASKED,     /* our address is being sent, theirs is wanted */
    SV_UCX_CONNECTED,
    SV_UCX_GONE       /* its process or the link to it: `why` */
} sv_ucx_state_t;

/* A rank that has been sent something, or has asked for our address. */
typedef struct sv_ucx_peer {
    sv_list_t link; /* among those that have something to be told */
    struct sv_wire_ucx *wire;
    int rank;
    sv_ucx_state_t state;
    ucs_status_t why;
    ucp_ep_h endpoint;
    void *closing;      /* request of its close */
    sv_list_t waiting;  /* operations */
    uint8_t *address;   /* as far as it has come; owned */
    size_t address_bytes, arrived_bytes;
    size_t told_bytes;  /* of our address, in this turn */
    bool tells;         /* our address goes there ... */
    bool asks_back;     /* ... and its own is asked for with it */
    uint64_t asked_ns;  /* when it was asked last, and how often */
    unsigned asks;
    unsigned controls;  /* control messages to it that have not left */
    bool let_down;      /* a send to it was given up while it had no address */
    bool unwatched;     /* by transports that do not tell when a process goes */
    bool reported;      /* that it is gone */
    bool left;          /* it closed its wire in order */
    unsigned lanes;     /* bits: the rails that UCX goes by to it, as far as UCX says */
    sv_ucx_contact_t contact; /* once it is connected */
} sv_ucx_peer_t;

struct sv_wire_ucx {
    sv_wire_t base; /* first, so that the public pointer is this one */
    sv_wire_t *mpi; /* owned */
    const sv_ucx_library_t *ucp;
    pthread_mutex_t lock;
    ucp_context_h context;
    ucp_worker_h worker;
    uint8_t *address; /* contact and UCX's address, as others are told it; owned */
    size_t address_bytes;
    sv_ucx_watcher_t watcher;
    char text[512]; /* "ucx 1.13.1: tcp/eth0, ..." */
    sv_ucx_peer_t **peers; /* by rank; NULL: a stranger */
    sv_list_t telling;     /* peers that our address goes to */
    sv_list_t idle;        /* operations */
    sv_ucx_chunk_t *chunks;
    bool moved;            /* by the last progress: what came is looked at before the next one */
    unsigned idle_polls;   /* since something came, or MPI's wire was asked */
    uint64_t polls, addresses_ns; /* since when MPI's wire has not been asked */
    unsigned unwatched_polls, watch_every; /* since the watcher was asked, and when it is again */
    uint64_t looked_ns;                    /* when that was */
    sv_ucx_peer_t *lost; /* the first that went without a word; the next poll says so */
    unsigned nasked;       /* peers in the state ASKED */
    unsigned controls;     /* control messages that have not left */
    bool controls_lost;    /* one could not be sent, which has been said */
    selvage_status_t broken; /* what MPI's wire ended with; its text is on the log */
    bool ending;           /* this rank closes, and others may be ahead of it */
    bool closing;          /* its endpoints are closed: nobody is connected any more */
    /* Control messages that have come: a ring that grows. */
    sv_ucx_control_t *arrivals;
    size_t arrivals_size, first_arrival, narrivals;
};

/* Where MPI lets one thread in at a time, nobody drives the channel MESSAGE beside the rest. Partners of each other. */
static inline void sv_ucx_lock(sv_wire_ucx_t *wire)
{
    if (wire->base.threads_ok)
        pthread_mutex_lock(&wire->lock);
}
static inline void sv_ucx_unlock(sv_wire_ucx_t *wire)
{
    if (wire->base.threads_ok)
        pthread_mutex_unlock(&wire->lock);
}

/* Lets everything advance. With the lock. */
void sv_ucx_progress(sv_wire_ucx_t *wire);

/* The peer, which is asked for its address if it is a stranger. ERR_MPI if there is no such rank, ERR_LIMIT. With the
   lock. */
selvage_status_t sv_ucx_find_peer(sv_wire_ucx_t *wire, int rank, sv_ucx_peer_t **peer_out);
/* Receives addresses, and sends the own one on. With the lock. */
void sv_ucx_exchange_addresses(sv_wire_ucx_t *wire);
/* The peer's process has ended, or the link that device is (or NULL): what is open to it ends with an error. */
void sv_ucx_declare_gone(sv_ucx_peer_t *peer, ucs_status_t why, const char *device);
/* Frees all peers. Partner: sv_ucx_find_peer(). */
void sv_ucx_free_peers(sv_wire_ucx_t *wire);

/* An operation, zeroed but for the wire; NULL: no memory. With the lock. Partner: sv_ucx_give(). */
sv_ucx_operation_t *sv_ucx_take(sv_wire_ucx_t *wire);
void sv_ucx_give(sv_ucx_operation_t *operation);
void sv_ucx_free_operations(sv_wire_ucx_t *wire);
/* Sends at once if the peer is connected, in order after what has begun before; else when its address is there. On an
   error the operation has gone back. With the lock. */
selvage_status_t sv_ucx_send_operation(sv_ucx_operation_t *operation);
/* Sends what has waited for this peer's address, or lets it fail. With the lock. */
void sv_ucx_flush_waiting(sv_ucx_peer_t *peer);

selvage_status_t sv_ucx_send(sv_wire_t *base, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer,
                             int tag, sv_wire_request_t *request_out);
selvage_status_t sv_ucx_recv(sv_wire_t *base, sv_wire_channel_t channel, void *buf, size_t capacity, int peer, int tag,
                             sv_wire_request_t *request_out);
selvage_status_t sv_ucx_test(sv_wire_t *base, sv_wire_request_t *request, size_t *bytes_out);
selvage_status_t sv_ucx_cancel(sv_wire_t *base, sv_wire_request_t *request);

/* Partner: sv_ucx_control_end(). */
selvage_status_t sv_ucx_control_begin(sv_wire_ucx_t *wire);
void sv_ucx_control_end(sv_wire_ucx_t *wire);
selvage_status_t sv_ucx_control_send(sv_wire_t *base, int peer, sv_wire_control_t *message);
selvage_status_t sv_ucx_control_poll(sv_wire_t *base, int *source_out, sv_wire_control_t *message_out);

#endif
