/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files after the Fortran module share. Fortran calls selvage_fortran_...(), as the included files of
 * selvage.F90 declare it: scalars come as pointers, absent optional arguments as NULL, arrays as descriptors of
 * ISO_Fortran_binding.h, handles as pointers to them. Counting from 1 and from 0 is translated here. Any thread.
 *
 * Functions fill outputs or leave a handle NULL; an error goes into the caller's `error` or, without it, ends the job.
 */
#ifndef SELVAGE_FORTRAN_H
#define SELVAGE_FORTRAN_H

#include <ISO_Fortran_binding.h>
#include <limits.h>
#include <selvage.h>

/* Called by Fortran only: selvage.F90 has the prototypes, and so it is for all names that begin like this. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* Ends every call: hands the status over, or prints the detail and ends the job. */
void sf_settle(selvage_status_t status, int *error);

/* Refuses an argument, with a detail that selvage_error_detail() of the module tells. Returns ERR_ARGUMENT. */
selvage_status_t sf_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The bytes of an array without gaps; every other one is refused by its name. */
selvage_status_t sf_bytes(const CFI_cdesc_t *array, const char *name, void **base_out, size_t *bytes_out);

/* Where element i of a one-dimensional array lies, and how many there are (0 for an absent one). */
void *sf_element(const CFI_cdesc_t *array, CFI_index_t i);
int sf_elements(const CFI_cdesc_t *array);

/* Reads `wanted` integers; leaves `out` alone if the array is absent or has no elements. */
selvage_status_t sf_read(const CFI_cdesc_t *array, const char *name, int wanted, int *out);

/* An optional argument, or 0. */
static inline int sf_int(const int *value)
{
    return value ? *value : 0;
}

/* A stream, or the default one. */
static inline void *sf_stream(void **stream)
{
    return stream ? *stream : NULL;
}

#endif
