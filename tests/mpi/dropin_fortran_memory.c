/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory for Fortran programs that know nothing of Selvage's module: numbers there and back. A call in C, and
   calls under Fortran names that no Fortran module has with every MPI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include <selvage.h>

static selvage_device_t *device;

void *numbers_make(int count);
void numbers_put(void *there, const double *here, int count);
void numbers_get(double *here, const void *there, int count);
void numbers_free(void *there);
int ring_in_c(int ranks);
int persistent_sums(void *out, void *in, int count);

static void check(selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "%s\n", selvage_error_detail());
    abort();
}

void *numbers_make(int count)
{
    void *there = NULL;
    if (!device)
        check(selvage_device_open_local(NULL, &device));
    check(selvage_device_malloc(device, (size_t)count * sizeof(double), &there));
    return there;
}

/* Pinned memory from which device memory is filled, some time later and without being waited for, unless the program is
   said to wait: see dropin_case.c. */
static double *late[2];
static unsigned turn;

static void copy(void *to, const void *from, int count, selvage_copy_t direction)
{
    check(selvage_device_copy(device, to, from, (size_t)count * sizeof(double), direction, NULL));
    check(selvage_stream_synchronize(device, NULL));
}

void numbers_put(void *there, const double *here, int count)
{
    size_t bytes = (size_t)count * sizeof(double);
    double **source = &late[turn++ % 2];
    check(selvage_stream_synchronize(device, NULL));
    if (!*source)
        check(selvage_device_host_malloc(device, bytes, (void **)source));
    memcpy(*source, here, bytes);
    check(selvage_device_delay_us(device, 500, NULL));
    check(selvage_device_copy(device, there, *source, bytes, SELVAGE_COPY_HOST_TO_DEVICE, NULL));
    const char *policy = getenv("SELVAGE_DROPIN_SYNC");
    if (policy && strcmp(policy, "default") == 0)
        check(selvage_stream_synchronize(device, NULL));
}

void numbers_get(double *here, const void *there, int count)
{
    copy(here, there, count, SELVAGE_COPY_DEVICE_TO_HOST);
}

void numbers_free(void *there)
{
    selvage_device_free(device, there);
}

/* Some ranks' part of MPI_Cart_create; the others call it in Fortran. */
int ring_in_c(int ranks)
{
    const int wraps = 1;
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &wraps, 0, &ring);
    return MPI_Comm_c2f(ring);
}

/* --- persistent collective calls, by the names that this MPI has -------------------------------------------------- */

typedef void sum_init_t(void *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *,
                        MPI_Fint *);
typedef void blocks_init_t(void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *,
                           MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
extern sum_init_t mpi_allreduce_init_ __attribute__((weak)), mpix_allreduce_init_ __attribute__((weak)),
    mpix_allreduce_init_f08_ __attribute__((weak));
extern blocks_init_t mpi_alltoallw_init_ __attribute__((weak)), mpix_alltoallw_init_ __attribute__((weak)),
    mpix_alltoallw_init_f08_ __attribute__((weak));
void mpi_start_(MPI_Fint *request, MPI_Fint *ierror);
void mpi_wait_(MPI_Fint *request, MPI_Fint *status, MPI_Fint *ierror);
void mpi_request_free_(MPI_Fint *request, MPI_Fint *ierror);

enum { STARTS = 3, RANKS_MAX = 8, STATUS_INTS = 64 };

static void start_and_wait(MPI_Fint *request)
{
    MPI_Fint code = -1, status[STATUS_INTS];
    mpi_start_(request, &code);
    if (code == MPI_SUCCESS)
        mpi_wait_(request, status, &code);
    if (code != MPI_SUCCESS)
        abort();
}

/* Returns how many numbers are wrong, of the same request started again. */
static int count_wrong_sums(sum_init_t *init, double *out, double *in, int n)
{
    MPI_Fint count = n, type = MPI_Type_c2f(MPI_DOUBLE), op = MPI_Op_c2f(MPI_SUM), request = 0, code = -1;
    MPI_Fint comm = MPI_Comm_c2f(MPI_COMM_WORLD), info = MPI_Info_c2f(MPI_INFO_NULL);
    double *here = malloc((size_t)n * sizeof *here);
    int wrong = 0, ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    init(out, in, &count, &type, &op, &comm, &info, &request, &code);
    for (int start = 0; start < STARTS; start++) {
        for (int i = 0; i < n; i++)
            here[i] = i + start;
        copy(out, here, n, SELVAGE_COPY_HOST_TO_DEVICE);
        start_and_wait(&request);
        numbers_get(here, in, n);
        for (int i = 0; i < n; i++)
            wrong += here[i] != ranks * (double)(i + start);
    }
    mpi_request_free_(&request, &code);
    free(here);
    return wrong + (code != MPI_SUCCESS);
}

/* A block for each rank. The list of types is the drop-in's affair after the call, as MPI has C's handles. */
static int count_wrong_blocks(blocks_init_t *init, double *out, double *in, int n)
{
    MPI_Fint counts[RANKS_MAX], at[RANKS_MAX], types[RANKS_MAX], request = 0, code = -1;
    MPI_Fint comm = MPI_Comm_c2f(MPI_COMM_WORLD), info = MPI_Info_c2f(MPI_INFO_NULL);
    double *here = malloc((size_t)n * sizeof *here);
    int wrong = 0, ranks, rank;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int length = n / ranks;
    for (int i = 0; i < ranks; i++) {
        counts[i] = length;
        at[i] = i * length * (int)sizeof *here;
        types[i] = MPI_Type_c2f(MPI_DOUBLE);
    }
    init(out, counts, at, types, in, counts, at, types, &comm, &info, &request, &code);
    memset(types, -1, sizeof types);
    for (int start = 0; start < STARTS; start++) {
        for (int i = 0; i < n; i++)
            here[i] = rank * n + i + start;
        copy(out, here, n, SELVAGE_COPY_HOST_TO_DEVICE);
        start_and_wait(&request);
        numbers_get(here, in, n);
        for (int i = 0; i < length * ranks; i++)
            wrong += here[i] != i / length * n + rank * length + i % length + start;
    }
    mpi_request_free_(&request, &code);
    free(here);
    return wrong + (code != MPI_SUCCESS);
}

int persistent_sums(void *out, void *in, int count)
{
    sum_init_t *const sums[] = {mpi_allreduce_init_, mpix_allreduce_init_, mpix_allreduce_init_f08_};
    blocks_init_t *const blocks[] = {mpi_alltoallw_init_, mpix_alltoallw_init_, mpix_alltoallw_init_f08_};
    int wrong = 0;
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        wrong += sums[i] ? count_wrong_sums(sums[i], out, in, count) : 0;
        wrong += blocks[i] ? count_wrong_blocks(blocks[i], out, in, count) : 0;
    }
    return wrong;
}
