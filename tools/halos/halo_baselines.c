/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How else halos are filled: packed by hand, with one loop for all faces and fields, and sent as a group by NCCL or
 * RCCL; or copied to the host whole, exchanged there by MPI with a datatype for every face, and copied back.
 */
#include <string.h>

#include "tools/halos/halo_bench.h"

static void run_loop(halo_bench_t *bench, const device_loop_t *loop, void *buffer)
{
    bench->hand.buffer = buffer;
    tool_try(&bench->job, "packing by hand",
             device_loop_run(loop, &bench->hand, sizeof bench->hand, bench->device, bench->traffic.stream));
}

static void nccl_halo(void *context)
{
    halo_bench_t *bench = context;
    run_loop(bench, &hand_pack, bench->traffic.device_send);
    bench_nccl_exchange(&bench->nccl);
    run_loop(bench, &hand_unpack, bench->traffic.device_recv);
}

static void finish(void *context)
{
    bench_nccl_finish(&((halo_bench_t *)context)->nccl);
}

/* A face travels down (even) to the neighbour below, and what comes to the same number was sent by the one above. */
static void shape_traffic(halo_bench_t *bench)
{
    tool_traffic_t *traffic = &bench->traffic;
    traffic->packets = HALO_FACES;
    traffic->bytes = bench->hand.n / HALO_FACES * sizeof(double);
    for (int face = 0; face < HALO_FACES; face++) {
        int offset[3] = {0};
        offset[face / 2] = face % 2 ? 1 : -1;
        tool_try(&bench->job, "neighbour", selvage_grid_neighbour(bench->grid, offset, &traffic->send_peer[face]));
        offset[face / 2] *= -1;
        tool_try(&bench->job, "neighbour", selvage_grid_neighbour(bench->grid, offset, &traffic->recv_peer[face]));
    }
}

static double measure(halo_bench_t *bench, bench_mode_t mode, bench_work_t work)
{
    return bench_measure(&bench->job, mode, bench->options.seconds, bench->options.repetitions, &work).median_s;
}

static bool capture_nccl_halo(void *context)
{
    halo_bench_t *bench = context;
    nccl_halo(bench);
    return !bench->nccl.failed;
}

static void measure_nccl(halo_bench_t *bench, halo_row_t *row)
{
    bench_nccl_t *nccl = &bench->nccl;
    const tool_traffic_t *traffic = &bench->traffic;
    shape_traffic(bench);
    for (nccl->current = 0; nccl->ready && nccl->current < nccl->comm_count; nccl->current++) {
        double *seconds = nccl->current == 0 ? &row->nccl_s : &row->tuned_s;
        const bench_work_t plain = {nccl_halo, finish, bench};
        bench_work_t work = plain;
        bench_graph_t graph = {&bench->job, bench->device, traffic->stream, NULL, {0}};
        nccl->failed = false;
        if (row->what.mode == BENCH_GRAPH && !bench_graph_open(&graph, capture_nccl_halo, &plain, &work))
            continue; /* such a version cannot be captured */
        const double median = measure(bench, row->what.mode, work);
        bench_graph_close(&graph);
        nccl->ready = bench_all(&bench->job, !nccl->failed);
        if (!nccl->ready || (*seconds > 0 && *seconds <= median))
            continue;
        *seconds = median;
        row->tuned_channels = nccl->comms[nccl->current].channels;
    }
}

/* --- on the host -------------------------------------------------------------------------------------------------- */

static size_t field_cells(const halo_bench_t *bench)
{
    const size_t pitch = bench->hand.edge + 2 * bench->hand.width;
    return pitch * pitch * pitch;
}

static void copy_fields(halo_bench_t *bench, selvage_copy_t direction)
{
    const size_t cells = field_cells(bench);
    for (size_t f = 0; f < bench->hand.fields; f++) {
        double *host = bench->host + f * cells, *device = bench->hand.field[f];
        bool down = direction == SELVAGE_COPY_DEVICE_TO_HOST;
        tool_try(&bench->job, "copy", selvage_device_copy(bench->device, down ? host : device, down ? device : host,
                                                          cells * sizeof *host, direction, bench->traffic.stream));
    }
    tool_try(&bench->job, "copy", selvage_stream_synchronize(bench->device, bench->traffic.stream));
}

static MPI_Datatype make_face(const halo_bench_t *bench, int face, bool halo)
{
    const int edge = (int)bench->hand.edge, width = (int)bench->hand.width, pitch = edge + 2 * width;
    int sizes[3], subsizes[3], starts[3];
    MPI_Datatype type;
    for (int d = 0; d < 3; d++) {
        int first = width, k = 2 - d; /* C order: dimension 0 is the last index */
        if (d == face / 2)
            first = face % 2 == 0 ? (halo ? width + edge : width) : (halo ? 0 : edge);
        sizes[k] = pitch;
        subsizes[k] = d == face / 2 ? width : edge;
        starts[k] = first;
    }
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void host_halo(void *context)
{
    halo_bench_t *bench = context;
    const tool_traffic_t *traffic = &bench->traffic;
    MPI_Request requests[2 * HALO_FACES];
    copy_fields(bench, SELVAGE_COPY_DEVICE_TO_HOST);
    for (size_t f = 0; f < bench->hand.fields; f++) {
        double *field = bench->host + f * field_cells(bench);
        for (int face = 0; face < HALO_FACES; face++) {
            MPI_Irecv(field, 1, bench->face[HALO_FACES + face], traffic->recv_peer[face], face, bench->job.comm,
                      &requests[face]);
            MPI_Isend(field, 1, bench->face[face], traffic->send_peer[face], face, bench->job.comm,
                      &requests[HALO_FACES + face]);
        }
        tool_poll(&bench->job, requests, 2 * HALO_FACES);
    }
    copy_fields(bench, SELVAGE_COPY_HOST_TO_DEVICE);
}

static void measure_host(halo_bench_t *bench, halo_row_t *row)
{
    const size_t bytes = field_cells(bench) * bench->hand.fields * sizeof *bench->host;
    void *host;
    if (row->what.mode != BENCH_WAIT || bytes > bench->options.host_bytes)
        return;
    tool_try(&bench->job, "pinned memory", selvage_device_host_malloc(bench->device, bytes, &host));
    bench->host = host;
    shape_traffic(bench);
    for (int face = 0; face < 2 * HALO_FACES; face++)
        bench->face[face] = make_face(bench, face % HALO_FACES, face >= HALO_FACES);
    row->host_s = measure(bench, BENCH_WAIT, (bench_work_t){host_halo, NULL, bench});
    for (int face = 0; face < 2 * HALO_FACES; face++)
        MPI_Type_free(&bench->face[face]);
    selvage_device_host_free(bench->device, host);
    bench->host = NULL;
}

void halo_baselines(halo_bench_t *bench, halo_row_t *row)
{
    measure_nccl(bench, row);
    measure_host(bench, row);
}
