/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What packets of datatypes and lists refuse, each with the call and the argument named, no packet made and no output
 * written; and what looks odd but is right: types with addresses in them, over two allocations. One rank or more.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <selvage.h>

#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "pipeline/pipe_layout_type.h"

enum { BYTES = 4096, UNTOUCHED = 77 };

static selvage_device_t *dev;
static selvage_comm_t *comm;
static void *memory, *other; /* allocations of BYTES */
static uint32_t send_index = UNTOUCHED;

#define REFUSED(expr, status, text) refused((expr), (status), (text), #expr, __LINE__)

static void refused(selvage_status_t found, selvage_status_t wanted, const char *text, const char *what, int line)
{
    char call[64] = "";
    snprintf(call, sizeof call, "%.*s: ", (int)strcspn(what, "("), what);
    bool good = found == wanted && strstr(selvage_error_detail(), text) && strstr(selvage_error_detail(), call) &&
                send_index == UNTOUCHED;
    CHECK(good);
    if (!good)
        fprintf(stderr, "line %d: %s: %s\n", line, selvage_status_name(found), selvage_error_detail());
}

static selvage_exchange_t *open_exchange(void)
{
    selvage_exchange_t *ex;
    CHECK_STATUS(selvage_exchange_create(comm, NULL, &ex), SELVAGE_SUCCESS);
    return ex;
}

static void refuse_types(selvage_exchange_t *ex)
{
    int size = 64, how = MPI_DISTRIBUTE_BLOCK, dflt = MPI_DISTRIBUTE_DFLT_DARG, ranks = 4;
    uint32_t *index = &send_index;
    MPI_Datatype blocks, column, close;
    MPI_Type_create_darray(4, 1, 1, &size, &how, &dflt, &ranks, MPI_ORDER_C, MPI_INT, &blocks);
    MPI_Type_vector(BYTES / 64, 1, 8, MPI_DOUBLE, &column);
    MPI_Type_create_hvector(4, 1, 7, MPI_DOUBLE, &close);
    REFUSED(selvage_exchange_add_send_type(ex, memory, 1, blocks, 0, 0, index), SELVAGE_ERR_UNSUPPORTED, "DARRAY");
    REFUSED(selvage_exchange_add_recv_type(ex, memory, 1, blocks, 0, 0, index), SELVAGE_ERR_UNSUPPORTED, "DARRAY");
    REFUSED(selvage_exchange_add_send_type(ex, memory, 1, MPI_DATATYPE_NULL, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "type: it is MPI_DATATYPE_NULL");
    REFUSED(selvage_exchange_add_send_type(ex, memory, 1, column, -7, 0, index), SELVAGE_ERR_ARGUMENT, "peer is -7");
    REFUSED(selvage_exchange_add_recv_type(ex, memory, 1, column, 0, -2, index), SELVAGE_ERR_ARGUMENT, "tag is -2");
    REFUSED(selvage_exchange_add_send_type(NULL, memory, 1, column, 0, 0, index), SELVAGE_ERR_ARGUMENT, "ex is NULL");
    REFUSED(selvage_exchange_add_recv_type(ex, NULL, 1, column, 0, 0, index), SELVAGE_ERR_ARGUMENT, "buf is NULL");
    REFUSED(selvage_exchange_add_send_type(ex, memory, SIZE_MAX, column, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "beyond 2^62");
    REFUSED(selvage_exchange_add_send_type(ex, memory, 2, column, 0, 0, index), SELVAGE_ERR_ARGUMENT, "buf: ");
    REFUSED(selvage_exchange_add_recv_type(ex, memory, BYTES, MPI_INT, 0, 0, index), SELVAGE_ERR_ARGUMENT, "buf: ");
    REFUSED(selvage_exchange_add_recv_type(ex, memory, 1, close, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "type: elements overlap");
    MPI_Type_free(&blocks);
    MPI_Type_free(&column);
    MPI_Type_free(&close);
}

static void refuse_lists(selvage_exchange_t *ex)
{
    const int64_t negative[] = {0, 3, -1}, twice[] = {5, 2, 9, 5}, far[] = {0, BYTES / 8}, huge[] = {0, INT64_MAX / 4};
    uint32_t *index = &send_index;
    REFUSED(selvage_exchange_add_send_indexed(ex, memory, 8, negative, 3, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "indices[2] is -1");
    REFUSED(selvage_exchange_add_recv_indexed(ex, memory, 8, twice, 4, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "indices has 5 twice");
    REFUSED(selvage_exchange_add_send_indexed(ex, memory, 8, far, 2, 0, 0, index), SELVAGE_ERR_ARGUMENT, "buf: ");
    REFUSED(selvage_exchange_add_recv_indexed(ex, memory, 8, huge, 2, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "indices[1] is ");
    REFUSED(selvage_exchange_add_recv_indexed(ex, memory, 0, twice, 1, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "element_bytes is 0");
    REFUSED(selvage_exchange_add_send_indexed(ex, memory, 8, NULL, 1, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "indices is NULL");
    REFUSED(selvage_exchange_add_send_indexed(ex, memory, 8, twice, SIZE_MAX / 4, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "count is ");
    REFUSED(selvage_exchange_add_send_indexed(ex, NULL, 8, twice, 4, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "buf is NULL");
    REFUSED(selvage_exchange_add_recv_indexed(ex, memory, 8, twice, 1, 999, 0, index), SELVAGE_ERR_ARGUMENT,
            "peer is 999");
    REFUSED(selvage_exchange_add_send_indexed(NULL, memory, 8, twice, 4, 0, 0, index), SELVAGE_ERR_ARGUMENT,
            "ex is NULL");
}

static void refuse_after_commit(selvage_exchange_t *ex)
{
    const int64_t one[] = {1};
    uint32_t *index = &send_index;
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    REFUSED(selvage_exchange_add_send_type(ex, memory, 1, MPI_INT, 0, 0, index), SELVAGE_ERR_STATE, "committed");
    REFUSED(selvage_exchange_add_recv_type(ex, memory, 1, MPI_INT, 0, 0, index), SELVAGE_ERR_STATE, "committed");
    REFUSED(selvage_exchange_add_send_indexed(ex, memory, 8, one, 1, 0, 0, index), SELVAGE_ERR_STATE, "committed");
    REFUSED(selvage_exchange_add_recv_indexed(ex, memory, 8, one, 1, 0, 0, index), SELVAGE_ERR_STATE, "committed");
}

/* Sizes that do not meet are found at commit, as for other packets. */
static void refuse_sizes(void)
{
    selvage_exchange_t *ex = open_exchange();
    const int64_t some[] = {7, 2, 4};
    int rank = selvage_comm_rank(comm);
    MPI_Datatype column;
    MPI_Type_vector(4, 1, 8, MPI_DOUBLE, &column);
    CHECK_STATUS(selvage_exchange_add_send_type(ex, memory, 1, column, rank, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv_indexed(ex, other, 8, some, 3, rank, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_ERR_MISMATCH);
    selvage_exchange_destroy(ex);
    MPI_Type_free(&column);
}

/* Two allocations in one struct, by their addresses; back in one list. */
static void allow_addresses(void)
{
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .rebindable = 1};
    const void *sends[2] = {NULL, memory};
    selvage_exchange_t *ex;
    CHECK_STATUS(selvage_exchange_create(comm, &params, &ex), SELVAGE_SUCCESS);
    int64_t some[40], *host = calloc(2, BYTES);
    int length[2] = {1, 20}, rank = selvage_comm_rank(comm), bad = 0;
    MPI_Aint where[2] = {(MPI_Aint)memory, (MPI_Aint)other};
    MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_DOUBLE}, both;
    for (int64_t i = 0; i < BYTES / 8; i++) {
        host[i] = i;
        host[BYTES / 8 + i] = 1000 + i;
    }
    for (int64_t i = 0; i < 40; i++)
        some[i] = 100 + (i * 7) % 40;
    MPI_Type_vector(20, 1, 2, MPI_DOUBLE, &types[0]);
    MPI_Type_create_struct(2, length, where, types, &both);
    CHECK_STATUS(selvage_device_copy(dev, memory, host, BYTES, SELVAGE_COPY_HOST_TO_DEVICE, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(dev, other, host + BYTES / 8, BYTES, SELVAGE_COPY_HOST_TO_DEVICE, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send_type(ex, MPI_BOTTOM, 1, both, rank, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv_indexed(ex, other, 8, some, 40, rank, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send_type(ex, NULL, 0, both, rank, 1, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv_indexed(ex, NULL, 8, NULL, 0, rank, 1, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_rebind(ex, sends, 2, NULL, 0), SELVAGE_SUCCESS); /* the second has no bytes */
    sends[0] = memory;
    REFUSED(selvage_exchange_rebind(ex, sends, 2, NULL, 0), SELVAGE_ERR_ARGUMENT, "sends[0]");
    CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(dev, host, other, BYTES, SELVAGE_COPY_DEVICE_TO_HOST, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dev, NULL), SELVAGE_SUCCESS);
    for (int64_t i = 0; i < 40; i++)
        bad += host[some[i]] != (i < 20 ? 2 * i : 1000 + i - 20);
    CHECK_EQ(bad, 0);
    selvage_exchange_destroy(ex);
    MPI_Type_free(&types[0]);
    MPI_Type_free(&both);
    free(host);
}

/* Two pieces and more by each way, as the public calls make them: those bind the thread to faults of their own. */
static selvage_status_t add_packets(selvage_exchange_t *ex)
{
    static const int64_t some[] = {9, 4, 11};
    const sv_element_list_t list = {.element_bytes = 8, .count = 3, .indices = some};
    sv_type_map_t map = {0};
    selvage_status_t status = SELVAGE_SUCCESS;
    for (int i = 0; i < 5 && status == SELVAGE_SUCCESS; i++)
        status = sv_type_map_add_run(&map, 100 * i + i * i, i < 3 ? 8 : 12);
    if (status == SELVAGE_SUCCESS)
        status = sv_exchange_add_recv_type(ex, "test", memory, &map, 0, 0, NULL);
    sv_type_map_fini(&map);
    if (status == SELVAGE_SUCCESS)
        status = sv_exchange_add_send_list(ex, "test", memory, &list, 0, 0, NULL);
    return status == SELVAGE_SUCCESS ? sv_exchange_add_recv_list(ex, "test", memory, &list, 0, 0, NULL) : status;
}

/* Each allocation fails once: an error, and destroying the exchange leaves nothing. */
static void refuse_without_memory(void)
{
    selvage_status_t status = SELVAGE_ERR_MEMORY;
    int64_t live = sv_memory_live();
    int failures = 0;
    for (int nth = 1; status != SELVAGE_SUCCESS && nth < 1000; nth++) {
        selvage_exchange_t *ex = open_exchange();
        sv_fault_t fault;
        char spec[32];
        snprintf(spec, sizeof spec, "alloc=%d", nth);
        CHECK_STATUS(sv_fault_parse(spec, 0, &fault), SELVAGE_SUCCESS);
        sv_thread_binding()->fault = &fault;
        sv_thread_binding()->log_level = 0;
        status = add_packets(ex);
        sv_thread_binding()->fault = NULL;
        CHECK(status == SELVAGE_SUCCESS || status == SELVAGE_ERR_MEMORY);
        failures += status == SELVAGE_ERR_MEMORY;
        selvage_exchange_destroy(ex);
        CHECK_EQ(sv_memory_live(), live);
    }
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    CHECK(failures > 8);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    CHECK_STATUS(selvage_device_open_local(NULL, &dev), SELVAGE_SUCCESS);
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = dev};
    if (selvage_comm_create(MPI_COMM_WORLD, &params, &comm) != SELVAGE_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    CHECK_STATUS(selvage_device_malloc(dev, BYTES, &memory), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(dev, BYTES, &other), SELVAGE_SUCCESS);
    selvage_exchange_t *ex = open_exchange();
    refuse_types(ex);
    refuse_lists(ex);
    refuse_after_commit(ex);
    selvage_exchange_destroy(ex);
    refuse_sizes();
    refuse_without_memory();
    allow_addresses();
    selvage_device_free(dev, memory);
    selvage_device_free(dev, other);
    selvage_comm_destroy(comm);
    selvage_device_close(dev);
    CHECK_EQ(sv_memory_live(), 0);
    MPI_Finalize();
    return check_report("datatype_refuse");
}
