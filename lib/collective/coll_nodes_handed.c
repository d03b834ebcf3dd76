/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file hands the step between nodes to MPI's own collectives (SELVAGE_COLL_INTERNODE=mpi), for networks that add
 * themselves. Each rail has a communicator of the library's own. A row is one collective on it: an all-reduce, a
 * reduction to the node whose ranks get the piece, or a broadcast from the node that has it. They do not block, and
 * many are under way. They start in the order of the rows, which is the same on all ranks of the rail.
 *
 * What is verified, unless SELVAGE_COLL_CHECKSUM is off:
 *   broadcasts   a message travels as it does without MPI's collectives, with its head and digest
 *   sums         checks travel through the sum (coll_checks.h): exact for integers, rough for floats
 *   min, max     who gets one compares it with its own share
 *   all-reduces  all ranks of a rail compare a digest of what they got, at the end of the call
 * Nothing can be asked for again: what does not verify is an error. What MPI still has after an error is never freed.
 *
 * It runs where the engine lives.
 */
#include <string.h>

#include "base/base_status.h"
#include "collective/coll_checks.h"
#include "collective/coll_names.h"
#include "collective/coll_nodes_run.h"
#include "collective/coll_parts.h"
#include "collective/coll_setup.h"
#include "kernels/coll_pass_host.h"

_Static_assert((int)SV_COLL_CHECK_BYTES <= (int)SV_COLL_HEAD_BYTES, "checks lie where the head of a message would");

/* --- communicators ------------------------------------------------------------------------------------------------ */

/* Blocks in MPI: all members come, as all ranks have agreed that they have the rest. */
static selvage_status_t connect_own_rail(selvage_coll_t *coll)
{
    const sv_coll_node_set_t *node_set = coll->node_set;
    int *ranks;
    if (!node_set || !node_set->group)
        return SELVAGE_SUCCESS;
    ranks = node_set->rail_ranks;
    for (int k = 0; k < node_set->nnodes; k++)
        ranks[k] = coll->all.ranks[node_set->rank_at[node_set->first[k] + node_set->inner[coll->rank]]];
    return sv_wire_group_connect(node_set->group, ranks, node_set->nnodes, (int)coll->number, coll->comm->timeout_s);
}

selvage_status_t sv_coll_handed_connect(selvage_coll_t *coll, sv_team_t *team, const char *what, uint64_t number)
{
    if (team->comm->config.coll_internode != SV_CONFIG_COLL_INTERNODE_MPI)
        return SELVAGE_SUCCESS;
    uint64_t unused = 0;
    const selvage_status_t status = coll ? connect_own_rail(coll) : SELVAGE_SUCCESS;
    return sv_gather_least(team, what, number, status, &unused, team->comm->timeout_s);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static bool is_summed(const sv_coll_plan_t *plan)
{
    return plan->call->call != SV_COLL_BROADCAST && plan->call->call != SV_COLL_ALL_GATHER;
}

/* Bytes of checks that go before a vector. */
static unsigned count_checks(const sv_coll_plan_t *plan)
{
    return plan->coll->comm->config.coll_checksum ? sv_coll_checks_bytes(plan->call->type, plan->call->op) : 0;
}

selvage_status_t sv_coll_handed_start(const sv_coll_rails_t *run, const sv_coll_rail_slot_t *up,
                                      sv_coll_rail_slot_t *down)
{
    const sv_coll_plan_t *plan = run->plan;
    const sv_coll_row_t *what = &down->row;
    sv_wire_group_t *group = run->coll->node_set->group;
    sv_wire_group_call_t call = {.type = plan->call->type, .op = plan->call->op, .root = what->node};
    if (!is_summed(plan)) {
        call.kind = SV_WIRE_BROADCAST;
        call.recv = what->ends ? up->out : down->in;
        call.bytes = SV_COLL_HEAD_BYTES + what->bytes;
        call.element_bytes = 1;
        if (what->ends)
            sv_coll_message_write(run->coll, plan->call, up->out, what->at, what->bytes);
        return sv_coll_rail_check(run->coll, sv_wire_group_start(group, &call, &down->handed));
    }
    const unsigned check_bytes = count_checks(plan);
    uint8_t *const vector = up->out + SV_COLL_HEAD_BYTES;
    call.kind = what->node == SV_COLL_ALL_NODES ? SV_WIRE_ALL_REDUCE : SV_WIRE_REDUCE;
    call.send = vector - check_bytes;
    call.recv = down->in + SV_COLL_HEAD_BYTES - check_bytes;
    call.bytes = check_bytes + what->bytes;
    call.element_bytes = plan->element_bytes;
    if (check_bytes > 0)
        sv_coll_checks_write(vector - check_bytes, vector, what->bytes, plan->call->type);
    return sv_coll_rail_check(run->coll, sv_wire_group_start(group, &call, &down->handed));
}

static bool is_float(unsigned type)
{
    return type >= SV_COLL_FLOAT16;
}

/* Whether a least or largest is that of the own share, too, which is not needed any more. */
static bool bounds_share(const sv_coll_call_t *call, const uint8_t *result, uint8_t *share, uint64_t bytes)
{
    sv_coll_pass_host(share, result, bytes, call->type, call->op, 0);
    return memcmp(share, result, bytes) == 0;
}

static selvage_status_t report_unverified(const selvage_coll_t *coll, const sv_coll_call_t *call)
{
    return sv_error(SELVAGE_ERR_CHECKSUM, "rank %d got a result from MPI's collective that does not verify, in call %u "
                    "(%s)", coll->rank, coll->node_set->sequence, sv_coll_call_name(call->call));
}

/* What MPI has added: verified, NaNs all the same one, and divided. */
static selvage_status_t finish_sum(const sv_coll_rails_t *run, const sv_coll_rail_slot_t *up, sv_coll_rail_slot_t *down)
{
    const sv_coll_plan_t *plan = run->plan;
    const sv_coll_call_t *call = plan->call;
    const sv_coll_row_t *what = &down->row;
    uint8_t *const sum = down->in + SV_COLL_HEAD_BYTES;
    const unsigned check_bytes = count_checks(plan);
    const unsigned divisor = call->flags & SV_COLL_DIVIDE ? (unsigned)run->coll->size : 0;
    if (check_bytes > 0 && !sv_coll_checks_agree(sum - check_bytes, sum, what->bytes, call->type,
                                                 (unsigned)run->coll->node_set->nnodes))
        return report_unverified(run->coll, call);
    if (is_float(call->type) || divisor > 0)
        sv_coll_pass_host(sum, sum, what->bytes, call->type, SV_COLL_MAX, divisor);
    if (!run->coll->comm->config.coll_checksum)
        return SELVAGE_SUCCESS;
    if ((call->op == SV_COLL_MIN || call->op == SV_COLL_MAX) &&
        !bounds_share(call, sum, up->out + SV_COLL_HEAD_BYTES, what->bytes))
        return report_unverified(run->coll, call);
    if (what->node == SV_COLL_ALL_NODES)
        run->staging->comparison.digest += sv_digest_finish(what->at, sv_digest_sum(what->at, 0, sum, what->bytes));
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_handed_drive(const sv_coll_rails_t *run, const sv_coll_rail_slot_t *up,
                                      sv_coll_rail_slot_t *down, uint8_t **message_out)
{
    const sv_coll_row_t *what = &down->row;
    SV_TRY(sv_coll_rail_check(run->coll, sv_wire_group_test(run->coll->node_set->group, &down->handed)));
    *message_out = down->in;
    if (!is_summed(run->plan)) {
        if (what->ends) {
            *message_out = up->out;
            return SELVAGE_SUCCESS;
        }
        return sv_coll_message_verify(run->coll, run->plan->call, down->in, what->at, what->bytes,
                                      sv_coll_plan_rank(run->plan, what->node, run->plan->mine));
    }
    const bool gets = what->node == SV_COLL_ALL_NODES || what->node == run->coll->node_set->mine;
    return gets ? finish_sum(run, up, down) : SELVAGE_SUCCESS;
}

/* --- all-reduces -------------------------------------------------------------------------------------------------- */

selvage_status_t sv_coll_handed_compare(const sv_coll_rails_t *run)
{
    sv_coll_comparison_t *comparison = &run->staging->comparison;
    const selvage_coll_t *coll = run->coll;
    sv_wire_group_t *group = coll->node_set->group;
    const uint64_t digest = comparison->digest;
    const bool compares = run->plan->handed && run->plan->call->call == SV_COLL_ALL_REDUCE;
    if (!group || !compares || !coll->comm->config.coll_checksum)
        return SELVAGE_SUCCESS;
    if (!comparison->has_begun) {
        const sv_wire_group_call_t call = {.kind = SV_WIRE_ALL_REDUCE, .send = comparison->mine,
                                           .recv = comparison->least, .bytes = sizeof comparison->mine,
                                           .element_bytes = sizeof digest, .type = SV_COLL_UINT64, .op = SV_COLL_MIN};
        comparison->mine[0] = digest;
        comparison->mine[1] = ~digest; /* its least is what the greatest is not */
        SV_TRY(sv_coll_rail_check(coll, sv_wire_group_start(group, &call, &comparison->request)));
        comparison->has_begun = true;
    }
    SV_TRY(sv_coll_rail_check(coll, sv_wire_group_test(group, &comparison->request)));
    if (comparison->least[0] == digest && comparison->least[1] == ~digest)
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_CHECKSUM, "MPI's collective gave rank %d and another rank of its rail different "
                    "results, in call %u (%s)", coll->rank, coll->node_set->sequence,
                    sv_coll_call_name(run->plan->call->call));
}

/* --- failure ------------------------------------------------------------------------------------------------------ */

bool sv_coll_handed_withdraw(selvage_coll_t *coll)
{
    sv_wire_group_t *group = coll->node_set->group;
    sv_coll_staging_t *staging = coll->arena->staging;
    bool drained = true;
    if (!group)
        return true;
    for (unsigned s = 0; s < SV_COLL_RAIL_SLOTS; s++)
        drained &= sv_wire_group_test(group, &staging->down[s].handed) == SELVAGE_SUCCESS;
    return drained & (sv_wire_group_test(group, &staging->comparison.request) == SELVAGE_SUCCESS);
}
