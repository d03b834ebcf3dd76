/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions that do not block, on the fast route. They become messages without a question, as the calls of
 * drop_pairs.c do, and on the same channels. Each rank reduces a part of the elements for all:
 *
 *   the call   a message of each part to the rank that reduces it; and its own part on the device
 *   the step   when all ranks' elements of its part are there, in memory of the drop-in's: one kernel combines them in
 *              the order of ranks (selvage_reduce_local()), and when that is over the result goes to whom it belongs
 *   the end    when the parts that others have reduced are there
 *
 * One rank alone reduces an element, and in the order of ranks. So the result has the same bits on all ranks, whatever
 * comes first. Whoever cannot reduce on the device does it in host memory by MPI_Reduce_local: a rank that gives host
 * memory, memory of another GPU than the route's or such that is not aligned; while a kernel of the program's fills the
 * device; and where device memory for others' elements cannot be had.
 *
 * All ranks decide by what MPI wants to be the same on all of them, or is known to all: the predefined type and
 * operation, the counts, and the call's number on the channel (drop_channel.c). What MPI refuses is left to MPI, on the
 * one rank that it refuses. If a part does not come as it was sent, its rank sends no result: an empty message takes
 * its place, and the call fails where that comes.
 *
 * The results of several calls between two ranks have the order of the calls, so that a step waits for those before
 * it. The lock of requests guards what is kept for later calls. A call's state belongs to its joint (drop_joint.c).
 */
#include "interpose/drop_reduce.h"
#include "interpose/drop_agree.h"
#include "interpose/drop_channel.h"
#include "interpose/drop_joint.h"
#include "interpose/drop_number.h"
#include "interpose/drop_order.h"
#include "interpose/drop_pairs.h"
#include "interpose/drop_route.h"
#include "interpose/drop_scratch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* In a channel: tags that drop_pairs.c does not use. */
enum { PART_TAG = 80, RESULT_TAG };
/* Bytes that parts, and blocks of one part, begin at a multiple of. */
enum { PART_ALIGN = 16 };

/* A call under way. */
typedef struct reduction {
    struct reduction *next; /* of those that are kept */
    const char *name;
    sv_drop_number_t number;
    MPI_Datatype type;
    MPI_Op op;
    int64_t type_bytes; /* without gaps */
    sv_drop_whose_t whose;
    int root, n, me, most, tag;
    const char *from;   /* all elements that this rank gives */
    char *to;           /* what comes to this rank: all elements or, of parts, its block; NULL: nothing */
    char *parts;        /* all ranks' elements of the own part, pitch bytes from each other; owned */
    size_t pitch;
    bool on_device;     /* parts is memory of the route's device; else of the host */
    bool folds, folded; /* the kernel has been launched; and is over */
    selvage_device_t *device; /* of the event, which is kept */
    selvage_event_t *event;
    void *stream;       /* of the copy and the kernel; taken if on_device */
    int *rank;          /* of MPI_COMM_WORLD */
    int64_t *first;     /* element of each part, and the end */
} reduction_t;

static reduction_t *kept;

/* --- life --------------------------------------------------------------------------------------------------------- */

static reduction_t *take_reduction(int n)
{
    sv_drop_lock();
    reduction_t **at = &kept, *r;
    while (*at && (*at)->most < n)
        at = &(*at)->next;
    r = *at;
    if (r)
        *at = r->next;
    sv_drop_unlock();
    if (!r) {
        r = calloc(1, sizeof *r);
        if (r) {
            r->most = n;
            r->first = malloc((size_t)(n + 1) * (sizeof *r->first + sizeof *r->rank));
        }
        if (!r || !r->first)
            sv_drop_fatal("no memory", "for a collective call");
        r->rank = (int *)(void *)(r->first + n + 1);
    }
    return r;
}

static void free_event(reduction_t *r)
{
    if (r->event)
        selvage_event_destroy(r->device, r->event);
    r->event = NULL;
}

/* Partner: take_reduction(). With the lock. */
static void end_reduction(void *state)
{
    reduction_t *r = state;
    if (r->on_device) {
        if (!r->folded) /* something may be under way */
            (void)selvage_stream_synchronize(r->device, r->stream);
        sv_drop_stream_give(r->device, r->stream);
        sv_drop_scratch_give(r->parts);
    } else if (r->parts) {
        sv_drop_unstage(r->parts);
    }
    r->parts = NULL;
    r->next = kept;
    kept = r;
}

void sv_drop_reductions_end(void)
{
    sv_drop_lock();
    for (reduction_t *r; (r = kept) != NULL;) {
        kept = r->next;
        free_event(r);
        free(r->first);
        free(r);
    }
    sv_drop_unlock();
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static int64_t count_of_part(const sv_drop_reduction_t *call, int i)
{
    return call->counts ? call->counts[i] : call->large_counts ? (int64_t)call->large_counts[i] : call->count;
}

static int64_t length_of_part(const reduction_t *r, int i)
{
    return r->first[i + 1] - r->first[i];
}

/* Parts of one length but for the last ones, each of which begins at a multiple of PART_ALIGN bytes. */
static void divide_equally(reduction_t *r, int64_t count)
{
    const int64_t unit = (int64_t)r->number.bytes < PART_ALIGN ? PART_ALIGN / (int64_t)r->number.bytes : 1;
    const int64_t each = ((count + r->n - 1) / r->n + unit - 1) / unit * unit;
    for (int i = 0; i <= r->n; i++)
        r->first[i] = i * each < count ? i * each : count;
}

/* To one root a part for each rank is worth it from three on, and if the parts are long enough. */
static void divide(reduction_t *r, const sv_drop_reduction_t *call)
{
    r->first[0] = 0;
    if (call->whose == SV_DROP_RESULT_OF_PARTS)
        for (int i = 0; i < r->n; i++)
            r->first[i + 1] = r->first[i] + count_of_part(call, i);
    else if (call->whose == SV_DROP_RESULT_OF_ALL || (r->n > 2 && sv_drop_fast_takes(call->count / r->n, call->type)))
        divide_equally(r, call->count);
    else
        for (int i = 0; i < r->n; i++)
            r->first[i + 1] = i < call->root ? 0 : call->count;
}

/* Whether this rank gets the part that rank i reduces. */
static bool is_result_for_me(const reduction_t *r, int i)
{
    const bool one = r->whose == SV_DROP_RESULT_OF_ROOT ? r->me == r->root : i == r->me;
    return r->whose == SV_DROP_RESULT_OF_ALL || one;
}

/* Where a part's result comes to; NULL: not to this rank's memory. */
static char *place_of_result(const reduction_t *r, int i)
{
    if (!is_result_for_me(r, i))
        return NULL;
    return r->whose == SV_DROP_RESULT_OF_PARTS ? r->to : r->to + (size_t)r->first[i] * r->number.bytes;
}

static const char *given_part(const reduction_t *r, int i)
{
    return r->from + (size_t)r->first[i] * r->number.bytes;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void recv_elements(const reduction_t *r, sv_drop_joint_t *joint, int peer, char *at, int64_t count, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    sv_drop_narrow_t narrow = {0};
    int code = sv_drop_narrow(count, r->type, &narrow);
    if (code == MPI_SUCCESS)
        code = sv_drop_irecv(r->name, at, narrow.count, narrow.type, r->rank[peer], r->tag + tag, sv_drop_route.own,
                             &request);
    sv_drop_narrow_end(&narrow);
    sv_drop_joint_add_exact(joint, request, code, count * r->type_bytes, tag == RESULT_TAG);
}

static void send_elements(const reduction_t *r, sv_drop_joint_t *joint, int peer, const char *at, int64_t count,
                          int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    sv_drop_narrow_t narrow = {0};
    int code = sv_drop_narrow(count, r->type, &narrow);
    if (code == MPI_SUCCESS)
        code = sv_drop_isend_any(r->name, SV_DROP_ALONE, at, narrow.count, narrow.type, r->rank[peer], r->tag + tag,
                                 sv_drop_route.own, &request);
    sv_drop_narrow_end(&narrow);
    sv_drop_joint_add(joint, request, code);
}

/* Receives come first. Each rank begins with another peer. */
static void begin_parts(const reduction_t *r, sv_drop_joint_t *joint)
{
    const int64_t own = length_of_part(r, r->me);
    for (int i = 1; i < r->n && own > 0; i++) {
        const int peer = (r->me + r->n - i) % r->n;
        recv_elements(r, joint, peer, r->parts + (size_t)peer * r->pitch, own, PART_TAG);
    }
    for (int i = 1; i < r->n; i++) {
        const int peer = (r->me + r->n - i) % r->n;
        if (is_result_for_me(r, peer) && length_of_part(r, peer) > 0)
            recv_elements(r, joint, peer, place_of_result(r, peer), length_of_part(r, peer), RESULT_TAG);
    }
    for (int i = 1; i < r->n; i++) {
        const int peer = (r->me + i) % r->n;
        if (length_of_part(r, peer) > 0)
            send_elements(r, joint, peer, given_part(r, peer), length_of_part(r, peer), PART_TAG);
    }
}

/* --- the step ----------------------------------------------------------------------------------------------------- */

static void must_fold(selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("the device failed", selvage_error_detail());
}

/* Whether the kernel is over, which is launched first, or could not be. */
static bool fold_on_device(reduction_t *r, sv_drop_joint_t *joint)
{
    char *own = place_of_result(r, r->me);
    if (!r->folds) {
        const selvage_status_t launched =
            selvage_reduce_local(r->device, r->parts, r->pitch, r->n, own ? own : r->parts,
                                 (size_t)length_of_part(r, r->me), r->number.type, r->number.op, r->stream);
        if (launched != SELVAGE_SUCCESS && launched != SELVAGE_ERR_DEVICE) {
            sv_drop_warn("%s failed on the fast route: %s", r->name, selvage_error_detail());
            sv_drop_joint_fail(joint, MPI_ERR_OTHER);
            return true;
        }
        must_fold(launched);
        must_fold(selvage_event_record(r->device, r->event, r->stream));
        r->folds = true;
    }
    const selvage_status_t status = selvage_event_query(r->device, r->event);
    if (status == SELVAGE_IN_PROGRESS)
        return false;
    must_fold(status);
    r->folded = true;
    return true;
}

/* To the program's memory, of which gaps keep what they have. */
static void land_result(const reduction_t *r, char *own, sv_drop_joint_t *joint)
{
    const int64_t count = length_of_part(r, r->me), packed_bytes = count * r->type_bytes;
    const size_t bytes = (size_t)count * r->number.bytes;
    const bool host = sv_drop_is_host(own);
    sv_drop_flow_t *flow = sv_drop_joint_flow(joint);
    char *other = r->parts + r->pitch; /* of another rank, which has been added already: there are two at least */
    if (r->number.has_gap) {
        char *packed = malloc((size_t)packed_bytes);
        if (!packed)
            sv_drop_fatal("no memory", r->name);
        sv_drop_pack(r->parts, count, r->type, packed, packed_bytes);
        if (!host) {
            sv_drop_copy(flow, other, own, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
            sv_drop_flow_end(flow);
        }
        sv_drop_unpack(packed, packed_bytes, host ? own : other, count, r->type);
        free(packed);
    } else if (host) {
        memcpy(own, r->parts, bytes);
    }
    if (host)
        return;
    sv_drop_copy(flow, own, r->number.has_gap ? other : r->parts, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    sv_drop_flow_end(flow);
}

static void fold_on_host(const reduction_t *r, sv_drop_joint_t *joint)
{
    enum { AT_ONCE = 1 << 30 };
    const int64_t count = length_of_part(r, r->me);
    char *own = place_of_result(r, r->me);
    int code = MPI_SUCCESS;
    for (int i = 1; i < r->n; i++)
        for (int64_t at = 0; at < count && code == MPI_SUCCESS; at += AT_ONCE) {
            const size_t offset = (size_t)at * r->number.bytes;
            code = PMPI_Reduce_local(r->parts + (size_t)i * r->pitch + offset, r->parts + offset,
                                     (int)(count - at < AT_ONCE ? count - at : AT_ONCE), r->type, r->op);
        }
    if (code != MPI_SUCCESS)
        sv_drop_joint_fail(joint, code);
    else if (own)
        land_result(r, own, joint);
}

/* To all others that get it. Nothing if it is not known to be right. */
static void send_result(const reduction_t *r, sv_drop_joint_t *joint)
{
    const bool good = sv_drop_joint_code(joint) == MPI_SUCCESS;
    const char *own = r->on_device ? place_of_result(r, r->me) : NULL;
    sv_drop_own(true);
    for (int i = 1; i < r->n; i++) {
        const int peer = (r->me + i) % r->n;
        if (r->whose == SV_DROP_RESULT_OF_ALL || peer == r->root)
            send_elements(r, joint, peer, own ? own : r->parts, good ? length_of_part(r, r->me) : 0,
                          RESULT_TAG);
    }
    sv_drop_flush(); /* short messages must not wait for the next call */
    sv_drop_own(false);
}

static bool step_reduction(sv_drop_joint_t *joint, void *state)
{
    reduction_t *r = state;
    if (length_of_part(r, r->me) == 0)
        return true;
    if (sv_drop_joint_code(joint) == MPI_SUCCESS && r->on_device && !r->folded && !fold_on_device(r, joint))
        return false;
    if (r->whose == SV_DROP_RESULT_OF_PARTS) {
        if (sv_drop_joint_code(joint) == MPI_SUCCESS && !r->on_device)
            fold_on_host(r, joint);
        return true;
    }
    if (!sv_drop_joint_is_first(joint))
        return false;
    if (sv_drop_joint_code(joint) == MPI_SUCCESS && !r->on_device)
        fold_on_host(r, joint);
    send_result(r, joint);
    return true;
}

/* --- the own part ------------------------------------------------------------------------------------------------- */

/* Memory for the part that this rank reduces, and what it gives for that itself. */
static void begin_own_part(reduction_t *r)
{
    const int64_t count = length_of_part(r, r->me);
    const size_t bytes = (size_t)count * r->number.bytes;
    const char *given = given_part(r, r->me), *own = place_of_result(r, r->me);
    const bool device = !sv_drop_is_host(given);
    r->on_device = r->folds = r->folded = false;
    r->parts = NULL;
    if (count == 0)
        return;
    if (device)
        sv_drop_settle();
    r->pitch = (bytes + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    if (sv_drop_is_fit(given, r->number.align) && (!own || sv_drop_is_fit(own, r->number.align)) &&
        !sv_drop_is_stuck())
        r->parts = sv_drop_scratch_take((size_t)r->n * r->pitch);
    r->on_device = r->parts != NULL;
    if (!r->on_device) {
        sv_drop_flow_t flow = {0};
        r->parts = sv_drop_staging((size_t)r->n * r->pitch);
        if (device)
            sv_drop_copy(&flow, r->parts + (size_t)r->me * r->pitch, given, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
        else
            memcpy(r->parts + (size_t)r->me * r->pitch, given, bytes);
        sv_drop_flow_end(&flow);
        return;
    }
    if (r->device != sv_drop_device())
        free_event(r);
    r->device = sv_drop_device();
    if (!r->event)
        must_fold(selvage_event_create(r->device, &r->event));
    r->stream = sv_drop_stream_take(r->device);
    must_fold(selvage_device_copy(r->device, r->parts + (size_t)r->me * r->pitch, given, bytes,
                                  SELVAGE_COPY_DEVICE_TO_DEVICE, r->stream));
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Whether the elements are as long as messages of the route; false also if MPI refuses the counts. */
static bool are_parts_long(const sv_drop_reduction_t *call, int n)
{
    int64_t most = 0;
    if (call->whose != SV_DROP_RESULT_OF_PARTS)
        return sv_drop_fast_takes(call->whose == SV_DROP_RESULT_OF_ALL ? call->count / n : call->count, call->type);
    for (int i = 0; i < n; i++) {
        if (count_of_part(call, i) < 0)
            return false;
        most = count_of_part(call, i) > most ? count_of_part(call, i) : most;
    }
    return sv_drop_fast_takes(most, call->type);
}

/* Whether MPI refuses the call on this rank, for its buffers. The other ranks make messages, so that it is asked about
   no more than a buffer that is the same on both sides. */
static bool are_buffers_refused(const sv_drop_reduction_t *call, const sv_drop_tie_t *tie)
{
    const bool is_root = call->whose != SV_DROP_RESULT_OF_ROOT || call->root == tie->me;
    const bool gets = is_root && (call->whose != SV_DROP_RESULT_OF_PARTS || count_of_part(call, tie->me) > 0);
    if (!call->sendbuf || (gets && !call->recvbuf) || (is_root && call->recvbuf == MPI_IN_PLACE) ||
        (!is_root && call->sendbuf == MPI_IN_PLACE))
        return true;
    return gets && call->sendbuf == call->recvbuf &&
           sv_drop_tie_refuses_same(call->whose == SV_DROP_RESULT_OF_ALL    ? SV_DROP_ALIAS_ALLREDUCE
                                    : call->whose == SV_DROP_RESULT_OF_ROOT ? SV_DROP_ALIAS_REDUCE
                                                                            : SV_DROP_ALIAS_REDUCE_SCATTER,
                                    SV_DROP_RING);
}

/* Whether the call, which MPI does not refuse, becomes messages on all ranks. */
static bool plan_reduction(const sv_drop_reduction_t *call, sv_drop_tie_t **tie_out, sv_drop_number_t *number_out)
{
    if (!sv_drop_channel_may_be(call->comm))
        return false;
    sv_drop_tie_t *tie = *tie_out = sv_drop_tie_of(call->comm);
    *number_out = sv_drop_number(call->type, call->op);
    if (tie->n < 2 || number_out->type == SELVAGE_TYPE_DEFAULT ||
        (call->whose == SV_DROP_RESULT_OF_ROOT && (call->root < 0 || call->root >= tie->n)) ||
        !are_parts_long(call, tie->n) || are_buffers_refused(call, tie) ||
        sv_drop_tie_refuses_op(call->type, call->op))
        return false;
    const bool gets = call->whose != SV_DROP_RESULT_OF_ROOT || call->root == tie->me;
    tie->needs = tie->needs || !sv_drop_is_host(call->sendbuf) || (gets && !sv_drop_is_host(call->recvbuf));
    return sv_drop_channel_takes(tie);
}

static void fill_reduction(reduction_t *r, const sv_drop_reduction_t *call, const sv_drop_tie_t *tie,
                           const sv_drop_number_t *number)
{
    MPI_Count bytes = 0;
    r->name = call->name;
    r->number = *number;
    r->type = call->type;
    r->op = call->op;
    PMPI_Type_size_x(call->type, &bytes);
    r->type_bytes = bytes;
    r->whose = call->whose;
    r->root = call->root;
    r->n = tie->n;
    r->me = tie->me;
    r->tag = tie->channel * SV_DROP_CHANNEL_TAGS;
    r->from = call->sendbuf == MPI_IN_PLACE ? call->recvbuf : call->sendbuf;
    r->to = call->recvbuf;
    for (int i = 0; i < r->n; i++)
        r->rank[i] = sv_drop_world_rank(call->comm, i);
    divide(r, call);
}

bool sv_drop_begin_reduction(const sv_drop_reduction_t *call, MPI_Request *request, int *code)
{
    static const sv_drop_steps_t steps = {step_reduction, end_reduction};
    sv_drop_tie_t *tie;
    sv_drop_number_t number;
    int64_t before[2];
    if (!plan_reduction(call, &tie, &number))
        return false;
    sv_drop_count_parts(&before[0], &before[1]); /* of calls that count by themselves */
    reduction_t *r = take_reduction(tie->n);
    fill_reduction(r, call, tie, &number);
    sv_drop_joint_t *joint = sv_drop_joint_begin(4 * tie->n); /* each peer's part and result, and the own ones */
    sv_drop_joint_then(joint, &steps, r, tie->channel);
    begin_own_part(r);
    begin_parts(r, joint);
    sv_drop_flush(); /* short messages must not wait for the next call */
    const int64_t bytes = sv_drop_count_pairs(call->name);
    sv_drop_joint_start(joint, call->name, bytes, call->comm, request);
    *code = MPI_SUCCESS;
    return true;
}
