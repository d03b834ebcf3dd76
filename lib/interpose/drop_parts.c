/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partitioned calls (MPI 4): persistent requests on an image of the buffer in pinned memory. Each partition goes down
 * when the program says that it is ready. It comes up when the program is told that it has arrived, or with the others
 * when the request is complete. Any thread may mark a partition or ask about one; the request owns the image.
 */
#include "interpose/drop.h"

#include <stdlib.h>
#include <string.h>

/* The wait is for the program's kernels, which may still read the memory that it will land in. */
void sv_drop_parts_begin(sv_drop_call_t *call)
{
    sv_drop_settle();
    memset(call->parts, 0, (size_t)call->buffer[0].nblocks * sizeof *call->parts);
    for (int i = 0; i < call->buffer[0].nblocks; i++)
        if (call->buffer[0].keeps_gaps)
            sv_drop_stage_part(call, i);
}

void sv_drop_parts_unstage(sv_drop_call_t *call)
{
    sv_drop_flow_t flow = {0};
    for (int i = 0; call->nbuffers > 0 && i < call->buffer[0].nblocks; i++)
        sv_drop_unstage_part(&flow, call, i);
    sv_drop_flow_end(&flow);
}

#if MPI_VERSION >= 4

/* The image of all partitions, each a block of it; NULL if there is nothing of the device's. */
static void *image_of(sv_drop_call_t *call, const void *buf, int partitions, MPI_Count count, MPI_Datatype type,
                      bool in)
{
    MPI_Count *counts = malloc((size_t)partitions * sizeof *counts);
    call->parts = calloc((size_t)partitions, sizeof *call->parts);
    if (!counts || !call->parts)
        sv_drop_fatal("no memory", call->name);
    for (int i = 0; i < partitions; i++)
        counts[i] = count;
    sv_drop_list_t list = {.n = partitions, .type = type, .large_counts = counts};
    void *image = sv_drop_blocks(call, buf, true, &list, in, !in);
    free(counts);
    if (call->nbuffers > 0)
        return image;
    sv_drop_call_end(call);
    return NULL;
}

static bool is_plain_partitioned(const void *buf, int partitions, MPI_Count count, MPI_Datatype type, int peer)
{
    return peer == MPI_PROC_NULL || partitions <= 0 || sv_drop_is_host_typed(buf, count, type);
}

SV_DROP_EXPORT int MPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype type, int dest,
                                  int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    sv_drop_call_t call = {.name = "MPI_Psend_init"};
    MPI_Request inner = MPI_REQUEST_NULL;
    void *image = is_plain_partitioned(buf, partitions, count, type, dest)
                      ? NULL
                      : image_of(&call, buf, partitions, count, type, true);
    if (!image)
        return PMPI_Psend_init(buf, partitions, count, call.refused ? MPI_DATATYPE_NULL : type, dest, tag, comm,
                               info, request);
    int code = PMPI_Psend_init(image, partitions, count, type, dest, tag, comm, info, &inner);
    return sv_drop_coll_keep(&call, code, inner, request);
}

SV_DROP_EXPORT int MPI_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype type, int source, int tag,
                                  MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    sv_drop_call_t call = {.name = "MPI_Precv_init"};
    MPI_Request inner = MPI_REQUEST_NULL;
    void *image = is_plain_partitioned(buf, partitions, count, type, source)
                      ? NULL
                      : image_of(&call, buf, partitions, count, type, false);
    if (!image)
        return PMPI_Precv_init(buf, partitions, count, call.refused ? MPI_DATATYPE_NULL : type, source, tag, comm,
                               info, request);
    int code = PMPI_Precv_init(image, partitions, count, type, source, tag, comm, info, &inner);
    return sv_drop_coll_keep(&call, code, inner, request);
}

static sv_drop_op_t *parts_of(MPI_Request request)
{
    return sv_drop_has_open() ? sv_drop_op_find(request) : NULL;
}

SV_DROP_EXPORT int MPI_Pready(int partition, MPI_Request request)
{
    return MPI_Pready_range(partition, partition, request);
}

SV_DROP_EXPORT int MPI_Pready_range(int partition_low, int partition_high, MPI_Request request)
{
    sv_drop_flush();
    sv_drop_op_t *op = parts_of(request);
    for (int i = partition_low; op && op->call.parts && i <= partition_high; i++)
        sv_drop_stage_part(&op->call, i);
    sv_drop_op_release(op);
    return PMPI_Pready_range(partition_low, partition_high, request);
}

/* MPI 4.0 has no const there, later ones have. */
typedef __typeof__(_Generic(&PMPI_Pready_list, int (*)(int, const int *, MPI_Request): (const int *)NULL,
                            default: (int *)NULL)) numbers_t;

SV_DROP_EXPORT int MPI_Pready_list(int length, numbers_t array_of_partitions, MPI_Request request)
{
    sv_drop_flush();
    sv_drop_op_t *op = parts_of(request);
    for (int i = 0; op && op->call.parts && i < length; i++)
        sv_drop_stage_part(&op->call, array_of_partitions[i]);
    sv_drop_op_release(op);
    return PMPI_Pready_list(length, array_of_partitions, request);
}

SV_DROP_EXPORT int MPI_Parrived(MPI_Request request, int partition, int *flag)
{
    sv_drop_flow_t flow = {0};
    sv_drop_flush();
    if (sv_drop_is_busy()) /* the program may wait by this call, and others for what this rank receives besides */
        sv_drop_progress();
    sv_drop_op_t *op = parts_of(request);
    int code = PMPI_Parrived(request, partition, flag);
    sv_drop_lock();
    if (op && op->call.parts && op->active && code == MPI_SUCCESS && *flag)
        sv_drop_unstage_part(&flow, &op->call, partition);
    sv_drop_flow_end(&flow);
    sv_drop_unlock();
    sv_drop_op_release(op);
    return code;
}

#else

/* A translation unit must not be empty. */
typedef int sv_drop_no_partitions_t;

#endif
