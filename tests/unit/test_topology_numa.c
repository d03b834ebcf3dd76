/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory and threads next to a GPU, on a sysfs made here: what is found and what is left alone; the policy of the
 * calling thread between begin and end, as the system has it; the cores of a thread and of the progress thread; and
 * that commit asks for placement. Where the system refuses policies (containers may), that part is left out.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "comm/comm.h"
#include "host/progress.h"
#include "host/topology.h"
#include "host/topology_bind.h"
#include "pipeline/exchange_set.h"
#include "wire/wire_local.h"
#include <selvage/exchange.h>

#define GPU "0000:c1:00.0"

enum { DEFAULT = 0, PREFERRED = 1, INTERLEAVE = 3, PREFERRED_MANY = 5 };

static char root[64];
static int logged, refused;

static void count_lines(void *arg, int level, const char *line)
{
    (void)arg;
    logged += level <= SV_LOG_WARN;
    refused += strstr(line, "memory is not bound to NUMA node 1000") != NULL;
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[512];
    size_t begin = strlen(root) + 1;
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    for (char *c = path + begin; *c; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        (void)mkdir(path, 0700);
        *c = '/';
    }
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    if (!file)
        return;
    fprintf(file, "%s\n", text);
    fclose(file);
}

/* A machine whose memory is on these nodes, and a GPU next to one of them and its cores. */
static void make_machine(const char *nodes, const char *node, const char *cores)
{
    put("devices/system/node", "has_memory", nodes);
    put("bus/pci/devices/" GPU, "numa_node", node);
    put("bus/pci/devices/" GPU, "local_cpulist", cores);
}

static int found_node(const char *sys_root, const char *bus_id)
{
    sv_topology_t topology = {.near.node = -1};
    sv_topology_place(&topology, sys_root, bus_id);
    int node = topology.near.node;
    bool begun = node < 0 && sv_topology_memory_begin(&topology);
    CHECK(!begun);
    sv_topology_memory_end(&topology, begun);
    sv_topology_fini(&topology);
    return node;
}

static void check_found(void)
{
    make_machine("0-1", "1", "16-31");
    CHECK_EQ(found_node(root, GPU), 1);
    CHECK_EQ(found_node(root, ""), -1);
    CHECK_EQ(found_node(root, "0000:c2:00.0"), -1);
    CHECK_EQ(found_node(root, "../devices/" GPU), -1);
    CHECK_EQ(found_node("/nowhere", GPU), -1);
    make_machine("0,2", "0", "0-15");
    CHECK_EQ(found_node(root, GPU), 0);
    make_machine("0", "0", "0-15"); /* nothing to choose */
    CHECK_EQ(found_node(root, GPU), -1);
    make_machine("0-7", "-1", "0-15"); /* the system does not know */
    CHECK_EQ(found_node(root, GPU), -1);
    make_machine("0-7", "what", "0-15");
    CHECK_EQ(found_node(root, GPU), -1);
}

static bool has_core(const sv_topology_t *topology, int core)
{
    return CPU_ISSET_S(core, sizeof topology->near.cores, (const cpu_set_t *)(const void *)topology->near.cores);
}

static void check_cores(void)
{
    sv_topology_t topology = {.near.node = -1};
    make_machine("0-1", "0", "1-3,8,8191");
    sv_topology_place(&topology, root, GPU);
    for (int core = 0; core < SV_TOPOLOGY_CPUS; core++)
        CHECK_EQ(has_core(&topology, core), (core >= 1 && core <= 3) || core == 8 || core == 8191);
    sv_topology_fini(&topology);
    make_machine("0-1", "0", "5,8000-9000,7"); /* more than the set holds ends it */
    sv_topology_place(&topology, root, GPU);
    CHECK(has_core(&topology, 5) && !has_core(&topology, 7) && !has_core(&topology, 8000));
    sv_topology_fini(&topology);
}

static int policy(void)
{
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0L, NULL, 0L) == 0 ? mode : -1;
}

/* Between begin and end node 0, which every machine has, is preferred; a policy of the user's own stays. */
static void check_memory(void)
{
    sv_topology_t topology = {.near.node = -1};
    unsigned long node_0 = 1;
    if (policy() != DEFAULT || syscall(SYS_set_mempolicy, PREFERRED, &node_0, 64L) != 0) {
        printf("topology_numa: the system allows no memory policies, or has set one\n");
        return;
    }
    CHECK_EQ(syscall(SYS_set_mempolicy, DEFAULT, NULL, 0L), 0);
    make_machine("0-1", "0", "0");
    sv_topology_place(&topology, root, GPU);
    bool begun = sv_topology_memory_begin(&topology);
    CHECK(begun);
    CHECK(policy() == PREFERRED || policy() == PREFERRED_MANY);
    sv_topology_memory_end(&topology, begun);
    CHECK_EQ(policy(), DEFAULT);
    CHECK_EQ(syscall(SYS_set_mempolicy, INTERLEAVE, &node_0, 64L), 0);
    begun = sv_topology_memory_begin(&topology);
    CHECK(!begun);
    CHECK_EQ(policy(), INTERLEAVE);
    sv_topology_memory_end(&topology, begun);
    CHECK_EQ(policy(), INTERLEAVE);
    CHECK_EQ(syscall(SYS_set_mempolicy, DEFAULT, NULL, 0L), 0);
    topology.near.node = 1000; /* no such node */
    begun = sv_topology_memory_begin(&topology);
    CHECK(!begun);
    CHECK_EQ(policy(), DEFAULT);
    sv_topology_fini(&topology);
}

static void check_thread(void)
{
    sv_topology_t topology = {.near.node = -1};
    cpu_set_t before, after;
    char text[64];
    CHECK_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    sv_topology_bind_thread(&topology); /* nothing is known: nothing changes */
    CHECK_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    CHECK(CPU_EQUAL(&before, &after));
    int last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &before))
        last--;
    snprintf(text, sizeof text, "%d,8100-8191", last);
    make_machine("0-1", "0", text);
    sv_topology_place(&topology, root, GPU);
    sv_topology_bind_thread(&topology);
    CHECK_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    CHECK(CPU_COUNT(&after) == 1 && CPU_ISSET(last, &after));
    sv_topology_fini(&topology);
    make_machine("0-1", "0", "8100-8191"); /* none of ours */
    sv_topology_place(&topology, root, GPU);
    sv_topology_bind_thread(&topology);
    CHECK_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    CHECK(CPU_COUNT(&after) == 1 && CPU_ISSET(last, &after));
    sv_topology_fini(&topology);
    CHECK_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

static bool poll_nothing(void *arg)
{
    (void)arg;
    return false;
}

static unsigned never_idle_us(void *arg)
{
    (void)arg;
    return 0;
}

static void read_cores(void *arg)
{
    CHECK_EQ(sched_getaffinity(0, sizeof(cpu_set_t), arg), 0);
}

/* The progress thread goes there, and the thread that starts it does not. */
static void check_progress(void)
{
    sv_topology_t topology = {.near.node = -1};
    const sv_progress_ops_t ops = {.poll = poll_nothing, .idle_us = never_idle_us};
    const sv_progress_params_t params = {.threaded = true, .idle_us = 200};
    sv_progress_t progress;
    cpu_set_t mine, its, after;
    char text[32];
    CHECK_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
    int core = 0;
    while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &mine))
        core++;
    snprintf(text, sizeof text, "%d", core);
    make_machine("0-1", "0", text);
    sv_topology_place(&topology, root, GPU);
    CHECK_STATUS(sv_progress_init(&progress, &params, &topology, &ops, NULL), SELVAGE_SUCCESS);
    sv_progress_call(&progress, read_cores, &its);
    sv_progress_fini(&progress);
    CHECK(CPU_COUNT(&its) == 1 && CPU_ISSET(core, &its));
    CHECK_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    CHECK(CPU_EQUAL(&mine, &after));
    sv_topology_fini(&topology);
}

/* Commit asks for placement of the pinned block and of the segment: next to a node that does not exist, it is told so
   twice, and goes on. */
static void check_commit(void)
{
    sv_wire_world_t *world = NULL;
    sv_wire_t *wire = NULL;
    selvage_comm_t *comm = NULL;
    selvage_exchange_t *ex = NULL;
    char out[64] = "placed", in[64] = "";
    setenv("SELVAGE_LOG", "info", 1);
    setenv("SELVAGE_DEVICE", "soft", 1);
    CHECK_STATUS(sv_wire_world_create(1, 0, &world), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_local_open(world, 0, &wire), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_comm_create(wire, NULL, &sv_exchange_set_ops, &comm), SELVAGE_SUCCESS);
    comm->topology.near.node = 1000;
    comm->topology.near.binder = sv_binder_create();
    CHECK_STATUS(selvage_exchange_create(comm, NULL, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(ex, out, sizeof out, 0, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(ex, in, sizeof in, 0, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    CHECK_EQ(refused, 2);
    CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STR(in, "placed");
    selvage_exchange_destroy(ex);
    selvage_comm_destroy(comm);
    sv_wire_world_destroy(world);
}

int main(void)
{
    char command[128];
    snprintf(root, sizeof root, "/tmp/selvage-numa-%ld", (long)getpid());
    CHECK_EQ(mkdir(root, 0700), 0);
    sv_thread_binding()->sink = count_lines;
    check_found();
    check_cores();
    check_memory();
    check_thread();
    check_progress();
    check_commit();
    CHECK_EQ(logged, 0); /* what cannot be done is no warning */
    CHECK_EQ(sv_memory_live(), 0);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    CHECK_EQ(system(command), 0);
    return check_report("topology_numa");
}
