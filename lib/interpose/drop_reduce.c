/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions that do not block, on the fast route. They become messages without a question, as the calls of
 * drop_pairs.c do, and on the same channels. Whoever gets a result gets all ranks' elements of it, and reduces them
 * itself:
 *
 *   the call   a message of its elements to each rank that gets a result of them; and its own ones to the others'
 *   the step   when all messages have ended: one kernel combines the elements in the order of ranks
 *              (selvage_reduce_local()), and the result is this rank's
 *
 * So nothing is sent after the call: a rank that is long in another call, or at its own work, keeps nobody waiting. All
 * ranks of a sum have the same elements, order and kernel, and so the same bits. Each rank sends to all what it has:
 * that is right for few ranks of one node only (tie->near). MPI makes the calls of all others, on staged memory.
 *
 * Others' elements come to device memory of the drop-in's. Open calls have a bound of it (OPEN_MOST, OPEN_BYTES), and
 * beyond that they come to pinned memory, from which the kernel reads. So they do on a rank that gives host memory,
 * memory of another GPU than the route's, or such that is not aligned. Where no memory can be pinned, and while a
 * kernel of the program's fills the device, MPI_Reduce_local combines them, in the same order. Only what MPI's own
 * arithmetic has otherwise differs then: bits of NaNs, signs of zeros, minima of NaNs, complex products.
 *
 * All ranks decide by what MPI wants to be the same on all of them, or is known to all: the predefined type and
 * operation, the counts, the ranks' node, and the call's number on the channel (drop_channel.c). What MPI refuses is
 * left to MPI, on the one rank that it refuses. If elements do not come as they were sent, the call fails on the rank
 * that was to get them.
 *
 * A persistent call begins at each start from what was found out about it when it was made (drop_persistent.c).
 *
 * The lock of requests guards what is kept for later calls. A call's state belongs to its joint (drop_joint.c).
 */
#include "interpose/drop_reduce.h"
#include "interpose/drop_agree.h"
#include "interpose/drop_channel.h"
#include "interpose/drop_joint.h"
#include "interpose/drop_number.h"
#include "interpose/drop_order.h"
#include "interpose/drop_pairs.h"
#include "interpose/drop_persistent.h"
#include "interpose/drop_pool.h"
#include "interpose/drop_route.h"
#include "interpose/drop_scratch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* In a channel: a tag that drop_pairs.c does not use. */
enum { PART_TAG = 80 };
/* Bytes that ranks' elements begin at a multiple of. */
enum { PART_ALIGN = 16 };
/* Of calls that are open at the same time: how many have device memory, and how much. And how many kernels on pinned
   memory are under way. */
enum { OPEN_MOST = 16, OPEN_BYTES = 1 << 30, KERNELS_MOST = 16 };

/* What a kernel is launched with. */
typedef struct lane {
    struct lane *next; /* of those that are kept */
    selvage_device_t *device; /* of the event */
    selvage_event_t *event;
    void *stream; /* while it is taken */
} lane_t;

/* A call under way. */
typedef struct reduction {
    struct reduction *next; /* of those that are kept */
    const char *name;
    sv_drop_number_t number;
    MPI_Datatype type;
    MPI_Op op;
    int64_t type_bytes; /* without gaps */
    sv_drop_whose_t whose;
    int root, n, me, tag;
    const char *from; /* all elements that this rank gives */
    char *to;         /* what comes to this rank */
    char *parts;      /* all ranks' elements of that, pitch bytes from each other; owned; NULL: nothing comes */
    size_t pitch;
    bool on_device;   /* parts is memory of the route's device; else of the host */
    bool by_kernel;   /* a kernel combines them; else MPI does */
    bool folds;       /* the kernel has been launched */
    lane_t *lane;     /* taken at the beginning if on_device, else for the kernel */
    int rank[SV_DROP_NEAR_MOST];          /* of MPI_COMM_WORLD */
    int64_t first[SV_DROP_NEAR_MOST + 1]; /* of parts: element of each rank's block, and the end */
    int64_t count;                        /* else: elements */
} reduction_t;

static struct {
    reduction_t *kept;
    lane_t *lanes;
    int open, kernels;
    size_t bytes; /* of the open ones on the device */
} reductions;

/* --- life --------------------------------------------------------------------------------------------------------- */

static void must_fold(selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("the device failed", selvage_error_detail());
}

static reduction_t *take_reduction(void)
{
    sv_drop_lock();
    reduction_t *r = reductions.kept; /* partner: end_reduction() */
    if (r)
        reductions.kept = r->next;
    sv_drop_unlock();
    if (!r)
        r = malloc(sizeof *r);
    if (!r)
        sv_drop_fatal("no memory", "for a collective call");
    return r;
}

static void free_lane(lane_t *lane)
{
    if (lane->event)
        selvage_event_destroy(lane->device, lane->event);
    free(lane);
}

/* On the route's device. With the lock. Partner: give_lane(). */
static lane_t *take_lane(void)
{
    lane_t *lane = reductions.lanes;
    if (lane)
        reductions.lanes = lane->next;
    if (lane && lane->device != sv_drop_device()) {
        free_lane(lane);
        lane = NULL;
    }
    if (!lane) {
        lane = calloc(1, sizeof *lane);
        if (!lane)
            sv_drop_fatal("no memory", "for a collective call");
        lane->device = sv_drop_device();
        must_fold(selvage_event_create(lane->device, &lane->event));
    }
    lane->stream = sv_drop_stream_take(lane->device);
    return lane;
}

static void give_lane(lane_t *lane)
{
    sv_drop_stream_give(lane->device, lane->stream);
    lane->next = reductions.lanes;
    reductions.lanes = lane;
}

/* Partner: take_reduction(). With the lock. */
static void end_reduction(void *state)
{
    reduction_t *r = state;
    if (r->lane) {
        if (r->on_device && !r->folds) /* the call has failed, and the copy may be under way */
            must_fold(selvage_stream_synchronize(r->lane->device, r->lane->stream));
        give_lane(r->lane);
    }
    if (r->on_device) { /* partner: take_device_parts() */
        reductions.open--;
        reductions.bytes -= (size_t)r->n * r->pitch;
        sv_drop_scratch_give(r->parts);
    } else if (r->parts) {
        sv_drop_unstage(r->parts);
    }
    r->next = reductions.kept;
    reductions.kept = r;
}

void sv_drop_reductions_end(void)
{
    sv_drop_lock();
    for (reduction_t *r; (r = reductions.kept) != NULL;) {
        reductions.kept = r->next;
        free(r);
    }
    for (lane_t *lane; (lane = reductions.lanes) != NULL;) {
        reductions.lanes = lane->next;
        free_lane(lane);
    }
    sv_drop_unlock();
}

/* --- elements ----------------------------------------------------------------------------------------------------- */

static int64_t count_of_part(const sv_drop_reduction_t *call, int i)
{
    return call->counts ? call->counts[i] : call->large_counts ? (int64_t)call->large_counts[i] : call->count;
}

/* Elements that rank i gets of each rank. */
static int64_t length_of_part(const reduction_t *r, int i)
{
    if (r->whose == SV_DROP_RESULT_OF_PARTS)
        return r->first[i + 1] - r->first[i];
    return r->whose == SV_DROP_RESULT_OF_ALL || i == r->root ? r->count : 0;
}

static const char *given_part(const reduction_t *r, int i)
{
    return r->whose == SV_DROP_RESULT_OF_PARTS ? r->from + (size_t)r->first[i] * r->number.bytes : r->from;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void recv_elements(const reduction_t *r, sv_drop_joint_t *joint, int peer, char *at, int64_t count)
{
    MPI_Request request = MPI_REQUEST_NULL;
    sv_drop_narrow_t narrow = {0};
    int code = sv_drop_narrow(count, r->type, &narrow);
    if (code == MPI_SUCCESS)
        code = sv_drop_irecv(r->name, at, narrow.count, narrow.type, r->rank[peer], r->tag, sv_drop_route.own,
                             &request);
    sv_drop_narrow_end(&narrow);
    sv_drop_joint_add_exact(joint, request, code, count * r->type_bytes);
}

static void send_elements(const reduction_t *r, sv_drop_joint_t *joint, int peer, const char *at, int64_t count)
{
    MPI_Request request = MPI_REQUEST_NULL;
    sv_drop_narrow_t narrow = {0};
    int code = sv_drop_narrow(count, r->type, &narrow);
    if (code == MPI_SUCCESS)
        code = sv_drop_isend_any(r->name, SV_DROP_ALONE, at, narrow.count, narrow.type, r->rank[peer], r->tag,
                                 sv_drop_route.own, &request);
    sv_drop_narrow_end(&narrow);
    sv_drop_joint_add(joint, request, code);
}

/* Receives come first. Each rank begins with another peer. The program's work has been waited for once, for all. */
static void begin_parts(const reduction_t *r, sv_drop_joint_t *joint)
{
    const int64_t own = length_of_part(r, r->me);
    sv_drop_own(true);
    for (int i = 1; i < r->n && own > 0; i++) {
        const int peer = (r->me + r->n - i) % r->n;
        recv_elements(r, joint, peer, r->parts + (size_t)peer * r->pitch, own);
    }
    for (int i = 1; i < r->n; i++) {
        const int peer = (r->me + i) % r->n;
        if (length_of_part(r, peer) > 0)
            send_elements(r, joint, peer, given_part(r, peer), length_of_part(r, peer));
    }
    sv_drop_flush(); /* short messages must not wait for the next call */
    sv_drop_own(false);
}

/* --- the step ----------------------------------------------------------------------------------------------------- */

/* To the program's memory, of which gaps keep what they have. */
static void land_result(const reduction_t *r, sv_drop_joint_t *joint)
{
    const int64_t count = length_of_part(r, r->me), packed_bytes = count * r->type_bytes;
    const size_t bytes = (size_t)count * r->number.bytes;
    char *own = r->to;
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

/* Of elements on the host the result takes the place of the first rank's. */
static void launch_local_fold(reduction_t *r, sv_drop_joint_t *joint)
{
    const selvage_status_t launched =
        selvage_reduce_local(r->lane->device, r->parts, r->pitch, r->n, r->on_device ? r->to : r->parts,
                             (size_t)length_of_part(r, r->me), r->number.type, r->number.op, r->lane->stream);
    if (launched != SELVAGE_SUCCESS && launched != SELVAGE_ERR_DEVICE) {
        sv_drop_warn("%s failed on the fast route: %s", r->name, selvage_error_detail());
        sv_drop_joint_fail(joint, MPI_ERR_OTHER);
        return;
    }
    must_fold(launched);
    must_fold(selvage_event_record(r->lane->device, r->lane->event, r->lane->stream));
    r->folds = true;
}

/* Whether the kernel is over, which is launched first. One on pinned memory waits for its turn: those before it end,
   whatever other ranks do. */
static bool fold_by_kernel(reduction_t *r, sv_drop_joint_t *joint)
{
    if (!r->folds) {
        if (!r->on_device && reductions.kernels == KERNELS_MOST)
            return false;
        if (!r->on_device)
            r->lane = take_lane();
        launch_local_fold(r, joint);
        reductions.kernels += !r->on_device && r->folds;
    }
    const selvage_status_t status =
        r->folds ? selvage_event_query(r->lane->device, r->lane->event) : SELVAGE_SUCCESS;
    if (status == SELVAGE_IN_PROGRESS)
        return false;
    must_fold(status);
    reductions.kernels -= !r->on_device && r->folds;
    if (!r->on_device && r->folds)
        land_result(r, joint);
    return true;
}

static void fold_by_mpi(const reduction_t *r, sv_drop_joint_t *joint)
{
    enum { AT_ONCE = 1 << 30 };
    const int64_t count = length_of_part(r, r->me);
    int code = MPI_SUCCESS;
    for (int i = 1; i < r->n; i++)
        for (int64_t at = 0; at < count && code == MPI_SUCCESS; at += AT_ONCE) {
            const size_t offset = (size_t)at * r->number.bytes;
            code = PMPI_Reduce_local(r->parts + (size_t)i * r->pitch + offset, r->parts + offset,
                                     (int)(count - at < AT_ONCE ? count - at : AT_ONCE), r->type, r->op);
        }
    if (code == MPI_SUCCESS)
        land_result(r, joint);
    else
        sv_drop_joint_fail(joint, code);
}

static bool step_reduction(sv_drop_joint_t *joint, void *state)
{
    reduction_t *r = state;
    if (!r->parts || sv_drop_joint_code(joint) != MPI_SUCCESS)
        return true;
    if (r->by_kernel)
        return fold_by_kernel(r, joint);
    fold_by_mpi(r, joint);
    return true;
}

/* --- the own elements --------------------------------------------------------------------------------------------- */

/* The program's work on what this rank gives, or on what it gets, comes before the call. */
static void settle_for_reduction(const reduction_t *r)
{
    bool device = false;
    for (int i = 0; i < r->n && !device; i++)
        device = length_of_part(r, i) > 0 && !sv_drop_is_host(given_part(r, i));
    if (device || (length_of_part(r, r->me) > 0 && !sv_drop_is_host(r->to)))
        sv_drop_settle();
}

/* Memory of the device for all ranks' elements, if few calls have some. Partner: end_reduction(). */
static bool take_device_parts(reduction_t *r, size_t bytes)
{
    sv_drop_lock();
    if (reductions.open < OPEN_MOST && bytes <= OPEN_BYTES && reductions.bytes <= OPEN_BYTES - bytes)
        r->parts = sv_drop_scratch_take(bytes);
    r->on_device = r->parts != NULL;
    if (r->on_device) {
        reductions.open++;
        reductions.bytes += bytes;
        r->lane = take_lane();
    }
    sv_drop_unlock();
    return r->on_device;
}

/* Memory for what this rank reduces, and what it gives for that itself. */
static void begin_own_part(reduction_t *r)
{
    const size_t bytes = (size_t)length_of_part(r, r->me) * r->number.bytes;
    const char *given = given_part(r, r->me);
    const bool stuck = sv_drop_is_stuck();
    r->on_device = r->folds = r->by_kernel = false;
    r->parts = NULL;
    r->lane = NULL;
    r->pitch = (bytes + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    if (bytes == 0)
        return;
    if (!stuck && sv_drop_is_fit(given, r->number.align) && sv_drop_is_fit(r->to, r->number.align) &&
        take_device_parts(r, (size_t)r->n * r->pitch)) {
        must_fold(selvage_device_copy(r->lane->device, r->parts + (size_t)r->me * r->pitch, given, bytes,
                                      SELVAGE_COPY_DEVICE_TO_DEVICE, r->lane->stream));
        r->by_kernel = true;
        return;
    }
    sv_drop_flow_t flow = {0};
    r->parts = sv_drop_staging((size_t)r->n * r->pitch);
    r->by_kernel = !stuck && !sv_drop_is_plain(r->parts);
    if (sv_drop_is_host(given))
        memcpy(r->parts + (size_t)r->me * r->pitch, given, bytes);
    else
        sv_drop_copy(&flow, r->parts + (size_t)r->me * r->pitch, given, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
    sv_drop_flow_end(&flow);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Whether the elements are as long as messages of the route, and those of all ranks no more than OPEN_BYTES; false also
   if MPI refuses the counts. */
static bool are_parts_fit(const sv_drop_reduction_t *call, int n, const sv_drop_number_t *number)
{
    int64_t most = call->whose == SV_DROP_RESULT_OF_PARTS ? 0 : call->count;
    for (int i = 0; i < n && call->whose == SV_DROP_RESULT_OF_PARTS; i++) {
        if (count_of_part(call, i) < 0)
            return false;
        most = count_of_part(call, i) > most ? count_of_part(call, i) : most;
    }
    return sv_drop_fast_takes(most, call->type) && most <= (int64_t)(OPEN_BYTES / number->bytes) / n - PART_ALIGN;
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

/* Whether the call can be messages, and MPI does not refuse its arguments. */
static bool is_reduction_fit(const sv_drop_reduction_t *call, const sv_drop_tie_t *tie, sv_drop_number_t *number_out)
{
    *number_out = sv_drop_number(call->type, call->op);
    return tie->near && number_out->type != SELVAGE_TYPE_DEFAULT &&
           (call->whose != SV_DROP_RESULT_OF_ROOT || (call->root >= 0 && call->root < tie->n)) &&
           are_parts_fit(call, tie->n, number_out) && !are_buffers_refused(call, tie);
}

/* Whether the call, which MPI does not refuse, becomes messages on all ranks. */
static bool plan_reduction(const sv_drop_reduction_t *call, sv_drop_tie_t **tie_out, sv_drop_number_t *number_out)
{
    if (!sv_drop_channel_may_be(call->comm))
        return false;
    sv_drop_tie_t *tie = *tie_out = sv_drop_tie_of(call->comm);
    if (!is_reduction_fit(call, tie, number_out))
        return false;
    const bool gets = call->whose != SV_DROP_RESULT_OF_ROOT || call->root == tie->me;
    tie->needs = tie->needs || !sv_drop_is_host(call->sendbuf) || (gets && !sv_drop_is_host(call->recvbuf));
    return tie->channel && !sv_drop_mpi_refuses(call->type, call->op) && sv_drop_channel_takes(tie);
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
    r->from = call->sendbuf == MPI_IN_PLACE ? call->recvbuf : call->sendbuf;
    r->to = call->recvbuf;
    r->count = call->count;
    r->first[0] = 0;
    for (int i = 0; i < r->n; i++) {
        r->rank[i] = sv_drop_world_rank(call->comm, i);
        r->first[i + 1] = r->first[i] + (r->whose == SV_DROP_RESULT_OF_PARTS ? count_of_part(call, i) : 0);
    }
}

static void start_reduction(reduction_t *r, MPI_Comm comm, MPI_Request *request)
{
    static const sv_drop_steps_t steps = {step_reduction, end_reduction};
    int64_t before[2];
    sv_drop_count_parts(&before[0], &before[1]); /* of calls that count by themselves */
    sv_drop_joint_t *joint = sv_drop_joint_begin(2 * r->n); /* to each peer and from each */
    sv_drop_joint_then(joint, &steps, r);
    settle_for_reduction(r);
    begin_own_part(r);
    begin_parts(r, joint);
    const int64_t bytes = sv_drop_count_pairs(r->name);
    sv_drop_joint_start(joint, r->name, bytes, comm, request);
}

bool sv_drop_begin_reduction(const sv_drop_reduction_t *call, MPI_Request *request, int *code)
{
    sv_drop_tie_t *tie;
    sv_drop_number_t number;
    if (!plan_reduction(call, &tie, &number))
        return false;
    reduction_t *r = take_reduction();
    fill_reduction(r, call, tie, &number);
    r->tag = tie->channel * SV_DROP_CHANNEL_TAGS + PART_TAG;
    start_reduction(r, call->comm, request);
    *code = MPI_SUCCESS;
    return true;
}

/* --- persistent calls --------------------------------------------------------------------------------------------- */

static int begin_reduction_again(const void *state, int tag, MPI_Comm comm, MPI_Request *request)
{
    reduction_t *r = take_reduction();
    *r = *(const reduction_t *)state;
    r->tag = tag;
    start_reduction(r, comm, request);
    return MPI_SUCCESS;
}

/* What a persistent call begins from. */
static reduction_t *make_reduction(const sv_drop_reduction_t *call)
{
    const sv_drop_tie_t *tie = sv_drop_tie_of(call->comm);
    sv_drop_number_t number;
    if (!is_reduction_fit(call, tie, &number) || sv_drop_mpi_refuses(call->type, call->op))
        return NULL;
    reduction_t *r = calloc(1, sizeof *r);
    if (!r)
        sv_drop_fatal("no memory", call->name);
    fill_reduction(r, call, tie, &number);
    return r; /* partner: free(), as its end */
}

bool sv_drop_persist_reduction(const sv_drop_reduction_t *call, bool device, MPI_Request *request)
{
    if (!sv_drop_persistent_may_be(call->comm))
        return false;
    const sv_drop_starts_t starts = {begin_reduction_again, free, make_reduction(call)};
    return sv_drop_persistent_make(call->name, call->comm, device, &starts, request);
}
