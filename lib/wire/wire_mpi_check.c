/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that the MPI in this process is of the kind whose mpi.h this library was compiled with: Open MPI, MPICH and
 * those that share its binary interface, or one with the interface that MPI 5 defines for all. Handles and constants of
 * the three have nothing in common, so the first call with one of another kind would crash. Only calls that take
 * neither are made here, and they may be made before MPI_Init. No state; any thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for dladdr */
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/base_status.h"
#include "wire/wire_mpi.h"

#define TEXT_OF(X) TEXT_OF_(X)
#define TEXT_OF_(X) #X

typedef enum mpi_kind { KIND_UNKNOWN, KIND_OPEN_MPI, KIND_MPICH, KIND_ABI } mpi_kind_t;

#ifdef MPI_ABI_VERSION
static const mpi_kind_t own_kind = KIND_ABI;
static const int own_abi = MPI_ABI_VERSION;
static const char built_for[] = "the MPI ABI " TEXT_OF(MPI_ABI_VERSION) "." TEXT_OF(MPI_ABI_SUBVERSION);
#elif defined(OPEN_MPI)
static const mpi_kind_t own_kind = KIND_OPEN_MPI;
static const int own_abi = 0;
static const char built_for[] =
    "Open MPI " TEXT_OF(OMPI_MAJOR_VERSION) "." TEXT_OF(OMPI_MINOR_VERSION) "." TEXT_OF(OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
static const mpi_kind_t own_kind = KIND_MPICH;
static const int own_abi = 0;
static const char built_for[] = "MPICH " MPICH_VERSION;
#else
static const mpi_kind_t own_kind = KIND_UNKNOWN;
static const int own_abi = 0;
static const char built_for[] = "another MPI";
#endif

enum {
    VERSION_TEXT_BYTES = 8192 + 256, /* of any MPI: MPICH's are the longest, with 8192 */
    SAID_BYTES = 128
};

/* A symbol of the library that answers MPI's calls here. Others in the process may be of another MPI. */
static void *symbol_of_mpi(const char *name)
{
    Dl_info call, found;
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (symbol && dladdr(symbol, &found) && dladdr((void *)PMPI_Get_library_version, &call) &&
        found.dli_fbase == call.dli_fbase)
        return symbol;
    return NULL;
}

/* The major version of the interface of MPI 5 by which the MPI in this process is called, or 0: it is called by its
   own. An MPI may have both, in two libraries, of which that for its own says no version. */
static int abi_of_mpi(int *minor_out)
{
    int (*ask)(int *major, int *minor), major = 0, minor = 0;
    void *symbol = symbol_of_mpi("PMPI_Abi_get_version");
    memcpy(&ask, &symbol, sizeof ask); /* ISO C has no cast to a function pointer */
    if (!symbol || ask(&major, &minor) != MPI_SUCCESS || major < 1)
        return 0;
    *minor_out = minor;
    return major;
}

/* By its text, or by a symbol of Open MPI beside the call that answers: some with its interface say other names. */
static bool is_open_mpi(const char *version)
{
    return strstr(version, "Open MPI") || symbol_of_mpi("ompi_mpi_comm_world");
}

/* The first line of an MPI's text, up to a comma and without the word Version, its blanks one by one. */
static void shorten_version(const char *version, char *said_out)
{
    static const char word[] = "Version:";
    size_t n = 0;
    while (*version != '\0' && *version != ',' && *version != '\n' && n < SAID_BYTES - 1) {
        const bool blank = *version == ' ' || *version == '\t';
        if (strncmp(version, word, sizeof word - 1) == 0) {
            version += sizeof word - 1;
            continue;
        }
        if (!blank || (n > 0 && said_out[n - 1] != ' '))
            said_out[n++] = blank ? ' ' : *version;
        version++;
    }
    n -= n > 0 && said_out[n - 1] == ' ';
    said_out[n] = '\0';
}

selvage_status_t sv_wire_mpi_check(void)
{
    char version[VERSION_TEXT_BYTES] = "", said[SAID_BYTES], by[SAID_BYTES] = "";
    int length = 0, minor = 0;
    if (own_kind == KIND_UNKNOWN || PMPI_Get_library_version(version, &length) != MPI_SUCCESS || version[0] == '\0')
        return SELVAGE_SUCCESS;
    version[sizeof version - 1] = '\0';
    const int abi = abi_of_mpi(&minor);
    const mpi_kind_t kind = abi > 0 ? KIND_ABI : is_open_mpi(version) ? KIND_OPEN_MPI : KIND_MPICH;
    if (kind == own_kind && abi == own_abi)
        return SELVAGE_SUCCESS;
    shorten_version(version, said);
    if (abi > 0)
        snprintf(by, sizeof by, " by the MPI ABI %d.%d", abi, minor);
    return sv_error(SELVAGE_ERR_UNSUPPORTED, "this Selvage was built for %s, and the program runs with %.100s%s",
                    built_for, said, by);
}
