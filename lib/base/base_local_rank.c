/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the variables of the launchers, those of the launcher nearest to the process first. Ranks that an mpirun inside
 * a batch job starts also inherit what the batch system said of the script: SLURM_LOCALID is 0 for all of them. A value
 * that is no number is passed over. No state; any thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for secure_getenv */
#endif
#include "base/base_local_rank.h"

#include <limits.h>
#include <stdlib.h>

#include "base/base_parse.h"

static const char *const launcher_names[] = {
    "OMPI_COMM_WORLD_LOCAL_RANK", /* Open MPI */
    "MPI_LOCALRANKID",            /* MPICH and Intel MPI, by Hydra */
    "PMI_LOCAL_RANK",             /* other launchers that speak PMI */
    "PALS_LOCAL_RANKID",          /* HPE PALS */
    "FLUX_TASK_LOCAL_ID",         /* Flux */
    "SLURM_LOCALID",              /* srun */
};

static const char *local_rank_from_environment(void *arg, const char *full_name)
{
    (void)arg;
    return secure_getenv(full_name); /* nothing in a program with more rights than its caller */
}

int sv_local_rank(sv_config_lookup_t lookup, void *lookup_arg)
{
    sv_config_lookup_t read = lookup ? lookup : local_rank_from_environment;
    for (size_t i = 0; i < sizeof launcher_names / sizeof launcher_names[0]; i++) {
        const char *text = read(lookup_arg, launcher_names[i]);
        int64_t value;
        if (text && sv_parse_int(text, &value) && value >= 0 && value <= INT_MAX)
            return (int)value;
    }
    return -1;
}
