/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that the MPI in this process is of the kind whose mpi.h this library was compiled with. Handles and constants
 * of the two kinds have nothing in common, so the first call with one of the other kind would crash. Only calls that
 * take neither are made here, and they may be made before MPI_Init. No state; any thread.
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

#ifdef OPEN_MPI
static const bool wants_open_mpi = true, knows_kind = true;
static const char built_for[] =
    "Open MPI " TEXT_OF(OMPI_MAJOR_VERSION) "." TEXT_OF(OMPI_MINOR_VERSION) "." TEXT_OF(OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
static const bool wants_open_mpi = false, knows_kind = true;
static const char built_for[] = "MPICH " MPICH_VERSION;
#else
static const bool wants_open_mpi = false, knows_kind = false;
static const char built_for[] = "another MPI";
#endif

enum { VERSION_TEXT_BYTES = 8192 + 256 }; /* of any MPI: MPICH's are the longest, with 8192 */

/* By its text, or by a symbol of Open MPI beside the call that answers: some with its interface say other names. */
static bool is_open_mpi(const char *version)
{
    Dl_info call, world;
    void *symbol = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
    if (strstr(version, "Open MPI"))
        return true;
    return symbol && dladdr(symbol, &world) && dladdr((void *)PMPI_Get_library_version, &call) &&
           world.dli_fbase == call.dli_fbase;
}

selvage_status_t sv_wire_mpi_check(void)
{
    char version[VERSION_TEXT_BYTES] = "";
    int length = 0;
    if (!knows_kind || PMPI_Get_library_version(version, &length) != MPI_SUCCESS || version[0] == '\0')
        return SELVAGE_SUCCESS;
    version[sizeof version - 1] = '\0';
    if (is_open_mpi(version) == wants_open_mpi)
        return SELVAGE_SUCCESS;
    version[strcspn(version, ",\n")] = '\0'; /* the message has the first line, up to a comma */
    for (char *at = version; (at = strchr(at, '\t')) != NULL;)
        *at = ' ';
    return sv_error(SELVAGE_ERR_UNSUPPORTED, "this Selvage was built for %s, and the program runs with %.100s",
                    built_for, version);
}
