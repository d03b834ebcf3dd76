/* SPDX-License-Identifier: BSD-3-Clause */
/* See tool_launch.h. Launchers tell a process its rank by variables of their own. */
#include "tools/common/tool_launch.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tool_mpi_name(char *text, size_t text_bytes)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    snprintf(text, text_bytes, "%.*s", (int)strcspn(version, "\r\n,"), version);
    for (char *c = text; *c; c++) {
        if (*c == '\t')
            *c = ' ';
    }
}

static const char *launcher_rank_text(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};
    const char *text = NULL;
    for (size_t i = 0; !text && i < sizeof names / sizeof names[0]; i++)
        text = getenv(names[i]);
    return text;
}

int tool_launcher_rank(void)
{
    const char *text = launcher_rank_text();
    return text ? atoi(text) : 0;
}

bool tool_is_launched(void)
{
    return launcher_rank_text() != NULL;
}
