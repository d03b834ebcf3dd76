/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads libucp when a communicator asks for it. It is not linked: its constructors change how a process deals with
 * signals and memory, and a program may have an MPI with a UCX of its own, whose libucp is then the one that is used.
 * What has been loaded stays until the process ends. Any thread.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/base_status.h"
#include "wire/wire_ucx_private.h"

static struct {
    pthread_once_t once;
    bool loaded;
    char reason[256];
    sv_ucx_library_t library;
} the = {.once = PTHREAD_ONCE_INIT};

/* ISO C has no cast to a function pointer. */
static bool find_symbol(void *handle, const char *name, void *function_out)
{
    void *found = dlsym(handle, name);
    memcpy(function_out, &found, sizeof found);
    if (!found)
        snprintf(the.reason, sizeof the.reason, "libucp.so.0 has no %s", name);
    return found != NULL;
}

static void load_library(void)
{
    void *handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(the.reason, sizeof the.reason, "%s", dlerror());
        return;
    }
#define FIND(call)                                                \
    if (!find_symbol(handle, "ucp_" #call, &the.library.call))    \
        return;
    SV_UCX_CALLS(FIND)
#undef FIND
    the.loaded = find_symbol(handle, "ucs_status_string", &the.library.status_string);
}

selvage_status_t sv_ucx_load(const sv_ucx_library_t **library_out)
{
    pthread_once(&the.once, load_library);
    if (!the.loaded)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "UCX: %s", the.reason);
    *library_out = &the.library;
    return SELVAGE_SUCCESS;
}

const char *sv_wire_ucx_version(void)
{
    pthread_once(&the.once, load_library);
    return the.loaded ? the.library.get_version_string() : the.reason;
}
