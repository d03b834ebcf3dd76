/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective and one-sided calls, and those on files: device buffers become pinned ones of the same shape around MPI's
 * own call. The buffer of a read from a file goes down first, because the file may end early. scripts/make-dropin
 * writes the wrappers; here is what they ask about communicators, and how their calls end. Any thread; each ending
 * gives the call's staging memory back, or hands it to what completes the call.
 */
#include "interpose/drop_agree.h"
#include "interpose/drop_channel.h"
#include "interpose/drop_fastcoll.h"
#include "interpose/drop_linear.h"
#include "interpose/drop_pairs.h"
#include "interpose/drop_persistent.h"
#include "interpose/drop_plan.h"
#include "interpose/drop_raise.h"
#include "interpose/drop_reduce.h"
#include "interpose/drop_split.h"

#include <stdlib.h>

/* Nothing is asked about MPI_COMM_NULL: MPI would call an error handler for each question, and again for the call. */
bool sv_drop_is_inside(MPI_Comm comm)
{
    int inter = 0;
    return comm != MPI_COMM_NULL && PMPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter;
}

int sv_drop_size(MPI_Comm comm)
{
    int n = -1;
    return comm != MPI_COMM_NULL && PMPI_Comm_size(comm, &n) == MPI_SUCCESS ? n : -1;
}

int sv_drop_rank(MPI_Comm comm)
{
    int rank = 0;
    return comm != MPI_COMM_NULL && PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS ? rank : 0;
}

int sv_drop_peers(MPI_Comm comm)
{
    int n = -1;
    if (sv_drop_is_inside(comm))
        return sv_drop_size(comm);
    return comm != MPI_COMM_NULL && PMPI_Comm_remote_size(comm, &n) == MPI_SUCCESS ? n : -1;
}

bool sv_drop_is_root(MPI_Comm comm, int root)
{
    return sv_drop_is_inside(comm) ? sv_drop_rank(comm) == root : root == MPI_ROOT;
}

bool sv_drop_is_leaf(MPI_Comm comm, int root)
{
    return sv_drop_is_inside(comm) ? sv_drop_rank(comm) != root : root != MPI_ROOT && root != MPI_PROC_NULL;
}

int sv_drop_degree(MPI_Comm comm, bool from)
{
    int kind = MPI_UNDEFINED, n = 0, out = 0, weighted;
    if (comm != MPI_COMM_NULL)
        PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART && PMPI_Cartdim_get(comm, &n) == MPI_SUCCESS)
        return 2 * n;
    if (kind == MPI_GRAPH && PMPI_Graph_neighbors_count(comm, sv_drop_rank(comm), &n) == MPI_SUCCESS)
        return n;
    if (kind == MPI_DIST_GRAPH && PMPI_Dist_graph_neighbors_count(comm, &n, &out, &weighted) == MPI_SUCCESS)
        return from ? n : out;
    return 0;
}

/* Whether this rank may have neighbours that are nobody, from which nothing comes: that memory keeps what it has. */
bool sv_drop_has_ends(MPI_Comm comm)
{
    enum { DIMS = 32 };
    int kind = MPI_UNDEFINED, n = 0, dims[DIMS], periods[DIMS], coords[DIMS];
    if (comm == MPI_COMM_NULL || PMPI_Topo_test(comm, &kind) != MPI_SUCCESS || kind == MPI_GRAPH)
        return false;
    if (kind != MPI_CART || PMPI_Cartdim_get(comm, &n) != MPI_SUCCESS || n > DIMS ||
        PMPI_Cart_get(comm, n, dims, periods, coords) != MPI_SUCCESS)
        return true;
    bool ends = false;
    for (int i = 0; i < n; i++)
        ends = ends || (!periods[i] && (coords[i] == 0 || coords[i] == dims[i] - 1));
    return ends;
}

/* Calls that take displacements in bytes may have absolute ones. */
static inline bool sv_drop_is_host_weighed(const void *buf)
{
    return buf != MPI_BOTTOM && sv_drop_is_host(buf);
}

static void count_call(const sv_drop_call_t *call)
{
    for (int i = 0; i < call->nbuffers; i++)
        if (call->buffer[i].in)
            sv_drop_count_all(call->name, "staged", (int64_t)call->buffer[i].bytes);
}

/* Refuses a call that must not be made: the handler of its communicator, window or file hears of it. */
static int sv_drop_coll_refuse(sv_drop_call_t *call, const MPI_Comm *comm, const MPI_Win *win, const MPI_File *file)
{
    sv_drop_call_end(call);
    if (win)
        return sv_drop_raise_win(*win, MPI_ERR_BUFFER);
    if (file)
        return sv_drop_raise_file(*file, MPI_ERR_BUFFER);
    return sv_drop_raise(comm ? *comm : MPI_COMM_WORLD, MPI_ERR_BUFFER);
}

static int sv_drop_coll_end(sv_drop_call_t *call, int code)
{
    if (code == MPI_SUCCESS)
        sv_drop_unstage_call(call, NULL);
    count_call(call);
    sv_drop_call_end(call);
    return code;
}

static int sv_drop_coll_begin(sv_drop_call_t *call, int code, MPI_Request inner, MPI_Request *request)
{
    count_call(call);
    if (code == MPI_SUCCESS)
        return sv_drop_request_start(call, NULL, inner, MPI_REQUEST_NULL, false, request);
    sv_drop_call_end(call);
    return code;
}

/* The first half of a split call on a file. */
static int sv_drop_coll_split(sv_drop_call_t *call, int code, MPI_File file)
{
    count_call(call);
    if (code == MPI_SUCCESS && call->nbuffers > 0)
        sv_drop_split_keep(call, file);
    else
        sv_drop_call_end(call);
    return code;
}

int sv_drop_coll_keep(sv_drop_call_t *call, int code, MPI_Request inner, MPI_Request *request)
{
    if (code == MPI_SUCCESS)
        return sv_drop_request_keep(call, NULL, inner, false, request);
    sv_drop_call_end(call);
    return code;
}

/* MPICH 4.0 ends the request of a get before all of a derived type has come: a flush here makes what lands complete. */
static int sv_drop_rma_begin(sv_drop_call_t *call, int code, MPI_Win win, int target, MPI_Request inner,
                             MPI_Request *request)
{
    bool gets = false;
    for (int i = 0; i < call->nbuffers; i++)
        gets = gets || call->buffer[i].out;
    if (code == MPI_SUCCESS && gets)
        code = PMPI_Win_flush_local(target, win);
    return sv_drop_coll_begin(call, code, inner, request);
}

static int sv_drop_rma_end(sv_drop_call_t *call, int code, MPI_Win win, int target)
{
    count_call(call);
    if (code == MPI_SUCCESS)
        sv_drop_pend(call, win, target);
    else
        sv_drop_call_end(call);
    return code;
}

SV_DROP_EXPORT int MPI_Barrier(MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    sv_drop_flush_and_block();
    const int code = sv_drop_enter(comm)
                         ? sv_drop_drive(PMPI_Ibarrier(comm, &request), &request, MPI_STATUS_IGNORE)
                         : PMPI_Barrier(comm);
    return sv_drop_met(comm, 1, MPI_BYTE, sv_drop_leave(comm, 1, MPI_BYTE, code));
}

#include "drop_coll_calls.inc"
