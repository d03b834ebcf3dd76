/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datatypes taken apart, beside what the MPI makes of them: a few hundred random nests of every constructor, each
 * packed and unpacked through its map on the host and compared with MPI_Pack and MPI_Unpack byte for byte. Overlaps,
 * against a count of how often each byte is named. What is regular must stay regular. No handle may be left, and no
 * memory, also when memory runs out on the way.
 */
#include <mpi.h>
#include <stdlib.h>

#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "fixtures/datatype_random.h"
#include "pipeline/pipe_layout_type.h"
#include "wire/wire_mpi_datatype.h"

enum { CASES = 600, BYTES_MAX = 4000, SPAN_MAX = 1 << 18, COUNT_MAX = 3 };

static const char *const call = "test_datatype";
static int overlapping, apart;
static unsigned case_number;

/* Runs of a map in order: copies out of memory (base is offset 0), or into it, or counts what is named. */
typedef enum deed { DEED_PACK, DEED_UNPACK, DEED_COUNT } deed_t;

static void walk(const sv_type_map_t *map, uint8_t *base, uint8_t *stream, deed_t deed)
{
    for (size_t i = 0; i < map->npieces; i++) {
        const sv_type_piece_t *piece = &map->pieces[i];
        for (uint64_t r = 0, n = sv_type_piece_runs(map, piece); r < n; r++) {
            uint8_t *run = base + sv_type_piece_run_offset(map, piece, r);
            if (deed == DEED_PACK)
                memcpy(stream, run, piece->run_bytes);
            if (deed == DEED_UNPACK)
                memcpy(run, stream, piece->run_bytes);
            for (uint64_t b = 0; deed == DEED_COUNT && b < piece->run_bytes; b++)
                run[b] += run[b] < 2;
            stream += deed == DEED_COUNT ? 0 : piece->run_bytes;
        }
    }
}

static void fill(datatype_random_t *random, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)datatype_pick(random, 256);
}

/* A type with memory around it. */
typedef struct bench {
    MPI_Datatype type;
    int count;
    int64_t low;
    size_t span, bytes;       /* of memory, of the stream */
    uint8_t *memory, *other;  /* offset 0 is at memory - low */
    uint8_t *stream, *wanted;
} bench_t;

static void open_bench(bench_t *b, datatype_random_t *random, int count, const sv_type_map_t *map)
{
    b->count = count;
    b->low = map->low - 64;
    b->span = (size_t)(map->high - map->low) + 128;
    b->bytes = map->bytes;
    b->memory = malloc(b->span);
    b->other = malloc(b->span);
    b->stream = malloc(b->bytes + 1);
    b->wanted = malloc(b->bytes + 1);
    fill(random, b->memory, b->span);
}

static void close_bench(bench_t *b)
{
    free(b->memory);
    free(b->other);
    free(b->stream);
    free(b->wanted);
}

/* Address arithmetic with numbers: offset 0 need not lie in the memory. */
static uint8_t *origin(const bench_t *b, uint8_t *memory)
{
    return (uint8_t *)((uintptr_t)memory - (uintptr_t)b->low);
}

static bool check_pack(bench_t *b, const sv_type_map_t *map)
{
    int position = 0;
    MPI_Pack(origin(b, b->memory), b->count, b->type, b->wanted, (int)b->bytes, &position, MPI_COMM_SELF);
    walk(map, origin(b, b->memory), b->stream, DEED_PACK);
    CHECK_EQ(position, b->bytes);
    bool same = memcmp(b->stream, b->wanted, b->bytes) == 0;
    CHECK(same);
    return same;
}

static bool check_unpack(bench_t *b, datatype_random_t *random, const sv_type_map_t *map)
{
    int position = 0;
    fill(random, b->memory, b->span);
    fill(random, b->stream, b->bytes);
    memcpy(b->other, b->memory, b->span);
    MPI_Unpack(b->stream, (int)b->bytes, &position, origin(b, b->other), b->count, b->type, MPI_COMM_SELF);
    walk(map, origin(b, b->memory), b->stream, DEED_UNPACK);
    bool same = memcmp(b->memory, b->other, b->span) == 0;
    CHECK(same);
    return same;
}

static bool check_overlap(bench_t *b, const sv_type_map_t *map)
{
    bool twice = false;
    memset(b->other, 0, b->span);
    walk(map, origin(b, b->other), NULL, DEED_COUNT);
    for (size_t i = 0; i < b->span; i++)
        twice = twice || b->other[i] > 1;
    CHECK_STATUS(sv_layout_check_overlap(call, map), twice ? SELVAGE_ERR_ARGUMENT : SELVAGE_SUCCESS);
    overlapping += twice;
    apart += !twice;
    return twice;
}

static void check_bounds(MPI_Datatype type, const sv_type_map_t *one)
{
    MPI_Count low, extent, bytes;
    MPI_Type_get_true_extent_x(type, &low, &extent);
    MPI_Type_size_x(type, &bytes);
    CHECK_EQ(one->bytes, bytes);
    if (bytes == 0) /* whose bounds are a matter of taste */
        return;
    CHECK_EQ(one->low, low);
    CHECK_EQ(one->high - one->low, extent);
}

static void check_type(datatype_random_t *random, MPI_Datatype type, int count)
{
    sv_type_map_t one = {0}, map = {0};
    bench_t b = {.type = type};
    CHECK_STATUS(sv_wire_mpi_flatten(call, 1, type, &one), SELVAGE_SUCCESS);
    check_bounds(type, &one);
    CHECK_STATUS(sv_wire_mpi_flatten(call, (uint64_t)count, type, &map), SELVAGE_SUCCESS);
    CHECK_EQ(map.bytes, one.bytes * (uint64_t)count);
    open_bench(&b, random, count, &map);
    bool good = check_pack(&b, &map);
    if (!check_overlap(&b, &map))
        good = check_unpack(&b, random, &map) && good;
    if (!good)
        fprintf(stderr, "case %u: %d elements, %zu bytes, %zu pieces\n", case_number, count, b.bytes, map.npieces);
    close_bench(&b);
    sv_type_map_fini(&one);
    sv_type_map_fini(&map);
}

/* MPICH 4.0 packs several elements wrong if each begins within the one before. */
static int pick_count(datatype_random_t *random, MPI_Datatype type)
{
    MPI_Aint low, extent, span;
    MPI_Type_get_extent(type, &low, &extent);
    MPI_Type_get_true_extent(type, &low, &span);
    return (int)datatype_pick(random, labs(extent) < span ? 2 : COUNT_MAX + 1);
}

static void test_random(unsigned first_case, unsigned cases)
{
    static const int combiners[] = {MPI_COMBINER_DUP, MPI_COMBINER_CONTIGUOUS, MPI_COMBINER_VECTOR,
        MPI_COMBINER_HVECTOR, MPI_COMBINER_INDEXED, MPI_COMBINER_HINDEXED, MPI_COMBINER_INDEXED_BLOCK,
        MPI_COMBINER_HINDEXED_BLOCK, MPI_COMBINER_STRUCT, MPI_COMBINER_SUBARRAY, MPI_COMBINER_RESIZED};
    datatype_random_t random = {0};
    for (case_number = first_case; case_number < first_case + cases; case_number++) {
        random.state = case_number * UINT64_C(0x9e3779b97f4a7c15);
        random.overlaps = case_number % 3 == 2;
        MPI_Datatype type = datatype_make(&random, datatype_pick_bytes(&random, BYTES_MAX), SPAN_MAX);
        check_type(&random, type, pick_count(&random, type));
        datatype_drop(&type);
        CHECK_EQ(datatype_alive(), 0);
        CHECK_EQ(sv_memory_live(), 0);
    }
    for (size_t i = 0; cases == CASES && i < sizeof combiners / sizeof combiners[0]; i++)
        CHECK(random.made[combiners[i]] > 10);
}

static void check_whole(MPI_Datatype type)
{
    sv_type_map_t map = {0};
    datatype_random_t random = {.state = 5};
    MPI_Type_commit(&type);
    check_type(&random, type, 2);
    CHECK_STATUS(sv_wire_mpi_flatten(call, 1, type, &map), SELVAGE_SUCCESS);
    sv_type_map_fini(&map);
    datatype_drop(&type);
}

/* A type of so many bytes must become so many pieces, the first of so many dimensions. */
static void check_form(const char *what, MPI_Datatype type, uint64_t count, size_t npieces, unsigned ndims)
{
    sv_type_map_t map = {0};
    CHECK_STATUS(sv_wire_mpi_flatten(call, count, type, &map), SELVAGE_SUCCESS);
    bool good = map.npieces == npieces && map.npieces > 0 && map.pieces[0].ndims == ndims;
    CHECK(good);
    if (!good)
        fprintf(stderr, "%s: %zu pieces, the first of %u dimensions; wanted %zu and %u\n", what, map.npieces,
                map.npieces ? map.pieces[0].ndims : 0, npieces, ndims);
    sv_type_map_fini(&map);
    datatype_drop(&type);
}

/* Nothing in it: no count, blocks of no length, members of no length, and predefined types one by one. */
static void test_corners(void)
{
    int zero[3] = {0, 0, 0}, where[3] = {4, 0, 9}, length[3] = {0, 2, 0};
    MPI_Aint address[3] = {8, 64, -8};
    MPI_Datatype basic[] = {MPI_SHORT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_FLOAT_INT,
        MPI_C_BOOL, MPI_WCHAR, MPI_PACKED, MPI_AINT, MPI_UINT16_T};
    MPI_Datatype wide[] = {MPI_LONG_DOUBLE, MPI_LONG_DOUBLE_INT, MPI_C_LONG_DOUBLE_COMPLEX};
    MPI_Datatype mixed[3] = {MPI_SHORT_INT, MPI_CHAR, MPI_DOUBLE}, type;
    MPI_Type_contiguous(0, MPI_INT, &type);
    check_whole(type);
    MPI_Type_vector(3, 0, 2, MPI_INT, &type);
    check_whole(type);
    MPI_Type_indexed(3, zero, where, MPI_INT, &type);
    check_whole(type);
    MPI_Type_indexed(3, length, where, MPI_INT, &type);
    check_whole(type);
    MPI_Type_create_struct(3, zero, address, mixed, &type);
    check_whole(type);
    MPI_Type_create_struct(3, length, address, mixed, &type);
    check_whole(type);
    MPI_Type_create_f90_real(12, MPI_UNDEFINED, &type);
    datatype_random_t random = {.state = 6};
    check_type(&random, type, 2);
    for (size_t i = 0; i < sizeof basic / sizeof basic[0]; i++)
        check_type(&random, basic[i], 3);
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        check_form("long double", wide[i], 1, 1, 0);
}

static void test_boxes(void)
{
    enum { MANY = 5000000 };
    int size[4] = {700, 600, 500, 400}, face[4] = {700, 600, 1, 400}, start[4] = {0, 0, 3, 0}, part[4] = {2, 2, 2, 2};
    MPI_Datatype type, inner, row;
    MPI_Type_vector(MANY, 1, 3, MPI_DOUBLE, &type);
    check_form("vector", type, 1, 1, 1);
    MPI_Type_vector(MANY, 3, 3, MPI_DOUBLE, &type);
    check_form("vector without gaps", type, 7, 1, 0);
    MPI_Type_create_subarray(4, size, face, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    check_form("face, C", type, 1, 1, 1);
    MPI_Type_create_subarray(4, size, face, start, MPI_ORDER_FORTRAN, MPI_DOUBLE, &type);
    check_form("face, Fortran", type, 1, 1, 1);
    MPI_Type_create_subarray(4, size, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    check_form("corner", type, 1, 1, 3);
    MPI_Type_create_subarray(4, size, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    check_form("corners in a row", type, MANY, 1, 4);
    MPI_Type_vector(1000, 1, 1000, MPI_INT, &inner);
    MPI_Type_create_resized(inner, 0, 4, &type);
    datatype_drop(&inner);
    check_form("transposed", type, 1000, 1, 2);
    MPI_Type_create_hvector(MANY, 1, -24, MPI_DOUBLE, &type);
    check_form("backwards", type, 1, 1, 1);
    MPI_Type_contiguous(4, MPI_FLOAT, &row);
    MPI_Type_create_hvector(100, 1, 4096, row, &inner);
    MPI_Type_create_hvector(100, 1, 8 << 20, inner, &type);
    datatype_drop(&row);
    datatype_drop(&inner);
    check_form("hvectors", type, 1, 1, 2);
}

static void test_irregular(void)
{
    enum { N = 1000 };
    static int where[N];
    MPI_Aint address[4] = {0, 8, 16, 40};
    int length[4] = {1, 2, 4, 1};
    MPI_Datatype four[4] = {MPI_DOUBLE, MPI_INT, MPI_SHORT, MPI_CHAR}, type, inner;
    for (int i = 0; i < N; i++)
        where[i] = 7 * i;
    MPI_Type_create_indexed_block(N, 2, where, MPI_INT, &type);
    check_form("regular list", type, 1, 1, 1);
    for (int i = 0; i < N; i++)
        where[i] = 3 * i;
    MPI_Type_create_indexed_block(N, 3, where, MPI_INT, &type);
    check_form("list without gaps", type, 1, 1, 0);
    for (int i = 0; i < N; i++)
        where[i] = i * i;
    MPI_Type_create_indexed_block(N, 1, where, MPI_INT, &type);
    check_form("squares", type, 1, N - 1, 0); /* 0 and 1 touch */
    MPI_Type_create_struct(4, length, address, four, &type);
    check_form("struct", type, 1, 2, 0);
    MPI_Type_create_struct(4, length, address, four, &inner);
    MPI_Type_create_resized(inner, 0, 41, &type);
    datatype_drop(&inner);
    check_form("structs that touch", type, 3, 4, 0);
    for (int i = 0; i < 4; i++)
        address[i] = 64 * i;
    MPI_Type_create_hindexed_block(4, 2, address, MPI_INT, &inner);
    MPI_Type_create_hvector(N, 1, 1024, inner, &type);
    datatype_drop(&inner);
    check_form("few blocks of many", type, 1, 1, 2);
}

static void check_refused(MPI_Datatype type, uint64_t count, selvage_status_t status, const char *text)
{
    sv_type_map_t map = {0};
    CHECK_STATUS(sv_wire_mpi_flatten(call, count, type, &map), status);
    bool said = strstr(selvage_error_detail(), text) != NULL && strstr(selvage_error_detail(), "test_datatype: type");
    CHECK(said);
    if (!said)
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", text, selvage_error_detail());
    CHECK(map.pieces == NULL);
    datatype_drop(&type);
    CHECK_EQ(sv_memory_live(), 0);
}

static void test_refusals(void)
{
    int size[2] = {8, 8}, how[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, ranks[2] = {2, 2};
    int any[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Datatype type, inner;
    MPI_Type_create_darray(4, 1, 2, size, how, any, ranks, MPI_ORDER_C, MPI_INT, &inner);
    MPI_Type_vector(2, 1, 3, inner, &type);
    MPI_Type_set_name(type, "blocks of Eve");
    datatype_drop(&inner);
    check_refused(type, 1, SELVAGE_ERR_UNSUPPORTED, "type blocks of Eve: MPI_COMBINER_DARRAY");
    check_refused(MPI_DATATYPE_NULL, 1, SELVAGE_ERR_ARGUMENT, "it is MPI_DATATYPE_NULL");
    check_refused(MPI_DOUBLE, UINT64_MAX, SELVAGE_ERR_ARGUMENT, "beyond 2^62 bytes");
    MPI_Type_create_hvector(4, 1, (MPI_Aint)1 << 61, MPI_INT, &type);
    check_refused(type, 1, SELVAGE_ERR_ARGUMENT, "beyond 2^62 bytes");
    MPI_Type_create_hvector(4, 1, -((MPI_Aint)1 << 61), MPI_INT, &type);
    check_refused(type, 1, SELVAGE_ERR_ARGUMENT, "beyond 2^62 bytes");
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 16}, (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR}, &type);
    check_refused(type, UINT64_C(1) << 40, SELVAGE_ERR_LIMIT, "pieces that nothing regular describes");
    CHECK_EQ(datatype_alive(), 0);
}

#if MPI_VERSION >= 4
/* Made with large counts, which envelopes tell apart. */
static void test_large_counts(void)
{
    MPI_Count length[2] = {1, 2}, where[2] = {3, 9}, size[2] = {4, 5}, part[2] = {2, 2}, start[2] = {1, 1};
    MPI_Datatype mixed[2] = {MPI_SHORT_INT, MPI_CHAR}, type;
    MPI_Type_contiguous_c(3, MPI_INT, &type);
    check_whole(type);
    MPI_Type_vector_c(3, 2, 4, MPI_INT, &type);
    check_whole(type);
    MPI_Type_create_hvector_c(3, 2, 40, MPI_INT, &type);
    check_whole(type);
    MPI_Type_indexed_c(2, length, where, MPI_INT, &type);
    check_whole(type);
    MPI_Type_create_hindexed_c(2, length, where, MPI_INT, &type);
    check_whole(type);
    MPI_Type_create_indexed_block_c(2, 5, where, MPI_INT, &type);
    check_whole(type);
    MPI_Type_create_hindexed_block_c(2, 5, where, MPI_CHAR, &type);
    check_whole(type);
    MPI_Type_create_struct_c(2, length, where, mixed, &type);
    check_whole(type);
    MPI_Type_create_subarray_c(2, size, part, start, MPI_ORDER_C, MPI_INT, &type);
    check_whole(type);
    MPI_Type_create_subarray_c(2, size, part, start, MPI_ORDER_FORTRAN, MPI_INT, &type);
    check_whole(type);
    MPI_Type_create_resized_c(MPI_INT, -4, 100, &type);
    check_whole(type);
}
#endif

/* Each allocation fails once: an error, and nothing is left. */
static void test_no_memory(void)
{
    datatype_random_t random = {.state = 77};
    MPI_Datatype type = MPI_DATATYPE_NULL;
    selvage_status_t status = SELVAGE_ERR_MEMORY;
    int failures = 0;
    while (random.made[MPI_COMBINER_STRUCT] + random.made[MPI_COMBINER_INDEXED] < 3) {
        datatype_drop(&type);
        type = datatype_make(&random, 2880, SPAN_MAX);
    }
    int before = datatype_alive();
    for (int nth = 1; status != SELVAGE_SUCCESS && nth < 10000; nth++) {
        sv_type_map_t map = {0};
        sv_fault_t fault;
        char spec[32];
        snprintf(spec, sizeof spec, "alloc=%d", nth);
        CHECK_STATUS(sv_fault_parse(spec, 0, &fault), SELVAGE_SUCCESS);
        sv_thread_binding()->fault = &fault;
        status = sv_wire_mpi_flatten(call, 2, type, &map);
        if (status == SELVAGE_SUCCESS)
            status = sv_layout_check_overlap(call, &map);
        sv_thread_binding()->fault = NULL;
        CHECK(status == SELVAGE_SUCCESS || status == SELVAGE_ERR_MEMORY);
        failures += status == SELVAGE_ERR_MEMORY;
        sv_type_map_fini(&map);
        CHECK_EQ(sv_memory_live(), 0);
    }
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    CHECK(failures > 5);
    CHECK_EQ(datatype_alive(), before);
    datatype_drop(&type);
    CHECK_EQ(datatype_alive(), 0);
}

/* A few small boxes with anything for strides, among each other and twice over: about half of them overlap. */
static void random_boxes(datatype_random_t *random, sv_type_map_t *map)
{
    sv_type_map_t box = {0};
    unsigned boxes = 1 + datatype_pick(random, 4), ndims = datatype_pick(random, 4);
    int64_t stride[3];
    for (unsigned d = 0; d < 3; d++)
        stride[d] = (int64_t)datatype_pick(random, 1u << (2 + 2 * d)) - (d == 0 && datatype_pick(random, 2) ? 3 : 0);
    for (unsigned b = 0; b < boxes; b++) {
        sv_type_map_clear(&box);
        CHECK_STATUS(sv_type_map_add_run(&box, 0, 1 + datatype_pick(random, 2)), SELVAGE_SUCCESS);
        for (unsigned d = 0; d < ndims; d++)
            CHECK_STATUS(sv_type_map_repeat(&box, 2 + datatype_pick(random, 2), stride[d]), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_type_map_add_map(map, &box, datatype_pick(random, 60)), SELVAGE_SUCCESS);
        stride[datatype_pick(random, 3)] += datatype_pick(random, 5) == 0;
    }
    sv_type_map_fini(&box);
}

static void test_overlaps(void)
{
    enum { LOW = 4096, BYTES = 2 * LOW };
    static uint8_t named[BYTES];
    datatype_random_t random = {.state = 3};
    unsigned found = 0;
    for (unsigned i = 0; i < 5000; i++) {
        sv_type_map_t map = {0};
        bool twice = false;
        memset(named, 0, sizeof named);
        random_boxes(&random, &map);
        walk(&map, named + LOW, NULL, DEED_COUNT);
        for (size_t b = 0; b < sizeof named; b++)
            twice = twice || named[b] > 1;
        if (sv_layout_check_overlap(call, &map) != (twice ? SELVAGE_ERR_ARGUMENT : SELVAGE_SUCCESS)) {
            CHECK(!"overlap");
            fprintf(stderr, "boxes %u, which %s\n", i, twice ? "overlap" : "do not overlap");
        }
        found += twice;
        sv_type_map_fini(&map);
    }
    CHECK(found > 1000 && found < 4000);
    printf("%u of 5000 boxes overlapped\n", found);
}

/* Large ones are judged without a look at every run, and right. */
static void test_large_overlaps(void)
{
    enum { N = 1 << 30 };
    MPI_Aint apart_by_8[2] = {0, 8}, apart_by_4[2] = {0, 4};
    MPI_Datatype column, type;
    sv_type_map_t map = {0};
    MPI_Type_vector(N, 1, 4, MPI_DOUBLE, &column);
    MPI_Type_create_hindexed_block(2, 1, apart_by_8, column, &type);
    CHECK_STATUS(sv_wire_mpi_flatten(call, 1, type, &map), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_layout_check_overlap(call, &map), SELVAGE_SUCCESS);
    sv_type_map_fini(&map);
    datatype_drop(&type);
    MPI_Type_create_hindexed_block(2, 1, apart_by_4, column, &type);
    CHECK_STATUS(sv_wire_mpi_flatten(call, 1, type, &map), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_layout_check_overlap(call, &map), SELVAGE_ERR_ARGUMENT);
    CHECK(strstr(selvage_error_detail(), "test_datatype: type: elements overlap") != NULL);
    sv_type_map_fini(&map);
    datatype_drop(&type);
    datatype_drop(&column);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    sv_thread_binding()->log_level = 0; /* refusals are wanted here */
    if (argc > 1) { /* one case again */
        test_random((unsigned)atoi(argv[1]), 1);
    } else {
        test_random(0, CASES);
        CHECK(overlapping > CASES / 20 && apart > CASES / 3);
    }
    test_corners();
    test_boxes();
    test_irregular();
    test_refusals();
#if MPI_VERSION >= 4
    test_large_counts();
#endif
    test_no_memory();
    test_overlaps();
    test_large_overlaps();
    printf("%d types overlapped, %d did not\n", overlapping, apart);
    MPI_Finalize();
    return check_report("test_datatype");
}
