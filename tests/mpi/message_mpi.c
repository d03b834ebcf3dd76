/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages over MPI by the public calls, on whatever device there is: random datatypes in device and host memory
 * against MPI's own messages of host copies, then each call for itself. Run by tests/mpi/test_message_mpi.sh.
 *
 * Usage: message_mpi SEED CASES, or message_mpi finalize
 */
#include <mpi.h>
#include <stdlib.h>

#include "fixtures/check.h"
#include "fixtures/datatype_random.h"
#include <selvage.h>

enum { BYTES_MAX = 20000, SPAN_MAX = 40000, FIELD_BYTES = 8 * SPAN_MAX, ORIGIN = 4 * SPAN_MAX, ANY_TAG_USED = 11 };

typedef struct world {
    selvage_comm_t *comm;
    selvage_device_t *dev;
    int rank, size, next, before;
    void *stream;
    datatype_random_t random; /* of the same state on all ranks */
} world_t;

/* A buffer around elements whose offsets may be negative, and a copy of it on the host. */
typedef struct field {
    uint8_t *host, *device;
    bool on_device;
} field_t;

static void field_open(world_t *world, field_t *field, bool on_device, int fill)
{
    void *memory = NULL;
    field->on_device = on_device;
    CHECK_STATUS(selvage_device_host_malloc(world->dev, FIELD_BYTES, &memory), SELVAGE_SUCCESS);
    field->host = memory; /* pinned, since it is copied from */
    for (size_t i = 0; i < FIELD_BYTES; i++)
        field->host[i] = (uint8_t)(fill < 0 ? 7 * i + (size_t)world->rank : (size_t)fill);
    if (!on_device)
        memory = malloc(FIELD_BYTES);
    else
        CHECK_STATUS(selvage_device_malloc(world->dev, FIELD_BYTES, &memory), SELVAGE_SUCCESS);
    field->device = memory;
    if (on_device)
        CHECK_STATUS(selvage_device_copy(world->dev, memory, field->host, FIELD_BYTES, SELVAGE_COPY_HOST_TO_DEVICE,
                                         world->stream), SELVAGE_SUCCESS);
    else
        memcpy(memory, field->host, FIELD_BYTES);
}

/* The whole buffer must be what MPI has made of its copy. */
static void field_check(world_t *world, const field_t *field)
{
    void *back = NULL;
    CHECK_STATUS(selvage_device_host_malloc(world->dev, FIELD_BYTES, &back), SELVAGE_SUCCESS);
    memcpy(back, field->host, FIELD_BYTES);
    if (field->on_device) {
        CHECK_STATUS(selvage_device_copy(world->dev, back, field->device, FIELD_BYTES, SELVAGE_COPY_DEVICE_TO_HOST,
                                         world->stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(world->dev, world->stream), SELVAGE_SUCCESS);
    }
    CHECK(memcmp(field->on_device ? back : (void *)field->device, field->host, FIELD_BYTES) == 0);
    selvage_device_host_free(world->dev, back);
}

static void field_close(world_t *world, field_t *field)
{
    if (field->on_device)
        selvage_device_free(world->dev, field->device);
    else
        free(field->device);
    selvage_device_host_free(world->dev, field->host);
}

/* What MPI makes of it on the host, packed: MPICH 4.0 forgets bytes of what a rank sends itself with two types. */
static void by_mpi(const world_t *world, const field_t *from, MPI_Datatype out, const field_t *to, MPI_Datatype in,
                   int bytes, int tag, MPI_Status *status)
{
    char *packed[2] = {malloc((size_t)bytes), malloc((size_t)bytes)};
    int at = 0;
    MPI_Pack(from->host + ORIGIN, 1, out, packed[0], bytes, &at, MPI_COMM_WORLD);
    MPI_Sendrecv(packed[0], bytes, MPI_PACKED, world->next, tag, packed[1], bytes, MPI_PACKED, world->before, tag,
                 MPI_COMM_WORLD, status);
    at = 0;
    MPI_Unpack(packed[1], bytes, &at, to->host + ORIGIN, 1, in, MPI_COMM_WORLD);
    free(packed[0]);
    free(packed[1]);
}

/* Around the ring, with a type at each end; the receive may have room for more. */
static void one_case(world_t *world)
{
    datatype_random_t *random = &world->random;
    const int bytes = datatype_pick_bytes(random, BYTES_MAX), more = (int)datatype_pick(random, 2);
    const unsigned memory = datatype_pick(random, 4), tag = datatype_pick(random, 1000);
    MPI_Datatype out = datatype_make(random, bytes, SPAN_MAX), in = datatype_make(random, bytes, SPAN_MAX);
    void *stream = datatype_pick(random, 2) ? world->stream : NULL;
    field_t from, to;
    selvage_message_status_t status;
    MPI_Status wanted;
    field_open(world, &from, memory & 1, -1);
    field_open(world, &to, memory & 2, 0xee);
    CHECK_STATUS(selvage_stream_synchronize(world->dev, world->stream), SELVAGE_SUCCESS);
    by_mpi(world, &from, out, &to, in, bytes, (int)tag, &wanted);
    CHECK_STATUS(selvage_message_sendrecv(world->comm, from.device + ORIGIN, 1, out, world->next, (int)tag,
                                          to.device + ORIGIN, (size_t)(1 + more), in, MPI_ANY_SOURCE, (int)tag,
                                          stream, &status), SELVAGE_SUCCESS);
    CHECK_EQ(status.source, wanted.MPI_SOURCE);
    CHECK_EQ(status.tag, wanted.MPI_TAG);
    CHECK_EQ(status.bytes, bytes);
    field_check(world, &from);
    field_check(world, &to);
    field_close(world, &from);
    field_close(world, &to);
    datatype_drop(&out);
    datatype_drop(&in);
}

static void each_call(world_t *world)
{
    double sent[4] = {1, 2, 3, world->rank}, got[4] = {0};
    selvage_request_t *request[3] = {NULL, NULL, NULL};
    selvage_message_status_t status, statuses[3];
    selvage_message_t *message = NULL;
    size_t index = 0;
    int found = 0;
    CHECK_STATUS(selvage_message_irecv(world->comm, got, 4, MPI_DOUBLE, world->before, MPI_ANY_TAG, NULL, &request[1]),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_test(&request[1], &status), SELVAGE_IN_PROGRESS);
    CHECK_STATUS(selvage_message_issend(world->comm, sent, 4, MPI_DOUBLE, world->next, 3, NULL, &request[0]),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_waitall(3, request, statuses), SELVAGE_SUCCESS);
    CHECK_EQ(statuses[1].source, world->before);
    CHECK_EQ(statuses[1].tag, 3);
    CHECK_EQ(statuses[2].source, MPI_ANY_SOURCE);
    CHECK_EQ(statuses[2].tag, MPI_ANY_TAG);
    CHECK(got[3] == world->before);
    CHECK_STATUS(selvage_message_isend(world->comm, sent, 4, MPI_DOUBLE, world->next, 4, NULL, &request[0]),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_free(&request[0]), SELVAGE_SUCCESS);
    CHECK(request[0] == NULL);
    CHECK_STATUS(selvage_message_probe(world->comm, MPI_ANY_SOURCE, 4, &status), SELVAGE_SUCCESS);
    CHECK_EQ(status.bytes, sizeof sent);
    CHECK_STATUS(selvage_message_iprobe(world->comm, status.source, MPI_ANY_TAG, &found, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(found, 1);
    CHECK_STATUS(selvage_message_improbe(world->comm, world->before, 4, &message, &status), SELVAGE_SUCCESS);
    CHECK(message != NULL);
    CHECK_STATUS(selvage_message_imrecv(&message, got, 4, MPI_DOUBLE, NULL, &request[2]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_waitany(3, request, &index, &status), SELVAGE_SUCCESS);
    CHECK_EQ(index, 2);
    CHECK_STATUS(selvage_message_iprobe(world->comm, MPI_ANY_SOURCE, 4, &found, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(found, 0);
    /* The send that was given up goes on as long as its rank makes calls: until the receiver says that it has it. */
    CHECK_STATUS(selvage_message_sendrecv(world->comm, NULL, 0, MPI_BYTE, world->before, 5, NULL, 0, MPI_BYTE,
                                          world->next, 5, NULL, &status), SELVAGE_SUCCESS);
    if (world->rank == 0)
        CHECK_STATUS(selvage_message_send(world->comm, sent, 1, MPI_DOUBLE, world->size - 1, ANY_TAG_USED, NULL),
                     SELVAGE_SUCCESS);
    if (world->rank == world->size - 1)
        CHECK_STATUS(selvage_message_recv(world->comm, got, 4, MPI_DOUBLE, 0, MPI_ANY_TAG, NULL, &status),
                     SELVAGE_SUCCESS);
}

static void nobody(world_t *world)
{
    double value = 1;
    selvage_message_status_t status;
    selvage_request_t *request = NULL;
    CHECK_STATUS(selvage_message_send(world->comm, &value, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_recv(world->comm, &value, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, NULL, &status),
                 SELVAGE_SUCCESS);
    CHECK_EQ(status.source, MPI_PROC_NULL);
    CHECK_EQ(status.tag, MPI_ANY_TAG);
    CHECK_EQ(status.bytes, 0);
    CHECK_STATUS(selvage_message_irecv(world->comm, &value, 1, MPI_DOUBLE, world->rank, 12345, NULL, &request),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_cancel(request), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_wait(&request, &status), SELVAGE_SUCCESS);
    CHECK_EQ(status.cancelled, 1);
    CHECK_STATUS(selvage_message_send(world->comm, &value, 1, MPI_DOUBLE, world->size, 0, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_message_send(world->comm, &value, 1, MPI_DOUBLE, 0, -5, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_message_send(world->comm, NULL, 1, MPI_DOUBLE, 0, 0, NULL), SELVAGE_ERR_ARGUMENT);
}

/* MPI_Finalize comes while a receive is posted and a long send is announced: both are ended and reported. */
static int finalize_at_once(const world_t *world)
{
    static uint8_t sent[BYTES_MAX], got[8];
    selvage_request_t *send = NULL, *recv = NULL;
    CHECK_STATUS(selvage_message_irecv(world->comm, got, sizeof got, MPI_BYTE, MPI_ANY_SOURCE, 1, NULL, &recv),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_issend(world->comm, sent, sizeof sent, MPI_BYTE, world->next, 2, NULL, &send),
                 SELVAGE_SUCCESS);
    MPI_Finalize();
    CHECK_STATUS(selvage_message_test(&recv, NULL), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_message_test(&send, NULL), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_message_send(world->comm, sent, 1, MPI_BYTE, 0, 0, NULL), SELVAGE_ERR_STATE);
    selvage_comm_destroy(world->comm);
    return check_report("message_mpi finalize");
}

/* A communicator that is given its device after it was created, on one rank after the other. */
static void device_later(world_t *world)
{
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = world->dev, .device_later = 1};
    selvage_comm_t *comm = NULL;
    selvage_request_t *request = NULL;
    field_t from, to;
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, &params, &comm), SELVAGE_ERR_ARGUMENT);
    params.device = NULL;
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, &params, &comm), SELVAGE_SUCCESS);
    CHECK(selvage_comm_device(comm) == NULL);
    CHECK_STATUS(selvage_message_isend(comm, NULL, 0, MPI_BYTE, world->next, 1, SELVAGE_MESSAGE_NO_STREAM, &request),
                 SELVAGE_ERR_STATE);
    CHECK(request == NULL);
    for (int rank = 0; rank < world->size; rank++) {
        if (rank == world->rank)
            CHECK_STATUS(selvage_comm_set_device(comm, world->dev), SELVAGE_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK_STATUS(selvage_comm_set_device(comm, world->dev), SELVAGE_ERR_STATE);
    CHECK(selvage_comm_device(comm) == world->dev);
    field_open(world, &from, true, -1);
    field_open(world, &to, true, 0x77);
    CHECK_STATUS(selvage_stream_synchronize(world->dev, world->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_sendrecv(comm, from.device, FIELD_BYTES, MPI_BYTE, world->next, 1, to.device,
                                          FIELD_BYTES, MPI_BYTE, world->before, 1, world->stream, NULL),
                 SELVAGE_SUCCESS);
    MPI_Sendrecv(from.host, FIELD_BYTES, MPI_BYTE, world->next, 1, to.host, FIELD_BYTES, MPI_BYTE, world->before, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    field_check(world, &to);
    field_close(world, &from);
    field_close(world, &to);
    selvage_comm_destroy(comm);
    CHECK_STATUS(selvage_comm_set_device(NULL, world->dev), SELVAGE_ERR_ARGUMENT);
}

int main(int argc, char **argv)
{
    world_t world = {0};
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, NULL, &world.comm), SELVAGE_SUCCESS);
    if (!world.comm)
        return check_report("message_mpi");
    world.dev = selvage_comm_device(world.comm);
    world.rank = selvage_comm_rank(world.comm);
    world.size = selvage_comm_size(world.comm);
    world.next = (world.rank + 1) % world.size;
    world.before = (world.rank + world.size - 1) % world.size;
    if (argc == 2)
        return finalize_at_once(&world);
    world.random.state = strtoull(argv[1], NULL, 0);
    CHECK_STATUS(selvage_stream_create(world.dev, &world.stream), SELVAGE_SUCCESS);
    for (int i = atoi(argv[2]); i > 0; i--)
        one_case(&world);
    each_call(&world);
    nobody(&world);
    device_later(&world);
    selvage_stream_destroy(world.dev, world.stream);
    selvage_comm_destroy(world.comm);
    MPI_Finalize();
    return check_report("message_mpi");
}
