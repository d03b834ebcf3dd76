/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of dropin_unmodified that stands in for MPI's own names (PMPI_...), which the drop-in and the library call
 * and the program does not, and counts what is made and what is freed: at the end of MPI_Finalize nothing is left.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { COMM_KEYVALS, TYPE_KEYVALS, COMMS, GROUPS, TYPES, ERRHANDLERS, OPS, KINDS };

static const char *const names[KINDS] = {"keyvals of communicators", "keyvals of types", "communicators", "groups",
                                         "types", "error handlers", "operations"};
static _Atomic int made[KINDS], freed[KINDS];

/* In place of MPI's function: counts it if it succeeds. */
#define COUNTED(LEDGER, KIND, NAME, PARAMETERS, ...)                                                                   \
    int NAME PARAMETERS                                                                                                \
    {                                                                                                                  \
        int (*real) PARAMETERS;                                                                                        \
        void *found = dlsym(RTLD_NEXT, #NAME);                                                                         \
        memcpy(&real, &found, sizeof real);                                                                            \
        const int code = real(__VA_ARGS__);                                                                            \
        atomic_fetch_add(&LEDGER[KIND], code == MPI_SUCCESS);                                                          \
        return code;                                                                                                   \
    }
#define MAKES(KIND, NAME, PARAMETERS, ...) COUNTED(made, KIND, NAME, PARAMETERS, __VA_ARGS__)
#define FREES(KIND, NAME, TYPE) COUNTED(freed, KIND, NAME, (TYPE *handle), handle)

MAKES(COMM_KEYVALS, PMPI_Comm_create_keyval,
      (MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *delete, int *key, void *extra), copy, delete,
      key, extra)
MAKES(TYPE_KEYVALS, PMPI_Type_create_keyval,
      (MPI_Type_copy_attr_function *copy, MPI_Type_delete_attr_function *delete, int *key, void *extra), copy, delete,
      key, extra)
MAKES(COMMS, PMPI_Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *out), comm, group, out)
MAKES(COMMS, PMPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), comm, color, key, out)
MAKES(COMMS, PMPI_Comm_split_type, (MPI_Comm comm, int kind, int key, MPI_Info info, MPI_Comm *out), comm, kind, key,
      info, out)
MAKES(COMMS, PMPI_Comm_dup, (MPI_Comm comm, MPI_Comm *out), comm, out)
MAKES(GROUPS, PMPI_Comm_group, (MPI_Comm comm, MPI_Group *out), comm, out)
MAKES(GROUPS, PMPI_Comm_remote_group, (MPI_Comm comm, MPI_Group *out), comm, out)
MAKES(TYPES, PMPI_Type_contiguous, (int count, MPI_Datatype type, MPI_Datatype *out), count, type, out)
MAKES(TYPES, PMPI_Type_dup, (MPI_Datatype type, MPI_Datatype *out), type, out)
MAKES(TYPES, PMPI_Type_create_struct,
      (int count, const int lengths[], const MPI_Aint displacements[], const MPI_Datatype types[], MPI_Datatype *out),
      count, lengths, displacements, types, out)
MAKES(ERRHANDLERS, PMPI_Comm_create_errhandler, (MPI_Comm_errhandler_function *function, MPI_Errhandler *out), function,
      out)
MAKES(OPS, PMPI_Op_create, (MPI_User_function *function, int commutes, MPI_Op *out), function, commutes, out)
MAKES(ERRHANDLERS, PMPI_Comm_get_errhandler, (MPI_Comm comm, MPI_Errhandler *out), comm, out)
FREES(COMM_KEYVALS, PMPI_Comm_free_keyval, int)
FREES(TYPE_KEYVALS, PMPI_Type_free_keyval, int)
FREES(COMMS, PMPI_Comm_free, MPI_Comm)
FREES(GROUPS, PMPI_Group_free, MPI_Group)
FREES(TYPES, PMPI_Type_free, MPI_Datatype)
FREES(ERRHANDLERS, PMPI_Errhandler_free, MPI_Errhandler)
FREES(OPS, PMPI_Op_free, MPI_Op)

/* The types that a type was made of are to be freed as well. */
int PMPI_Type_get_contents(MPI_Datatype type, int nints, int naddresses, int ntypes, int ints[], MPI_Aint addresses[],
                           MPI_Datatype types[])
{
    int (*real)(MPI_Datatype, int, int, int, int[], MPI_Aint[], MPI_Datatype[]);
    void *found = dlsym(RTLD_NEXT, "PMPI_Type_get_contents");
    memcpy(&real, &found, sizeof real);
    const int code = real(type, nints, naddresses, ntypes, ints, addresses, types);
    for (int i = 0; i < ntypes && code == MPI_SUCCESS; i++) {
        int n, combiner = MPI_COMBINER_NAMED;
        MPI_Type_get_envelope(types[i], &n, &n, &n, &combiner);
        atomic_fetch_add(&made[TYPES], combiner != MPI_COMBINER_NAMED);
    }
    return code;
}

static void check_ledger(void)
{
    for (int i = 0; i < KINDS; i++) {
        /* MPICH makes types in other ways, too, that are not counted here; and so may what runs by the ABI of MPI 5. */
#if defined(MPICH_VERSION) || defined(MPI_ABI_VERSION)
        if (i == TYPES && made[i] < freed[i])
            continue;
#endif
        if (made[i] != freed[i])
            printf("rank %d: %s: %d made, %d freed\n", the.rank, names[i], made[i], freed[i]);
        CHECK_EQ(made[i], freed[i]);
    }
    CHECK(made[COMM_KEYVALS] >= 3 && made[TYPE_KEYVALS] == 1 && made[COMMS] >= 4 && made[TYPES] >= 3);
}

/* Elements with gaps, of the device's and of the host's, and something announced that is looked at by a probe. */
static void pass(MPI_Comm comm, MPI_Datatype type, void *in)
{
    MPI_Request request;
    MPI_Isend(the.out, BYTES / 2, MPI_BYTE, the.right, 1, comm, &request);
    MPI_Probe(the.left, 1, comm, MPI_STATUS_IGNORE);
    MPI_Recv(in, 1, type, the.left, 1, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* As much of the drop-in as makes anything of MPI's. */
void run_ledger(void)
{
    MPI_Comm same, turned;
    MPI_Datatype type;
    static char host[BYTES];
    MPI_Type_vector(BYTES / 8, 4, 8, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Comm_dup(MPI_COMM_WORLD, &same);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -the.rank, &turned);
    pass(MPI_COMM_WORLD, type, the.in);
    for (int i = 0; i < 8; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    open_fast_pairs();
    pass(MPI_COMM_WORLD, type, the.in);
    pass(MPI_COMM_WORLD, type, host);
    pass(same, type, the.in);
    pass(turned, type, host);
    MPI_Allreduce(the.out, the.in, BYTES / 4, MPI_INT, MPI_SUM, same);
    MPI_Gather(the.out, BYTES / 2, MPI_BYTE, the.in, BYTES / 2, MPI_BYTE, 0, turned);
    MPI_Alltoall(the.out, 1, type, the.in, 1, type, MPI_COMM_SELF);
    MPI_Comm_free(&same);
    MPI_Comm_free(&turned);
    MPI_Type_free(&type);
    the.after = check_ledger;
}
