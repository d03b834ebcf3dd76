/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that share a GPU find out, and nobody else does: on worlds of one and of several machines, divided into virtual
 * nodes, with and without devices that have a bus id; through communicators on software devices that pretend to be
 * GPUs; with calls of the wire or allocations failing in turn, on each rank; and with messages damaged on their way.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "check.h"
#include "comm/comm.h"
#include "host/topology.h"
#include "pipeline/exchange_set.h"
#include "wire/wire_local.h"

enum { RANKS_MAX = 9, WIRE_CALLS = 8, ALLOCATIONS = 20 };

static _Atomic int somebody_failed;

typedef struct member {
    sv_wire_world_t *world;
    int rank, per_node;
    const char *bus_id;
    int sharers;              /* found */
    bool shares, said;
    int wire_call;            /* the one to fail; 0: none */
    unsigned hurt;            /* copies of each of its messages that are changed: bits 0 and 1 */
    selvage_status_t status;
    char detail[512];
} member_t;

static selvage_status_t let_others_run(void *arg)
{
    (void)arg;
    sched_yield();
    return atomic_load(&somebody_failed) ? SELVAGE_ERR_PEER : SELVAGE_SUCCESS;
}

/* A wire that changes bytes of what it sends: the same in each copy that it hurts. */
typedef struct hurting_wire {
    sv_wire_t base;
    sv_wire_t *inner;
    unsigned hurt;
    uint8_t sent[2][256];
    int nsent;
} hurting_wire_t;

static selvage_status_t hurting_send(sv_wire_t *base, sv_wire_channel_t channel, const void *buf, size_t bytes,
                                     int peer, int tag, sv_wire_request_t *request_out)
{
    hurting_wire_t *wire = (hurting_wire_t *)base;
    uint8_t *sent = wire->sent[wire->nsent++ % 2];
    CHECK(bytes <= sizeof wire->sent[0] && bytes % 2 == 0);
    memcpy(sent, buf, bytes);
    for (unsigned copy = 0; copy < 2; copy++)
        if (wire->hurt & 1u << copy)
            sent[copy * bytes / 2 + 6] ^= 1; /* of another GPU */
    return sv_wire_send(wire->inner, channel, sent, bytes, peer, tag, request_out);
}

static selvage_status_t hurting_recv(sv_wire_t *base, sv_wire_channel_t channel, void *buf, size_t capacity, int peer,
                                     int tag, sv_wire_request_t *request_out)
{
    return sv_wire_recv(((hurting_wire_t *)base)->inner, channel, buf, capacity, peer, tag, request_out);
}

static selvage_status_t hurting_test(sv_wire_t *base, sv_wire_request_t *request, size_t *bytes_out)
{
    return sv_wire_test(((hurting_wire_t *)base)->inner, request, bytes_out);
}

static selvage_status_t hurting_cancel(sv_wire_t *base, sv_wire_request_t *request)
{
    return sv_wire_cancel(((hurting_wire_t *)base)->inner, request);
}

static const sv_wire_ops_t hurting_ops = {.abi = SV_WIRE_ABI, .name = "hurting", .send = hurting_send,
                                          .recv = hurting_recv, .test = hurting_test, .cancel = hurting_cancel};

static void *find_alone(void *arg)
{
    member_t *me = arg;
    sv_wire_t *wire = NULL;
    sv_topology_t topology;
    sv_fault_t fault;
    char text[32];
    sv_thread_binding()->log_level = 0;
    CHECK_STATUS(sv_wire_local_open(me->world, me->rank, &wire), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_topology_init(&topology, wire, me->per_node), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_fault_wrap(&wire), SELVAGE_SUCCESS);
    snprintf(text, sizeof text, me->wire_call ? "wire=%d" : "", me->wire_call);
    CHECK_STATUS(sv_fault_parse(text, me->rank, &fault), SELVAGE_SUCCESS);
    sv_thread_binding()->fault = &fault;
    hurting_wire_t hurting = {.base = *wire, .inner = wire, .hurt = me->hurt};
    hurting.base.ops = &hurting_ops;
    me->status = sv_topology_find_gpu(&topology, me->hurt ? &hurting.base : wire, me->bus_id, let_others_run, NULL);
    snprintf(me->detail, sizeof me->detail, "%.500s", selvage_error_detail());
    sv_thread_binding()->fault = NULL;
    if (me->status != SELVAGE_SUCCESS)
        atomic_store(&somebody_failed, 1);
    me->sharers = topology.gpu_ranks;
    me->shares = topology.shares_gpu;
    sv_topology_fini(&topology);
    wire->ops->close(wire);
    return NULL;
}

static void keep_line(void *arg, int level, const char *line)
{
    member_t *me = arg;
    if (level == SV_LOG_INFO && strstr(line, "ranks of this machine use GPU"))
        me->said = true;
}

/* A communicator on a software device that claims a bus id. */
static void *find_by_comm(void *arg)
{
    member_t *me = arg;
    sv_config_t config;
    sv_device_t *dev = NULL;
    sv_wire_t *wire = NULL;
    selvage_comm_t *comm = NULL;
    sv_thread_binding()->sink = keep_line;
    sv_thread_binding()->sink_arg = me;
    CHECK_STATUS(sv_config_load(NULL, NULL, &config), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_device_open("soft", &config, &dev), SELVAGE_SUCCESS);
    snprintf(dev->bus_id, sizeof dev->bus_id, "%s", me->bus_id);
    CHECK_STATUS(sv_wire_local_open(me->world, me->rank, &wire), SELVAGE_SUCCESS);
    me->status = sv_comm_create(wire, &(selvage_comm_params_t){SELVAGE_COMM_PARAMS_INIT, .device = dev},
                                &sv_exchange_set_ops, &comm);
    sv_thread_binding()->fault = NULL; /* as the public calls do */
    snprintf(me->detail, sizeof me->detail, "%.500s", selvage_error_detail());
    if (me->status == SELVAGE_SUCCESS) {
        me->sharers = comm->topology.gpu_ranks;
        me->shares = comm->topology.shares_gpu;
        selvage_comm_destroy(comm);
    }
    dev->ops->close(dev);
    return NULL;
}

static void run_failing(void *(*body)(void *), const char *const *bus_ids, int size, int per_host, int per_node,
                        int bad, int wire_call, unsigned hurt, member_t members[RANKS_MAX])
{
    pthread_t threads[RANKS_MAX];
    sv_wire_world_t *world = NULL;
    atomic_store(&somebody_failed, 0);
    CHECK_STATUS(sv_wire_world_create(size, per_host, &world), SELVAGE_SUCCESS);
    for (int r = 0; r < size; r++) {
        members[r] = (member_t){.world = world, .rank = r, .per_node = per_node, .bus_id = bus_ids[r], .sharers = -1,
                                .wire_call = r == bad ? wire_call : 0, .hurt = r == bad ? hurt : 0};
        CHECK_EQ(pthread_create(&threads[r], NULL, body, &members[r]), 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
    sv_wire_world_destroy(world);
}

static void run(void *(*body)(void *), const char *const *bus_ids, int size, int per_host, int per_node,
                member_t members[RANKS_MAX])
{
    run_failing(body, bus_ids, size, per_host, per_node, -1, 0, 0, members);
}

/* What each rank found against what one sees from above. */
static void check_all(const char *const *bus_ids, int size, int per_host, int per_node)
{
    member_t members[RANKS_MAX];
    run(find_alone, bus_ids, size, per_host, per_node, members);
    for (int r = 0; r < size; r++) {
        int wanted = 0, first = per_host ? r / per_host * per_host : 0;
        for (int other = first; other < size && (!per_host || other < first + per_host); other++)
            wanted += bus_ids[r][0] && strcmp(bus_ids[r], bus_ids[other]) == 0;
        CHECK_STATUS(members[r].status, SELVAGE_SUCCESS);
        CHECK_EQ(members[r].sharers, wanted);
        CHECK_EQ(members[r].shares, wanted > 1);
    }
    CHECK_EQ(sv_memory_live(), 0);
}

static void test_worlds(void)
{
    static const char *const own[] = {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"};
    static const char *const pairs[] = {"0000:01:00.0", "0000:02:00.0", "0000:01:00.0", "0000:02:00.0"};
    static const char *const soft[] = {"", "", "", ""};
    static const char *const mixed[] = {"", "0000:0a:00.0", "", "0000:0a:00.0", "0001:0a:00.0", "0000:0a:00.1",
                                        "0000:0a:00.0", "", "0001:0a:00.0"};
    check_all(own, 4, 0, 0);
    check_all(pairs, 4, 0, 0);
    check_all(pairs, 4, 2, 0);
    check_all(pairs, 4, 0, 2); /* virtual nodes are one machine still */
    check_all(soft, 4, 0, 0);
    check_all(mixed, 9, 0, 0);
    check_all(mixed, 9, 4, 0);
    check_all(mixed, 9, 4, 3);
    check_all(own, 1, 0, 0);
}

static void test_comm(void)
{
    static const char *const pairs[] = {"0000:01:00.0", "0000:02:00.0", "0000:01:00.0", ""};
    static const char *const soft[] = {"", "", ""};
    member_t members[RANKS_MAX];
    setenv("SELVAGE_LOG", "info", 1);
    run(find_by_comm, pairs, 4, 0, 0, members);
    for (int r = 0; r < 4; r++) {
        int wanted[] = {2, 1, 2, 0};
        CHECK_STATUS(members[r].status, SELVAGE_SUCCESS);
        CHECK_EQ(members[r].sharers, wanted[r]);
        CHECK_EQ(members[r].shares, wanted[r] > 1);
        CHECK_EQ(members[r].said, wanted[r] > 1);
    }
    run(find_by_comm, soft, 3, 0, 0, members);
    for (int r = 0; r < 3; r++) {
        CHECK_STATUS(members[r].status, SELVAGE_SUCCESS);
        CHECK_EQ(members[r].sharers, 0);
        CHECK(!members[r].said);
    }
    CHECK_EQ(sv_memory_live(), 0);
}

/* Whatever call of the wire fails on whatever rank: that rank says so, nobody finds anything wrong, and all end. */
static void test_wire_failures(void)
{
    static const char *const pairs[] = {"0000:01:00.0", "0000:01:00.0", "0000:02:00.0"};
    member_t members[RANKS_MAX];
    int failures = 0;
    for (int bad = 0; bad < 3; bad++) {
        for (int nth = 1; nth <= WIRE_CALLS; nth++) {
            run_failing(find_alone, pairs, 3, 0, 0, bad, nth, 0, members);
            for (int r = 0; r < 3; r++) {
                bool good = members[r].status == SELVAGE_SUCCESS;
                CHECK(good || members[r].status == (r == bad ? SELVAGE_ERR_MPI : SELVAGE_ERR_PEER));
                CHECK_EQ(members[r].sharers, good ? (r < 2 ? 2 : 1) : 0);
            }
            CHECK(bad != 0 || nth > 4 || members[0].status == SELVAGE_ERR_MPI); /* two each way, at least */
            failures += members[bad].status != SELVAGE_SUCCESS;
            CHECK_EQ(sv_memory_live(), 0);
        }
    }
    CHECK(failures >= 4 + 2 + 2);
}

/* One good copy is enough; without one whoever hears it says from whom it came, and nobody finds anything wrong. */
static void test_damage(void)
{
    static const char *const pairs[] = {"0000:01:00.0", "0000:01:00.0", "0000:02:00.0"};
    member_t members[RANKS_MAX];
    for (int bad = 0; bad < 3; bad++) {
        for (unsigned hurt = 1; hurt <= 3; hurt++) {
            char name[32];
            int said = 0;
            snprintf(name, sizeof name, "rank %d", bad);
            run_failing(find_alone, pairs, 3, 0, 0, bad, 0, hurt, members);
            for (int r = 0; r < 3; r++) {
                const bool good = members[r].status == SELVAGE_SUCCESS;
                CHECK(good || hurt == 3);
                CHECK_EQ(members[r].sharers, good ? (r < 2 ? 2 : 1) : 0);
                said += members[r].status == SELVAGE_ERR_CHECKSUM && strstr(members[r].detail, name) != NULL;
            }
            CHECK(hurt < 3 ? said == 0 : said > 0);
            CHECK_EQ(sv_memory_live(), 0);
        }
    }
}

/* Without memory on one rank all fail alike, at once. */
static void test_memory_failures(void)
{
    static const char *const pairs[] = {"0000:01:00.0", "0000:01:00.0", "0000:02:00.0"};
    member_t members[RANKS_MAX];
    int here = 0;
    char fault[64];
    setenv("SELVAGE_LOG", "none", 1);
    for (int bad = 0; bad < 3; bad++) {
        for (int nth = 1; nth <= ALLOCATIONS; nth++) {
            snprintf(fault, sizeof fault, "alloc=%d,rank=%d", nth, bad);
            setenv("SELVAGE_FAULT", fault, 1);
            run(find_by_comm, pairs, 3, 0, 0, members);
            for (int r = 0; r < 3; r++) {
                CHECK_EQ(members[r].status == SELVAGE_SUCCESS, members[bad].status == SELVAGE_SUCCESS);
                CHECK(members[r].status != SELVAGE_ERR_TIMEOUT);
                here += strstr(members[r].detail, "topology failed") != NULL;
            }
            CHECK_EQ(sv_memory_live(), 0);
        }
    }
    CHECK(here > 0); /* some failed in this very step */
    unsetenv("SELVAGE_FAULT");
}

int main(void)
{
    unsetenv("SELVAGE_FAULT");
    test_worlds();
    test_comm();
    test_wire_failures();
    test_damage();
    test_memory_failures();
    return check_report("topology_gpu");
}
