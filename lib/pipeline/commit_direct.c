/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit, the direct route: may this rank hand memory of its device to the wire, and does what is sent so arrive? An
 * MPI that knows nothing of the device reads its pointers as if they were the host's, and the process ends; so nothing
 * is tried unless the MPI says that it is able, or the user insists. Saying is not enough: commit_probe.c tries it.
 * Both ends of a pair know what the other one says and what was found, and take the same decision: direct, or staged.
 */
#include <string.h>

#include "base/base_log.h"
#include "base/base_status.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/route.h"
#include "pipeline/pipe_phases.h"

bool sv_commit_direct_is_able(const selvage_comm_t *comm)
{
    const char *name = comm->dev_under->ops->name;
    if (strcmp(name, "soft") == 0 || comm->config.direct == SV_CONFIG_DIRECT_FORCE)
        return true; /* memory of the software device is the host's */
    return (strcmp(name, "nvidia") == 0 && comm->wire->takes_cuda) ||
           (strcmp(name, "amd") == 0 && comm->wire->takes_hip);
}

bool sv_commit_peer_is_able(const sv_peer_t *peer)
{
    return ((const sv_handshake_head_t *)(const void *)peer->handshake_in)->direct_able;
}

void sv_commit_stage_instead(sv_packet_t *p)
{
    sv_packet_set_route(p, SELVAGE_ROUTE_STAGED);
    p->in_place = false;
    p->kernel_copy = sv_commit_is_small(p);
    sv_commit_cut(p);
}

/* A pair that stays direct, or goes staged, or must not. */
static selvage_status_t agree_on_pair(selvage_exchange_t *x, sv_peer_t *peer, bool able)
{
    const char *trouble = "the MPI there does not say that it takes memory of the device";
    if (able && sv_commit_peer_is_able(peer)) {
        if (peer->direct_proved)
            return SELVAGE_SUCCESS;
        trouble = "a probe did not arrive right, here or there";
    }
    if (x->forced_route == SELVAGE_ROUTE_DIRECT)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "route direct was asked for, but not between here and rank %d: %s",
                        peer->rank, able ? trouble : "this MPI does not say that it takes memory of the device");
    if (able)
        sv_log(SV_LOG_WARN, "commit", "direct packets from and to rank %d are staged: %s", peer->rank, trouble);
    else if (!x->comm->logged_not_able)
        sv_log(SV_LOG_WARN, "commit", "this MPI does not say that it takes memory of the %s device: direct packets are "
               "staged", x->comm->dev_under->ops->name);
    x->comm->logged_not_able |= !able;
    for (uint32_t i = 0; i < x->nsends; i++)
        if (x->sends[i].p.peer == peer && x->sends[i].p.ops->from_user_memory)
            sv_commit_stage_instead(&x->sends[i].p);
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.peer == peer && x->recvs[i].p.ops->from_user_memory)
            sv_commit_stage_instead(&x->recvs[i].p);
    peer->wants_direct = false;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_commit_probe_direct(selvage_exchange_t *x)
{
    bool any = false;
    for (uint32_t i = 0; i < x->nsends; i++)
        if (x->sends[i].p.ops->from_user_memory)
            any = x->sends[i].p.peer->wants_direct = true;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.ops->from_user_memory)
            any = x->recvs[i].p.peer->wants_direct = true;
    if (!any)
        return SELVAGE_SUCCESS;
    const bool able = sv_commit_direct_is_able(x->comm);
    selvage_status_t status = able ? sv_commit_probe_pairs(x) : SELVAGE_SUCCESS;
    if (status == SELVAGE_IN_PROGRESS)
        return SELVAGE_SUCCESS; /* the commit is lost already; the agreement will say why */
    SV_TRY(status);
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->wants_direct)
            SV_TRY(agree_on_pair(x, peer, able));
    }
    return SELVAGE_SUCCESS;
}
