/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local rank in the environment of each launcher: each variable alone, the order among several, values that say
 * nothing, and the real environment.
 */
#include <stdlib.h>

#include "base/base_local_rank.h"
#include "fixtures/check.h"

enum { PAIRS = 4 };

typedef struct fake {
    const char *name[PAIRS], *value[PAIRS];
} fake_t;

static const char *look_up(void *arg, const char *full_name)
{
    const fake_t *fake = arg;
    for (int i = 0; i < PAIRS && fake->name[i]; i++)
        if (strcmp(fake->name[i], full_name) == 0)
            return fake->value[i];
    return NULL;
}

static int rank_of(fake_t fake)
{
    return sv_local_rank(look_up, &fake);
}

static void check_launchers(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",    "PMI_LOCAL_RANK",
                                        "PALS_LOCAL_RANKID",          "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK_EQ(rank_of((fake_t){{names[i]}, {"0"}}), 0);
        CHECK_EQ(rank_of((fake_t){{names[i]}, {"7"}}), 7);
        CHECK_EQ(rank_of((fake_t){{names[i]}, {"2147483647"}}), 2147483647);
        CHECK_EQ(rank_of((fake_t){{names[i]}, {"2147483648"}}), -1);
        CHECK_EQ(rank_of((fake_t){{names[i]}, {"-1"}}), -1);
        CHECK_EQ(rank_of((fake_t){{names[i]}, {""}}), -1);
        CHECK_EQ(rank_of((fake_t){{names[i]}, {"first"}}), -1);
        CHECK_EQ(rank_of((fake_t){{names[i]}, {"3 "}}), -1);
    }
}

static void check_order(void)
{
    CHECK_EQ(rank_of((fake_t){{NULL}, {NULL}}), -1);
    CHECK_EQ(rank_of((fake_t){{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, {"3", "3", "3"}}), -1);
    /* An mpirun within a batch job: the script's own number is not the rank's. */
    CHECK_EQ(rank_of((fake_t){{"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"}, {"0", "2"}}), 2);
    CHECK_EQ(rank_of((fake_t){{"SLURM_LOCALID", "MPI_LOCALRANKID"}, {"0", "3"}}), 3);
    CHECK_EQ(rank_of((fake_t){{"SLURM_LOCALID", "FLUX_TASK_LOCAL_ID"}, {"0", "4"}}), 4);
    CHECK_EQ(rank_of((fake_t){{"SLURM_LOCALID", "PALS_LOCAL_RANKID"}, {"0", "5"}}), 5);
    /* What says nothing hides nobody. */
    CHECK_EQ(rank_of((fake_t){{"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, {"none", "6"}}), 6);
}

int main(void)
{
    check_launchers();
    check_order();
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "11", 1);
    CHECK_EQ(sv_local_rank(NULL, NULL), 11);
    return check_report("local_rank");
}
