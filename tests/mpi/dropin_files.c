/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_files SEED CASES FOLDER: writes to files and reads from them, by every kind of call, blocking, not, and
 * split, of numbers and of rows with gaps, in the device's memory or the host's, some reads beyond the end; against the
 * same on host buffers. Each rank has its own files. Exit status 0 if memory, files and statuses agree.
 */
#include <limits.h>
#include <stdlib.h>

#include "fixtures/dropin_case.h"

typedef enum kind { NEXT, AT, ALL, AT_ALL, SHARED, ORDERED, KINDS } kind_t;

typedef enum form { BLOCKS, WAITS, SPLITS, FORMS } form_t;

typedef struct file_case {
    kind_t kind;
    form_t form;
    int count, more;
    MPI_Datatype type;
    void *out, *in;
} case_t;

static const char *folder;

#define CALL(NAME, ...) \
    (c->form == WAITS ? X(File_i##NAME, __VA_ARGS__, request) : X(File_##NAME, __VA_ARGS__, status))

static int put(const case_t *c, MPI_File f, MPI_Request *request, MPI_Status *status)
{
    int n = c->count;
#if MPI_VERSION >= 4
    if (c->kind == AT && c->form == BLOCKS && n == 2)
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
    if (c->kind == AT && c->form == BLOCKS && n == 2)
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

static int begin_put(const case_t *c, MPI_File f, MPI_Datatype type)
{
    int n = c->count;
#if MPI_VERSION >= 4
    if (n == 2)
        return c->kind == ALL      ? X(File_write_all_begin_c, f, c->out, n, type)
               : c->kind == AT_ALL ? X(File_write_at_all_begin_c, f, 40, c->out, n, type)
                                   : X(File_write_ordered_begin_c, f, c->out, n, type);
#endif
    return c->kind == ALL      ? X(File_write_all_begin, f, c->out, n, type)
           : c->kind == AT_ALL ? X(File_write_at_all_begin, f, 40, c->out, n, type)
                               : X(File_write_ordered_begin, f, c->out, n, type);
}

static int end_put(const case_t *c, MPI_File f, MPI_Status *status)
{
    return c->kind == ALL      ? X(File_write_all_end, f, c->out, status)
           : c->kind == AT_ALL ? X(File_write_at_all_end, f, c->out, status)
                               : X(File_write_ordered_end, f, c->out, status);
}

static int begin_get(const case_t *c, MPI_File f, MPI_Datatype type)
{
    int n = c->count + c->more;
#if MPI_VERSION >= 4
    if (n == 2)
        return c->kind == ALL      ? X(File_read_all_begin_c, f, c->in, n, type)
               : c->kind == AT_ALL ? X(File_read_at_all_begin_c, f, 40, c->in, n, type)
                                   : X(File_read_ordered_begin_c, f, c->in, n, type);
#endif
    return c->kind == ALL      ? X(File_read_all_begin, f, c->in, n, type)
           : c->kind == AT_ALL ? X(File_read_at_all_begin, f, 40, c->in, n, type)
                               : X(File_read_ordered_begin, f, c->in, n, type);
}

static int end_get(const case_t *c, MPI_File f, MPI_Status *status)
{
    return c->kind == ALL      ? X(File_read_all_end, f, c->in, status)
           : c->kind == AT_ALL ? X(File_read_at_all_end, f, c->in, status)
                               : X(File_read_ordered_end, f, c->in, status);
}

/* A program may free its type before the call has ended. */
static int split(const case_t *c, MPI_File f, bool writes, MPI_Status *status)
{
    MPI_Datatype type = c->type;
    if (type != MPI_DOUBLE)
        PMPI_Type_dup(c->type, &type);
    int code = writes ? begin_put(c, f, type) : begin_get(c, f, type);
    if (type != MPI_DOUBLE)
        PMPI_Type_free(&type);
    if (code != MPI_SUCCESS)
        return code;
    return writes ? end_put(c, f, status) : end_get(c, f, status);
}

static int open_file(const char *what, MPI_File *file)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/%s.%d", folder, what, dropin.rank);
    return PMPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                          MPI_INFO_NULL, file);
}

/* Returns the bytes that the statuses say were written and read, or minus the error class. */
static int run(const case_t *c)
{
    MPI_File f;
    MPI_Status status[2];
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int bytes[2] = {0, 0};
    bool waits = c->form == WAITS, splits = c->form == SPLITS;
    int code = open_file("file", &f);
    if (code != MPI_SUCCESS)
        return -dropin_class(code);
    code = splits ? split(c, f, true, &status[0]) : put(c, f, &request[0], &status[0]);
    if (waits && code == MPI_SUCCESS)
        code = X(Wait, &request[0], &status[0]);
    PMPI_File_seek(f, 0, MPI_SEEK_SET);
    PMPI_File_seek_shared(f, 0, MPI_SEEK_SET);
    if (code == MPI_SUCCESS)
        code = splits ? split(c, f, false, &status[1]) : get(c, f, &request[1], &status[1]);
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

/* Beyond the end those calls of Open MPI's never return either that are not blocking inside. */
static bool may_be_short(const case_t *c)
{
#ifdef OPEN_MPI
    return c->type == MPI_DOUBLE && c->form == BLOCKS;
#else
    return c->type == MPI_DOUBLE && c->form != WAITS;
#endif
}

static case_t make_case(void)
{
    static const kind_t collective[] = {ALL, AT_ALL, ORDERED};
    case_t c = {.kind = (kind_t)dropin_pick(KINDS), .form = (form_t)dropin_pick(FORMS),
                .count = 1 + (int)dropin_pick(3), .more = dropin_pick(4) == 0};
    if (c.form == SPLITS)
        c.kind = collective[dropin_pick(3)];
    if (c.form == WAITS && c.kind == ORDERED)
        c.form = BLOCKS;
    c.type = dropin_pick(2) ? make_rows() : MPI_DOUBLE;
    c.more = c.more && may_be_short(&c);
    return c;
}

static void check_case(int number)
{
    case_t c = make_case();
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
        fprintf(stderr, "rank %d, case %d: kind %d, form %d, device %d %d, count %d and %d more, seen %d %d\n",
                dropin.rank, number, c.kind, c.form, device_out, device_in, c.count, c.more, seen[0], seen[1]);
    if (c.type != MPI_DOUBLE)
        MPI_Type_free(&c.type);
}

/* --- several files ------------------------------------------------------------------------------------------------ */

enum { FILES = 3, NUMBERS = 100 };

/* Split calls on all files at the same time, ended in another order; in the midst of one a second one, which MPI
   refuses. Returns whether all went as they had to. */
static bool run_together(MPI_File *files, void *const *buffers, bool writes)
{
    bool good = true;
    for (int i = 0; i < FILES; i++) {
        int code = writes ? X(File_write_at_all_begin, files[i], 0, buffers[i], NUMBERS, MPI_DOUBLE)
                          : X(File_read_at_all_begin, files[i], 0, buffers[i], NUMBERS, MPI_DOUBLE);
        good = good && code == MPI_SUCCESS;
    }
    good = good && X(File_read_all_begin, files[0], buffers[2], NUMBERS, MPI_DOUBLE) != MPI_SUCCESS;
    for (int i = 0; i < FILES; i++) {
        int turn = (i + 1) % FILES, count = 0, code;
        MPI_Status status;
        code = writes ? X(File_write_at_all_end, files[turn], buffers[turn], &status)
                      : X(File_read_at_all_end, files[turn], buffers[turn], &status);
        PMPI_Get_count(&status, MPI_DOUBLE, &count);
        good = good && code == MPI_SUCCESS && count == NUMBERS;
    }
    return good;
}

/* The middle one's numbers are the host's. */
static void check_together(void)
{
    MPI_File files[FILES];
    dropin_buffer_t out[FILES], in[FILES];
    for (int i = 0; i < FILES; i++) {
        out[i] = dropin_buffer(0, NUMBERS * (int)sizeof(double), i != 1);
        in[i] = dropin_buffer(0, NUMBERS * (int)sizeof(double), i != 1);
    }
    for (int plain = 0; plain < 2; plain++) {
        void *from[FILES], *to[FILES];
        dropin_plain = plain;
        for (int i = 0; i < FILES; i++) {
            char name[] = {(char)('a' + i), 0};
            CHECK_EQ(open_file(name, &files[i]), MPI_SUCCESS);
            from[i] = dropin_argument(&out[i]);
            to[i] = dropin_argument(&in[i]);
        }
        CHECK(run_together(files, from, true));
        CHECK(run_together(files, to, false));
        for (int i = 0; i < FILES; i++)
            PMPI_File_close(&files[i]);
    }
    for (int i = 0; i < FILES; i++) {
        CHECK(dropin_same(&out[i]));
        CHECK(dropin_same(&in[i]));
    }
}

int main(int argc, char **argv)
{
    int cases;
    dropin_begin(argc, argv, MPI_THREAD_SINGLE, &cases);
    folder = argc > 3 ? argv[3] : ".";
    if (!mpi_files_take_types()) {
        printf("skipped: this MPI ends the job where a type of a file is not contiguous\n");
        return dropin_end("dropin_files");
    }
    for (int i = 0; i < cases; i++)
        check_case(i);
    check_together();
    return dropin_end("dropin_files");
}
