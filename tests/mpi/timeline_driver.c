/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline_driver EPOCHS BYTES...: a ring of ranks of the software device; each sends one packet of each size to the
 * next rank and receives the same from the last one, EPOCHS times. Filled and checked by kernels, which pass no
 * modelled link, so that only the exchange shows in the timeline. Route, links and faults come from the environment.
 * Exit 0: all data were right.
 */
#include <mpi.h>
#include <selvage.h>
#include <stdio.h>
#include <stdlib.h>

enum { PACKETS_MAX = 16, TAG = 7 };

typedef struct driver {
    int rank, size, npackets;
    size_t bytes[PACKETS_MAX];
    unsigned char *send[PACKETS_MAX], *recv[PACKETS_MAX];
    selvage_device_t *device;
    selvage_comm_t *comm;
    selvage_exchange_t *ex;
    void *stream;
    int bad;
} driver_t;

typedef struct compare {
    const unsigned char *bytes;
    size_t count;
    unsigned char wanted;
    int *bad;
} compare_t;

static void check(selvage_status_t status, const char *what)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "timeline_driver: %s: %s (%s)\n", what, selvage_status_name(status), selvage_error_detail());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void compare(const void *arg, unsigned block, unsigned nblocks)
{
    const compare_t *c = arg;
    (void)block, (void)nblocks;
    for (size_t i = 0; i < c->count; i++) {
        if (c->bytes[i] != c->wanted) {
            ++*c->bad;
            return;
        }
    }
}

static int filling(int rank, int packet, int epoch)
{
    return (1 + rank * 101 + packet * 13 + epoch * 7) & 0xff;
}

static void set_up(driver_t *d)
{
    const int next = (d->rank + 1) % d->size, last = (d->rank + d->size - 1) % d->size;
    check(selvage_device_open("soft", &d->device), "device_open");
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = d->device};
    check(selvage_comm_create(MPI_COMM_WORLD, &params, &d->comm), "comm_create");
    check(selvage_stream_create(d->device, &d->stream), "stream_create");
    check(selvage_exchange_create(d->comm, NULL, &d->ex), "exchange_create");
    for (int p = 0; p < d->npackets; p++) {
        check(selvage_device_malloc(d->device, d->bytes[p], (void **)&d->send[p]), "device_malloc");
        check(selvage_device_malloc(d->device, d->bytes[p], (void **)&d->recv[p]), "device_malloc");
        check(selvage_exchange_add_send(d->ex, d->send[p], d->bytes[p], next, TAG, NULL), "add_send");
        check(selvage_exchange_add_recv(d->ex, d->recv[p], d->bytes[p], last, TAG, NULL), "add_recv");
    }
    check(selvage_exchange_commit(d->ex), "exchange_commit");
}

static void run_epoch(driver_t *d, int epoch)
{
    const int last = (d->rank + d->size - 1) % d->size;
    for (int p = 0; p < d->npackets; p++)
        check(selvage_device_fill(d->device, d->send[p], filling(d->rank, p, epoch), d->bytes[p], d->stream), "fill");
    check(selvage_exchange_start(d->ex, d->stream), "exchange_start");
    check(selvage_exchange_wait(d->ex, d->stream), "exchange_wait");
    for (int p = 0; p < d->npackets; p++) {
        compare_t arg = {d->recv[p], d->bytes[p], (unsigned char)filling(last, p, epoch), &d->bad};
        check(selvage_device_launch_soft(d->device, compare, &arg, sizeof arg, 1, d->stream), "compare");
    }
    check(selvage_stream_synchronize(d->device, d->stream), "synchronize");
}

static void tear_down(driver_t *d)
{
    selvage_exchange_destroy(d->ex);
    for (int p = 0; p < d->npackets; p++) {
        selvage_device_free(d->device, d->send[p]);
        selvage_device_free(d->device, d->recv[p]);
    }
    selvage_stream_destroy(d->device, d->stream);
    selvage_comm_destroy(d->comm);
    selvage_device_close(d->device);
}

int main(int argc, char **argv)
{
    driver_t d = {.npackets = argc - 2};
    if (d.npackets < 1 || d.npackets > PACKETS_MAX)
        return 2;
    for (int p = 0; p < d.npackets; p++)
        d.bytes[p] = strtoul(argv[2 + p], NULL, 10);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &d.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &d.size);
    set_up(&d);
    for (int epoch = 1; epoch <= atoi(argv[1]); epoch++)
        run_epoch(&d, epoch);
    tear_down(&d);
    MPI_Finalize();
    if (d.bad)
        fprintf(stderr, "timeline_driver: rank %d: %d packets were wrong\n", d.rank, d.bad);
    return d.bad ? 1 : 0;
}
