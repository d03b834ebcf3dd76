/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI wire: the common promises, privacy of its communicators, refusals, one decision of all ranks at open, wires
 * that are closed in order and wires that are still open at MPI_Finalize. With the argument "multiple" MPI is
 * initialised for threads. Run by tests/mpi/test_wire_mpi.sh.
 */
#include "base/base_fault.h"
#include "fixtures/mpi_habits.h"
#include "fixtures/wire_cases.h"
#include "wire/wire_group.h"
#include "wire/wire_mpi.h"

static int finalize_calls;

static void test_before_init(void)
{
    sv_wire_t *wire = NULL;
    CHECK_STATUS(sv_wire_mpi_open(MPI_COMM_NULL, &wire), SELVAGE_ERR_STATE);
    CHECK(wire == NULL);
}

static void test_refusals(void)
{
    sv_wire_t *wire = NULL;
    int rank, size;
    MPI_Comm half, inter;
    CHECK_STATUS(sv_wire_mpi_open(MPI_COMM_NULL, &wire), SELVAGE_ERR_ARGUMENT);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &inter);
    CHECK_STATUS(sv_wire_mpi_open(inter, &wire), SELVAGE_ERR_ARGUMENT);
    CHECK(wire == NULL);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* One rank without memory: all ranks fail, nobody hangs, nothing is lost. */
static void test_one_decision(void)
{
    sv_wire_t *wire = NULL;
    sv_fault_t fault;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK_STATUS(sv_fault_parse("alloc=1", rank, &fault), SELVAGE_SUCCESS);
    if (rank == size - 1)
        sv_thread_binding()->fault = &fault;
    selvage_status_t status = sv_wire_mpi_open(MPI_COMM_WORLD, &wire);
    sv_thread_binding()->fault = NULL;
    CHECK_EQ(status, rank == size - 1 ? SELVAGE_ERR_MEMORY : SELVAGE_ERR_PEER);
    CHECK(wire == NULL);
    CHECK_EQ(sv_memory_live(), 0);
}

/* A receive of the program for anything from anybody sees none of the wire's messages. */
static void test_private(int wrapped)
{
    sv_wire_t *wire = NULL;
    MPI_Request request;
    MPI_Status status;
    int mine = 77, got = 0, rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    CHECK_STATUS(sv_wire_mpi_open(MPI_COMM_WORLD, &wire), SELVAGE_SUCCESS);
    if (wrapped)
        CHECK_STATUS(sv_wire_fault_wrap(&wire), SELVAGE_SUCCESS);
    CHECK_EQ(wire->rank, rank);
    wire_cases_run(wire);
    MPI_Send(&mine, 1, MPI_INT, rank, 9, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    CHECK_EQ(got, 77);
    CHECK_EQ(status.MPI_TAG, 9);
    wire->ops->close(wire);
    CHECK_EQ(sv_memory_live(), 0);
}

/* Ranks are those of the communicator that was given, which may be gone meanwhile. */
static void test_reversed(void)
{
    sv_wire_t *wire = NULL;
    MPI_Comm reversed;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
    CHECK_STATUS(sv_wire_mpi_open(reversed, &wire), SELVAGE_SUCCESS);
    MPI_Comm_free(&reversed);
    CHECK_EQ(wire->rank, size - 1 - rank);
    CHECK_EQ(wire->size, size);
    wire_case_order(wire);
    wire_case_node(wire);
    wire->ops->close(wire);
}

/* A collective of MPI's that fails at a test stays failed, however often it is asked for; MPICH frees its request. */
static void test_failed_group(void)
{
    static uint8_t buffer[4096];
    const int members[] = {0, 1};
    sv_wire_t *wire = NULL;
    sv_wire_group_t *group = NULL;
    sv_wire_group_request_t request[2] = {0};
    CHECK_STATUS(sv_wire_mpi_open(MPI_COMM_WORLD, &wire), SELVAGE_SUCCESS);
    if (wire->rank < 2 && wire->size >= 2) {
        CHECK_STATUS(sv_wire_group_create(wire, NULL, &group), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_wire_group_connect(group, members, 2, 1, 60), SELVAGE_SUCCESS);
        for (int i = 0; i < 2; i++) { /* more than the other one takes */
            const sv_wire_group_call_t call = {.kind = SV_WIRE_BROADCAST, .recv = buffer + 2048 * i,
                                               .bytes = wire->rank == 0 ? 64 : 16, .element_bytes = 1};
            CHECK_STATUS(sv_wire_group_start(group, &call, &request[i]), SELVAGE_SUCCESS);
        }
        for (int i = 0; i < 2; i++) {
            selvage_status_t status;
            while ((status = sv_wire_group_test(group, &request[i])) == SELVAGE_IN_PROGRESS)
                continue;
            CHECK_STATUS(status, wire->rank == 0 ? SELVAGE_SUCCESS : SELVAGE_ERR_MPI);
            for (int again = 0; again < 3; again++)
                CHECK_STATUS(sv_wire_group_test(group, &request[i]), status);
        }
        sv_wire_group_close(group, true);
    }
    wire_barrier(wire);
    wire->ops->close(wire);
    CHECK_EQ(sv_memory_live(), 0);
}

/* MPI may give a freed communicator's context to the next one: what was unread in the first stays unread. */
static void test_stale_control(void)
{
    sv_wire_control_t message = {.word = {1}};
    for (int round = 0; round < 5; round++) {
        sv_wire_t *wire = NULL;
        int source;
        CHECK_STATUS(sv_wire_mpi_open(MPI_COMM_WORLD, &wire), SELVAGE_SUCCESS);
        wire_barrier(wire);
        CHECK_STATUS(sv_wire_control_poll(wire, &source, &message), SELVAGE_IN_PROGRESS);
        wire_barrier(wire);
        for (int i = 0; i < 100; i++)
            sv_wire_control_send(wire, wire_next(wire), &message);
        wire->ops->close(wire);
    }
    CHECK_EQ(sv_memory_live(), 0);
}

static void on_finalize_close(void *arg)
{
    sv_wire_t **wire = arg;
    int finalised = 1;
    MPI_Finalized(&finalised);
    CHECK_EQ(finalised, 0);
    finalize_calls++;
    (*wire)->ops->close(*wire);
    *wire = NULL;
}

static void on_finalize_keep(void *arg)
{
    (void)arg;
    finalize_calls++;
}

/* Three wires meet MPI_Finalize: one is closed by its owner there, one only afterwards, one was closed before. */
static void test_finalize(void)
{
    sv_wire_t *wires[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(sv_wire_mpi_open(MPI_COMM_WORLD, &wires[i]), SELVAGE_SUCCESS);
    sv_wire_mpi_on_finalize(wires[0], on_finalize_close, &wires[0]);
    sv_wire_mpi_on_finalize(wires[1], on_finalize_keep, NULL);
    sv_wire_mpi_on_finalize(wires[2], on_finalize_keep, NULL);
    wires[2]->ops->close(wires[2]);
    CHECK_EQ(finalize_calls, 0);
    MPI_Finalize();
    CHECK_EQ(finalize_calls, 2);
    CHECK(wires[0] == NULL);
    wires[1]->ops->close(wires[1]);
    CHECK_EQ(sv_memory_live(), 0);
    CHECK_STATUS(sv_wire_mpi_open(MPI_COMM_WORLD, &wires[0]), SELVAGE_ERR_STATE);
}

static void quietly(void (*test)(void))
{
    sv_thread_binding()->log_level = 0; /* the errors are wanted */
    test();
    sv_thread_binding()->log_level = 2;
}

int main(int argc, char **argv)
{
    int multiple = argc > 1 && strcmp(argv[1], "multiple") == 0, level;
    quietly(test_before_init);
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    wire_returns_errors = mpi_errors_return();
    quietly(test_refusals);
    quietly(test_one_decision);
    /* MPICH asks this handler about errors that a test finds; a program that wants to live on has to set it. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    test_private(0);
    test_private(1);
    test_reversed();
    test_stale_control();
    if (mpi_errors_return())
        quietly(test_failed_group);
    quietly(test_finalize);
    return check_report("wire_mpi");
}
