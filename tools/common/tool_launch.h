/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tool can know of its job before MPI_Init. Without Selvage's headers, for programs that are plain MPI. */
#ifndef SELVAGE_TOOL_LAUNCH_H
#define SELVAGE_TOOL_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

/* Rank according to the launcher's environment, before MPI_Init; 0 if nothing says otherwise. */
int tool_launcher_rank(void);
/* Whether that environment is there. A process without it may refuse its command line without MPI; the ranks of a job
   go through MPI_Init first, or the launcher would kill the one that explains. */
bool tool_is_launched(void);

/* Name and version of the MPI library, on one line; before MPI_Init too. */
void tool_mpi_name(char *text, size_t text_bytes);

#endif
