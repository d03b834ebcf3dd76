/* SPDX-License-Identifier: BSD-3-Clause */
/* Split collective calls on files (drop_split.c): what their two halves share. */
#ifndef SV_DROP_SPLIT_H
#define SV_DROP_SPLIT_H

#include "interpose/drop.h"

/* One that has begun with device memory. */
typedef struct sv_drop_split sv_drop_split_t;

/* After a _begin: keeps its one buffer's staging memory for the _end. */
void sv_drop_split_keep(const sv_drop_call_t *call, MPI_File file);
/* The one that an _end is for, which is the caller's from here on. NULL: it has host memory. */
sv_drop_split_t *sv_drop_split_take(MPI_File file, const void *buf);
/* The address that MPI's _end gets for buf. */
void *sv_drop_split_memory(const sv_drop_split_t *split, const void *buf);
/* After MPI's _end: lands what was read, and gives the staging memory back. Returns the code. */
int sv_drop_split_end(sv_drop_split_t *split, int code);
/* Before MPI_Finalize: gives back what is left. Returns how many were open. */
int sv_drop_splits_end(void);

#endif
