/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPU devices as plug-ins: shared objects that libselvage opens at run time. So the library needs no GPU library
 * itself, and starts where there is no GPU and no driver. A plug-in exports one function, selvage_device_plugin(). It
 * is handed the few services of the library that it uses, because the library's internal names are hidden.
 */
#ifndef SV_DEVICE_PLUGIN_H
#define SV_DEVICE_PLUGIN_H

#include "device/device.h"

/* Of these structs and of those in kernel_args.h, which the kernels in a plug-in were compiled with. */
enum { SV_PLUGIN_ABI = 15 };

enum { SV_PLUGIN_CURRENT = -1 };

/* Named ranges for profilers: none, only if a profiler is in the process already, or load what it listens to. */
typedef enum sv_ranges { SV_RANGES_OFF, SV_RANGES_IF_LOADED, SV_RANGES_LOAD } sv_ranges_t;

/* How kernels are launched: all plainly; those that come again by prepared graphs, unless they can start early; or
   all that come again. */
typedef enum sv_launches { SV_LAUNCHES_PLAIN, SV_LAUNCHES_AUTO, SV_LAUNCHES_PREPARED } sv_launches_t;

/* What a device is opened with. */
typedef struct sv_plugin_wishes {
    sv_ranges_t ranges;
    sv_launches_t launches;
} sv_plugin_wishes_t;

/* What the library gives. The functions are those of base_status.h, base_log.h, base_memory.h and device_sharing.h. */
typedef struct sv_plugin_host {
    uint32_t abi;
    selvage_status_t (*error)(selvage_status_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));
    selvage_status_t (*error_quiet)(selvage_status_t status, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    void (*log)(int level, const char *component, const char *format, ...) __attribute__((format(printf, 3, 4)));
    selvage_status_t (*calloc)(size_t count, size_t element_bytes, void *out_pointer_to_pointer);
    void (*free)(void *ptr);
    void (*note_pinned)(void);
    bool (*is_shared)(int sharing);
} sv_plugin_host_t;

/* What a plug-in gives. */
typedef struct sv_plugin {
    uint32_t abi;
    const char *name;                     /* "nvidia", "amd" */
    int (*device_count)(void);            /* 0 without driver or GPU; never logs */
    /* Makes a GPU current in the calling thread; 0, or the native error. Never logs. */
    int (*select)(int index);
    /* The number of the GPU whose memory ptr leads to, or which made it if it is pinned; -1: none here. Makes nothing
       current, and never logs. */
    int (*locate)(const void *ptr);
    /* Opens a GPU by number; SV_PLUGIN_CURRENT is the one that is current in the calling thread. The calling thread's
       current GPU stays the same. host outlives the device. */
    selvage_status_t (*open)(const sv_plugin_host_t *host, const sv_plugin_wishes_t *wishes, int index,
                             sv_device_t **dev_out);
} sv_plugin_t;

typedef const sv_plugin_t *(*sv_plugin_entry_t)(void);
#define SV_PLUGIN_ENTRY "selvage_device_plugin"

/*
 * Finds and opens a plug-in by name in SELVAGE_DEVICE_PATH (if not ""), then beside the installed library. Outputs only
 * on success. ERR_UNSUPPORTED with the reason in the detail, without a log line.
 */
selvage_status_t sv_plugin_find(const char *name, const char *path, const sv_plugin_t **plugin_out);
/* Opens a device of a plug-in that was found, by number or as the current one. */
selvage_status_t sv_plugin_open(const sv_plugin_t *plugin, const sv_plugin_wishes_t *wishes, int index,
                                sv_device_t **dev_out);

#endif
