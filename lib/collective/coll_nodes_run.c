/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file runs a call, or a group, of a communicator that spans nodes, from its beginning to its end, by turns that
 * never wait. Before a call of all ranks, these compare what each of them calls: so they agree that it is the same
 * call, and that all are there. What was on the streams ends meanwhile, and before any data move, but for the shares of
 * a rank that is alone on its node: their copies out of the device are enqueued at once. Sends and receives concern two
 * ranks alone, and their messages say what they are. A call of one node's ranks, made while others were
 * under way, is launched when its turn comes.
 *
 * A rank that meets an error in the middle tells everybody: the kernels of its node by ending them, other ranks by an
 * abort in place of the message that they may be waiting for. That takes as long as kernels may take to end. After
 * that no collective call is possible any more, since nobody knows which messages are still in flight. It runs where
 * the engine lives.
 */
#include "base/base_clock.h"
#include "base/base_status.h"
#include "collective/coll_names.h"
#include "collective/coll_nodes_run.h"
#include "collective/coll_parts.h"
#include "collective/coll_setup.h"
#include "comm/comm_control.h"

/* How long kernels and copies may take to end after a failure. */
enum { STOP_GRACE_S = 5 };

enum { ITEM_WHAT, ITEM_COUNT, ITEM_ROOT, ITEM_SEQUENCE };

/* --- the same call on all ranks ----------------------------------------------------------------------------------- */

static selvage_status_t report_call_mismatch(const selvage_coll_t *coll, int rank)
{
    const uint64_t *there = sv_gather_item_of(&coll->all, rank)->value;
    const uint64_t *first = sv_gather_item_of(&coll->all, 0)->value;
    return sv_error(SELVAGE_ERR_MISMATCH,
                    "rank %d called %s of %llu %s (operation %s, root %d) where rank 0 called %s "
                    "of %llu %s (operation %s, root %d), as call %llu of communicator %u",
                    rank, sv_coll_call_name(there[ITEM_WHAT] & 0xff), (unsigned long long)there[ITEM_COUNT],
                    selvage_type_name((selvage_type_t)(there[ITEM_WHAT] >> 8 & 0xff)),
                    sv_coll_operation_name((unsigned)(there[ITEM_WHAT] >> 16)), (int)(int64_t)there[ITEM_ROOT],
                    sv_coll_call_name(first[ITEM_WHAT] & 0xff), (unsigned long long)first[ITEM_COUNT],
                    selvage_type_name((selvage_type_t)(first[ITEM_WHAT] >> 8 & 0xff)),
                    sv_coll_operation_name((unsigned)(first[ITEM_WHAT] >> 16)), (int)(int64_t)first[ITEM_ROOT],
                    (unsigned long long)first[ITEM_SEQUENCE], coll->number);
}

/* What a rank calls, in the words that ranks compare. */
static void describe_call(const selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t value[SV_GATHER_VALUES])
{
    const sv_coll_whole_t *whole = &call->whole;
    const unsigned op = whole->type ? whole->op : sv_coll_signed_operation(call);
    value[ITEM_WHAT] = (uint64_t)op << 16 | (uint64_t)(whole->type ? whole->type : call->type) << 8 |
                       (whole->type ? whole->call : call->call);
    value[ITEM_COUNT] = whole->type ? whole->count : call->count;
    value[ITEM_ROOT] = (uint64_t)(int64_t)(whole->type ? whole->root : call->root);
    value[ITEM_SEQUENCE] = coll->node_set->sequence;
}

/* What there is to do in a call of rows. */
static selvage_status_t plan_rows(sv_coll_run_t *run, const sv_coll_call_t *call)
{
    selvage_coll_t *coll = run->flight->coll;
    switch (call->call) {
    case SV_COLL_BROADCAST:
        sv_coll_nodes_broadcast(coll, call, &run->plan);
        break;
    case SV_COLL_ALL_GATHER:
        SV_TRY(sv_coll_nodes_all_gather(coll, call, &run->plan));
        break;
    default:
        sv_coll_nodes_reduce(coll, call, &run->plan);
    }
    sv_coll_rails_begin(&run->rails, &run->plan);
    return SELVAGE_SUCCESS;
}

/* A call that needs no kernel of the node, and no message, to have its shares on the host: once the streams have come
   to it they are copied, while ranks compare what they call. Should they not call the same, what was copied is not
   used. */
static selvage_status_t fetch_early(sv_coll_run_t *run, const sv_coll_call_t *call)
{
    const selvage_coll_t *coll = run->flight->coll;
    if (run->has_fetched || !run->has_begun)
        return SELVAGE_SUCCESS;
    run->has_fetched = coll->dev.n == 1 && call->count > 0 && call->call != SV_COLL_BARRIER &&
                       call->call != SV_COLL_ALL_TO_ALL && !(call->flags & SV_COLL_PREMUL);
    if (!run->has_fetched)
        return SELVAGE_SUCCESS;
    SV_TRY(plan_rows(run, call));
    return sv_coll_rails_fetch(&run->rails);
}

static selvage_status_t begin_match(sv_coll_run_t *run, const sv_coll_call_t *call)
{
    selvage_coll_t *coll = run->flight->coll;
    uint64_t value[SV_GATHER_VALUES] = {0}, digest = 0;
    coll->node_set->sequence++;
    describe_call(coll, call, value);
    for (int i = ITEM_WHAT; i <= ITEM_SEQUENCE; i++)
        digest = sv_digest_mix(digest + value[i]);
    coll->all.stop = &coll->arena->pinned->host_stop;
    sv_gather_compare_begin(&run->match, &coll->all, "selvage_coll", coll->number, digest, coll->comm->timeout_s);
    run->state = SV_COLL_RUN_MATCH;
    run->has_fetched = false;
    return SELVAGE_SUCCESS;
}

/* Ranks do not call the same: each of them hears what all others call. */
static selvage_status_t find_mismatch(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    sv_team_t *all = &coll->all;
    uint64_t unused = 0;
    const selvage_status_t status = sv_team_wake(all);
    SV_TRY(sv_gather_least(all, "selvage_coll: memory", coll->number, status, &unused, coll->comm->timeout_s));
    describe_call(coll, call, sv_gather_item_begin(all)->value);
    SV_TRY(sv_gather(all, "selvage_coll", coll->number, SELVAGE_SUCCESS, coll->comm->timeout_s));
    for (int r = 1; r < coll->size; r++)
        for (int i = ITEM_WHAT; i <= ITEM_SEQUENCE; i++)
            if (sv_gather_item_of(all, r)->value[i] != sv_gather_item_of(all, 0)->value[i])
                return report_call_mismatch(coll, r);
    return sv_error(SELVAGE_ERR_INTERNAL, "selvage_coll: ranks call the same, and their digests differ");
}

/* Whether what was on the streams is complete; once it is, that is known. */
static selvage_status_t test_begun(sv_coll_run_t *run)
{
    if (run->has_begun)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_coll_stage_test(run->flight->coll, run->flight->begun));
    run->has_begun = true;
    return SELVAGE_SUCCESS;
}

/* SUCCESS: all ranks are there, and call the same. The deadline of others counts from where the streams have come to
   the call: until then their hosts may take their time. */
static selvage_status_t step_match(sv_coll_run_t *run, const sv_coll_call_t *call)
{
    selvage_coll_t *coll = run->flight->coll;
    bool same = false;
    const bool had_begun = run->has_begun;
    const int64_t known = run->match.known;
    const bool has_begun = test_begun(run) == SELVAGE_SUCCESS;
    selvage_status_t status = sv_gather_compare_step(&run->match, run->is_over && had_begun, &same);
    run->moved = run->match.known > known || has_begun != had_begun;
    if (status == SELVAGE_IN_PROGRESS) {
        const selvage_status_t fetched = fetch_early(run, call);
        coll->all.stop = fetched == SELVAGE_SUCCESS ? coll->all.stop : NULL;
        return fetched == SELVAGE_SUCCESS ? status : fetched;
    }
    if (status == SELVAGE_SUCCESS && !same)
        status = find_mismatch(coll, call);
    coll->all.stop = NULL;
    run->agreed = status != SELVAGE_SUCCESS && coll->comm->broken == SELVAGE_SUCCESS;
    return status;
}

/* --- from one state to the next ----------------------------------------------------------------------------------- */

static selvage_status_t begin_end(sv_coll_run_t *run)
{
    const selvage_coll_t *coll = run->flight->coll;
    run->state = SV_COLL_RUN_END;
    return SV_DEVICE_CALL(coll->comm->dev, event_record, coll->arena->staging->event, coll->arena->stream);
}

static const sv_coll_call_t *current_call(const sv_coll_run_t *run)
{
    return &run->flight->calls[run->next - 1];
}

/* All ranks are in this call, and its data are there. */
static selvage_status_t begin_data(sv_coll_run_t *run)
{
    selvage_coll_t *coll = run->flight->coll;
    const sv_coll_call_t *call = current_call(run);
    if (call->call == SV_COLL_ALL_TO_ALL) {
        run->state = SV_COLL_RUN_PAIRS;
        return sv_coll_pairs_run_begin_blocks(&run->pairs, coll, call);
    }
    run->state = SV_COLL_RUN_ROWS;
    return run->has_fetched ? SELVAGE_SUCCESS : plan_rows(run, call);
}

/* Calls of all ranks one after the other, then all sends and receives together. SUCCESS: nothing is left. Ranks compare
   what they call while their streams are still busy, but nobody leaves a barrier before all streams have come to it. */
static selvage_status_t begin_next(sv_coll_run_t *run)
{
    const sv_coll_flight_t *flight = run->flight;
    while (run->next < flight->ncalls) {
        const sv_coll_call_t *call = &flight->calls[run->next++];
        if (call->call == SV_COLL_PAIR)
            run->has_pairs = true;
        else if (call->call == SV_COLL_BARRIER && !run->has_begun)
            run->state = SV_COLL_RUN_STREAMS;
        else
            SV_TRY(begin_match(run, call));
        if (call->call != SV_COLL_PAIR)
            return SELVAGE_IN_PROGRESS;
    }
    run->next = flight->ncalls + 1;
    if (!run->has_pairs)
        return SELVAGE_SUCCESS;
    run->state = SV_COLL_RUN_STREAMS;
    return SELVAGE_IN_PROGRESS;
}

/* What was on the streams is complete: what the state waits for it for. */
static selvage_status_t begin_after_streams(sv_coll_run_t *run)
{
    const sv_coll_flight_t *flight = run->flight;
    if (run->next > flight->ncalls) {
        run->has_pairs = false;
        run->state = SV_COLL_RUN_PAIRS;
        return sv_coll_pairs_run_begin(&run->pairs, flight->coll, flight->calls, flight->ncalls);
    }
    if (current_call(run)->call != SV_COLL_BARRIER)
        return begin_data(run);
    return begin_match(run, current_call(run));
}

/* A call of one node's ranks goes after the others' on the arena's stream, and after what was on its own. */
static selvage_status_t launch_on_node(sv_coll_run_t *run)
{
    const sv_coll_flight_t *flight = run->flight;
    selvage_coll_t *coll = flight->coll;
    SV_TRY(SV_DEVICE_CALL(coll->comm->dev, stream_wait_event, coll->arena->stream, flight->begun));
    SV_TRY(sv_coll_launch(coll, flight->calls, flight->ncalls));
    run->next = flight->ncalls + 1;
    return begin_end(run);
}

/* What has failed since the call was made ends it before it begins. */
static selvage_status_t begin_flight(sv_coll_run_t *run)
{
    selvage_coll_t *coll = run->flight->coll;
    SV_TRY(sv_coll_check(coll));
    if (coll->spans)
        return begin_next(run);
    SV_TRY(launch_on_node(run));
    return SELVAGE_IN_PROGRESS;
}

/* SUCCESS: the state is over. */
static selvage_status_t drive_state(sv_coll_run_t *run)
{
    selvage_coll_t *coll = run->flight->coll;
    selvage_status_t status;
    switch (run->state) {
    case SV_COLL_RUN_NONE:
        return SELVAGE_SUCCESS;
    case SV_COLL_RUN_STREAMS:
        return test_begun(run);
    case SV_COLL_RUN_MATCH:
        return step_match(run, current_call(run));
    case SV_COLL_RUN_ROWS:
        status = sv_coll_rails_step(&run->rails);
        run->moved = run->rails.moved;
        run->awaited = run->rails.awaited;
        return status;
    case SV_COLL_RUN_PAIRS:
        status = sv_coll_pairs_run_step(&run->pairs);
        run->moved = run->pairs.moved;
        run->awaited = run->pairs.awaited;
        return status;
    default:
        return sv_coll_stage_test(coll, coll->arena->staging->event);
    }
}

/* The state is over: what comes then. SUCCESS: nothing. */
static selvage_status_t begin_state(sv_coll_run_t *run)
{
    switch (run->state) {
    case SV_COLL_RUN_NONE: /* of a flight that has not begun */
        return begin_flight(run);
    case SV_COLL_RUN_STREAMS:
        SV_TRY(begin_after_streams(run));
        return SELVAGE_IN_PROGRESS;
    case SV_COLL_RUN_MATCH: /* of nothing, and of a barrier, this was all */
        if (current_call(run)->call == SV_COLL_BARRIER || current_call(run)->count == 0)
            return begin_next(run);
        run->state = SV_COLL_RUN_STREAMS;
        return SELVAGE_IN_PROGRESS;
    case SV_COLL_RUN_PAIRS:
        sv_coll_pairs_run_end(&run->pairs);
        SV_TRY(begin_end(run));
        return SELVAGE_IN_PROGRESS;
    case SV_COLL_RUN_ROWS:
        SV_TRY(begin_end(run));
        return SELVAGE_IN_PROGRESS;
    default: /* a kernel may have failed, and then it is worth nothing */
        SV_TRY(sv_coll_check(run->flight->coll));
        return run->next > run->flight->ncalls ? SELVAGE_SUCCESS : begin_next(run);
    }
}

/* --- failure ------------------------------------------------------------------------------------------------------ */

/* Ends this rank's kernels, and with them those of its node, which wait for the next one: that is launched to tell
   them. It receives what nobody sends, so that it ends in no other way. Copies to and from the user's memory end, too.
   */
static void stop_node(selvage_coll_t *coll)
{
    sv_coll_arena_t *arena = coll->arena;
    const sv_coll_call_t messenger = {.call = SV_COLL_PAIR, .type = SV_COLL_UINT8, .count = 1,
                                      .root = (int)((coll->dev.me + 1) % coll->dev.n),
                                      .recv = arena->staging->device, .stream = arena->stream};
    /* Partner: the kernel's waits. */
    __atomic_store_n(&arena->pinned->host_stop, 1, __ATOMIC_RELEASE);
    if (coll->dev.n > 1)
        (void)sv_coll_launch(coll->node_set->part, &messenger, 1);
    (void)sv_coll_drain(arena, STOP_GRACE_S);
    if (!sv_coll_stage_end(coll, STOP_GRACE_S))
        sv_coll_arena_set_stuck(arena);
}

/* The kernel of a call on a node is on the arena's stream: it ends before the user's stream goes on without it. */
static void stop_launched(sv_coll_arena_t *arena)
{
    __atomic_store_n(&arena->pinned->host_stop, 1, __ATOMIC_RELEASE); /* partner: the kernel's waits */
    if (sv_coll_drain(arena, STOP_GRACE_S) == SELVAGE_ERR_TIMEOUT)
        sv_coll_arena_set_stuck(arena);
}

/* Tells whoever waits for this rank: for a message, in a gathering (which on a broken communicator says that and no
   more), or anywhere else. */
static void tell_failure(selvage_coll_t *coll, selvage_status_t status)
{
    selvage_comm_t *comm = coll->comm;
    sv_comm_break(comm, status);
    sv_coll_message_give_up(coll, status);
    (void)sv_gather(&coll->all, "selvage_coll", coll->number, status, comm->timeout_s);
    sv_agree_abort(comm, status);
    stop_node(coll);
}

static selvage_status_t fail_run(sv_coll_run_t *run, selvage_status_t status)
{
    selvage_coll_t *coll = run->flight->coll;
    sv_coll_pairs_run_end(&run->pairs);
    sv_coll_note_failure(coll->arena, status);
    coll->arena->staging->queue->ended = true;
    if (run->agreed)
        coll->arena->staging->queue->agreed = coll;
    if (coll->spans && !run->agreed)
        tell_failure(coll, status);
    else if (coll->spans && run->has_fetched && !sv_coll_stage_end(coll, STOP_GRACE_S))
        sv_coll_arena_set_stuck(coll->arena); /* copies out of the user's memory */
    else if (!coll->spans && run->state == SV_COLL_RUN_END)
        stop_launched(coll->arena);
    run->state = SV_COLL_RUN_NONE;
    return status;
}

/* --- turns -------------------------------------------------------------------------------------------------------- */

void sv_coll_run_begin(sv_coll_run_t *run, const sv_coll_flight_t *flight)
{
    run->flight = flight;
    run->state = SV_COLL_RUN_NONE;
    run->next = run->turns = 0;
    run->has_pairs = run->has_begun = run->has_fetched = run->agreed = run->is_over = false;
    run->pairs.out.next = run->pairs.in.next = NULL;
}

static selvage_status_t step_run(sv_coll_run_t *run)
{
    selvage_coll_t *coll = run->flight->coll;
    run->moved = false;
    run->awaited = -1;
    selvage_status_t status = drive_state(run);
    if (status == SELVAGE_SUCCESS) {
        run->moved = true;
        status = begin_state(run);
    }
    if (status != SELVAGE_IN_PROGRESS)
        return status;
    /* Streams have no deadline: their kernels have their own. */
    const bool has_deadline = run->state != SV_COLL_RUN_STREAMS && run->state != SV_COLL_RUN_END;
    if (run->moved) {
        sv_deadline_begin(&run->deadline, coll->comm, has_deadline ? coll->comm->timeout_s : 0);
        run->is_over = false;
    }
    run->may_pause = !run->moved || ++run->turns % SV_COLL_TURNS == 0;
    if (run->may_pause && (run->state == SV_COLL_RUN_ROWS || run->state == SV_COLL_RUN_PAIRS))
        return sv_coll_stage_turn(coll, run->is_over, run->awaited == SV_COLL_NO_RANK ? coll->rank : run->awaited);
    return status;
}

selvage_status_t sv_coll_run_step(sv_coll_run_t *run)
{
    const selvage_status_t status = step_run(run);
    if (status == SELVAGE_IN_PROGRESS)
        return status;
    if (status != SELVAGE_SUCCESS)
        return fail_run(run, status);
    run->state = SV_COLL_RUN_NONE;
    return status;
}
