/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done with each kind of memory: which can be a buffer of a packet, which can be registered. doc/memory.md is
 * the same table for users; tests/mpi/test_memory_kinds.sh holds both against what happens.
 */
#ifndef SV_MEMORY_KIND_H
#define SV_MEMORY_KIND_H

#include "device/device.h"

/* The kind of memory that bytes (at least 1) at ptr are; FREED also for host memory that is not there. */
sv_memory_kind_t sv_memory_kind(sv_device_t *dev, const void *ptr, size_t bytes);

/* Name of a kind, as doc/memory.md has it, and what it is, to follow "is" in a sentence. */
const char *sv_memory_kind_name(sv_memory_kind_t kind);
const char *sv_memory_kind_text(sv_memory_kind_t kind);

/* Whether packets can be sent from and received into memory of this kind. */
bool sv_memory_kind_is_usable(sv_memory_kind_t kind);

/*
 * The address by which the device reaches a buffer of the caller's; without bytes, ptr itself. SELVAGE_ERR_ARGUMENT for
 * memory that it does not reach. call is the name of the public call, for the error text.
 */
selvage_status_t sv_memory_admit(sv_device_t *dev, const char *call, const void *ptr, size_t bytes,
                                 void **address_out);

#endif
