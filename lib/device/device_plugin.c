/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens device plug-ins. A plug-in stays open until the process ends. Streams of the application may still want its
 * device code, and GPU runtimes do not like to be unloaded.
 */
#include "config.h"

#include "device/device_plugin.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "device/device_sharing.h"

#ifndef SELVAGE_PLUGIN_DIR
#define SELVAGE_PLUGIN_DIR ""
#endif

static void log_for_plugin(int level, const char *component, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void log_for_plugin(int level, const char *component, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sv_log((sv_log_level_t)level, component, "%s", text);
}

static const sv_plugin_host_t host = {
    .abi = SV_PLUGIN_ABI,
    .error = sv_error,
    .error_quiet = sv_error_quiet,
    .log = log_for_plugin,
    .calloc = sv_calloc,
    .free = sv_free,
    .note_pinned = sv_device_note_pinned,
    .is_shared = sv_sharing_is_shared,
};

/* A plug-in that was not built is another matter than one that is elsewhere: only one of them is a wrong setting. */
static selvage_status_t refuse_missing_plugin(const char *name, const char *file, bool asked_for)
{
    const bool nvidia = strcmp(name, "nvidia") == 0;
    const char *why = nvidia ? SELVAGE_NO_CUDA_TEXT : SELVAGE_NO_HIP_TEXT;
    const char *make = nvidia ? "NVIDIA" : "AMD";
    if (!why[0])
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "device %s: there is no %s; the folder that has it is "
                              "SELVAGE_DEVICE_PATH", name, file);
    if (!asked_for)
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "device %s: this build has no %s plug-in (%s)", name, make, why);
    return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "device %s: there is no %s, and this build has no %s plug-in (%s)",
                          name, file, make, why);
}

static selvage_status_t load_plugin(const char *directory, const char *name, bool asked_for,
                                    const sv_plugin_t **plugin_out)
{
    char file[1024];
    snprintf(file, sizeof file, "%s%sselvage-device-%s.so", directory, directory[0] ? "/" : "", name);
    if (directory[0] && access(file, F_OK) != 0)
        return refuse_missing_plugin(name, file, asked_for);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "device %s: %s", name, dlerror());
    sv_plugin_entry_t entry = (sv_plugin_entry_t)dlsym(library, SV_PLUGIN_ENTRY);
    const sv_plugin_t *plugin = entry ? entry() : NULL;
    if (!plugin || plugin->abi != SV_PLUGIN_ABI) {
        dlclose(library);
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "device %s: %s belongs to another version of Selvage", name,
                              file);
    }
    if (plugin->device_count() == 0)
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "device %s: the driver shows no GPU", name);
    *plugin_out = plugin;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_plugin_find(const char *name, const char *path, const sv_plugin_t **plugin_out)
{
    return load_plugin(path[0] ? path : SELVAGE_PLUGIN_DIR, name, path[0], plugin_out);
}

selvage_status_t sv_plugin_open(const sv_plugin_t *plugin, const sv_plugin_wishes_t *wishes, int index,
                                sv_device_t **dev_out)
{
    return plugin->open(&host, wishes, index, dev_out);
}
