/* SPDX-License-Identifier: BSD-3-Clause */
/* The local wire: the common promises with ranks as threads, its own rules, damage on purpose, and injected faults. */
#include <pthread.h>

#include "base/base_fault.h"
#include "fixtures/wire_cases.h"
#include "wire/wire_local.h"

typedef struct rank_arg {
    sv_wire_world_t *world;
    int rank;
    int wrapped;
} rank_arg_t;

static void *run_rank(void *arg)
{
    rank_arg_t *my = arg;
    sv_wire_t *wire = NULL;
    CHECK_STATUS(sv_wire_local_open(my->world, my->rank, &wire), SELVAGE_SUCCESS);
    if (my->wrapped)
        CHECK_STATUS(sv_wire_fault_wrap(&wire), SELVAGE_SUCCESS);
    wire_cases_run(wire);
    wire->ops->close(wire);
    return NULL;
}

static void run_world(int size, int wrapped)
{
    rank_arg_t args[16];
    pthread_t threads[16];
    sv_wire_world_t *world = NULL;
    CHECK_STATUS(sv_wire_world_create(size, 0, &world), SELVAGE_SUCCESS);
    for (int i = 0; i < size; i++) {
        args[i] = (rank_arg_t){world, i, wrapped};
        pthread_create(&threads[i], NULL, run_rank, &args[i]);
    }
    for (int i = 0; i < size; i++)
        pthread_join(threads[i], NULL);
    sv_wire_world_destroy(world);
    CHECK_EQ(sv_memory_live(), 0);
}

static void open_pair(sv_wire_world_t **world, sv_wire_t **wires)
{
    CHECK_STATUS(sv_wire_world_create(2, 0, world), SELVAGE_SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(sv_wire_local_open(*world, i, &wires[i]), SELVAGE_SUCCESS);
}

static void close_pair(sv_wire_world_t *world, sv_wire_t **wires)
{
    for (int i = 0; i < 2; i++)
        wires[i]->ops->close(wires[i]);
    sv_wire_world_destroy(world);
    CHECK_EQ(sv_memory_live(), 0);
}

/* A long send is complete only when matched, and can be withdrawn before that; a short one is complete at once. */
static void test_rendezvous(void)
{
    sv_wire_world_t *world;
    sv_wire_t *wires[2];
    sv_wire_request_t out = {{0}}, in = {{0}};
    size_t bytes = 100000, arrived = 0;
    unsigned char *src = wire_pattern(0, 2, bytes), *dst = calloc(bytes, 1);
    open_pair(&world, wires);
    CHECK_STATUS(sv_wire_send(wires[0], SV_WIRE_DATA, src, 100, 1, 1, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_test(wires[0], &out, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_send(wires[0], SV_WIRE_DATA, src, bytes, 1, 2, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_test(wires[0], &out, NULL), SELVAGE_IN_PROGRESS);
    CHECK_STATUS(sv_wire_cancel(wires[0], &out), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_send(wires[0], SV_WIRE_DATA, src, bytes, 1, 2, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_recv(wires[1], SV_WIRE_DATA, dst, bytes, 0, 2, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_test(wires[0], &out, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_test(wires[1], &in, &arrived), SELVAGE_SUCCESS);
    CHECK_EQ(arrived, bytes);
    CHECK_EQ(wire_wrong(dst, 0, 2, bytes), 0);
    /* Left open on purpose: a posted receive whose wire closes, and a message that nobody asks for. */
    CHECK_STATUS(sv_wire_recv(wires[1], SV_WIRE_DATA, dst, bytes, 0, 3, &in), SELVAGE_SUCCESS);
    close_pair(world, wires);
    free(src);
    free(dst);
}

/* Damaged control messages are dropped and counted; the rest arrives in order. */
static void test_damage(int wrapped)
{
    sv_wire_world_t *world;
    sv_wire_t *wires[2];
    sv_wire_control_t message = {.word = {0}};
    int source = -1, good = 0, order = 1;
    uint64_t last = 0;
    open_pair(&world, wires);
    sv_wire_local_corrupt_control(wires[0], 5);
    if (wrapped)
        CHECK_STATUS(sv_wire_fault_wrap(&wires[1]), SELVAGE_SUCCESS);
    for (uint64_t i = 1; i <= 100; i++) {
        message.word[3] = i;
        CHECK_STATUS(sv_wire_control_send(wires[0], 1, &message), SELVAGE_SUCCESS);
    }
    while (sv_wire_control_poll(wires[1], &source, &message) == SELVAGE_SUCCESS) {
        good++;
        order = order && message.word[3] > last && source == 0;
        last = message.word[3];
    }
    CHECK_EQ(good, 80);
    CHECK(order);
    CHECK_EQ(wires[1]->control_damaged, 20);
    close_pair(world, wires);
}

/* Each kind of call is refused once with the reason in the detail; the request of a refused test stays open. */
static void test_faults(void)
{
    sv_wire_world_t *world;
    sv_wire_t *wires[2];
    sv_wire_request_t in = {{0}};
    sv_wire_control_t message = {.word = {0}};
    sv_fault_t fault;
    int value = 0, source, *ranks = NULL, count = 0;
    open_pair(&world, wires);
    sv_wire_t *wire = wires[0];
    CHECK_STATUS(sv_wire_fault_wrap(&wire), SELVAGE_SUCCESS);
    wires[0] = wire;
    CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &value, sizeof value, 1, 1, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_fault_parse("wire=1+", 0, &fault), SELVAGE_SUCCESS);
    sv_thread_binding()->fault = &fault;
    sv_thread_binding()->log_level = 0;
    CHECK_STATUS(sv_wire_test(wire, &in, NULL), SELVAGE_ERR_MPI);
    CHECK_STR(selvage_error_detail(), "injected fault: wire call test");
    CHECK(!wire_request_is_none(&in));
    CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &value, 1, 1, 1, &in), SELVAGE_ERR_MPI);
    CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &value, 1, 1, 1, &in), SELVAGE_ERR_MPI);
    CHECK_STATUS(sv_wire_control_send(wire, 1, &message), SELVAGE_ERR_MPI);
    CHECK_STATUS(sv_wire_control_poll(wire, &source, &message), SELVAGE_ERR_MPI);
    CHECK_STATUS(wire->ops->node_ranks(wire, &ranks, &count), SELVAGE_ERR_MPI);
    CHECK(ranks == NULL);
    CHECK_STATUS(sv_wire_cancel(wire, &in), SELVAGE_SUCCESS);
    sv_thread_binding()->fault = NULL;
    sv_thread_binding()->log_level = 2;
    close_pair(world, wires);
}

/* Every allocation of a short life fails in turn; nothing stays after. */
static void test_allocations(void)
{
    sv_thread_binding()->log_level = 0;
    for (int nth = 1, failed = 1; failed && nth < 20; nth++) {
        sv_wire_world_t *world = NULL;
        sv_wire_t *wire = NULL;
        sv_wire_request_t request = {{0}};
        sv_fault_t fault;
        char spec[32];
        snprintf(spec, sizeof spec, "alloc=%d", nth);
        CHECK_STATUS(sv_fault_parse(spec, 0, &fault), SELVAGE_SUCCESS);
        sv_thread_binding()->fault = &fault;
        failed = sv_wire_world_create(1, 0, &world) || sv_wire_local_open(world, 0, &wire) ||
                 sv_wire_fault_wrap(&wire) || sv_wire_send(wire, SV_WIRE_DATA, "x", 1, 0, 0, &request);
        sv_thread_binding()->fault = NULL;
        CHECK_EQ(failed, nth <= 6);
        if (wire)
            wire->ops->close(wire);
        sv_wire_world_destroy(world);
        CHECK_EQ(sv_memory_live(), 0);
    }
    sv_thread_binding()->log_level = 2;
}

static void test_refusals(void)
{
    sv_wire_world_t *world = NULL;
    sv_wire_t *wire = NULL, *other = NULL;
    sv_thread_binding()->log_level = 0;
    CHECK_STATUS(sv_wire_world_create(0, 0, &world), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sv_wire_world_create(2, 0, &world), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_local_open(world, 2, &wire), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sv_wire_local_open(world, -1, &wire), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sv_wire_local_open(world, 1, &wire), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_local_open(world, 1, &other), SELVAGE_ERR_STATE);
    CHECK(other == NULL);
    wire->ops->close(wire);
    CHECK_STATUS(sv_wire_local_open(world, 1, &wire), SELVAGE_SUCCESS);
    wire->ops->close(wire);
    sv_wire_world_destroy(world);
    sv_wire_world_destroy(NULL);
    sv_thread_binding()->log_level = 2;
}

/* Any single flipped bit, another source or another destination changes the check word. */
static void test_check_word(void)
{
    sv_wire_control_t message = {.word = {1, 2, 3, 4, 5, 6, 7}};
    uint64_t check = sv_wire_control_check(&message, 3, 4);
    int same = 0;
    for (int bit = 0; bit < SV_WIRE_CONTROL_WORDS * 64; bit++) {
        message.word[bit / 64] ^= 1ull << bit % 64;
        same += sv_wire_control_check(&message, 3, 4) == check;
        message.word[bit / 64] ^= 1ull << bit % 64;
    }
    CHECK_EQ(same, 0);
    CHECK(sv_wire_control_check(&message, 3, 4) == check);
    CHECK(sv_wire_control_check(&message, 4, 3) != check);
    CHECK(sv_wire_control_check(&message, 3, 5) != check);
    CHECK(sv_wire_control_check(&(sv_wire_control_t){.word = {0}}, 0, 0) != 0);
}

int main(void)
{
    test_check_word();
    test_refusals();
    test_rendezvous();
    test_damage(0);
    test_damage(1);
    test_faults();
    test_allocations();
    run_world(1, 0);
    run_world(2, 0);
    run_world(5, 1);
    return check_report("wire_local");
}
