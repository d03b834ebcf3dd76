/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_large few|many [NAME...]: between two ranks, types with gaps of more than 2 GiB in device memory and the
 * host's. few: short messages to receives that were posted for so much, by every kind of receive; there only is as much
 * memory as they need.
 * many: all of it moves, by each kind of message, of collective call and of packing, to and from a window and a file,
 * and by MPI_Sendrecv_replace of host memory; 18 GiB of memory, and 3 GiB of TMPDIR. Names: of the kinds that are
 * wanted.
 * Exit status 0 if every element has come, and no gap was written.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixtures/dropin_case.h"

enum { ROW = 1 << 20, GAP = 1 << 16, STRIDE = ROW + GAP, SEEN = 5, GAP_VALUE = 0xee };

typedef enum kind { RECV, IRECV, RECV_INIT, MRECV, IMRECV, SENDRECV, KINDS } kind_t;

/* Rows of a type with a gap after each but the last. */
typedef struct rows {
    int n;
    size_t span;
    uint8_t *memory;
    bool device;
    MPI_Datatype type;
} rows_t;

/* Memory is there for the first ones. The software device's is the host's to read, which is what this test needs. */
static rows_t make_rows(int n, int there, bool device)
{
    rows_t r = {n, (size_t)STRIDE * (size_t)(there - 1) + ROW, NULL, device, MPI_DATATYPE_NULL};
    void *memory = NULL;
    if (device)
        CHECK_STATUS(selvage_device_malloc(dropin.device, r.span, &memory), SELVAGE_SUCCESS);
    else
        memory = mmap(NULL, r.span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!memory || memory == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    r.memory = memory;
    MPI_Type_create_hvector(n, ROW, STRIDE, MPI_BYTE, &r.type);
    MPI_Type_commit(&r.type);
    return r;
}

static void drop_rows(rows_t *r)
{
    MPI_Type_free(&r->type);
    if (r->device)
        selvage_device_free(dropin.device, r->memory);
    else
        munmap(r->memory, r->span);
}

static uint8_t value_of(int row, int salt)
{
    return (uint8_t)((row + salt) % 199 + 1);
}

/* The first n rows and their gaps. value 0: with a row's own value. */
static void fill_rows(const rows_t *r, int n, int salt, uint8_t value)
{
    for (int i = 0; i < n; i++) {
        memset(r->memory + (size_t)i * STRIDE, value ? value : value_of(i, salt), ROW);
        if (i < r->n - 1)
            memset(r->memory + (size_t)i * STRIDE + ROW, GAP_VALUE, GAP);
    }
}

static bool is_all(const uint8_t *memory, uint8_t value, size_t bytes)
{
    return bytes == 0 || (memory[0] == value && memcmp(memory, memory + 1, bytes - 1) == 0);
}

/* Of the first n rows: so many bytes of the stream have come, what is after them is the old value. */
static void check_rows(const rows_t *r, int n, int salt, size_t came, uint8_t old)
{
    int wrong = 0, written = 0;
    for (int i = 0; i < n; i++) {
        const uint8_t *row = r->memory + (size_t)i * STRIDE;
        size_t here = came < ROW ? came : ROW;
        wrong += !is_all(row, value_of(i, salt), here) || !is_all(row + here, old, ROW - here);
        written += i < r->n - 1 && !is_all(row + ROW, GAP_VALUE, GAP);
        came -= here;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(written, 0);
}

/* --- few ---------------------------------------------------------------------------------------------------------- */

static void receive(kind_t kind, const rows_t *r, MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    if (kind == MRECV || kind == IMRECV)
        MPI_Mprobe(0, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    switch (kind) {
    case RECV: MPI_Recv(r->memory, 1, r->type, 0, 1, MPI_COMM_WORLD, status); return;
    case MRECV: MPI_Mrecv(r->memory, 1, r->type, &message, status); return;
    case SENDRECV:
        MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, r->memory, 1, r->type, 0, 1, MPI_COMM_WORLD, status);
        return;
    case IRECV: MPI_Irecv(r->memory, 1, r->type, 0, 1, MPI_COMM_WORLD, &request); break;
    case IMRECV: MPI_Imrecv(r->memory, 1, r->type, &message, &request); break;
    default:
        MPI_Recv_init(r->memory, 1, r->type, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
    }
    MPI_Wait(&request, status);
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
}

static void check_few(kind_t kind, int rows)
{
    const size_t bytes = 3 * ROW - 1000; /* ends within a row */
    MPI_Status status;
    MPI_Count count = 0;
    if (dropin.rank == 0) {
        rows_t out = make_rows(SEEN, SEEN, kind % 2);
        for (int i = 0; i < 3; i++)
            memset(out.memory + (size_t)i * ROW, value_of(i, (int)kind), ROW);
        MPI_Send(out.memory, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        drop_rows(&out);
    } else {
        rows_t in = make_rows(rows, SEEN + 1, true);
        fill_rows(&in, SEEN, 0, 251);
        receive(kind, &in, &status);
        MPI_Get_elements_x(&status, MPI_BYTE, &count);
        CHECK_EQ(count, bytes);
        check_rows(&in, SEEN, (int)kind, bytes, 251);
        drop_rows(&in);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Columns of a matrix to columns of another one: nothing else may be written there, and little else needs to move. */
static void check_columns(void)
{
    enum { N = 512, RANKS = 2 };
    const size_t bytes = sizeof(double) * N * N;
    void *out, *in;
    MPI_Datatype column, types[RANKS];
    int counts[RANKS] = {1, 1}, from[RANKS], to[RANKS], wrong = 0;
    CHECK_STATUS(selvage_device_malloc(dropin.device, bytes, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(dropin.device, bytes, &in), SELVAGE_SUCCESS);
    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < N * N; i++) {
        ((double *)out)[i] = dropin.rank * N * N + i;
        ((double *)in)[i] = -1;
    }
    for (int r = 0; r < RANKS; r++) {
        types[r] = column;
        from[r] = (int)sizeof(double) * (10 + r);
        to[r] = (int)sizeof(double) * (N - 20 - r);
    }
    for (int again = 0; again < 2; again++)
        CHECK_EQ(MPI_Alltoallw(out, counts, from, types, in, counts, to, types, MPI_COMM_WORLD), MPI_SUCCESS);
    for (int i = 0; i < N * N; i++) {
        const int r = N - 20 - i % N;
        const double wanted = r >= 0 && r < RANKS ? r * N * N + i / N * N + 10 + dropin.rank : -1;
        wrong += ((double *)in)[i] != wanted;
    }
    CHECK_EQ(wrong, 0);
    MPI_Type_free(&column);
    selvage_device_free(dropin.device, out);
    selvage_device_free(dropin.device, in);
}

/* --- many --------------------------------------------------------------------------------------------------------- */

static void check_message(int n)
{
    rows_t r = make_rows(n, n, true);
    fill_rows(&r, n, 3, dropin.rank == 0 ? 0 : 251);
    if (dropin.rank == 0)
        CHECK_EQ(MPI_Send(r.memory, 1, r.type, 1, 2, MPI_COMM_WORLD), MPI_SUCCESS);
    else
        CHECK_EQ(MPI_Recv(r.memory, 1, r.type, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    check_rows(&r, n, 3, (size_t)n * ROW, 251);
    drop_rows(&r);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_collective(int n)
{
    rows_t r = make_rows(n, n, true);
    fill_rows(&r, n, 5, dropin.rank == 0 ? 0 : 251);
    CHECK_EQ(MPI_Bcast(r.memory, 1, r.type, 0, MPI_COMM_WORLD), MPI_SUCCESS);
    check_rows(&r, n, 5, (size_t)n * ROW, 251);
    drop_rows(&r);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_replace(int n)
{
    MPI_Datatype row;
    rows_t r = make_rows(n, n, false);
    MPI_Type_contiguous(ROW, MPI_BYTE, &row);
    MPI_Type_commit(&row);
    for (int i = 0; i < n; i++)
        memset(r.memory + (size_t)i * ROW, value_of(i, dropin.rank), ROW);
    CHECK_EQ(MPI_Sendrecv_replace(r.memory, n, row, 1 - dropin.rank, 0, 1 - dropin.rank, 0, MPI_COMM_WORLD,
                                  MPI_STATUS_IGNORE), MPI_SUCCESS);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += !is_all(r.memory + (size_t)i * ROW, value_of(i, 1 - dropin.rank), ROW);
    CHECK_EQ(wrong, 0);
    MPI_Type_free(&row);
    drop_rows(&r);
}

/* Rows of device memory without gaps. */
typedef struct plain {
    int n;
    uint8_t *memory;
} plain_t;

static plain_t make_plain(int n)
{
    plain_t p = {n, NULL};
    void *memory = NULL;
    if (n && selvage_device_malloc(dropin.device, (size_t)n * ROW, &memory) != SELVAGE_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    p.memory = memory;
    return p;
}

static void fill_plain(plain_t *p, int from, int n, int salt)
{
    for (int i = from; i < from + n; i++)
        memset(p->memory + (size_t)i * ROW, value_of(i, salt), ROW);
}

/* Rows from `from` on are rows `first` and so on of what was filled with this salt. */
static void check_plain(const char *what, const plain_t *p, int from, int n, int first, int salt)
{
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += !is_all(p->memory + (size_t)(from + i) * ROW, value_of(first + i, salt), ROW);
    if (wrong)
        printf("rank %d: %s: %d of %d rows are wrong\n", dropin.rank, what, wrong, n);
    CHECK_EQ(wrong, 0);
}

/* Without waiting, both ways, the sends synchronous; completed in any order. */
static void check_nonblocking(int n, MPI_Datatype row)
{
    plain_t out = make_plain(n), in = make_plain(n);
    MPI_Request requests[2];
    fill_plain(&out, 0, n, 7 + dropin.rank);
    CHECK_EQ(MPI_Irecv(in.memory, n, row, 1 - dropin.rank, 4, MPI_COMM_WORLD, &requests[0]), MPI_SUCCESS);
    CHECK_EQ(MPI_Issend(out.memory, n, row, 1 - dropin.rank, 4, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
    for (int i = 0; i < 2; i++) {
        int which = MPI_UNDEFINED;
        CHECK_EQ(MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    check_plain("Issend and Irecv", &in, 0, n, 0, 7 + 1 - dropin.rank);
    selvage_device_free(dropin.device, out.memory);
    selvage_device_free(dropin.device, in.memory);
}

/* A probed message, and one of a persistent request. */
static void check_probed(int n, MPI_Datatype row)
{
    plain_t p = make_plain(n);
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    MPI_Count count = 0;
    for (int turn = 0; turn < 2; turn++) {
        fill_plain(&p, 0, n, dropin.rank == 0 ? 9 + turn : 77);
        if (dropin.rank == 0 && turn == 0) {
            CHECK_EQ(MPI_Send(p.memory, n, row, 1, 5, MPI_COMM_WORLD), MPI_SUCCESS);
        } else if (dropin.rank == 0) {
            MPI_Send_init(p.memory, n, row, 1, 5, MPI_COMM_WORLD, &request);
            CHECK_EQ(MPI_Start(&request), MPI_SUCCESS);
            CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
            MPI_Request_free(&request);
        } else {
            CHECK_EQ(MPI_Mprobe(0, 5, MPI_COMM_WORLD, &message, &status), MPI_SUCCESS);
            CHECK_EQ(MPI_Mrecv(p.memory, n, row, &message, &status), MPI_SUCCESS);
            MPI_Get_elements_x(&status, MPI_BYTE, &count);
            CHECK_EQ(count, (MPI_Count)n * ROW);
            check_plain("Mrecv", &p, 0, n, 0, 9 + turn);
        }
    }
    selvage_device_free(dropin.device, p.memory);
}

/* Each rank adds its own number to each element. */
static void check_reductions(int n)
{
    plain_t p = make_plain(n);
    const size_t elements = (size_t)n * (ROW / sizeof(double));
    double *value = (double *)(void *)p.memory;
    for (int call = 0; call < 3; call++) {
        size_t wrong = 0;
        for (size_t i = 0; i < elements; i++)
            value[i] = (double)(i + (size_t)dropin.rank * 1000);
        const void *send = call == 1 && dropin.rank ? (void *)value : MPI_IN_PLACE;
        if (call == 0)
            CHECK_EQ(MPI_Allreduce(send, value, (int)elements, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
        else if (call == 1)
            CHECK_EQ(MPI_Reduce(send, dropin.rank ? NULL : value, (int)elements, MPI_DOUBLE, MPI_SUM, 0,
                                MPI_COMM_WORLD), MPI_SUCCESS);
        else
            CHECK_EQ(MPI_Scan(send, value, (int)elements, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
        const bool summed = call == 0 || dropin.rank == (call == 1 ? 0 : 1);
        for (size_t i = 0; i < elements; i++)
            wrong += value[i] != (summed ? (double)(2 * i + 1000) : (double)(i + (size_t)dropin.rank * 1000));
        CHECK_EQ(wrong, 0);
    }
    selvage_device_free(dropin.device, p.memory);
}

/* Half of the rows is each rank's own. */
static void check_gathers(int n, MPI_Datatype row)
{
    const int half = n / 2, salt = 11;
    const int counts[2] = {half, half}, displs[2] = {0, half};
    plain_t own = make_plain(half), all = make_plain(n);
    for (int call = 0; call < 3; call++) {
        const bool has = call < 2 || dropin.rank == 0;
        fill_plain(&own, 0, half, salt + dropin.rank);
        fill_plain(&all, 0, n, 99);
        if (call == 0)
            CHECK_EQ(MPI_Allgather(own.memory, half, row, all.memory, half, row, MPI_COMM_WORLD), MPI_SUCCESS);
        else if (call == 1)
            CHECK_EQ(MPI_Allgatherv(own.memory, half, row, all.memory, counts, displs, row, MPI_COMM_WORLD),
                     MPI_SUCCESS);
        else
            CHECK_EQ(MPI_Gather(own.memory, half, row, all.memory, half, row, 0, MPI_COMM_WORLD), MPI_SUCCESS);
        if (has) {
            check_plain("a gather, of rank 0", &all, 0, half, 0, salt);
            check_plain("a gather, of rank 1", &all, half, half, 0, salt + 1);
        }
        if (call == 2) { /* back again */
            fill_plain(&own, 0, half, 99);
            CHECK_EQ(MPI_Scatter(all.memory, half, row, own.memory, half, row, 0, MPI_COMM_WORLD), MPI_SUCCESS);
            check_plain("a scatter", &own, 0, half, 0, salt + dropin.rank);
        }
    }
    selvage_device_free(dropin.device, own.memory);
    selvage_device_free(dropin.device, all.memory);
}

static void check_alltoall(int n, MPI_Datatype row)
{
    const int half = n / 2, salt = 19, other = 1 - dropin.rank;
    plain_t from = make_plain(n), all = make_plain(n);
    fill_plain(&from, 0, n, salt + dropin.rank);
    CHECK_EQ(MPI_Alltoall(from.memory, half, row, all.memory, half, row, MPI_COMM_WORLD), MPI_SUCCESS);
    check_plain("an all-to-all, own", &all, dropin.rank * half, half, dropin.rank * half, salt + dropin.rank);
    check_plain("an all-to-all", &all, other * half, half, dropin.rank * half, salt + other);
    selvage_device_free(dropin.device, from.memory);
    selvage_device_free(dropin.device, all.memory);
}

/* Rows that lie far apart: what is packed is short, and what it is packed from is long. */
static void check_pack(int n)
{
    enum { EACH = 70 };
    MPI_Datatype type;
    int bytes = 0, at = 0, wrong = 0;
    plain_t p = make_plain(n), packed = make_plain(n / EACH + 2);
    MPI_Type_create_hvector(n / EACH, ROW, (MPI_Aint)EACH * ROW, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    fill_plain(&p, 0, n, 13);
    MPI_Pack_size(1, type, MPI_COMM_SELF, &bytes);
    CHECK(bytes >= n / EACH * ROW && (size_t)bytes <= (size_t)packed.n * ROW);
    CHECK_EQ(MPI_Pack(p.memory, 1, type, packed.memory, packed.n * ROW, &at, MPI_COMM_SELF), MPI_SUCCESS);
    for (int i = 0; i < n / EACH; i++) {
        wrong += !is_all(packed.memory + (size_t)i * ROW, value_of(i * EACH, 13), ROW);
        memset(p.memory + (size_t)i * EACH * ROW, 0, ROW);
    }
    CHECK_EQ(wrong, 0);
    const int end = at;
    at = 0;
    CHECK_EQ(MPI_Unpack(packed.memory, end, &at, p.memory, 1, type, MPI_COMM_SELF), MPI_SUCCESS);
    check_plain("Unpack", &p, 0, n, 0, 13);
    MPI_Type_free(&type);
    selvage_device_free(dropin.device, p.memory);
    selvage_device_free(dropin.device, packed.memory);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Open MPI 4.1 makes none without a way to read another process's memory. */
static bool has_host_window(int n)
{
    void *memory = dropin.rank == 1 ? mmap(NULL, (size_t)n * ROW, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : NULL;
    MPI_Win win = MPI_WIN_NULL;
    const int code = MPI_Win_create(memory, dropin.rank == 1 ? (MPI_Aint)n * ROW : 0, 1, MPI_INFO_NULL,
                                    MPI_COMM_WORLD, &win);
    if (code == MPI_SUCCESS)
        MPI_Win_free(&win);
    else if (dropin.rank == 0)
        printf("dropin_large: window: not tested: this MPI makes no window of so much host memory\n");
    if (memory)
        munmap(memory, (size_t)n * ROW);
    return code == MPI_SUCCESS;
}

/* The window is rank 1's; rank 0 writes to it, and reads it back. */
static void check_window(int n, MPI_Datatype row)
{
    if (!has_host_window(n))
        return;
    plain_t p = make_plain(n);
    MPI_Win win;
    fill_plain(&p, 0, n, dropin.rank == 0 ? 15 : 77);
    CHECK_EQ(MPI_Win_create(p.memory, dropin.rank == 1 ? (MPI_Aint)n * ROW : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                            &win), MPI_SUCCESS);
    MPI_Win_fence(0, win);
    if (dropin.rank == 0)
        CHECK_EQ(MPI_Put(p.memory, n, row, 1, 0, n, row, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
    if (dropin.rank == 1)
        check_plain("Put", &p, 0, n, 0, 15);
    else
        fill_plain(&p, 0, n, 77);
    CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
    if (dropin.rank == 0)
        CHECK_EQ(MPI_Get(p.memory, n, row, 1, 0, n, row, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
    if (dropin.rank == 0)
        check_plain("Get", &p, 0, n, 0, 15);
    MPI_Win_free(&win);
    selvage_device_free(dropin.device, p.memory);
}

static void check_file(int n, MPI_Datatype row)
{
    char path[4096];
    MPI_File file;
    MPI_Status status;
    MPI_Count count = 0;
    const char *folder = getenv("TMPDIR");
    if (dropin.rank == 0) {
        plain_t p = make_plain(n);
        snprintf(path, sizeof path, "%s/dropin_large.%ld", folder ? folder : "/tmp", (long)getpid());
        fill_plain(&p, 0, n, 17);
        CHECK_EQ(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                               MPI_INFO_NULL, &file), MPI_SUCCESS);
        CHECK_EQ(MPI_File_write_at(file, 0, p.memory, n, row, &status), MPI_SUCCESS);
        fill_plain(&p, 0, n, 77);
        CHECK_EQ(MPI_File_read_at(file, 0, p.memory, n, row, &status), MPI_SUCCESS);
        MPI_Get_elements_x(&status, MPI_BYTE, &count);
        CHECK_EQ(count, (MPI_Count)n * ROW);
        check_plain("a file", &p, 0, n, 0, 17);
        MPI_File_close(&file);
        selvage_device_free(dropin.device, p.memory);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static bool is_wanted(char **names, const char *name)
{
    bool wanted = !*names;
    for (; *names; names++)
        wanted |= strcmp(*names, name) == 0;
    if (wanted && dropin.rank == 0) {
        printf("dropin_large: %s\n", name);
        fflush(stdout);
    }
    return wanted;
}

/* Each kind of call, with one type for a row. argv: the names of those that are wanted, or all. */
static void check_kinds(int n, char **names)
{
    static const struct {
        const char *name;
        void (*check)(int n, MPI_Datatype row);
    } kind[] = {{"nonblocking", check_nonblocking}, {"probed", check_probed}, {"gathers", check_gathers},
                {"alltoall", check_alltoall}, {"window", check_window}, {"file", check_file}};
    MPI_Datatype row;
    MPI_Type_contiguous(ROW, MPI_BYTE, &row);
    MPI_Type_commit(&row);
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        if (is_wanted(names, kind[i].name))
            kind[i].check(n, row);
    MPI_Type_free(&row);
    if (is_wanted(names, "reductions"))
        check_reductions(n);
    if (is_wanted(names, "pack"))
        check_pack(n);
}

int main(int argc, char **argv)
{
    enum { ROWS = 2100 }; /* 2.05 GiB */
    int cases;
    dropin_begin(1, argv, MPI_THREAD_SINGLE, &cases);
    if (argc > 1 && strcmp(argv[1], "many") == 0) {
        if (argc == 2 || strcmp(argv[2], "types") == 0) {
            check_few(RECV, 5200);
            check_message(ROWS);
            check_collective(ROWS);
            check_replace(ROWS);
        }
        check_kinds(ROWS, argv + 2);
    } else {
        for (int kind = 0; kind < KINDS; kind++)
            check_few((kind_t)kind, ROWS);
        check_columns();
    }
    return dropin_end("dropin_large");
}
