/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_files SEED CASES FOLDER: writes to files and reads from them, by every kind of call, blocking and not, of
 * numbers and of rows with gaps, in the device's memory or the host's, some reads beyond the end; against the same on
 * host buffers. Each rank has its own files. Exit status 0 if memory, files and statuses agree.
 */
#include <limits.h>
#include <stdlib.h>

#include "dropin_case.h"

typedef enum kind { NEXT, AT, ALL, AT_ALL, SHARED, ORDERED, KINDS } kind_t;

typedef struct file_case {
    kind_t kind;
    bool waits;
    int count, more;
    MPI_Datatype type;
    void *out, *in;
} case_t;

static const char *folder;

#define CALL(NAME, ...) \
    (c->waits ? X(File_i##NAME, __VA_ARGS__, request) : X(File_##NAME, __VA_ARGS__, status))

static int put(const case_t *c, MPI_File f, MPI_Request *request, MPI_Status *status)
{
    int n = c->count;
#if MPI_VERSION >= 4
    if (c->kind == AT && !c->waits && n == 2)
        return X(File_write_at_c, f, 40, c->out, n, c->type, status);
#endif
    switch (c->kind) {
    case NEXT: return CALL(write, f, c->out, n, c->type);
    case AT: return CALL(write_at, f, 40, c->out, n, c->type);
    case ALL: return CALL(write_all, f, c->out, n, c->type);
    case AT_ALL: return CALL(write_at_all, f, 40, c->out, n, c->type);
    case SHARED: return CALL(write_shared, f, c->out, n, c->type);
    case ORDERED: return X(File_write_ordered, f, c->out, n, c->type, status);
    default: return MPI_ERR_OTHER;
    }
}

static int get(const case_t *c, MPI_File f, MPI_Request *request, MPI_Status *status)
{
    int n = c->count + c->more;
#if MPI_VERSION >= 4
    if (c->kind == AT && !c->waits && n == 2)
        return X(File_read_at_c, f, 40, c->in, n, c->type, status);
#endif
    switch (c->kind) {
    case NEXT: return CALL(read, f, c->in, n, c->type);
    case AT: return CALL(read_at, f, 40, c->in, n, c->type);
    case ALL: return CALL(read_all, f, c->in, n, c->type);
    case AT_ALL: return CALL(read_at_all, f, 40, c->in, n, c->type);
    case SHARED: return CALL(read_shared, f, c->in, n, c->type);
    case ORDERED: return X(File_read_ordered, f, c->in, n, c->type, status);
    default: return MPI_ERR_OTHER;
    }
}

/* Returns the bytes that the statuses say were written and read, or minus the error class. */
static int run(const case_t *c)
{
    MPI_File f;
    MPI_Status status[2];
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    char name[PATH_MAX];
    int bytes[2] = {0, 0}, code;
    bool waits = c->waits && c->kind != ORDERED;
    snprintf(name, sizeof name, "%s/file.%d", folder, dropin.rank);
    code = PMPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                          MPI_INFO_NULL, &f);
    if (code != MPI_SUCCESS)
        return -dropin_class(code);
    code = put(c, f, &request[0], &status[0]);
    if (waits && code == MPI_SUCCESS)
        code = X(Wait, &request[0], &status[0]);
    PMPI_File_seek(f, 0, MPI_SEEK_SET);
    PMPI_File_seek_shared(f, 0, MPI_SEEK_SET);
    if (code == MPI_SUCCESS)
        code = get(c, f, &request[1], &status[1]);
    if (waits && code == MPI_SUCCESS)
        code = X(Wait, &request[1], &status[1]);
    PMPI_File_close(&f);
    if (code != MPI_SUCCESS)
        return -dropin_class(code);
    PMPI_Get_elements(&status[0], MPI_BYTE, &bytes[0]);
    PMPI_Get_elements(&status[1], MPI_BYTE, &bytes[1]);
    return bytes[0] + 100000 * bytes[1];
}

/* More of a type than this the files of both MPIs do not bear: some calls never return. */
static MPI_Datatype make_rows(void)
{
    MPI_Datatype type;
    MPI_Type_vector(1 + (int)dropin_pick(5), 7, 11, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void check_case(int number)
{
    case_t c = {.kind = (kind_t)dropin_pick(KINDS), .waits = dropin_pick(2), .count = 1 + (int)dropin_pick(3),
                .more = dropin_pick(4) == 0};
    c.type = dropin_pick(2) ? make_rows() : MPI_DOUBLE;
    c.more = c.more && c.type == MPI_DOUBLE && !c.waits;
    bool device_out = dropin_pick(2), device_in = dropin_pick(2);
    dropin_buffer_t out = dropin_buffer_of(c.count, c.type, device_out);
    dropin_buffer_t in = dropin_buffer_of(c.count + c.more, c.type, device_in);
    int seen[2];
    for (int plain = 0; plain < 2; plain++) {
        dropin_plain = plain;
        c.out = dropin_argument(&out);
        c.in = dropin_argument(&in);
        seen[plain] = run(&c);
    }
    CHECK_EQ(seen[0], seen[1]);
    bool out_same = dropin_same(&out), in_same = dropin_same(&in);
    CHECK(out_same);
    CHECK(in_same);
    if (!out_same || !in_same || seen[0] != seen[1])
        fprintf(stderr, "rank %d, case %d: kind %d, waits %d, device %d %d, count %d and %d more, seen %d %d\n",
                dropin.rank, number, c.kind, c.waits, device_out, device_in, c.count, c.more, seen[0], seen[1]);
    if (c.type != MPI_DOUBLE)
        MPI_Type_free(&c.type);
}

int main(int argc, char **argv)
{
    int cases;
    dropin_begin(argc, argv, MPI_THREAD_SINGLE, &cases);
    folder = argc > 3 ? argv[3] : ".";
    for (int i = 0; i < cases; i++)
        check_case(i);
    return dropin_end("dropin_files");
}
