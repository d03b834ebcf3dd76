/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_exchange_many [EXCHANGES [DESCRIPTORS]]: many exchanges alive at once, with few descriptors: none may cost one.
 * One rank; the limit is set by the test itself. Then as many are made again, to see that destroying gives everything
 * back.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "fixtures/check.h"
#include <selvage.h>

enum { BYTES = 256, DESCRIPTORS = 256, MANY = 1500 };

static selvage_exchange_t *make_one(selvage_comm_t *comm, uint8_t *memory)
{
    selvage_exchange_t *x = NULL;
    uint32_t index;
    CHECK(selvage_exchange_create(comm, NULL, &x) == SELVAGE_SUCCESS);
    CHECK(selvage_exchange_add_send(x, memory, BYTES, 0, 1, &index) == SELVAGE_SUCCESS);
    CHECK(selvage_exchange_add_recv(x, memory + BYTES, BYTES, 0, 1, &index) == SELVAGE_SUCCESS);
    CHECK(selvage_exchange_commit(x) == SELVAGE_SUCCESS);
    return x;
}

static void make_many(selvage_comm_t *comm, uint8_t *memory, selvage_exchange_t **x, int many)
{
    for (int i = 0; i < many; i++)
        x[i] = make_one(comm, memory);
    for (int i = 0; i < many; i++)
        selvage_exchange_destroy(x[i]);
}

int main(int argc, char **argv)
{
    struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    int many = check_part(MANY); /* two exchanges for each descriptor, or more */
    selvage_comm_t *comm = NULL;
    void *memory = NULL;
#ifdef SV_SANITIZES_ADDRESS
    printf("SKIP: what MPI itself leaves would be reported\n");
    return CHECK_SKIP;
#endif
    MPI_Init(&argc, &argv);
    if (argc > 1)
        many = atoi(argv[1]);
    if (argc > 2)
        limit.rlim_cur = limit.rlim_max = (rlim_t)atoi(argv[2]);
    selvage_exchange_t **x = calloc((size_t)many, sizeof(selvage_exchange_t *));
    CHECK(x != NULL);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(selvage_comm_create(MPI_COMM_SELF, NULL, &comm) == SELVAGE_SUCCESS);
    selvage_device_t *device = selvage_comm_device(comm);
    CHECK(selvage_device_malloc(device, 2 * BYTES, &memory) == SELVAGE_SUCCESS);
    make_many(comm, memory, x, many);
    make_many(comm, memory, x, many);
    free(x);
    selvage_device_free(device, memory);
    selvage_comm_destroy(comm);
    MPI_Finalize();
    return check_report("test_exchange_many");
}
