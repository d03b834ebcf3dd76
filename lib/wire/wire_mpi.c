/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI wire's life: four private communicators of the caller's ranks, the node split, and the end by close or by
 * MPI_Finalize.
 *
 * - Opening is collective and gives one decision on all ranks. A rank that is out of memory still takes part, because
 *   the others would wait for it.
 * - Steps that block are polled and yield, because ranks may outnumber cores by far. Only the making of communicators
 *   is not: MPI's non-blocking form calls the program's attribute callbacks.
 * - An attribute on MPI_COMM_SELF tells the owner when MPI_Finalize begins. After that nothing is freed collectively,
 *   and after MPI is gone nothing calls it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_DEFAULT */
#endif
#include <dlfcn.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_mpi_datatype.h"
#include "wire/wire_mpi_private.h"

enum { OPEN_SLEEP_US = 200 };

/*
 * A private communicator of the same ranks. Made from the group, not by MPI_Comm_dup or _idup: those call the program's
 * attribute callbacks, and carry its MPI_Info and topology along.
 */
static selvage_status_t make_private(MPI_Comm comm, MPI_Group group, MPI_Comm *out)
{
    int code = PMPI_Comm_create(comm, group, out);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Comm_create");
    code = PMPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    return code == MPI_SUCCESS ? SELVAGE_SUCCESS : sv_wire_mpi_error(code, "MPI_Comm_set_errhandler");
}

static selvage_status_t make_all_private(MPI_Comm comm, MPI_Comm *comms)
{
    MPI_Group group;
    selvage_status_t status;
    for (int i = 0; i < SV_WIRE_MPI_COMMS; i++)
        comms[i] = MPI_COMM_NULL;
    int code = PMPI_Comm_group(comm, &group);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Comm_group");
    /* Errors of all but the first come back as codes, whatever the caller's error handler. */
    status = make_private(comm, group, &comms[0]);
    for (int i = 1; i < SV_WIRE_MPI_COMMS && status == SELVAGE_SUCCESS; i++)
        status = make_private(comms[0], group, &comms[i]);
    PMPI_Group_free(&group);
    return status;
}

static void free_comms(MPI_Comm *comms, const bool *unquiet)
{
    for (int i = 0; i < SV_WIRE_MPI_COMMS; i++) {
        if (comms[i] != MPI_COMM_NULL && !(unquiet && unquiet[i]))
            PMPI_Comm_free(&comms[i]);
    }
}

/*
 * One decision on all ranks, and a number that no earlier wire between any of them had. A rank that failed says so by
 * its number, twice, so that a damaged result is not taken for it. With a damaged number all control messages fail
 * here. The choice comes up and down, so that its largest and its smallest value are seen.
 */
static selvage_status_t agree_on_open(MPI_Comm comm, selvage_status_t mine, unsigned choice, const char *variable,
                                      uint64_t *nonce_out)
{
    int rank = 0, size = 1, done = 0;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    const uint64_t failed = mine != SELVAGE_SUCCESS ? (uint64_t)rank + 1 : 0;
    uint64_t in[5] = {failed, sv_clock_ns(), failed, choice, UINT32_MAX - choice}, out[5];
    MPI_Request request;
    int code = PMPI_Iallreduce(in, out, 5, MPI_UINT64_T, MPI_MAX, comm, &request);
    /* Polled, so that the rank does not sit in MPI while others need its core. */
    sv_backoff_t backoff = {.max_sleep_us = OPEN_SLEEP_US};
    while (code == MPI_SUCCESS) {
        MPI_Status status;
        code = PMPI_Test(&request, &done, &status);
        if (code == MPI_SUCCESS && done)
            break;
        sv_backoff(&backoff);
    }
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Iallreduce");
    if (mine != SELVAGE_SUCCESS)
        return mine;
    if (out[0] != out[2] || out[0] > (uint64_t)size)
        return sv_error(SELVAGE_ERR_MPI, "the ranks' agreement on opening the wire came damaged to rank %d", rank);
    if (out[0])
        return sv_error(SELVAGE_ERR_PEER, "rank %llu could not open its wire", (unsigned long long)out[0] - 1);
    if (out[3] + out[4] != UINT32_MAX)
        return sv_error(SELVAGE_ERR_CONFIG, "%s is not the same on all ranks", variable);
    *nonce_out = out[1];
    return SELVAGE_SUCCESS;
}

static void release_wire(sv_wire_mpi_t *wire)
{
    /* MPI may still write into control slots that did not become quiet: their memory is never used again. */
    if (!wire->unquiet[SV_WIRE_MPI_CONTROL])
        sv_free(wire);
}

/* Called by MPI_Finalize, which deletes the attributes of MPI_COMM_SELF first, and by mpi_close(). */
static int on_self_attribute_deleted(MPI_Comm self, int keyval, void *value, void *extra)
{
    sv_wire_mpi_t *wire = value;
    (void)self;
    (void)keyval;
    (void)extra;
    if (wire->detaching)
        return MPI_SUCCESS;
    wire->finalising = wire->in_callback = true;
    if (wire->finalize_fn)
        wire->finalize_fn(wire->finalize_arg);
    wire->in_callback = false;
    if (wire->closed)
        release_wire(wire);
    else
        sv_wire_mpi_control_stop(wire);
    return MPI_SUCCESS;
}

static void mpi_close(sv_wire_t *base)
{
    sv_wire_mpi_t *wire = (sv_wire_mpi_t *)base;
    if (!wire)
        return;
    if (sv_wire_mpi_is_usable()) {
        sv_wire_mpi_control_stop(wire);
        /* While MPI finalises, peers may be gone for good, and freeing a communicator is collective. */
        if (!wire->finalising) {
            if (wire->keyval != MPI_KEYVAL_INVALID) {
                wire->detaching = true;
                PMPI_Comm_delete_attr(MPI_COMM_SELF, wire->keyval);
                PMPI_Comm_free_keyval(&wire->keyval);
            }
            /* MPICH gives the context of a freed communicator to the next one, and with it messages that nobody has
               received. */
            if (!wire->base.failed)
                free_comms(wire->comm, wire->unquiet);
        }
    }
    wire->closed = true;
    if (!wire->in_callback)
        release_wire(wire);
}

static selvage_status_t mpi_node_ranks(sv_wire_t *base, int **ranks_out, int *count_out)
{
    const MPI_Comm all = ((sv_wire_mpi_t *)base)->comm[SV_WIRE_SETUP];
    selvage_status_t status;
    MPI_Comm node;
    MPI_Group node_group = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    int count = 0, *ranks = NULL, *local = NULL;
    int code = PMPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, base->rank, MPI_INFO_NULL, &node);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Comm_split_type");
    PMPI_Comm_size(node, &count);
    SV_TRY_GOTO(status, sv_calloc((size_t)count, sizeof *ranks, &ranks), out);
    SV_TRY_GOTO(status, sv_calloc((size_t)count, sizeof *local, &local), out);
    /* The node's communicator as ranks of all. Groups are small: only the node's ranks are held. */
    for (int i = 0; i < count; i++)
        local[i] = i;
    code = PMPI_Comm_group(node, &node_group);
    if (code == MPI_SUCCESS)
        code = PMPI_Comm_group(all, &group);
    if (code == MPI_SUCCESS)
        code = PMPI_Group_translate_ranks(node_group, count, local, group, ranks);
    if (code != MPI_SUCCESS) {
        status = sv_wire_mpi_error(code, "MPI_Comm_group or MPI_Group_translate_ranks");
        goto out;
    }
    /* Ascending, because the key of the split was the rank. */
    *ranks_out = ranks;
    *count_out = count;
    ranks = NULL;
out:
    if (group != MPI_GROUP_NULL)
        PMPI_Group_free(&group);
    if (node_group != MPI_GROUP_NULL)
        PMPI_Group_free(&node_group);
    sv_free(local);
    sv_free(ranks);
    PMPI_Comm_free(&node);
    return status;
}

static const sv_wire_ops_t mpi_ops = {
    .abi = SV_WIRE_ABI,
    .name = "mpi",
    .close = mpi_close,
    .send = sv_wire_mpi_send,
    .recv = sv_wire_mpi_recv,
    .test = sv_wire_mpi_test,
    .cancel = sv_wire_mpi_cancel,
    .control_send = sv_wire_mpi_control_send,
    .control_poll = sv_wire_mpi_control_poll,
    .node_ranks = mpi_node_ranks,
};

/* A call that only some MPIs have, so that it is looked up at run time. ISO C has no cast to a function pointer. */
static bool look_up(const char *name, void *function_out)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(function_out, &found, sizeof found);
    return found != NULL;
}

/* Open MPI and its kin have one call per make, MPICH and its kin one for all. An MPI that has neither is not able. */
static bool says_able(const char *name, int mpich_make)
{
    int (*query)(void), (*query_make)(int make, int *able), able = 0;
    if (look_up(name, &query) && query() == 1)
        return true;
    return look_up("MPIX_GPU_query_support", &query_make) && query_make(mpich_make, &able) == MPI_SUCCESS && able;
}

/* What MPI allows: the largest tag, who may call, and whose memory. */
static void query_limits(sv_wire_t *base)
{
    int *tag_max = NULL, level = MPI_THREAD_SINGLE, found = 0;
    base->text = "mpi";
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_max, &found);
    base->tag_max = found ? *tag_max : 32767; /* the least that the standard promises */
    PMPI_Query_thread(&level);
    base->threads_ok = level == MPI_THREAD_MULTIPLE;
    base->one_thread = level < MPI_THREAD_SERIALIZED;
    base->takes_cuda = says_able("MPIX_Query_cuda_support", 0); /* MPIX_GPU_SUPPORT_CUDA */
    base->takes_hip = says_able("MPIX_Query_hip_support", 2);   /* MPIX_GPU_SUPPORT_HIP */
    /* Every program that calls MPI_Init gets this level, so it is said only to those who ask. */
    if (level == MPI_THREAD_SINGLE)
        sv_log(SV_LOG_INFO, "wire", "MPI was initialised with MPI_THREAD_SINGLE; MPI_THREAD_FUNNELED is recommended");
}

selvage_status_t sv_wire_mpi_check_comm(MPI_Comm comm)
{
    int inter = 0;
    if (!sv_wire_mpi_is_usable())
        return sv_error(SELVAGE_ERR_STATE, "MPI is not initialised, or finalised already");
    if (comm == MPI_COMM_NULL)
        return sv_error(SELVAGE_ERR_ARGUMENT, "mpi_comm is MPI_COMM_NULL");
    int code = PMPI_Comm_test_inter(comm, &inter);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Comm_test_inter");
    if (inter)
        return sv_error(SELVAGE_ERR_ARGUMENT, "mpi_comm is an inter-communicator");
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_mpi_open(MPI_Comm comm, sv_wire_t **wire_out)
{
    return sv_wire_mpi_open_agreed(comm, SELVAGE_SUCCESS, 0, "", wire_out);
}

selvage_status_t sv_wire_mpi_open_agreed(MPI_Comm comm, selvage_status_t mine, unsigned choice, const char *variable,
                                         sv_wire_t **wire_out)
{
    sv_wire_mpi_t *wire = NULL;
    MPI_Comm comms[SV_WIRE_MPI_COMMS];
    uint64_t nonce = 0;
    SV_TRY(sv_wire_mpi_check_comm(comm));

    /* From here on every rank takes part to the end of the agreement, also one without memory. */
    selvage_status_t status, memory = sv_calloc(1, sizeof *wire, &wire);
    if (mine == SELVAGE_SUCCESS)
        mine = memory;
    SV_TRY_GOTO(status, make_all_private(comm, comms), fail);
    SV_TRY_GOTO(status, agree_on_open(comms[SV_WIRE_SETUP], mine, choice, variable, &nonce), fail);

    /* The communicators stand. A wire that is half built when something fails is taken by mpi_close(). */
    wire->nonce = nonce;
    wire->base.ops = &mpi_ops;
    wire->base.mpi = &wire->base;
    wire->keyval = MPI_KEYVAL_INVALID;
    memcpy(wire->comm, comms, sizeof wire->comm);
    PMPI_Comm_rank(comms[0], &wire->base.rank);
    PMPI_Comm_size(comms[0], &wire->base.size);
    query_limits(&wire->base);
    SV_TRY_GOTO(status, sv_wire_mpi_control_start(wire), fail_started);

    /* The attribute whose deletion says that MPI_Finalize begins. */
    int code = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_self_attribute_deleted, &wire->keyval, NULL);
    if (code != MPI_SUCCESS) {
        wire->keyval = MPI_KEYVAL_INVALID;
        status = sv_wire_mpi_error(code, "MPI_Comm_create_keyval");
        goto fail_started;
    }
    code = PMPI_Comm_set_attr(MPI_COMM_SELF, wire->keyval, wire);
    if (code != MPI_SUCCESS) {
        PMPI_Comm_free_keyval(&wire->keyval);
        status = sv_wire_mpi_error(code, "MPI_Comm_set_attr");
        goto fail_started;
    }
    *wire_out = &wire->base;
    return SELVAGE_SUCCESS;
fail_started:
    mpi_close(&wire->base);
    return status;
fail:
    free_comms(comms, NULL);
    sv_free(wire);
    return status;
}

void sv_wire_mpi_on_finalize(sv_wire_t *wire, sv_wire_finalize_fn fn, void *arg)
{
    if (!wire || wire->ops != &mpi_ops)
        return;
    ((sv_wire_mpi_t *)wire)->finalize_fn = fn;
    ((sv_wire_mpi_t *)wire)->finalize_arg = arg;
}
