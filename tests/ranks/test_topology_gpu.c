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
#include <stddef.h>
#include <stdlib.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "comm/comm.h"
#include "comm/comm_gather.h"
#include "pipeline/exchange_set.h"
#include "wire/wire_local.h"

enum { RANKS_MAX = 9, WIRE_CALLS = 10, ALLOCATIONS = 20 };

typedef struct member {
    sv_wire_world_t *world;
    int rank;
    const char *bus_id;
    int sharers;              /* found */
    bool shares, said;
    int failing;              /* call of the set-up channel; 0: none */
    unsigned hurt;            /* copies of each of its messages that are changed: bits 0 and 1 */
    selvage_status_t status;
    char detail[512];
} member_t;

/* A wire whose calls on the set-up channel fail in turn, or that changes bytes of what it sends there: the same in each
   copy that it hurts. */
typedef struct hurting_wire {
    sv_wire_ops_t ops;
    const sv_wire_ops_t *under;
    unsigned hurt;
    int calls, failing;
    uint8_t sent[4][4096];
    int nsent;
} hurting_wire_t;

static _Thread_local hurting_wire_t hurting;

static selvage_status_t fail_in_turn(void)
{
    return ++hurting.calls == hurting.failing ? sv_error(SELVAGE_ERR_MPI, "a call of the set-up channel fails")
                                              : SELVAGE_SUCCESS;
}

static selvage_status_t hurting_send(sv_wire_t *wire, sv_wire_channel_t channel, const void *buf, size_t bytes,
                                     int peer, int tag, sv_wire_request_t *request_out)
{
    uint8_t *sent = hurting.sent[hurting.nsent++ % 4];
    SV_TRY(fail_in_turn());
    CHECK(channel == SV_WIRE_SETUP);
    CHECK(bytes <= sizeof hurting.sent[0] && bytes % (2 * sizeof(sv_gather_item_t)) == 0);
    memcpy(sent, buf, bytes);
    for (unsigned copy = 0; copy < 2; copy++)
        if (hurting.hurt & 1u << copy)
            sent[copy * bytes / 2 + offsetof(sv_gather_item_t, handle) + 6] ^= 1; /* of another GPU */
    return hurting.under->send(wire, channel, sent, bytes, peer, tag, request_out);
}

static selvage_status_t hurting_recv(sv_wire_t *wire, sv_wire_channel_t channel, void *buf, size_t capacity, int peer,
                                     int tag, sv_wire_request_t *request_out)
{
    SV_TRY(fail_in_turn());
    return hurting.under->recv(wire, channel, buf, capacity, peer, tag, request_out);
}

static selvage_status_t hurting_test(sv_wire_t *wire, sv_wire_request_t *request, size_t *bytes_out)
{
    selvage_status_t status = hurting.under->test(wire, request, bytes_out);
    return status == SELVAGE_SUCCESS ? fail_in_turn() : status;
}

static void hurt_wire(sv_wire_t *wire, unsigned hurt, int failing)
{
    hurting = (hurting_wire_t){.ops = *wire->ops, .under = wire->ops, .hurt = hurt, .failing = failing};
    hurting.ops.send = hurting_send;
    hurting.ops.recv = hurting_recv;
    hurting.ops.test = hurting_test;
    wire->ops = &hurting.ops;
}

static void keep_line(void *arg, int level, const char *line)
{
    member_t *me = arg;
    if (level == SV_LOG_INFO && strstr(line, "ranks of this machine use GPU"))
        me->said = true;
}

/* A communicator on a software device that claims a bus id. */
static void *find_sharers(void *arg)
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
    hurt_wire(wire, me->hurt, me->failing);
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

static void run_failing(const char *const *bus_ids, int size, int per_host, int bad, int failing,
                        unsigned hurt, member_t members[RANKS_MAX])
{
    pthread_t threads[RANKS_MAX];
    sv_wire_world_t *world = NULL;
    CHECK_STATUS(sv_wire_world_create(size, per_host, &world), SELVAGE_SUCCESS);
    for (int r = 0; r < size; r++) {
        members[r] = (member_t){.world = world, .rank = r, .bus_id = bus_ids[r], .sharers = -1,
                                .failing = r == bad ? failing : 0, .hurt = r == bad ? hurt : 0};
        CHECK_EQ(pthread_create(&threads[r], NULL, find_sharers, &members[r]), 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
    sv_wire_world_destroy(world);
}

static void run(const char *const *bus_ids, int size, int per_host, member_t members[RANKS_MAX])
{
    run_failing(bus_ids, size, per_host, -1, 0, 0, members);
}

/* What each rank found against what one sees from above. */
static void check_all(const char *const *bus_ids, int size, int per_host, int per_node)
{
    member_t members[RANKS_MAX];
    char ranks_per_node[16];
    snprintf(ranks_per_node, sizeof ranks_per_node, "%d", per_node);
    setenv("SELVAGE_RANKS_PER_NODE", ranks_per_node, 1);
    run(bus_ids, size, per_host, members);
    unsetenv("SELVAGE_RANKS_PER_NODE");
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
    run(pairs, 4, 0, members);
    for (int r = 0; r < 4; r++) {
        int wanted[] = {2, 1, 2, 0};
        CHECK_STATUS(members[r].status, SELVAGE_SUCCESS);
        CHECK_EQ(members[r].sharers, wanted[r]);
        CHECK_EQ(members[r].shares, wanted[r] > 1);
        CHECK_EQ(members[r].said, wanted[r] > 1);
    }
    run(soft, 3, 0, members);
    for (int r = 0; r < 3; r++) {
        CHECK_STATUS(members[r].status, SELVAGE_SUCCESS);
        CHECK_EQ(members[r].sharers, 0);
        CHECK(!members[r].said);
    }
    CHECK_EQ(sv_memory_live(), 0);
}

/* Whatever call of the set-up channel fails on whatever rank: nobody finds anything wrong, and all end at once. */
static void test_wire_failures(void)
{
    static const char *const pairs[] = {"0000:01:00.0", "0000:01:00.0", "0000:02:00.0"};
    member_t members[RANKS_MAX];
    int failures = 0;
    for (int bad = 0; bad < 3; bad++) {
        for (int nth = 1; nth <= WIRE_CALLS; nth++) {
            run_failing(pairs, 3, 0, bad, nth, 0, members);
            for (int r = 0; r < 3; r++) {
                bool good = members[r].status == SELVAGE_SUCCESS;
                CHECK(good || members[r].status == SELVAGE_ERR_MPI || members[r].status == SELVAGE_ERR_PEER);
                CHECK_EQ(members[r].sharers, good ? (r < 2 ? 2 : 1) : -1);
                CHECK_EQ(good, members[bad].status == SELVAGE_SUCCESS);
                failures += !good;
            }
            CHECK_EQ(sv_memory_live(), 0);
        }
    }
    CHECK_EQ(failures, 3 * 3 * 8); /* on three ranks two rounds, each with two messages, begun and complete */
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
            run_failing(pairs, 3, 0, bad, 0, hurt, members);
            for (int r = 0; r < 3; r++) {
                const bool good = members[r].status == SELVAGE_SUCCESS;
                CHECK(good || hurt == 3);
                CHECK_EQ(members[r].sharers, good ? (r < 2 ? 2 : 1) : -1);
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
            run(pairs, 3, 0, members);
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
