/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_random [SEED [STEPS [FIRST [say]]]]: random calls of MPI with memory of all kinds, each beside MPI's own on
 * host memory. It knows nothing of the drop-in, and is right without it as well. What fails names its step, from which
 * FIRST begins; with a fourth argument each step says what it is. The numbers of ranks and steps are the caller's.
 */
#include "dropin_random.h"

#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"

rounds_t now;

/* Open MPI 4.1 has no windows for sub-communicators of one node without single copies. */
#if defined(OPEN_MPI)
enum { HAS_WINDOWS = 0 };
#else
enum { HAS_WINDOWS = 1 };
#endif

static struct {
    selvage_device_t *device;
    void *stream;
    uint8_t *memory[AREAS][MEMORIES], *like[AREAS], *seen;
} areas;

/* Finalizer of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

unsigned draw(unsigned n, const char *what, int item, int rank)
{
    uint64_t hash = mix(now.seed) ^ (uint64_t)now.step;
    for (const char *at = what; *at; at++)
        hash = mix(hash ^ (uint64_t)*at);
    hash = mix(hash ^ ((uint64_t)(uint32_t)item << 32 | (uint32_t)(rank + 1)));
    return (unsigned)(hash >> 32) % n;
}

int draw_count(const char *what, int item, int most)
{
    static const int around[] = {0, 1, 3, 16, 61, 64, 256, 511, 1024, 2048, 4096, 8192, 16384, 40000, 131072, 400000};
    const unsigned kinds = draw_alike(8, what, item) ? 13 : 16; /* the longest are rare */
    int n = around[draw_alike(kinds, what, item + 1000)];
    if (n > 64)
        n += (int)draw_alike(3, what, item + 2000) - 1;
    return n < most ? n : most;
}

element_t draw_element(int item)
{
    const element_t elements[] = {{MPI_BYTE, 1}, {MPI_CHAR, 1}, {MPI_SHORT, 2}, {MPI_INT, 4},
                                  {MPI_FLOAT, 4}, {MPI_DOUBLE, 8}, {MPI_INT64_T, 8}};
    return elements[draw_alike(sizeof elements / sizeof elements[0], "element", item)];
}

/* --- types -------------------------------------------------------------------------------------------------------- */

/* Blocks of different lengths with gaps between. Returns the end, in elements. */
static int make_indexed(element_t element, int n, int item, MPI_Datatype *type_out)
{
    enum { BLOCKS = 40 };
    int lengths[BLOCKS], at[BLOCKS], blocks = 0, left = n, end = 0;
    while (left > 0) {
        int length = blocks == BLOCKS - 1 ? left : 1 + (int)draw((unsigned)left, "block", item * 64 + blocks, now.rank);
        at[blocks] = end + (int)draw(4, "gap", item * 64 + blocks, now.rank);
        lengths[blocks] = length;
        end = at[blocks++] + length;
        left -= length;
    }
    MPI_Type_indexed(blocks, lengths, at, element.type, type_out);
    return end;
}

shape_t make_shape(element_t element, int n, int item, bool plain)
{
    /* Longer columns Open MPI 4.1 does not gather whole: 8193 doubles of a rank's own come without the last. */
    enum { ROW, CONTIGUOUS, VECTOR, INDEXED, RESIZED, KINDS, COLUMNS_MOST = 8192 };
    shape_t shape = {.type = element.type, .count = n, .n = n};
    unsigned kind = plain || n == 0 ? ROW : draw(n <= COLUMNS_MOST ? KINDS : RESIZED, "kind", item, now.rank);
    const int length = n % 8 == 0 ? 8 : n % 3 == 0 ? 3 : 1, gap = 1 + (int)draw(3, "stride", item, now.rank);
    int end = n;
    MPI_Datatype block;
    switch (kind) {
    case CONTIGUOUS:
        MPI_Type_contiguous(n, element.type, &shape.type);
        break;
    case VECTOR:
        MPI_Type_vector(n / length, length, length + gap, element.type, &shape.type);
        end = (n / length - 1) * (length + gap) + length;
        break;
    case RESIZED: /* as columns are sent */
        MPI_Type_contiguous(length, element.type, &block);
        MPI_Type_create_resized(block, 0, (MPI_Aint)(length + gap) * element.bytes, &shape.type);
        MPI_Type_free(&block);
        end = (n / length - 1) * (length + gap) + length;
        break;
    case INDEXED:
        end = make_indexed(element, n, item, &shape.type);
        break;
    default:
        break;
    }
    shape.made = kind != ROW;
    if (shape.made) {
        MPI_Type_commit(&shape.type);
        shape.count = kind == RESIZED ? n / length : 1;
    }
    MPI_Aint low, extent;
    MPI_Type_get_extent(shape.type, &low, &extent);
    shape.pitch = (size_t)extent * (size_t)shape.count;
    shape.span = (size_t)end * (size_t)element.bytes;
    return shape;
}

void free_shape(shape_t *shape)
{
    if (shape->made)
        MPI_Type_free(&shape->type);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void copy(void *to, const void *from, size_t bytes, bool on_device, selvage_copy_t direction)
{
    if (!on_device) {
        memcpy(to, from, bytes);
        return;
    }
    CHECK_STATUS(selvage_device_copy(areas.device, to, from, bytes, direction, areas.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(areas.device, areas.stream), SELVAGE_SUCCESS);
}

/* Numbers from 0 to 3, of which 16 multiply and add up exactly in each type but for bytes, where they wrap alike. */
static void fill(uint8_t *like, size_t bytes, element_t element, int area)
{
    uint64_t hash = mix(now.seed ^ mix((uint64_t)now.step << 20 | (uint64_t)area << 12 | (uint64_t)now.rank));
    for (size_t i = 0; i < bytes / (size_t)element.bytes; i++) {
        hash = hash * UINT64_C(6364136223846793005) + 1442695040888963407;
        const int number = (int)(hash >> 62);
        if (element.type == MPI_DOUBLE)
            ((double *)(void *)like)[i] = number;
        else if (element.type == MPI_FLOAT)
            ((float *)(void *)like)[i] = (float)number;
        else if (element.type == MPI_SHORT)
            ((int16_t *)(void *)like)[i] = (int16_t)number;
        else if (element.type == MPI_INT)
            ((int32_t *)(void *)like)[i] = number;
        else if (element.type == MPI_INT64_T)
            ((int64_t *)(void *)like)[i] = number;
        else
            like[i] = (uint8_t)number;
    }
}

static place_t open_place_by(int area, size_t span, element_t element, size_t unit_bytes)
{
    place_t place = {.area = area, .compared = span + GUARD_BYTES};
    /* Most memory is the device's, and of some ranks all is. */
    const unsigned kind = draw(8, "memory", area, now.rank);
    place.memory = kind < 6 || draw(3, "device only", 0, now.rank) == 0 ? ON_DEVICE : kind == 6 ? PINNED : ON_HOST;
    place.begin = unit_bytes * draw(20, "offset", area, now.rank);
    CHECK(place.begin + span + GUARD_BYTES <= AREA_BYTES);
    fill(areas.like[area], place.begin + span + GUARD_BYTES, element, area);
    copy(areas.memory[area][place.memory], areas.like[area], place.begin + span + GUARD_BYTES,
         place.memory == ON_DEVICE, SELVAGE_COPY_HOST_TO_DEVICE);
    place.at = areas.memory[area][place.memory] + place.begin;
    place.like = areas.like[area] + place.begin;
    return place;
}

place_t open_place(int area, size_t span, element_t element)
{
    return open_place_by(area, span, element, (size_t)element.bytes);
}

place_t open_window_place(int area, size_t span, element_t element)
{
    enum { LINE_BYTES = 64 };
    return open_place_by(area, span, element, LINE_BYTES);
}

void check_place(const place_t *place)
{
    const size_t bytes = place->begin + place->compared;
    size_t at = 0;
    copy(areas.seen, areas.memory[place->area][place->memory], bytes, place->memory == ON_DEVICE,
         SELVAGE_COPY_DEVICE_TO_HOST);
    if (memcmp(areas.seen, areas.like[place->area], bytes) == 0)
        at = bytes;
    while (at < bytes && areas.seen[at] == areas.like[place->area][at])
        at++;
    CHECK_EQ(at, bytes);
    if (at < bytes)
        printf("rank %d, seed %llu, step %d: byte %lld of %zu in memory %d of area %d is %d, not %d: %s\n", now.rank,
               (unsigned long long)now.seed, now.step, (long long)at - (long long)place->begin, place->compared,
               place->memory, place->area, areas.seen[at], areas.like[place->area][at], now.text);
}

static void open_areas(void)
{
    CHECK_STATUS(selvage_device_open_local(NULL, &areas.device), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(areas.device, &areas.stream), SELVAGE_SUCCESS);
    areas.seen = malloc(AREA_BYTES);
    for (int i = 0; i < AREAS; i++) {
        void *memory = NULL;
        areas.like[i] = malloc(AREA_BYTES);
        areas.memory[i][ON_HOST] = malloc(AREA_BYTES);
        CHECK_STATUS(selvage_device_malloc(areas.device, AREA_BYTES, &memory), SELVAGE_SUCCESS);
        areas.memory[i][ON_DEVICE] = memory;
        CHECK_STATUS(selvage_device_host_malloc(areas.device, AREA_BYTES, &memory), SELVAGE_SUCCESS);
        areas.memory[i][PINNED] = memory;
    }
}

static void close_areas(void)
{
    for (int i = 0; i < AREAS; i++) {
        free(areas.like[i]);
        free(areas.memory[i][ON_HOST]);
        selvage_device_free(areas.device, areas.memory[i][ON_DEVICE]);
        selvage_device_host_free(areas.device, areas.memory[i][PINNED]);
    }
    free(areas.seen);
    selvage_stream_destroy(areas.device, areas.stream);
    selvage_device_close(areas.device);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

enum { COMMS = 5, BOTH = 2 };

/* All ranks; the same, and the other way round; halves; and all but the last. Rows and rings of each. */
static void make_comms(MPI_Comm comms[COMMS], MPI_Comm twins[COMMS], MPI_Comm lines[COMMS][BOTH][BOTH], int ranks)
{
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -now.rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, now.rank % 2, now.rank, &comms[3]);
    MPI_Comm_split(MPI_COMM_WORLD, now.rank == ranks - 1, now.rank, &comms[4]);
    for (int i = 0; i < COMMS; i++) {
        int size;
        MPI_Comm_dup(comms[i], &twins[i]);
        MPI_Comm_size(comms[i], &size);
        for (int is_ring = 0; is_ring < BOTH; is_ring++)
            for (int plain = 0; plain < BOTH; plain++) {
                /* In rings of one or two, MPI's two forms of a call differ in which block goes which way. */
                const int wraps = is_ring && size > 2;
                MPI_Cart_create(comms[i], 1, &size, &wraps, 0, &lines[i][is_ring][plain]);
            }
    }
}

static void free_comms(MPI_Comm comms[COMMS], MPI_Comm twins[COMMS], MPI_Comm lines[COMMS][BOTH][BOTH])
{
    for (int i = 0; i < COMMS; i++) {
        for (int is_ring = 0; is_ring < BOTH; is_ring++)
            for (int plain = 0; plain < BOTH; plain++)
                MPI_Comm_free(&lines[i][is_ring][plain]);
        MPI_Comm_free(&twins[i]);
        if (i > 0)
            MPI_Comm_free(&comms[i]);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[COMMS], twins[COMMS], lines[COMMS][BOTH][BOTH];
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &now.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    now.seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const int steps = argc > 2 ? atoi(argv[2]) : 200, first = argc > 3 ? atoi(argv[3]) : 0;
    now.says = argc > 4;
    open_areas();
    make_comms(comms, twins, lines, ranks);
    for (now.step = first; now.step < first + steps && atomic_load(&check_failed_) == 0; now.step++) {
        const unsigned which = draw_alike(COMMS, "communicator", now.step / 8); /* which some calls are made on */
        now.comm = comms[which];
        now.twin = twins[which];
        const unsigned is_ring = draw_alike(BOTH, "ring", 0);
        now.line = lines[which][is_ring][0];
        now.line_twin = lines[which][is_ring][1];
        MPI_Comm_rank(now.comm, &now.me);
        MPI_Comm_size(now.comm, &now.size);
        const unsigned what = draw_alike(5, "what", 0);
        (what < 2 ? call_all : what < 4 || !HAS_WINDOWS ? pass_messages : access_windows)();
    }
    if (atomic_load(&check_failed_)) { /* the others may wait for this rank */
        check_report("dropin_random");
        fflush(NULL);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free_comms(comms, twins, lines);
    close_areas();
    MPI_Finalize();
    return check_report("dropin_random");
}
