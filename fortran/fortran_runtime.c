/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After the Fortran module: errors and texts, reading arrays, communicators and devices. See selvage_fortran.h.
 */
#include "selvage_fortran.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Constants of the module that no name can be asked for; tests/mpi/fortran_cases.f90 asks for the others. */
_Static_assert(SELVAGE_CHECKSUM_RETRY == 1 && SELVAGE_CHECKSUM_REPORT == 2 && SELVAGE_CHECKSUM_ABORT == 3 &&
               SELVAGE_CHECKSUM_OFF == -1, "selvage.F90 has these numbers");
_Static_assert(SELVAGE_COPY_DEVICE_TO_HOST == 1 && SELVAGE_COPY_HOST_TO_DEVICE == 2 &&
               SELVAGE_COPY_DEVICE_TO_DEVICE == 3, "selvage.F90 has these numbers");
_Static_assert(sizeof(MPI_Fint) == sizeof(int), "integers of the module are C's");

/* Written out by Fortran's own runtime, which the C library knows nothing of. */
void selvage_fortran_flush(void);

/* A refusal is the thread's last error from the call that made it until another call fails. */
static _Thread_local char refusal[256];
static _Thread_local enum { NOT_LAST, BEING_MADE, LAST } refusal_state;

selvage_status_t sf_refuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(refusal, sizeof refusal, format, list);
    va_end(list);
    refusal_state = BEING_MADE;
    return SELVAGE_ERR_ARGUMENT;
}

static const char *detail(void)
{
    return refusal_state == LAST ? refusal : selvage_error_detail();
}

/* As MPI does with its default error handler. Without MPI there is only this process to end. Launchers may drop what
 * they have not read when a job is aborted (MPICH's does), and the reason should not be lost: hence the pause. */
static void end_job(selvage_status_t status)
{
    int initialized = 0, finalized = 0;
    selvage_fortran_flush();
    fprintf(stderr, "selvage: %s: %s\n", selvage_status_name(status), detail());
    MPI_Initialized(&initialized);
    if (initialized)
        MPI_Finalized(&finalized);
    if (initialized && !finalized) {
        nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    exit(EXIT_FAILURE);
}

void sf_settle(selvage_status_t status, int *error)
{
    if (status < 0)
        refusal_state = refusal_state == BEING_MADE ? LAST : NOT_LAST;
    if (error)
        *error = status;
    else if (status < 0)
        end_job(status);
}

/* Texts of the module's functions, by number. */
const char *selvage_fortran_text(int what, int number)
{
    switch (what) {
    case 0: return selvage_status_name((selvage_status_t)number);
    case 1: return selvage_status_string((selvage_status_t)number);
    case 2: return detail();
    case 3: return selvage_version(NULL, NULL, NULL);
    default: return selvage_route_name((selvage_route_t)number);
    }
}

/* gfortran hands over where a type(c_ptr) points in place of where it is, so nothing but refusing is possible. */
static selvage_status_t check_kind(const CFI_cdesc_t *array, const char *name)
{
    if (array->type == CFI_type_cptr || array->type == CFI_type_cfunptr)
        return sf_refuse("%s: is a type(c_ptr), so the call needs a size in bytes as integer(c_size_t)", name);
    if (array->rank > 0 && array->dim[array->rank - 1].extent == -1)
        return sf_refuse("%s: has assumed size; give the section that is meant, as in %s(1:n)", name, name);
    return SELVAGE_SUCCESS;
}

selvage_status_t sf_bytes(const CFI_cdesc_t *array, const char *name, void **base_out, size_t *bytes_out)
{
    selvage_status_t status = check_kind(array, name);
    if (status != SELVAGE_SUCCESS)
        return status;
    size_t bytes = array->elem_len;
    int gaps = 0;
    for (int d = 0; d < array->rank; d++) {
        gaps |= array->dim[d].extent > 1 && array->dim[d].sm != (CFI_index_t)bytes;
        bytes *= (size_t)array->dim[d].extent;
    }
    if (bytes > 0 && !array->base_addr)
        return sf_refuse("%s: is not allocated or not associated", name);
    if (bytes > 0 && gaps)
        return sf_refuse("%s: is not contiguous, and nothing is copied unasked; fields may have gaps", name);
    *base_out = array->base_addr;
    *bytes_out = bytes;
    return SELVAGE_SUCCESS;
}

void *sf_element(const CFI_cdesc_t *array, CFI_index_t i)
{
    return (char *)array->base_addr + i * array->dim[0].sm;
}

int sf_elements(const CFI_cdesc_t *array)
{
    return array ? (int)array->dim[0].extent : 0;
}

selvage_status_t sf_read(const CFI_cdesc_t *array, const char *name, int wanted, int *out)
{
    int given = sf_elements(array);
    if (given != 0 && given != wanted)
        return sf_refuse("%s: has %d elements, and %d are needed", name, given, wanted);
    for (int i = 0; i < given; i++)
        out[i] = *(int *)sf_element(array, i);
    return SELVAGE_SUCCESS;
}

void selvage_fortran_comm_create(const MPI_Fint *mpi_comm, selvage_comm_t **comm, selvage_device_t **device,
                                 const double *timeout_s, int *error)
{
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = device ? *device : NULL,
                                    .timeout_s = timeout_s ? *timeout_s : 0};
    *comm = NULL;
    sf_settle(selvage_comm_create(MPI_Comm_f2c(*mpi_comm), &params, comm), error);
}

void selvage_fortran_comm_destroy(selvage_comm_t **comm)
{
    selvage_comm_destroy(*comm);
    *comm = NULL;
}

int selvage_fortran_comm_rank(selvage_comm_t **comm)
{
    return selvage_comm_rank(*comm);
}

int selvage_fortran_comm_size(selvage_comm_t **comm)
{
    return selvage_comm_size(*comm);
}

int selvage_fortran_comm_node_size(selvage_comm_t **comm)
{
    return selvage_comm_node_size(*comm);
}

const char *selvage_fortran_comm_wire(selvage_comm_t **comm)
{
    return selvage_comm_wire(*comm);
}

/* A struct of one pointer is what type(selvage_device) is, also as a result. */
struct device_handle { selvage_device_t *handle; };

struct device_handle selvage_fortran_comm_device(selvage_comm_t **comm)
{
    return (struct device_handle){selvage_comm_device(*comm)};
}

void selvage_fortran_progress(selvage_comm_t **comm, int *error)
{
    sf_settle(selvage_progress(*comm), error);
}

void selvage_fortran_buffer_register(selvage_comm_t **comm, void **ptr, const size_t *bytes,
                                     selvage_buffer_t **buffer, int *error)
{
    *buffer = NULL;
    sf_settle(selvage_buffer_register(*comm, *ptr, *bytes, buffer), error);
}

void selvage_fortran_buffer_register_array(selvage_comm_t **comm, const CFI_cdesc_t *array, selvage_buffer_t **buffer,
                                           int *error)
{
    void *base;
    size_t bytes;
    selvage_status_t status = sf_bytes(array, "array", &base, &bytes);
    *buffer = NULL;
    if (status == SELVAGE_SUCCESS)
        status = selvage_buffer_register(*comm, base, bytes, buffer);
    sf_settle(status, error);
}

void selvage_fortran_buffer_unregister(selvage_buffer_t **buffer, int *error)
{
    selvage_status_t status = selvage_buffer_unregister(*buffer);
    if (status == SELVAGE_SUCCESS)
        *buffer = NULL;
    sf_settle(status, error);
}

void selvage_fortran_device_open(const char *name, int local, selvage_device_t **device, int *error)
{
    const char *given = name[0] ? name : NULL;
    *device = NULL;
    sf_settle(local ? selvage_device_open_local(given, device) : selvage_device_open(given, device), error);
}

void selvage_fortran_device_close(selvage_device_t **device)
{
    selvage_device_close(*device);
    *device = NULL;
}

const char *selvage_fortran_device_name(selvage_device_t **device)
{
    return selvage_device_name(*device);
}

void selvage_fortran_device_malloc(selvage_device_t **device, const size_t *bytes, void **ptr, int *error)
{
    *ptr = NULL;
    sf_settle(selvage_device_malloc(*device, *bytes, ptr), error);
}

void selvage_fortran_device_free(selvage_device_t **device, void **ptr)
{
    selvage_device_free(*device, *ptr);
    *ptr = NULL;
}

void selvage_fortran_device_host_malloc(selvage_device_t **device, const size_t *bytes, void **ptr, int *error)
{
    *ptr = NULL;
    sf_settle(selvage_device_host_malloc(*device, *bytes, ptr), error);
}

void selvage_fortran_device_host_free(selvage_device_t **device, void **ptr)
{
    selvage_device_host_free(*device, *ptr);
    *ptr = NULL;
}

void selvage_fortran_stream_create(selvage_device_t **device, void **stream, int *error)
{
    *stream = NULL;
    sf_settle(selvage_stream_create(*device, stream), error);
}

void selvage_fortran_stream_destroy(selvage_device_t **device, void **stream)
{
    selvage_stream_destroy(*device, *stream);
    *stream = NULL;
}

void selvage_fortran_stream_synchronize(selvage_device_t **device, void **stream, int *error)
{
    sf_settle(selvage_stream_synchronize(*device, sf_stream(stream)), error);
}

void selvage_fortran_device_copy(selvage_device_t **device, void **dst, void **src, const size_t *bytes,
                                 const int *direction, void **stream, int *error)
{
    sf_settle(selvage_device_copy(*device, *dst, *src, *bytes, (selvage_copy_t)*direction, sf_stream(stream)), error);
}

void selvage_fortran_device_upload(selvage_device_t **device, void **dst, const CFI_cdesc_t *array, void **stream,
                                   int *error)
{
    void *base;
    size_t bytes;
    selvage_status_t status = sf_bytes(array, "array", &base, &bytes);
    if (status == SELVAGE_SUCCESS)
        status = selvage_device_copy(*device, *dst, base, bytes, SELVAGE_COPY_HOST_TO_DEVICE, sf_stream(stream));
    sf_settle(status, error);
}

void selvage_fortran_device_download(selvage_device_t **device, const CFI_cdesc_t *array, void **src, void **stream,
                                     int *error)
{
    void *base;
    size_t bytes;
    selvage_status_t status = sf_bytes(array, "array", &base, &bytes);
    if (status == SELVAGE_SUCCESS)
        status = selvage_device_copy(*device, base, *src, bytes, SELVAGE_COPY_DEVICE_TO_HOST, sf_stream(stream));
    sf_settle(status, error);
}

void selvage_fortran_device_fill(selvage_device_t **device, void **dst, const int *value, const size_t *bytes,
                                 void **stream, int *error)
{
    sf_settle(selvage_device_fill(*device, *dst, *value, *bytes, sf_stream(stream)), error);
}

void selvage_fortran_device_delay_us(selvage_device_t **device, const double *us, void **stream, int *error)
{
    sf_settle(selvage_device_delay_us(*device, *us, sf_stream(stream)), error);
}

void selvage_fortran_device_launch_soft(selvage_device_t **device, selvage_soft_kernel_t kernel,
                                        const CFI_cdesc_t *arg, const int *nblocks, void **stream, int *error)
{
    void *base;
    size_t bytes;
    selvage_status_t status = sf_bytes(arg, "arg", &base, &bytes);
    if (status == SELVAGE_SUCCESS && *nblocks < 1)
        status = sf_refuse("nblocks: is %d", *nblocks);
    if (status == SELVAGE_SUCCESS)
        status = selvage_device_launch_soft(*device, kernel, base, bytes, (unsigned)*nblocks, sf_stream(stream));
    sf_settle(status, error);
}
