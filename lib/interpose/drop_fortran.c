/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fortran names. Open MPI's Fortran libraries call PMPI_ names, so every call has to be met under its Fortran names.
 * These are those of mpif.h and of module mpi, in the four spellings of compilers, and those of module mpi_f08. MPICH's
 * libraries call MPI_ names, but for calls without a choice buffer in module mpi_f08. Handles and statuses become C's
 * and back. Arguments of the two modules look alike here, but for ierror, which mpi_f08 may leave out. The bodies are
 * written by scripts/make-dropin from drop_calls.txt. Any thread. A call's lists are its own, and freed in it, but for
 * types of a call that goes on, which its request frees.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include "interpose/drop_persistent.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define FORTRAN_NAME(NAME, SPELLING) \
    extern __typeof__(fortran_##NAME) SPELLING __attribute__((alias("fortran_" #NAME), visibility("default")));

static void *list_of(int n, size_t element_bytes)
{
    void *list = calloc(n > 0 ? (size_t)n : 1, element_bytes);
    if (!list)
        sv_drop_fatal("no memory", "for arguments of a Fortran call");
    return list;
}

#ifdef OPEN_MPI

/* Variables of Open MPI's Fortran modules, as gfortran and most others spell them; not there in C programs. */
extern int mpi_fortran_in_place_ __attribute__((weak));
extern int mpi_fortran_bottom_ __attribute__((weak));
extern int mpi_fortran_status_ignore_ __attribute__((weak));
extern int mpi_fortran_statuses_ignore_ __attribute__((weak));

static void *FROM_BUFFER(void *buf)
{
    if (buf == (void *)&mpi_fortran_in_place_)
        return MPI_IN_PLACE;
    return buf == (void *)&mpi_fortran_bottom_ ? MPI_BOTTOM : buf;
}

static MPI_Status *STATUS_BEGIN(const MPI_Fint *status, MPI_Status *own)
{
    if (status == &mpi_fortran_status_ignore_)
        return MPI_STATUS_IGNORE;
    PMPI_Status_f2c(status, own); /* what the call leaves alone stays */
    return own;
}

static void STATUS_END(const MPI_Status *from, MPI_Fint *status)
{
    if (from != MPI_STATUS_IGNORE)
        PMPI_Status_c2f(from, status);
}

enum { STATUS_INTS = sizeof(MPI_Status) / sizeof(MPI_Fint) };

static MPI_Status *STATUSES_BEGIN(const MPI_Fint *statuses, int n)
{
    if (statuses == &mpi_fortran_statuses_ignore_)
        return MPI_STATUSES_IGNORE;
    MPI_Status *list = list_of(n, sizeof *list);
    for (int i = 0; i < n; i++)
        PMPI_Status_f2c(statuses + i * STATUS_INTS, &list[i]);
    return list;
}

static void STATUSES_END(MPI_Status *list, MPI_Fint *statuses, int n)
{
    if (list == MPI_STATUSES_IGNORE)
        return;
    for (int i = 0; i < n; i++)
        PMPI_Status_c2f(&list[i], statuses + i * STATUS_INTS);
    free(list);
}

#define NAMES(NAME, LOWER, UPPER)              \
    FORTRAN_NAME(NAME, mpi_##LOWER)            \
    FORTRAN_NAME(NAME, mpi_##LOWER##_)         \
    FORTRAN_NAME(NAME, mpi_##LOWER##__)        \
    FORTRAN_NAME(NAME, MPI_##UPPER)            \
    FORTRAN_NAME(NAME, mpi_##LOWER##_f08_)
#define NAMES_F08(NAME, LOWER, UPPER) NAMES(NAME, LOWER, UPPER)
/* Of Open MPI 4's calls that are not yet MPI's. */
#define NAMESX(NAME, LOWER, UPPER)             \
    FORTRAN_NAME(NAME, mpix_##LOWER)           \
    FORTRAN_NAME(NAME, mpix_##LOWER##_)        \
    FORTRAN_NAME(NAME, mpix_##LOWER##__)       \
    FORTRAN_NAME(NAME, MPIX_##UPPER)           \
    FORTRAN_NAME(NAME, mpix_##LOWER##_f08_)

static MPI_Datatype *TYPES_BEGIN(const MPI_Fint *types, int n)
{
    MPI_Datatype *list = list_of(n, sizeof *list);
    for (int i = 0; i < n; i++)
        list[i] = PMPI_Type_f2c(types[i]);
    return list;
}

/* MPI goes through the types of such a call again when that ends, to give them back. */
static void keep_type_lists(int code, MPI_Request request, bool persistent, MPI_Datatype *sends, MPI_Datatype *receives)
{
    if (code == MPI_SUCCESS && request != MPI_REQUEST_NULL) {
        sv_drop_request_own(request, persistent, sends, receives);
        return;
    }
    free(sends);
    free(receives);
}

#else

static MPI_Status *STATUS_BEGIN(MPI_Fint *status, MPI_Status *own)
{
    (void)own;
    return (void *)status == (void *)MPI_F08_STATUS_IGNORE ? MPI_STATUS_IGNORE : (MPI_Status *)(void *)status;
}

static void STATUS_END(const MPI_Status *from, MPI_Fint *status)
{
    (void)from, (void)status;
}

static MPI_Status *STATUSES_BEGIN(MPI_Fint *statuses, int n)
{
    (void)n;
    return (void *)statuses == (void *)MPI_F08_STATUSES_IGNORE ? MPI_STATUSES_IGNORE : (MPI_Status *)(void *)statuses;
}

static void STATUSES_END(const MPI_Status *list, MPI_Fint *statuses, int n)
{
    (void)list, (void)statuses, (void)n;
}

#define NAMES_F08(NAME, LOWER, UPPER) FORTRAN_NAME(NAME, mpi_##LOWER##_f08_)

#endif

static MPI_Request *REQUESTS_BEGIN(const MPI_Fint *requests, int n)
{
    MPI_Request *list = list_of(n, sizeof *list);
    for (int i = 0; i < n; i++)
        list[i] = PMPI_Request_f2c(requests[i]);
    return list;
}

static void REQUESTS_END(MPI_Request *list, MPI_Fint *requests, int n)
{
    for (int i = 0; i < n; i++)
        requests[i] = PMPI_Request_c2f(list[i]);
    free(list);
}

/* Fortran counts from 1. */
static void INDICES(MPI_Fint *indices, int n)
{
    for (int i = 0; i < n; i++)
        if (indices[i] != MPI_UNDEFINED)
            indices[i]++;
}

#define LOGICAL(flag) (*(flag) = *(flag) ? 1 : 0)
#define LIST_END(list) free(list)
#define TO_HANDLE(KIND, handle, fortran) (*(fortran) = PMPI_##KIND##_c2f(handle))
#define ERROR_END(code, ierror) \
    if (ierror)                 \
    *(ierror) = (code)

#include "drop_fortran_calls.inc"

#ifdef OPEN_MPI

/* --- calls with a string, whose length Fortran gives as the last argument ----------------------------------------- */

enum { FORM_BYTES = 64 };

/* MPI's name of a form, without the blanks that end it in Fortran. */
static const char *read_form(const char *datarep, int length, char *form_out)
{
    while (length > 0 && datarep[length - 1] == ' ')
        length--;
    length = length < FORM_BYTES ? length : FORM_BYTES - 1; /* no such form: MPI is to say so */
    memcpy(form_out, datarep, (size_t)length);
    form_out[length] = '\0';
    return form_out;
}

static void fortran_Pack_external(const char *datarep, void *inbuf, const MPI_Fint *incount, const MPI_Fint *datatype,
                                  void *outbuf, const MPI_Aint *outsize, MPI_Aint *position, MPI_Fint *ierror,
                                  int length)
{
    char form[FORM_BYTES];
    const int code = MPI_Pack_external(read_form(datarep, length, form), FROM_BUFFER(inbuf), *incount,
                                       PMPI_Type_f2c(*datatype), FROM_BUFFER(outbuf), *outsize, position);
    ERROR_END(code, ierror);
}
NAMES(Pack_external, pack_external, PACK_EXTERNAL)

static void fortran_Unpack_external(const char *datarep, void *inbuf, const MPI_Aint *insize, MPI_Aint *position,
                                    void *outbuf, const MPI_Fint *outcount, const MPI_Fint *datatype,
                                    MPI_Fint *ierror, int length)
{
    char form[FORM_BYTES];
    const int code = MPI_Unpack_external(read_form(datarep, length, form), FROM_BUFFER(inbuf), *insize, position,
                                         FROM_BUFFER(outbuf), *outcount, PMPI_Type_f2c(*datatype));
    ERROR_END(code, ierror);
}
NAMES(Unpack_external, unpack_external, UNPACK_EXTERNAL)

#endif

/* --- beginning and end: MPI's own Fortran calls set up more than C's ---------------------------------------------- */

typedef void (*init_t)(MPI_Fint *ierror);
typedef void (*init_thread_t)(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror);

void *sv_drop_next_fortran(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    if (!next)
        sv_drop_fatal("not found in MPI's Fortran libraries", name);
    return next;
}

static void run_init(const char *name, MPI_Fint *ierror)
{
    MPI_Fint code = 0;
    sv_drop_refuse_other_mpi();
    ((init_t)sv_drop_next_fortran(name))(&code);
    if (code == MPI_SUCCESS)
        sv_drop_begin();
    ERROR_END(code, ierror);
}

static void run_init_thread(const char *name, MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror)
{
    sv_drop_refuse_other_mpi();
    MPI_Fint code = 0, wanted = sv_drop_settings()->progress_thread ? MPI_THREAD_MULTIPLE : *required;
    ((init_thread_t)sv_drop_next_fortran(name))(&wanted, provided, &code);
    if (code == MPI_SUCCESS)
        sv_drop_begin();
    ERROR_END(code, ierror);
}

static void run_finalize(const char *name, MPI_Fint *ierror)
{
    MPI_Fint code = 0;
    sv_drop_end();
    ((init_t)sv_drop_next_fortran(name))(&code);
    ERROR_END(code, ierror);
}

#define START_NAMES(INIT, INIT_THREAD, FINALIZE)                                                               \
    SV_DROP_EXPORT void INIT(MPI_Fint *ierror);                                                                \
    SV_DROP_EXPORT void INIT_THREAD(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror);                 \
    SV_DROP_EXPORT void FINALIZE(MPI_Fint *ierror);                                                            \
    void INIT(MPI_Fint *ierror) { run_init(#INIT, ierror); }                                                   \
    void INIT_THREAD(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror)                                 \
    {                                                                                                          \
        run_init_thread(#INIT_THREAD, required, provided, ierror);                                             \
    }                                                                                                          \
    void FINALIZE(MPI_Fint *ierror) { run_finalize(#FINALIZE, ierror); }

/* Under all names with both MPIs, so that linkers that leave out libraries that a program does not need keep this. */
START_NAMES(mpi_init_f08_, mpi_init_thread_f08_, mpi_finalize_f08_)
START_NAMES(mpi_init, mpi_init_thread, mpi_finalize)
START_NAMES(mpi_init_, mpi_init_thread_, mpi_finalize_)
START_NAMES(mpi_init__, mpi_init_thread__, mpi_finalize__)
START_NAMES(MPI_INIT, MPI_INIT_THREAD, MPI_FINALIZE)
