/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public call that declares packets by the neighbours of a distributed graph of MPI. All of them are looked at
 * before the first is declared, so that a refusal leaves the exchange as it was. MPI is asked in the engine's thread.
 */
#include <stdio.h>

#include "api/api_packet.h"
#include "api/api_params.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_task.h"
#include "host/memory_kind.h"
#include "wire/wire_mpi_graph.h"

/* One direction: a packet for each of the neighbours, whose bytes lie in one array. */
typedef struct side {
    const char *kind; /* of the neighbours */
    const char *lengths_name;
    uint8_t *data;
    const size_t *bytes, *offsets;
    int count;
    const int *ranks;
} side_t;

typedef struct graph_call {
    sv_wire_t *wire;
    MPI_Comm graph;
    sv_wire_graph_t found;
} graph_call_t;

static const char call_name[] = "selvage_exchange_add_graph";

static selvage_status_t run_graph_read(void *arg)
{
    graph_call_t *call = arg;
    return sv_wire_mpi_graph_read(call_name, call->wire, call->graph, &call->found);
}

/* Where packet i begins. *next is where it does if nobody says so, and then where the one after it does. */
static uint8_t *place_packet(const side_t *side, int i, size_t *next)
{
    const size_t offset = side->offsets ? side->offsets[i] : *next;
    *next = offset + side->bytes[i];
    return side->data ? side->data + offset : NULL;
}

static selvage_status_t check_side(const selvage_exchange_t *ex, const side_t *side, int tag)
{
    size_t next = 0;
    if (side->count > 0 && !side->bytes)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is NULL, and graph has %d %ss", call_name, side->lengths_name,
                        side->count, side->kind);
    for (int i = 0; i < side->count; i++) {
        char name[96];
        void *address;
        snprintf(name, sizeof name, "%s: %s %d, rank %d", call_name, side->kind, i, side->ranks[i]);
        if (side->offsets && side->offsets[i] > SIZE_MAX / 4)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: its offset is %zu, more than memory can hold", name,
                            side->offsets[i]);
        if (next > SIZE_MAX / 4)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: those before it have %zu bytes, more than memory can hold", name,
                            next);
        uint8_t *data = place_packet(side, i, &next);
        SV_TRY(sv_api_check_packet(name, ex, data, side->bytes[i], side->ranks[i], tag));
        SV_TRY(sv_memory_admit(ex->comm->dev, name, data, side->bytes[i], &address));
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t add_side(selvage_exchange_t *ex, const side_t *side, bool sends, int tag)
{
    size_t next = 0;
    for (int i = 0; i < side->count; i++) {
        uint8_t *data = place_packet(side, i, &next);
        if (side->ranks[i] == MPI_PROC_NULL)
            continue;
        SV_TRY(sends ? sv_exchange_add_send(ex, data, side->bytes[i], side->ranks[i], tag, NULL)
                     : sv_exchange_add_recv(ex, data, side->bytes[i], side->ranks[i], tag, NULL));
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_exchange_add_graph(selvage_exchange_t *ex, MPI_Comm graph, const void *send,
                                            const size_t *send_bytes, const size_t *send_offset_bytes, void *recv,
                                            const size_t *recv_bytes, const size_t *recv_offset_bytes, int tag)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    /* Also where there are no neighbours. */
    selvage_status_t status = sv_api_check_packet(call_name, ex, NULL, 0, MPI_PROC_NULL, tag);
    graph_call_t call = {.wire = ex->comm->wire, .graph = graph};
    if (status == SELVAGE_SUCCESS)
        status = sv_comm_run(ex->comm, run_graph_read, &call);
    if (status != SELVAGE_SUCCESS)
        return sv_api_leave(status);
    const side_t sends = {"destination", "send_bytes", (uint8_t *)(uintptr_t)send, send_bytes, send_offset_bytes,
                          call.found.ndestinations, call.found.destinations};
    const side_t recvs = {"source", "recv_bytes", recv, recv_bytes, recv_offset_bytes, call.found.nsources,
                          call.found.sources};
    status = check_side(ex, &sends, tag);
    if (status == SELVAGE_SUCCESS)
        status = check_side(ex, &recvs, tag);
    if (status == SELVAGE_SUCCESS)
        status = add_side(ex, &sends, true, tag);
    if (status == SELVAGE_SUCCESS)
        status = add_side(ex, &recvs, false, tag);
    sv_free(call.found.sources);
    return sv_api_leave(status);
}
