/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicator: everything hangs off it, so that ranks can be threads of one process.
 *
 *   selvage_comm
 *     config, fault, stats, trace      settings and records of this rank
 *     wire                             host messages        (below: MPI, or ranks as threads)
 *     dev                              memory and streams   (below: soft, a GPU)
 *     topology                         who shares the node
 *     progress                         who calls sv_comm_poll()
 *     exchanges                        the exchanges of this rank               (above: pipeline/)
 *     arena                            memory of collectives (above: collective/)
 *     messages                         the message engine, from the first message on (above: message/)
 *     agree                            the inbox of collective agreements
 *
 * Modules above hang their own state here and leave a table of functions. By it this module calls them to advance what
 * is under way, to hand over control messages, and to end.
 *
 * One thread at a time is inside: the application's, or the progress thread. Only messages have a lock of their own,
 * and may be called by any thread. Nothing here is sized by the number of ranks.
 */
#ifndef SV_COMM_COMM_H
#define SV_COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base_clocks.h"
#include "base/base_config.h"
#include "base/base_fault.h"
#include "base/base_list.h"
#include "base/base_trace.h"
#include "device/device.h"
#include "host/progress.h"
#include "host/topology.h"
#include "transfer/transfer_mapping.h"
#include "wire/wire.h"
#include <selvage/comm.h>
#include <selvage/exchange.h>
#include <selvage/stats.h>

enum { SV_AGREE_VALUES = 4, SV_AGREE_ROUNDS = 32 };

/* What an agreement has received: a neighbour is at most one agreement ahead, so two generations are enough. */
typedef struct sv_agree_inbox {
    bool valid[2][SV_AGREE_ROUNDS];
    uint64_t value[2][SV_AGREE_ROUNDS][SV_AGREE_VALUES];
    int consumed;                  /* rounds of the agreement under way that were received: their repeats say nothing */
} sv_agree_inbox_t;

/* What this rank has said in the agreement under way, until it is acknowledged. */
typedef struct sv_agree_outbox {
    uint64_t value[SV_AGREE_ROUNDS][SV_AGREE_VALUES];
    uint64_t sequence;
    uint32_t open;                 /* a bit for each round that is not acknowledged */
    unsigned repeats;              /* so far */
    uint64_t repeat_ns;            /* when to say it again */
} sv_agree_outbox_t;

struct sv_coll_arena;
struct sv_exchange_set;
struct sv_message_engine;

/* What the communicator asks of its exchanges; see pipeline/exchange_set.h. On the engine thread. */
typedef struct sv_exchange_set_ops {
    selvage_status_t (*create)(selvage_comm_t *comm);  /* makes comm->exchanges, before the first message arrives */
    bool (*needs_control)(selvage_comm_t *comm);       /* whether this poll is to look for control messages */
    bool (*poll)(selvage_comm_t *comm);                /* advances what is active; whether anything moved */
    bool (*is_idle)(const selvage_comm_t *comm);       /* none is in an epoch, or being destroyed */
    selvage_status_t (*control)(selvage_comm_t *comm, int source, const sv_wire_control_t *message);
    void (*poison)(selvage_comm_t *comm, selvage_status_t status); /* ends those in an epoch: the wire failed */
    unsigned (*count)(const selvage_comm_t *comm);     /* how many were not destroyed */
    void (*detach)(selvage_comm_t *comm, selvage_status_t status); /* the wire ends: ends all, takes requests back */
    void (*release)(selvage_comm_t *comm);             /* frees those left; the device is still there */
    void (*destroy)(selvage_comm_t *comm);             /* frees comm->exchanges; harmless if there is none */
} sv_exchange_set_ops_t;

/* What the communicator asks of the message engine, which has a lock of its own. */
typedef struct sv_messages_ops {
    bool (*poll)(struct sv_message_engine *engine); /* nothing if another thread is inside */
    bool (*is_idle)(struct sv_message_engine *engine); /* no request is open, no acknowledgement awaited or owed */
    /*
     * The end. disconnect() takes leave of the ranks that were written to, and is called until it is done. count() says
     * how many requests are open, and detach() ends those, before the wire goes. is_drained() says that no kernel of
     * this rank's sends can store any more. release() frees everything, except what kernels of any rank may still use.
     */
    selvage_status_t (*disconnect)(struct sv_message_engine *engine, bool *done_out);
    unsigned (*count)(struct sv_message_engine *engine);
    void (*detach)(struct sv_message_engine *engine);
    void (*stats)(struct sv_message_engine *engine, selvage_stats_t *stats); /* fills in those of messages */
    bool (*is_drained)(struct sv_message_engine *engine);
    void (*release)(struct sv_message_engine *engine, bool all_drained);
} sv_messages_ops_t;

/* What a communicator calls its collectives for, where the engine lives. */
typedef struct sv_arena_ops {
    /* Advances calls between nodes that were enqueued; whether anything moved. is_idle: there are none. */
    bool (*poll)(struct sv_coll_arena *arena);
    bool (*is_idle)(const struct sv_coll_arena *arena);
    /* No more is to come, of the wire or of time: calls that are under way fail, and their streams go on. */
    void (*end)(struct sv_coll_arena *arena, selvage_status_t status);
    selvage_status_t (*unmap)(struct sv_coll_arena *arena); /* unmaps peers' memory, before an agreement */
    void (*release)(struct sv_coll_arena *arena, bool parted); /* frees all if parted, else what no peer uses */
} sv_arena_ops_t;

struct selvage_comm {
    sv_config_t config;
    sv_fault_t fault;
    sv_trace_t trace;
    struct sv_stamps *stamps;      /* of blocks of kernels, or NULL: none are taken */
    sv_clock_sample_t clock_first; /* of rank 0's clock, when the communicator was created; if there is a timeline */
    selvage_stats_t stats;
    sv_thread_binding_t binding;   /* of threads that work for this communicator */
    sv_wire_t *wire;
    const sv_thread_binding_t *only_thread; /* whose calls MPI takes, NULL: any thread's; see sv_api_enter() */
    sv_device_t *dev;              /* what the engine uses: maybe a fault wrapper around dev_under */
    sv_device_t *dev_under;        /* what users see */
    bool dev_owned, dev_wrapped, trace_ready, detached, logged_not_able;
    sv_topology_t topology;
    sv_progress_t progress;
    sv_list_t buffers;
    sv_transfer_cache_t mappings;  /* of peers' device memory, for exchanges and collectives */
    struct sv_exchange_set *exchanges;
    const sv_exchange_set_ops_t *exchanges_ops;
    /* What collectives have mapped on this node, or NULL, and how it ends (collective/coll_arena.c). */
    struct sv_coll_arena *arena;
    const sv_arena_ops_t *arena_ops;
    struct sv_message_engine *_Atomic messages; /* NULL before the first message; released by who made it */
    const sv_messages_ops_t *messages_ops;
    bool messages_undrained;                    /* at destroying: kernels of some rank's sends may still store */
    pthread_mutex_t messages_lock;              /* for making it */
    _Atomic bool device_stuck;                  /* a kernel does not end: what waits for the device would for ever */
    _Atomic uintptr_t exchange_thread;          /* who started an exchange last: its binding's address */
    sv_agree_inbox_t agree;
    sv_agree_outbox_t agree_out;
    uint64_t agreements;           /* collective calls agreed on so far: their sequence number */
    uint64_t nonce;                /* agreed at creation; exchange ids are made from it */
    double timeout_s;
    size_t message_slot_bytes; /* as the caller wants it, or 0 */
    selvage_status_t broken;       /* first error that ended collective use of the communicator */
    char broken_text[SV_DETAIL_BYTES]; /* what was said of it, which names the rank; or "" */
};

/* Collective over the wire, which is taken over (and closed on failure). exchanges is sv_exchange_set_ops, which this
   module cannot name. Partner: sv_comm_destroy(). */
selvage_status_t sv_comm_create(sv_wire_t *wire, const selvage_comm_params_t *params,
                                const sv_exchange_set_ops_t *exchanges, selvage_comm_t **comm_out);
/* For a communicator that was created without a device. Runs where its engine lives. */
selvage_status_t sv_comm_set_device(selvage_comm_t *comm, sv_device_t *device);
void sv_comm_destroy(selvage_comm_t *comm);

/* Advances control messages and every active exchange once; returns whether anything moved. Engine thread only. */
bool sv_comm_poll(void *comm);
/* Before a gathering that is none of collectives' own: drives those that were enqueued until they are through or have
   failed, since they gather by the same messages. Engine thread only. */
void sv_comm_settle(selvage_comm_t *comm);
/* Fills the topology: nodes, who shares a GPU, what lies next to it. Collective, and agreed on. See comm_locality.c. */
selvage_status_t sv_comm_locate(selvage_comm_t *comm);
/* ERR_MISMATCH, which names the setting, unless all ranks have those alike that they need alike, and run one release.
   Collective. */
selvage_status_t sv_comm_agree_settings(selvage_comm_t *comm);
/* The same of releases alone; number is this rank's, as SELVAGE_VERSION_NUMBER counts. Collective. */
selvage_status_t sv_comm_agree_release(selvage_comm_t *comm, uint64_t number);

/* Ends collective use of the communicator, unless an earlier error has: keeps the status, and this thread's detail for
   the calls that are refused for it. Engine thread only; who only asks for the status need not hold the lock. */
void sv_comm_break(selvage_comm_t *comm, selvage_status_t status);
/* Why the communicator is broken. */
const char *sv_comm_broken_text(const selvage_comm_t *comm);

/* Quiesces everything at MPI_Finalize and reports what is left. */
void sv_comm_at_finalize(void *comm);

/* Copies the counters; runs where the engine lives. */
void sv_comm_stats(selvage_comm_t *comm, selvage_stats_t *stats_out);

/*
 * A bounded wait of the engine itself (set-up, destroy). After sv_deadline_begin(), sv_deadline_poll() is called until
 * the condition holds. It returns SELVAGE_ERR_TIMEOUT, unlogged, once nothing has moved for the deadline.
 */
typedef struct sv_deadline {
    selvage_comm_t *comm;
    double timeout_s;
    uint64_t since_ns;
    sv_backoff_t backoff;
} sv_deadline_t;

void sv_deadline_begin(sv_deadline_t *deadline, selvage_comm_t *comm, double timeout_s);
selvage_status_t sv_deadline_poll(sv_deadline_t *deadline);
/* The same without driving anything or backing off: for who is driven himself. */
selvage_status_t sv_deadline_check(const sv_deadline_t *deadline);

/* Binds the calling thread to the communicator for the log and for call faults. */
static inline void sv_comm_bind(const selvage_comm_t *comm)
{
    *sv_thread_binding() = comm->binding;
}

#endif
