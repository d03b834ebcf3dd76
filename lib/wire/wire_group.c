/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file hands host memory to MPI's own collectives. A group owns a communicator, and operations for what MPI cannot
 * add: short floats, and the least and largest of floats, where MPI leaves open what becomes of numbers that are none.
 * And for sums of bytes, which Open MPI 4.1 does not let wrap where it adds by AVX, and the least and largest of
 * unsigned integers, which MPICH 4.0 compares as signed ones. Everything else is MPI's own operation on MPI's own type,
 * because networks that add know only those.
 *
 * Errors come back as codes (MPI_ERRORS_RETURN). A request that a failure left behind is never freed, and neither is
 * the communicator then: MPI may still read and write what it was given.
 */
#include <limits.h>
#include <mpi.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_group.h"
#include "wire/wire_mpi_datatype.h"
#include "wire/wire_mpi_private.h"

/* On the set-up channel of MPI's wire: tags after those of collectives, and before those of commits. */
enum { MEET_TAG = 38, MEET_COPIES = 2, MEET_SLEEP_US = 200, MEET_SECOND_NS = 200000000 };

#define SHORT_FLOAT(X, type) X(type, SUM) X(type, PROD) X(type, MIN) X(type, MAX)
#define OWN_OPERATIONS(X)                                                                                             \
    SHORT_FLOAT(X, FLOAT16) SHORT_FLOAT(X, BFLOAT16) SHORT_FLOAT(X, FLOAT8_E4M3) SHORT_FLOAT(X, FLOAT8_E5M2)           \
    X(FLOAT32, MIN) X(FLOAT32, MAX) X(FLOAT64, MIN) X(FLOAT64, MAX) X(INT8, SUM) X(UINT8, SUM)                         \
    X(UINT8, MIN) X(UINT8, MAX) X(UINT32, MIN) X(UINT32, MAX) X(UINT64, MIN) X(UINT64, MAX)

enum {
#define OWN_NUMBER(type, op) OWN_##type##_##op,
    OWN_OPERATIONS(OWN_NUMBER)
#undef OWN_NUMBER
    OWN_COUNT
};

struct sv_wire_group {
    sv_wire_t *wire;           /* without the wrapper that fails calls */
    MPI_Comm comm;
    MPI_Op own[OWN_COUNT];
    uint64_t open;             /* started and not complete */
    bool fails_on_purpose;     /* the wire is one that asks whether calls are to fail */
};

/* The same for all groups. MPI tells an operation nothing but elements. Partner: the store in
   sv_wire_group_create(). */
static _Atomic(sv_wire_combine_fn) combine_elements;

#define OWN_FUNCTION(type, op)                                                                                         \
    static void combine_##type##_##op(void *in, void *inout, int *count, MPI_Datatype *datatype)                       \
    {                                                                                                                  \
        int bytes = 0;                                                                                                 \
        PMPI_Type_size(*datatype, &bytes);                                                                             \
        combine_elements(inout, in, (uint64_t)*count * (uint64_t)bytes, SELVAGE_##type, SELVAGE_OP_##op, 0);           \
    }
OWN_OPERATIONS(OWN_FUNCTION)
#undef OWN_FUNCTION

static MPI_User_function *const own_function[OWN_COUNT] = {
#define OWN_ENTRY(type, op) combine_##type##_##op,
    OWN_OPERATIONS(OWN_ENTRY)
#undef OWN_ENTRY
};

/* --- what MPI calls it -------------------------------------------------------------------------------------------- */

static MPI_Datatype find_element_type(unsigned type)
{
    switch (type) {
    case SELVAGE_INT8: return MPI_INT8_T;
    case SELVAGE_INT32: return MPI_INT32_T;
    case SELVAGE_UINT32: return MPI_UINT32_T;
    case SELVAGE_INT64: return MPI_INT64_T;
    case SELVAGE_UINT64: return MPI_UINT64_T;
    case SELVAGE_FLOAT16: case SELVAGE_BFLOAT16: return MPI_UINT16_T;
    case SELVAGE_FLOAT32: return MPI_FLOAT;
    case SELVAGE_FLOAT64: return MPI_DOUBLE;
    default: return MPI_UINT8_T;
    }
}

/* Of the group's own operations; OWN_COUNT: MPI's. */
static unsigned find_own(unsigned type, unsigned op)
{
#define OWN_CASE(a, b)                                                                                                 \
    if (type == SELVAGE_##a && op == SELVAGE_OP_##b)                                                                   \
        return OWN_##a##_##b;
    OWN_OPERATIONS(OWN_CASE)
#undef OWN_CASE
    return OWN_COUNT;
}

static MPI_Op find_operation(const sv_wire_group_t *group, unsigned type, unsigned op)
{
    const unsigned own = find_own(type, op);
    if (own < OWN_COUNT)
        return group->own[own];
    return op == SELVAGE_OP_SUM ? MPI_SUM : op == SELVAGE_OP_PROD ? MPI_PROD : op == SELVAGE_OP_MIN ? MPI_MIN : MPI_MAX;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* A token that comes from one member and goes to another, by MPI's wire. */
typedef struct meeting {
    int to, from;
    sv_wire_request_t out[MEET_COPIES], in[MEET_COPIES];
} meeting_t;

static bool is_token_open(const sv_wire_request_t *request)
{
    return (request->word[0] | request->word[1] | request->word[2] | request->word[3]) != 0;
}

/* How many of the requests are over. An error of MPI's leaves one open, as if its token were lost. */
static int count_tokens(sv_wire_t *mpi, sv_wire_request_t *request)
{
    int over = 0;
    for (int i = 0; i < MEET_COPIES; i++)
        over += !is_token_open(&request[i]) || sv_wire_test(mpi, &request[i], NULL) == SELVAGE_SUCCESS;
    return over;
}

/* One step of a dissemination barrier. Every token is there twice: the second is waited for a little only. */
static selvage_status_t meet_once(sv_wire_t *above, meeting_t *meeting, uint64_t end_ns)
{
    sv_wire_t *mpi = above->mpi;
    sv_backoff_t backoff = {.max_sleep_us = MEET_SLEEP_US};
    uint64_t first_ns = 0;
    int came = 0, left = 0;
    for (int i = 0; i < MEET_COPIES; i++) {
        SV_TRY(sv_wire_recv(mpi, SV_WIRE_SETUP, NULL, 0, meeting->from, MEET_TAG + i, &meeting->in[i]));
        SV_TRY(sv_wire_send(mpi, SV_WIRE_SETUP, NULL, 0, meeting->to, MEET_TAG + i, &meeting->out[i]));
    }
    while (came < MEET_COPIES || left < MEET_COPIES) {
        const uint64_t now_ns = sv_clock_ns();
        if (above->ops->advance)
            above->ops->advance(above);
        left = count_tokens(mpi, meeting->out);
        came = count_tokens(mpi, meeting->in);
        if (came > 0 && left == MEET_COPIES && first_ns == 0)
            first_ns = now_ns;
        if (first_ns > 0 && now_ns - first_ns > MEET_SECOND_NS)
            break;
        if (now_ns > end_ns)
            return sv_error(SELVAGE_ERR_MPI, "rank %d did not come to make a communicator of MPI's", meeting->from);
        sv_backoff(&backoff);
    }
    return SELVAGE_SUCCESS;
}

/* MPI blocks where it makes a communicator until all members have come, and none can be called back. So all are here
   before, or this is an error: one that has failed meanwhile does not come, and no token that is lost makes one wait in
   MPI alone. A wire above MPI's advances, too, which may still have messages that others wait for before they come. */
static selvage_status_t meet_members(sv_wire_t *above, const int *ranks, int count, double timeout_s)
{
    const uint64_t end_ns = timeout_s < 0 ? UINT64_MAX : sv_clock_ns() + (uint64_t)(timeout_s * 1e9);
    int me = 0;
    while (ranks[me] != above->rank)
        me++;
    for (int step = 1; step < count; step *= 2) {
        meeting_t meeting = {.to = ranks[(me + step) % count], .from = ranks[(me + count - step) % count]};
        const selvage_status_t status = meet_once(above, &meeting, end_ns);
        for (int i = 0; i < MEET_COPIES; i++) {
            (void)sv_wire_cancel(above->mpi, &meeting.in[i]);
            (void)sv_wire_cancel(above->mpi, &meeting.out[i]);
        }
        SV_TRY(status);
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t make_member_comm(const sv_wire_mpi_t *mpi, const int *ranks, int count, int tag, MPI_Comm *out)
{
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    int code = PMPI_Comm_group(mpi->comm[SV_WIRE_SETUP], &all);
    if (code == MPI_SUCCESS)
        code = PMPI_Group_incl(all, count, ranks, &members);
    if (code == MPI_SUCCESS)
        code = PMPI_Comm_create_group(mpi->comm[SV_WIRE_SETUP], members, tag, out);
    if (code == MPI_SUCCESS)
        code = PMPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    if (members != MPI_GROUP_NULL)
        PMPI_Group_free(&members);
    if (all != MPI_GROUP_NULL)
        PMPI_Group_free(&all);
    return code == MPI_SUCCESS ? SELVAGE_SUCCESS : sv_wire_mpi_error(code, "MPI_Comm_create_group");
}

selvage_status_t sv_wire_group_create(sv_wire_t *wire, sv_wire_combine_fn combine, sv_wire_group_t **group_out)
{
    sv_wire_t *inner = sv_wire_fault_inner(wire);
    sv_wire_group_t *group;
    if (!inner->mpi)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "the wire %s does not stand on MPI, which has the collectives",
                        wire->text);
    SV_TRY(sv_calloc(1, sizeof *group, &group));
    group->wire = inner;
    group->comm = MPI_COMM_NULL;
    group->fails_on_purpose = inner != wire;
    for (int i = 0; i < OWN_COUNT; i++)
        group->own[i] = MPI_OP_NULL;
    atomic_store(&combine_elements, combine);
    *group_out = group;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_group_connect(sv_wire_group_t *group, const int *ranks, int count, int tag, double timeout_s)
{
    const sv_wire_mpi_t *mpi = (const sv_wire_mpi_t *)group->wire->mpi;
    int code = MPI_SUCCESS;
    SV_TRY(meet_members(group->wire, ranks, count, timeout_s));
    SV_TRY(make_member_comm(mpi, ranks, count, tag, &group->comm));
    for (int i = 0; i < OWN_COUNT && code == MPI_SUCCESS; i++)
        code = PMPI_Op_create(own_function[i], 1, &group->own[i]);
    return code == MPI_SUCCESS ? SELVAGE_SUCCESS : sv_wire_mpi_error(code, "MPI_Op_create");
}

void sv_wire_group_close(sv_wire_group_t *group, bool is_failed)
{
    if (!group)
        return;
    if (group->open == 0 && !is_failed && sv_wire_mpi_is_usable()) {
        for (int i = 0; i < OWN_COUNT; i++)
            if (group->own[i] != MPI_OP_NULL)
                PMPI_Op_free(&group->own[i]);
        if (group->comm != MPI_COMM_NULL)
            PMPI_Comm_free(&group->comm);
    }
    sv_free(group);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static selvage_status_t inject_group_fault(const sv_wire_group_t *group, const char *call)
{
    if (group->fails_on_purpose && sv_fault_call_fails(SV_FAULT_CALL_WIRE))
        return sv_error(SELVAGE_ERR_MPI, "injected fault: wire call %s", call);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_group_start(sv_wire_group_t *group, const sv_wire_group_call_t *call,
                                     sv_wire_group_request_t *request_out)
{
    const MPI_Datatype type = find_element_type(call->type);
    MPI_Request handle = MPI_REQUEST_NULL;
    const char *name = "MPI_Ibcast";
    int code;
    SV_TRY(inject_group_fault(group, "group_start"));
    if (call->bytes > INT_MAX)
        return sv_error(SELVAGE_ERR_LIMIT, "%zu bytes are more than one collective of MPI's takes", call->bytes);
    const int count = (int)(call->bytes / call->element_bytes);
    switch (call->kind) {
    case SV_WIRE_ALL_REDUCE:
        name = "MPI_Iallreduce";
        code = PMPI_Iallreduce(call->send, call->recv, count, type, find_operation(group, call->type, call->op),
                               group->comm, &handle);
        break;
    case SV_WIRE_REDUCE:
        name = "MPI_Ireduce";
        code = PMPI_Ireduce(call->send, call->recv, count, type, find_operation(group, call->type, call->op),
                            call->root, group->comm, &handle);
        break;
    default:
        code = PMPI_Ibcast(call->recv, (int)call->bytes, MPI_BYTE, call->root, group->comm, &handle);
    }
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "%s of %zu bytes", name, call->bytes);
    *request_out = (sv_wire_group_request_t){.is_open = 1};
    memcpy(&request_out->handle, &handle, sizeof handle);
    group->open++;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_group_test(sv_wire_group_t *group, sv_wire_group_request_t *request)
{
    MPI_Request handle;
    MPI_Status status;
    int done = 0;
    if (!request->is_open)
        return SELVAGE_SUCCESS;
    SV_TRY(inject_group_fault(group, "group_test"));
    memcpy(&handle, &request->handle, sizeof handle);
    if (handle == MPI_REQUEST_NULL)
        return sv_error(SELVAGE_ERR_MPI, "a collective of MPI's has failed before");
    const int code = PMPI_Test(&handle, &done, &status);
    /* After an error MPICH has freed the request, and Open MPI keeps it. */
    memcpy(&request->handle, &handle, sizeof handle);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Test of a collective"); /* it stays open: its buffers may not be quiet */
    if (!done)
        return SELVAGE_IN_PROGRESS;
    *request = (sv_wire_group_request_t){0};
    group->open--;
    return SELVAGE_SUCCESS;
}
