/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A wire that fails on purpose. It passes every call to the wire that it owns, but first asks the calling thread's
 * faults whether the call is to fail. A refused call has done nothing: a request stays open and can be tested again or
 * cancelled. Cancel and close never fail, so they are not asked about. One thread at a time uses it, like the wire
 * inside. It exists only where faults were configured, so ordinary runs pay nothing.
 */
#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire.h"

typedef struct fault_wire {
    sv_wire_t base; /* first, so that the public pointer is this one */
    sv_wire_t *inner; /* owned */
} fault_wire_t;

static sv_wire_t *inner_wire_of(sv_wire_t *wire)
{
    return ((fault_wire_t *)wire)->inner;
}

static selvage_status_t inject_call_fault(const char *call)
{
    if (sv_fault_call_fails(SV_FAULT_CALL_WIRE))
        return sv_error(SELVAGE_ERR_MPI, "injected fault: wire call %s", call);
    return SELVAGE_SUCCESS;
}

/* A call that is refused if it is the one to fail, and else is that of the wire inside. */
#define CAN_FAIL(call, parameters, arguments)                   \
    static selvage_status_t fault_##call parameters             \
    {                                                           \
        SV_TRY(inject_call_fault(#call));                       \
        sv_wire_t *inner = inner_wire_of(wire);                 \
        return sv_wire_##call arguments;                        \
    }

CAN_FAIL(send, (sv_wire_t *wire, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer, int tag,
                sv_wire_request_t *request_out),
         (inner, channel, buf, bytes, peer, tag, request_out))
CAN_FAIL(recv, (sv_wire_t *wire, sv_wire_channel_t channel, void *buf, size_t capacity, int peer, int tag,
                sv_wire_request_t *request_out),
         (inner, channel, buf, capacity, peer, tag, request_out))
CAN_FAIL(test, (sv_wire_t *wire, sv_wire_request_t *request, size_t *bytes_out), (inner, request, bytes_out))
CAN_FAIL(control_send, (sv_wire_t *wire, int peer, sv_wire_control_t *message), (inner, peer, message))

static void fault_wire_close(sv_wire_t *wire)
{
    sv_wire_t *inner = inner_wire_of(wire);
    inner->ops->close(inner);
    sv_free(wire);
}

static selvage_status_t fault_cancel(sv_wire_t *wire, sv_wire_request_t *request)
{
    return sv_wire_cancel(inner_wire_of(wire), request);
}

static selvage_status_t fault_control_poll(sv_wire_t *wire, int *source_out, sv_wire_control_t *message_out)
{
    SV_TRY(inject_call_fault("control_poll"));
    selvage_status_t status = sv_wire_control_poll(inner_wire_of(wire), source_out, message_out);
    wire->control_damaged = inner_wire_of(wire)->control_damaged;
    return status;
}

static selvage_status_t fault_node_ranks(sv_wire_t *wire, int **ranks_out, int *count_out)
{
    int *ranks = NULL, count = 0;
    /* Asked afterwards: the call is collective, and the other ranks must not wait for one that fails. */
    SV_TRY(inner_wire_of(wire)->ops->node_ranks(inner_wire_of(wire), &ranks, &count));
    selvage_status_t status = inject_call_fault("node_ranks");
    if (status != SELVAGE_SUCCESS) {
        sv_free(ranks);
        return status;
    }
    *ranks_out = ranks;
    *count_out = count;
    return SELVAGE_SUCCESS;
}

static const sv_wire_ops_t fault_ops = {
    .abi = SV_WIRE_ABI,
    .name = "fault",
    .close = fault_wire_close,
    .send = fault_send,
    .recv = fault_recv,
    .test = fault_test,
    .cancel = fault_cancel,
    .control_send = fault_control_send,
    .control_poll = fault_control_poll,
    .node_ranks = fault_node_ranks,
};

selvage_status_t sv_wire_fault_wrap(sv_wire_t **wire_inout)
{
    fault_wire_t *wrapper = NULL;
    SV_TRY(sv_calloc(1, sizeof *wrapper, &wrapper));
    wrapper->base = **wire_inout; /* rank, size, tag_max, threads_ok and the count so far */
    wrapper->base.ops = &fault_ops;
    wrapper->inner = *wire_inout;
    *wire_inout = &wrapper->base;
    return SELVAGE_SUCCESS;
}

sv_wire_t *sv_wire_fault_inner(sv_wire_t *wire)
{
    return wire->ops == &fault_ops ? inner_wire_of(wire) : wire;
}
