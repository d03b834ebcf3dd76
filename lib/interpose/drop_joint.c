/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of several messages. A collective call that does not block and is made of messages (drop_pairs.c) has a
 * request for each, and gives the program one, which is complete when all of them are:
 *
 *   program   MPI_Ineighbor_alltoallw -> handle                     MPI_Wait(handle)
 *   here      sv_drop_irecv, sv_drop_isend, ... -> its messages     all done: the operation of the handle may end
 *
 * A call that reduces (drop_reduce.c) has a step after its messages, which is done before the operation may end.
 *
 * The engine (drop_request.c) advances the messages, and this file ends their requests between two of its walks, as a
 * message into host memory may wait for its bytes when it is ended. The first error of a message is the call's.
 *
 * The lock of requests guards everything here. A joint owns its messages' requests, and belongs to the operation of its
 * handle until its last message has ended. After that it is kept for the next call.
 */
#include "interpose/drop_joint.h"
#include "interpose/drop_persistent.h"
#include "interpose/drop_route.h"
#include "interpose/drop_table.h"

#include <stdlib.h>

/* A message that comes as packed bytes. */
typedef struct packed {
    void *bytes, *to;
    int length, count;
    MPI_Datatype type;
    bool owns_type;
} packed_t;

typedef struct message {
    MPI_Request request;
    sv_drop_op_t *op;  /* of that, with a user for this; NULL: it is MPI's own */
    packed_t *packed;  /* owned; NULL: it comes to its place by itself */
    int64_t exact;     /* so many bytes must come; -1: any */
} message_t;

struct sv_drop_joint {
    sv_drop_joint_t *next; /* of those under way, or those that are free */
    sv_drop_op_t *op;      /* of the program's handle, with a user for this */
    sv_drop_flow_t flow;
    int most, n, code;
    const sv_drop_steps_t *steps; /* NULL: there are none */
    void *state;                  /* of those */
    bool stepped;                 /* the step is done, or there is none */
    message_t message[];
};

static struct {
    sv_drop_joint_t *first, *last, *unused;
    bool looks; /* they are being looked at, by whoever has the lock */
    MPI_Comm left; /* while its requests are being looked for */
} joints;

_Atomic int sv_drop_joints;

sv_drop_joint_t *sv_drop_joint_begin(int most)
{
    sv_drop_lock();
    sv_drop_joint_t **at = &joints.unused;
    while (*at && (*at)->most < most)
        at = &(*at)->next;
    sv_drop_joint_t *joint = *at;
    if (joint)
        *at = joint->next;
    sv_drop_unlock();
    if (!joint) {
        joint = malloc(sizeof *joint + (size_t)most * sizeof joint->message[0]);
        if (!joint)
            sv_drop_fatal("no memory", "for a collective call");
        joint->most = most;
    }
    joint->next = NULL;
    joint->n = 0;
    joint->code = MPI_SUCCESS;
    joint->steps = NULL;
    joint->stepped = true;
    joint->flow = (sv_drop_flow_t){0};
    return joint;
}

sv_drop_flow_t *sv_drop_joint_flow(sv_drop_joint_t *joint)
{
    return &joint->flow;
}

static void note_joint_error(sv_drop_joint_t *joint, int code)
{
    joint->code = joint->code == MPI_SUCCESS ? code : joint->code;
}

void sv_drop_joint_add(sv_drop_joint_t *joint, MPI_Request request, int code)
{
    note_joint_error(joint, code);
    if (request != MPI_REQUEST_NULL)
        joint->message[joint->n++] = (message_t){request, sv_drop_op_find(request), NULL, -1};
}

void sv_drop_joint_add_exact(sv_drop_joint_t *joint, MPI_Request request, int code, int64_t bytes)
{
    note_joint_error(joint, code);
    if (request != MPI_REQUEST_NULL)
        joint->message[joint->n++] = (message_t){request, sv_drop_op_find(request), NULL, bytes};
}

void sv_drop_joint_then(sv_drop_joint_t *joint, const sv_drop_steps_t *steps, void *state)
{
    joint->steps = steps;
    joint->state = state;
    joint->stepped = false;
}

int sv_drop_joint_code(const sv_drop_joint_t *joint)
{
    return joint->code;
}

void sv_drop_joint_fail(sv_drop_joint_t *joint, int code)
{
    note_joint_error(joint, code);
}

void sv_drop_joint_add_packed(sv_drop_joint_t *joint, MPI_Request request, int code, void *bytes, int length, void *to,
                              int count, MPI_Datatype type)
{
    packed_t *packed = malloc(sizeof *packed);
    sv_drop_type_t info;
    if (!packed)
        sv_drop_fatal("no memory", "for a message");
    *packed = (packed_t){.bytes = bytes, .to = to, .length = length, .count = count, .type = type};
    if (sv_drop_type(type, &info) && !info.named) { /* the program may free it as soon as its call returns */
        if (sv_drop_type_hold(type, &packed->type) != MPI_SUCCESS)
            sv_drop_fatal("no memory", "for a message");
        packed->owns_type = true;
    }
    note_joint_error(joint, code);
    joint->message[joint->n++] = (message_t){request, request == MPI_REQUEST_NULL ? NULL : sv_drop_op_find(request),
                                             packed, -1};
}

/* Elements that cannot be taken apart come up with their gaps. So one is unpacked after the other, when all others of
   the call are in their places. */
static void unpack_messages(sv_drop_joint_t *joint)
{
    for (int i = 0; i < joint->n; i++) {
        packed_t *packed = joint->message[i].packed;
        int at = 0;
        if (!packed)
            continue;
        if (joint->code == MPI_SUCCESS)
            note_joint_error(joint, MPI_Unpack(packed->bytes, packed->length, &at, packed->to, packed->count,
                                               packed->type, MPI_COMM_SELF));
        if (packed->owns_type)
            PMPI_Type_free(&packed->type);
        free(packed->bytes);
        free(packed);
    }
}

/* Ends a message's request if it is complete. One that the engine is at is not asked about. */
static bool end_message(sv_drop_joint_t *joint, message_t *message)
{
    MPI_Status status;
    MPI_Count came = 0;
    int done = 0;
    sv_drop_op_t *op = message->op;
    if (message->request == MPI_REQUEST_NULL)
        return true;
    if (op && !op->keeps && op->running)
        return false;
    const int code = PMPI_Test(&message->request, &done, &status);
    if (code == MPI_SUCCESS && !done)
        return false;
    note_joint_error(joint, code);
    message->request = MPI_REQUEST_NULL;
    if (op && code == MPI_SUCCESS)
        note_joint_error(joint, sv_drop_op_settle(op, &status, true));
    else if (op && op->keeps)
        sv_drop_op_forget(op);
    sv_drop_op_release(op);
    message->op = NULL;
    if (joint->code == MPI_SUCCESS && message->exact >= 0 &&
        (PMPI_Get_elements_x(&status, MPI_BYTE, &came) != MPI_SUCCESS || came != message->exact))
        note_joint_error(joint, MPI_ERR_OTHER);
    return true;
}

/* Ends what is complete. Whether the call is at its end: all messages are, and its step is done. */
static bool advance_joint(sv_drop_joint_t *joint)
{
    int left = 0;
    for (int i = 0; i < joint->n; i++)
        left += !end_message(joint, &joint->message[i]);
    joint->stepped = joint->stepped || (left == 0 && joint->steps->step(joint, joint->state));
    return left == 0 && joint->stepped;
}

/* Its operation may end, and it is free. */
static void end_joint(sv_drop_joint_t *joint)
{
    unpack_messages(joint);
    sv_drop_flow_end(&joint->flow);
    if (joint->steps)
        joint->steps->end(joint->state);
    joint->op->fast.error = joint->code;
    joint->op->joint = NULL;
    sv_drop_op_release(joint->op);
    joint->next = joints.unused;
    joints.unused = joint;
    atomic_fetch_sub_explicit(&sv_drop_joints, 1, memory_order_relaxed);
}

/* What runs here may call MPI, and so come here again, and may begin another one, which is the last then. */
void sv_drop_joints_look(void)
{
    sv_drop_joint_t *before = NULL, *next;
    if (joints.looks)
        return;
    joints.looks = true;
    for (sv_drop_joint_t *joint = joints.first; joint; joint = next) {
        const bool over = advance_joint(joint);
        next = joint->next;
        if (!over) {
            before = joint;
            continue;
        }
        *(before ? &before->next : &joints.first) = next;
        if (joints.last == joint)
            joints.last = before;
        end_joint(joint);
        next = before ? before->next : joints.first;
    }
    joints.looks = false;
}

void sv_drop_joint_start(sv_drop_joint_t *joint, const char *name, int64_t bytes, MPI_Comm comm, MPI_Request *request)
{
    const sv_drop_call_t call = {.name = name, .fast = true, .bytes = bytes, .begin_ns = sv_drop_trace_now()};
    const sv_drop_fast_t fast = {.comm = comm};
    int done;
    MPI_Request none = MPI_REQUEST_NULL;
    sv_drop_lock();
    sv_drop_request_start(&call, &fast, MPI_REQUEST_NULL, MPI_REQUEST_NULL, false, request);
    joint->op = sv_drop_op_find(*request); /* partner: end_joint() */
    joint->op->joint = joint;
    joint->op->is_joint = true;
    PMPI_Test(&none, &done, &joint->op->status); /* an empty one */
    *(joints.last ? &joints.last->next : &joints.first) = joint;
    joints.last = joint;
    atomic_fetch_add_explicit(&sv_drop_joints, 1, memory_order_relaxed);
    sv_drop_unlock();
}

static void leave_comm(sv_drop_op_t *op)
{
    if (op->is_joint && op->fast.comm == joints.left)
        op->fast.comm = MPI_COMM_WORLD;
    sv_drop_persistent_orphan(op->collective, joints.left);
}

/* MPI calls this from MPI_Comm_free, perhaps with locks of its own. Where a rank has threads such calls are on
   MPI_COMM_WORLD only, which stays. */
void sv_drop_joints_leave(MPI_Comm comm)
{
    if (sv_drop_route.threads || !sv_drop_has_open())
        return;
    sv_drop_lock();
    joints.left = comm;
    sv_drop_table_visit(leave_comm);
    sv_drop_unlock();
}
