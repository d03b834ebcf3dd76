/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for AMD's HIP runtime, for machines without a GPU: the calls that the AMD plug-in makes, and no others,
 * over the software device. It is stricter than the real one: every handle and address is looked up among what is
 * alive, handles belong to the GPU they were made on, an error that nobody collected is a misuse, and kernels may not
 * be given the host address of registered memory, whose device address is another one, as it is on AMD GPUs. Waiting
 * for a GPU waits for its own streams and for the default one, not for those of other GPUs.
 *
 * HIP_STANDIN_FAIL=[CALL:]N   the Nth call (of that name) fails; calls that free do their work and fail then
 * HIP_STANDIN_DEVICES=N       GPUs that there are (1)
 * HIP_STANDIN_UNREGISTERED=N  memory that the runtime does not know is no error, but of no type and GPU N (-2)
 * HIP_STANDIN_ARCH=NAME       what they are: gfx90a or gfx942 (gfx90a); code for others is refused
 * HIP_STANDIN_OLD=1           a runtime that does not know uncached memory
 * HIP_STANDIN_CAPTURE=WHICH   streams are being recorded into graphs: all but the default one (own), or others (other)
 * HIP_STANDIN_COUNTS=1        a line for each call at exit: how often it was made; and how many threads a block had
 *
 * At exit one line on standard error says how many calls were made, which was failed, what is alive, and the misuses.
 * Any thread may call anything.
 */
#ifndef SELVAGE_TESTS_HIP_STANDIN_H
#define SELVAGE_TESTS_HIP_STANDIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base_list.h"
#include "base/base_mapping.h"

typedef enum standin_kind {
    STANDIN_DEVICE,      /* hipMalloc */
    STANDIN_HOST,        /* hipHostMalloc */
    STANDIN_REGISTERED,  /* hipHostRegister */
    STANDIN_OPENED,      /* hipIpcOpenMemHandle */
    STANDIN_STREAM,
    STANDIN_EVENT,
    STANDIN_MODULE,
    STANDIN_KINDS
} standin_kind_t;

/* Something alive, under its handle or first address. */
typedef struct standin_object {
    sv_list_t link;
    standin_kind_t kind;
    int gpu;
    void *ptr;
    size_t bytes;
    void *alias;          /* of registered memory: its device address */
    sv_mapping_t mapping; /* of device and opened memory; of others zero */
} standin_object_t;

/* Counts a call, and says whether it is the one to fail. */
bool standin_call(const char *call);

/* A mistake of the plug-in: printed and counted. */
void standin_misuse(const char *call, const char *what);

/* Puts a copy of the object on the list of what is alive; false without memory. */
bool standin_add(const standin_object_t *object);

/* Takes the object of that kind and handle off the list; false if there is none. */
bool standin_take(standin_kind_t kind, const void *ptr, standin_object_t *object_out);

/* Whether the handle is alive; gives a copy. */
bool standin_find(standin_kind_t kind, const void *ptr, standin_object_t *object_out);

/* The object of that kind whose memory, at host or device address, holds all of these bytes. */
bool standin_find_range(standin_kind_t kind, const void *ptr, size_t bytes, standin_object_t *object_out);

/* Calls visit for each stream of a GPU; meanwhile none is taken, but kernels that are waited for look objects up. */
void standin_visit_streams(int gpu, void (*visit)(void *stream, void *arg), void *arg);

#endif
