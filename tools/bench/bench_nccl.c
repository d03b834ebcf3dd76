/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL found with dlopen; RCCL has the same calls. Its multicast over NVLink is switched off unless the user says
 * otherwise: sends and receives make no use of it, and setting it up needs rights that containers do not always have.
 */
#include "tools/bench/bench_nccl.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/bench_measure.h"

enum { NCCL_TYPE_INT8 = 0, CONFIG_VERSION = 21700, CONFIG_UNDEFINED = INT_MIN };

#define CONFIG_MAGIC 0xcafebeefu

/* The settings as version 2.17 laid them out; later ones read as much of them as `size` says. */
typedef struct bench_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cluster_size, min_channels, max_channels;
    const char *network;
} bench_nccl_config_t;

static void set_environment(int channels)
{
    static const char *const names[] = {"NCCL_MIN_NCHANNELS",
                                        "NCCL_MAX_NCHANNELS",
                                        "NCCL_MIN_CTAS",
                                        "NCCL_MAX_CTAS",
                                        "NCCL_MIN_P2P_NCHANNELS",
                                        "NCCL_MAX_P2P_NCHANNELS",
                                        "NCCL_NCHANNELS_PER_NET_PEER"};
    char text[16];
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    snprintf(text, sizeof text, "%d", channels);
    for (size_t i = 0; channels > 0 && i < sizeof names / sizeof names[0]; i++)
        setenv(names[i], text, 1);
}

static bool load(bench_nccl_t *nccl, const char *file)
{
    const struct {
        void *slot;
        const char *name;
    } calls[] = {
        {&nccl->get_version, "ncclGetVersion"},
        {&nccl->get_id, "ncclGetUniqueId"},
        {&nccl->comm_init, "ncclCommInitRank"},
        {&nccl->comm_init_config, "ncclCommInitRankConfig"},
        {&nccl->comm_destroy, "ncclCommDestroy"},
        {&nccl->group_start, "ncclGroupStart"},
        {&nccl->group_end, "ncclGroupEnd"},
        {&nccl->send, "ncclSend"},
        {&nccl->recv, "ncclRecv"},
        {&nccl->error_string, "ncclGetErrorString"},
    };
    nccl->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!nccl->library) {
        snprintf(nccl->why_not, sizeof nccl->why_not, "%s", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = dlsym(nccl->library, calls[i].name);
        if (!found && calls[i].slot != &nccl->comm_init_config) { /* which version 2.14 brought */
            snprintf(nccl->why_not, sizeof nccl->why_not, "%s has no %s", file, calls[i].name);
            return false;
        }
        memcpy(calls[i].slot, &found, sizeof found); /* ISO C has no cast from an object to a function pointer */
    }
    return true;
}

static bool succeeded(bench_nccl_t *nccl, const char *what, int result)
{
    if (result != 0 && nccl->why_not[0] == '\0')
        snprintf(nccl->why_not, sizeof nccl->why_not, "%s: %s", what, nccl->error_string(result));
    return result == 0;
}

/* A communicator with its number of channels, 0 for the library's own choice. */
static int make_comm(const bench_nccl_t *nccl, bench_nccl_id_t id, bench_nccl_comm_t *made)
{
    const tool_job_t *job = nccl->traffic->job;
    bench_nccl_config_t config = {.size = sizeof config,
                                  .magic = CONFIG_MAGIC,
                                  .version = CONFIG_VERSION,
                                  .blocking = CONFIG_UNDEFINED,
                                  .cluster_size = CONFIG_UNDEFINED,
                                  .min_channels = made->channels,
                                  .max_channels = made->channels};
    if (made->channels == 0)
        return nccl->comm_init(&made->comm, job->size, id, job->rank);
    return nccl->comm_init_config(&made->comm, job->size, id, job->rank, &config);
}

/* Appends a communicator; false, and no change, if some rank could not make it. */
static bool join(bench_nccl_t *nccl, int channels)
{
    const tool_job_t *job = nccl->traffic->job;
    bench_nccl_comm_t made = {.channels = channels};
    bench_nccl_id_t id;
    memset(&id, 0, sizeof id);
    bool good = job->rank != 0 || succeeded(nccl, "ncclGetUniqueId", nccl->get_id(&id));
    if (!bench_all(job, good))
        return false;
    tool_bcast(job, &id, (int)sizeof id, MPI_BYTE);
    good = succeeded(nccl, "ncclCommInitRank", make_comm(nccl, id, &made));
    if (!bench_all(job, good)) {
        if (good)
            (void)nccl->comm_destroy(made.comm);
        return false;
    }
    nccl->comms[nccl->comm_count++] = made;
    return true;
}

/* Two ranks on one GPU would each spin for the other, so every rank must have a GPU that no other has. */
static bool one_gpu_each(const tool_job_t *job)
{
    MPI_Request request;
    if (!bench_all(job, job->gpu.index >= 0))
        return false;
    const size_t bytes = sizeof job->gpu.bus;
    char *all = tool_malloc(job, (size_t)job->size * bytes);
    MPI_Iallgather(job->gpu.bus, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, job->comm, &request);
    tool_poll(job, &request, 1);
    int same = 0;
    for (int rank = 0; rank < job->size; rank++)
        same += tool_job_on_host(job, rank) && strncmp(all + (size_t)rank * bytes, job->gpu.bus, bytes) == 0;
    free(all);
    return bench_all(job, same == 1);
}

static const char *library_name(const tool_job_t *job, const bench_options_t *options)
{
    if (options->nccl)
        return options->nccl;
    return strcmp(job->gpu.kind, "amd") == 0 ? "librccl.so.1" : "libnccl.so.2";
}

/* The library's own choice of channels is one communicator; each tuned one that can be made is a further one. */
void bench_nccl_init(bench_nccl_t *nccl, const tool_traffic_t *traffic, const bench_options_t *options)
{
    *nccl = (bench_nccl_t){.traffic = traffic};
    const char *library = library_name(traffic->job, options);
    if (strcmp(library, "no") == 0) {
        snprintf(nccl->why_not, sizeof nccl->why_not, "not wanted");
        return;
    }
    if (!one_gpu_each(traffic->job)) {
        snprintf(nccl->why_not, sizeof nccl->why_not, "not every rank has a GPU of its own");
        return;
    }
    set_environment(options->nccl_channels);
    if (!bench_all(traffic->job, load(nccl, library)))
        return;
    (void)nccl->get_version(&nccl->version);
    nccl->ready = join(nccl, 0);
    const bool tunable = bench_all(traffic->job, nccl->comm_init_config != NULL);
    for (int i = 0; nccl->ready && tunable && i < options->nccl_tuned_count; i++)
        (void)join(nccl, options->nccl_tuned[i]);
}

/* The library stays open: its threads may still be ending. */
void bench_nccl_fini(bench_nccl_t *nccl)
{
    while (nccl->comm_count > 0)
        (void)nccl->comm_destroy(nccl->comms[--nccl->comm_count].comm);
}

void bench_nccl_exchange(void *context)
{
    bench_nccl_t *nccl = context;
    const tool_traffic_t *traffic = nccl->traffic;
    void *comm = nccl->comms[nccl->current].comm;
    bool good = succeeded(nccl, "ncclGroupStart", nccl->group_start());
    for (int p = 0; p < traffic->packets; p++) {
        const size_t at = (size_t)p * traffic->bytes;
        good &= succeeded(nccl, "ncclSend",
                          nccl->send(traffic->device_send + at, traffic->bytes, NCCL_TYPE_INT8, traffic->send_peer[p],
                                     comm, traffic->stream));
        good &= succeeded(nccl, "ncclRecv",
                          nccl->recv(traffic->device_recv + at, traffic->bytes, NCCL_TYPE_INT8, traffic->recv_peer[p],
                                     comm, traffic->stream));
    }
    good &= succeeded(nccl, "ncclGroupEnd", nccl->group_end());
    nccl->failed |= !good;
}

void bench_nccl_finish(void *context)
{
    const tool_traffic_t *traffic = ((bench_nccl_t *)context)->traffic;
    tool_try(traffic->job, "synchronize", selvage_stream_synchronize(traffic->device, traffic->stream));
}
