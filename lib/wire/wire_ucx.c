/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UCX wire's life: a context and a worker of its own for each wire, on a wire over MPI.
 *
 * - What needs no other rank is done first (create), so that all ranks can agree on it before any uses UCX.
 * - The end is collective as far as the others come too, also for a rank whose wire has failed, since others do not
 *   know. All ranks arrive, then each lets its endpoints send what they still have, then all arrive again, and only
 *   then workers go: a worker that is gone would look like a dead process. Each step is bounded. While it takes them, a
 *   rank lets UCX advance.
 * - What UCX does not finish by then is left to it, with its memory.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_config.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_mpi_datatype.h"
#include "wire/wire_ucx_private.h"

enum { CLOSE_SLEEP_US = 200, ARRIVE_ROUNDS = 32, WATCH_EVERY = 16 };

#define CLOSE_LIMIT_NS UINT64_C(5000000000)
#define RARE_NS UINT64_C(2000000)

void sv_ucx_progress(sv_wire_ucx_t *wire)
{
    wire->moved = wire->ucp->worker_progress(wire->worker) != 0;
    sv_ucx_exchange_addresses(wire);
    if (++wire->unwatched_polls >= wire->watch_every) {
        const uint64_t looked_ns = wire->looked_ns;
        wire->looked_ns = sv_clock_ns();
        wire->unwatched_polls = 0;
        /* Who polls rarely looks at the clock each time, so that it watches too. */
        wire->watch_every = wire->looked_ns - looked_ns > RARE_NS ? 1 : WATCH_EVERY;
        sv_ucx_watch_check(wire, wire->looked_ns);
    }
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* A dissemination barrier by MPI's wire, during which UCX advances. Nothing else uses that wire's messages. False: not
   all came in time. */
static bool arrive_together(sv_wire_ucx_t *wire, int turn)
{
    sv_wire_t *mpi = wire->mpi;
    const uint64_t deadline_ns = sv_clock_ns() + CLOSE_LIMIT_NS;
    sv_backoff_t backoff = {.max_sleep_us = CLOSE_SLEEP_US};
    for (int round = 0; round < ARRIVE_ROUNDS && (INT64_C(1) << round) < mpi->size; round++) {
        const int step = 1 << round, tag = turn * ARRIVE_ROUNDS + round;
        sv_wire_request_t out = {{0}}, in = {{0}};
        if (sv_wire_recv(mpi, SV_WIRE_SETUP, NULL, 0, (mpi->rank + mpi->size - step) % mpi->size, tag, &in) !=
                SELVAGE_SUCCESS ||
            sv_wire_send(mpi, SV_WIRE_SETUP, NULL, 0, (mpi->rank + step) % mpi->size, tag, &out) != SELVAGE_SUCCESS)
            return false;
        selvage_status_t sent = SELVAGE_IN_PROGRESS, came = SELVAGE_IN_PROGRESS;
        while (sent == SELVAGE_IN_PROGRESS || came == SELVAGE_IN_PROGRESS) {
            sv_ucx_progress(wire);
            if (sent == SELVAGE_IN_PROGRESS)
                sent = sv_wire_test(mpi, &out, NULL);
            if (came == SELVAGE_IN_PROGRESS)
                came = sv_wire_test(mpi, &in, NULL);
            if (sv_clock_ns() > deadline_ns) {
                (void)sv_wire_cancel(mpi, &in);
                (void)sv_wire_cancel(mpi, &out);
                return false;
            }
            sv_backoff(&backoff);
        }
        if (sent != SELVAGE_SUCCESS || came != SELVAGE_SUCCESS)
            return false;
    }
    return true;
}

/* Closes all endpoints: what they have is sent before, unless they are forced. UCX forces those only that it watches.
   False: some are still at work. */
static bool close_endpoints(sv_wire_ucx_t *wire, bool forced)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS};
    sv_backoff_t backoff = {.max_sleep_us = CLOSE_SLEEP_US};
    const uint64_t deadline_ns = sv_clock_ns() + CLOSE_LIMIT_NS;
    bool all = true;
    wire->closing = true;
    for (int i = 0; i < wire->base.size; i++) {
        sv_ucx_peer_t *peer = wire->peers[i];
        if (!peer || !peer->endpoint)
            continue;
        const bool force = (forced || peer->state == SV_UCX_GONE) && !peer->unwatched;
        param.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
        void *request = wire->ucp->ep_close_nbx(peer->endpoint, &param);
        peer->endpoint = NULL;
        all = all && !UCS_PTR_IS_ERR(request);
        peer->closing = UCS_PTR_IS_ERR(request) ? NULL : request;
    }
    for (int i = 0; i < wire->base.size; i++) {
        const sv_ucx_peer_t *peer = wire->peers[i];
        if (!peer || !peer->closing)
            continue;
        ucs_status_t status;
        while ((status = wire->ucp->request_check_status(peer->closing)) == UCS_INPROGRESS &&
               sv_clock_ns() < deadline_ns) {
            wire->ucp->worker_progress(wire->worker);
            sv_backoff(&backoff);
        }
        all = all && status != UCS_INPROGRESS;
        if (status != UCS_INPROGRESS)
            wire->ucp->request_free(peer->closing);
    }
    return all;
}

static void release_ucx(sv_wire_ucx_t *wire)
{
    sv_ucx_watch_end(wire); /* of a wire that is discarded */
    sv_free(wire->address);
    if (wire->worker)
        wire->ucp->worker_destroy(wire->worker);
    if (wire->context)
        wire->ucp->cleanup(wire->context);
    sv_ucx_control_end(wire);
    sv_ucx_free_peers(wire);
    sv_ucx_free_operations(wire);
    pthread_mutex_destroy(&wire->lock);
    sv_free(wire);
}

void sv_wire_ucx_discard(sv_wire_ucx_t *ucx)
{
    if (ucx)
        release_ucx(ucx);
}

static void ucx_close(sv_wire_t *base)
{
    sv_wire_ucx_t *wire = (sv_wire_ucx_t *)base;
    if (!wire)
        return;
    sv_ucx_lock(wire);
    wire->ending = true;
    sv_ucx_watch_say_farewell(wire);
    bool together = sv_wire_mpi_is_usable() && wire->broken == SELVAGE_SUCCESS && arrive_together(wire, 0);
    const bool quiet = close_endpoints(wire, !together);
    together = together && arrive_together(wire, 1);
    if (!together && !base->failed)
        sv_log(SV_LOG_WARN, "wire", "not all ranks closed their UCX wires within %d s",
               (int)(CLOSE_LIMIT_NS / 1000000000));
    wire->mpi->failed |= !together;
    sv_ucx_watch_end(wire);
    sv_ucx_unlock(wire);
    wire->mpi->ops->close(wire->mpi);
    if (quiet)
        release_ucx(wire);
    else
        sv_log(SV_LOG_WARN, "wire", "UCX was still sending at close; its memory is left to it");
}

/* --- the beginning ------------------------------------------------------------------------------------------------ */

static selvage_status_t ucx_node_ranks(sv_wire_t *base, int **ranks_out, int *count_out)
{
    sv_wire_t *mpi = ((sv_wire_ucx_t *)base)->mpi;
    return mpi->ops->node_ranks(mpi, ranks_out, count_out);
}

static void ucx_advance(sv_wire_t *base)
{
    sv_wire_ucx_t *wire = (sv_wire_ucx_t *)base;
    sv_ucx_lock(wire);
    sv_ucx_progress(wire);
    sv_ucx_unlock(wire);
}

static const sv_wire_ops_t ucx_ops = {
    .abi = SV_WIRE_ABI,
    .name = "ucx",
    .close = ucx_close,
    .send = sv_ucx_send,
    .recv = sv_ucx_recv,
    .test = sv_ucx_test,
    .cancel = sv_ucx_cancel,
    .control_send = sv_ucx_control_send,
    .control_poll = sv_ucx_control_poll,
    .node_ranks = ucx_node_ranks,
    .advance = ucx_advance,
};

static selvage_status_t check_ucx(const sv_wire_ucx_t *wire, ucs_status_t status, const char *what)
{
    if (status == UCS_OK)
        return SELVAGE_SUCCESS;
    return sv_error(status == UCS_ERR_NO_MEMORY ? SELVAGE_ERR_MEMORY : SELVAGE_ERR_SYSTEM, "UCX: %s: %s", what,
                    wire->ucp->status_string(status));
}

/* What this wire wants otherwise than UCX. A variable of the user's goes first. */
static const struct {
    const char *variable, *value;
    bool rails; /* only where each device reaches the other ranks */
} settings[] = {
    {"UCX_KEEPALIVE_INTERVAL", "1s", false}, /* not 20 s */
    /* Not 1. Over TCP UCX has no rendezvous but by fragments of eager messages, so this spreads long messages over two
       devices. Short ones go by the first. */
    {"UCX_MAX_EAGER_RAILS", "2", true},
};

static selvage_status_t open_context(sv_wire_ucx_t *wire, bool two_rails)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_AM,
                                 .estimated_num_eps = 8};
    ucp_config_t *config;
    SV_TRY(check_ucx(wire, wire->ucp->config_read(NULL, NULL, &config), "its configuration"));
    const bool is_safe = two_rails || sv_config_is_set("UCX_NET_DEVICES");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        /* A UCX that does not know it goes on as it was. */
        if (!sv_config_is_set(settings[i].variable) && (!settings[i].rails || is_safe))
            (void)wire->ucp->config_modify(config, settings[i].variable + strlen("UCX_"), settings[i].value);
    const ucs_status_t status =
        wire->ucp->init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &wire->context);
    wire->ucp->config_release(config);
    SV_TRY(check_ucx(wire, status, "a context"));
    sv_ucx_describe(wire->ucp, wire->context, wire->text, sizeof wire->text);
    return SELVAGE_SUCCESS;
}

/* What other ranks are told: how they watch this one, and UCX's address. */
static selvage_status_t write_address(sv_wire_ucx_t *wire)
{
    ucp_address_t *address;
    sv_ucx_contact_t contact;
    size_t bytes;
    sv_ucx_watch_begin(wire, &contact);
    SV_TRY(check_ucx(wire, wire->ucp->worker_get_address(wire->worker, &address, &bytes), "the worker's address"));
    selvage_status_t status = bytes + sizeof contact <= UINT16_MAX
                                  ? sv_calloc(1, bytes + sizeof contact, &wire->address)
                                  : sv_error(SELVAGE_ERR_LIMIT, "UCX: an address of %zu bytes", bytes);
    if (status == SELVAGE_SUCCESS) {
        memcpy(wire->address, &contact, sizeof contact);
        memcpy(wire->address + sizeof contact, address, bytes);
        wire->address_bytes = bytes + sizeof contact;
    }
    wire->ucp->worker_release_address(wire->worker, address);
    return status;
}

static selvage_status_t open_worker(sv_wire_ucx_t *wire)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    SV_TRY(check_ucx(wire, wire->ucp->worker_create(wire->context, &params, &wire->worker), "a worker"));
    SV_TRY(sv_ucx_control_begin(wire));
    return write_address(wire);
}

selvage_status_t sv_wire_ucx_create(int size, bool two_rails, sv_wire_ucx_t **ucx_out)
{
    sv_wire_ucx_t *wire = NULL;
    const sv_ucx_library_t *library;
    sv_config_t config = {0};
    SV_TRY(sv_ucx_load(&library));
    SV_TRY(sv_calloc(1, sizeof *wire, &wire));
    wire->ucp = library;
    pthread_mutex_init(&wire->lock, NULL); /* default attributes: cannot fail on Linux */
    sv_list_init(&wire->telling);
    sv_list_init(&wire->idle);
    selvage_status_t status = sv_config_load_one("SELVAGE_WIRE_SILENCE_S", &config);
    wire->watcher.silence_ns = config.wire_silence_s > 0 ? (uint64_t)(config.wire_silence_s * 1e9) : 0;
    if (status == SELVAGE_SUCCESS)
        status = sv_calloc((size_t)size, sizeof *wire->peers, &wire->peers);
    if (status == SELVAGE_SUCCESS)
        status = open_context(wire, two_rails);
    if (status == SELVAGE_SUCCESS)
        status = open_worker(wire);
    if (status != SELVAGE_SUCCESS) {
        release_ucx(wire);
        return status;
    }
    *ucx_out = wire;
    return SELVAGE_SUCCESS;
}

void sv_wire_ucx_attach(sv_wire_ucx_t *ucx, sv_wire_t **wire_inout)
{
    ucx->mpi = *wire_inout;
    ucx->base = **wire_inout; /* rank, size, what threads may do */
    ucx->base.ops = &ucx_ops;
    ucx->base.text = ucx->text;
    ucx->base.tag_max = INT32_MAX; /* a part of UCX's own tag */
    ucx->base.takes_cuda = ucx->base.takes_hip = 0;
    *wire_inout = &ucx->base;
}
