/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_types SEED CASES: messages of device memory between two ranks, each of a type that was made for it and is
 * freed after it. Every byte is compared with what MPI makes of host memory. Counted in the drop-in's own calls, and
 * not growing with the number of types: memory that is allocated and pinned, waits for the whole device, the tables of
 * plans. Types that say the same share a plan, whatever their handles; types that have each other's handles do not.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/dropin_case.h"

enum { NUMBERS = 1018, SPAN = 1 << 16, KEPT_PLANS = 1024, TABLES = 4096 };

/* --- what the drop-in asks the library for ------------------------------------------------------------------------ */

/* Of this thread: what the drop-in gives back after some seconds its own thread waits for. */
static _Thread_local bool in_call;
static int allocated, pinned, waits, made, written;

/* Plans that have a table. */
static struct {
    const selvage_pack_t *pack;
    size_t bytes;
} tables[TABLES];
static int ntables, tables_most;
static size_t tables_bytes, tables_bytes_most, table_most;

/* The library's own function of that name and type. */
#define REAL(FUNCTION, NAME)                                                                                          \
    do {                                                                                                              \
        void *found_ = dlsym(RTLD_NEXT, NAME);                                                                        \
        memcpy(&(FUNCTION), &found_, sizeof(FUNCTION));                                                               \
    } while (0)

selvage_status_t selvage_device_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out)
{
    selvage_status_t (*real)(selvage_device_t *device, size_t bytes, void **ptr_out);
    REAL(real, "selvage_device_malloc");
    allocated += in_call;
    return real(dev, bytes, ptr_out);
}

selvage_status_t selvage_device_host_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out)
{
    selvage_status_t (*real)(selvage_device_t *device, size_t bytes, void **ptr_out);
    REAL(real, "selvage_device_host_malloc");
    pinned += in_call;
    return real(dev, bytes, ptr_out);
}

selvage_status_t selvage_device_synchronize(selvage_device_t *dev)
{
    selvage_status_t (*real)(selvage_device_t *device);
    REAL(real, "selvage_device_synchronize");
    waits += in_call;
    return real(dev);
}

selvage_status_t selvage_pack_create(selvage_device_t *dev, size_t count, MPI_Datatype type, selvage_pack_t **pack_out)
{
    selvage_status_t (*real)(selvage_device_t *device, size_t count, MPI_Datatype type, selvage_pack_t **pack_out);
    REAL(real, "selvage_pack_create");
    made++;
    return real(dev, count, type, pack_out);
}

selvage_status_t selvage_pack_set_table(selvage_pack_t *pack, void *table)
{
    selvage_status_t (*real)(selvage_pack_t *pack, void *table);
    const size_t bytes = selvage_pack_table_bytes(pack);
    REAL(real, "selvage_pack_set_table");
    written++;
    if (ntables < TABLES) {
        tables[ntables].pack = pack;
        tables[ntables++].bytes = bytes;
    }
    tables_bytes += bytes;
    tables_most = ntables > tables_most ? ntables : tables_most;
    tables_bytes_most = tables_bytes > tables_bytes_most ? tables_bytes : tables_bytes_most;
    table_most = bytes > table_most ? bytes : table_most;
    return real(pack, table);
}

void selvage_pack_destroy(selvage_pack_t *pack)
{
    void (*real)(selvage_pack_t *pack);
    REAL(real, "selvage_pack_destroy");
    for (int i = 0; pack && i < ntables; i++)
        if (tables[i].pack == pack) {
            tables_bytes -= tables[i].bytes;
            tables[i] = tables[--ntables];
            break;
        }
    real(pack);
}

/* --- a message ---------------------------------------------------------------------------------------------------- */

static uint8_t *memory, *image, *host, *packed; /* the device's; pinned; what must be there; a stream */

static void to_device(void)
{
    CHECK_STATUS(selvage_device_copy(dropin.device, memory, image, SPAN, SELVAGE_COPY_HOST_TO_DEVICE, dropin.stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
}

/* From rank 0 to rank 1; the first element of the type is at origin. */
static void pass_one(MPI_Datatype type, int64_t origin)
{
    int bytes, position = 0;
    MPI_Type_size(type, &bytes);
    for (int i = 0; i < SPAN; i++) {
        image[i] = (uint8_t)((i * 7 + i / 251) ^ (dropin.rank == 0 ? 0 : 0x5a));
        host[i] = (uint8_t)(i * 7 + i / 251);
    }
    to_device();
    in_call = true;
    if (dropin.rank == 0)
        MPI_Send(memory + origin, 1, type, 1, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(memory + origin, 1, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    in_call = false;
    if (dropin.rank == 0)
        return;
    PMPI_Pack(host + origin, 1, type, packed, SPAN, &position, MPI_COMM_SELF);
    position = 0;
    PMPI_Unpack(packed, bytes, &position, image + origin, 1, type, MPI_COMM_SELF);
    memcpy(host, image, SPAN);
    CHECK_STATUS(selvage_device_copy(dropin.device, image, memory, SPAN, SELVAGE_COPY_DEVICE_TO_HOST, dropin.stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
    CHECK(memcmp(image, host, SPAN) == 0);
}

/* Numbers with a gap after each; the one with this number, if there is one, lies one further. by_bytes: the same, made
   in another way. */
static MPI_Datatype comb(int teeth, int late, bool by_bytes)
{
    MPI_Datatype type;
    int *at = malloc((size_t)teeth * sizeof *at);
    MPI_Aint *byte = malloc((size_t)teeth * sizeof *byte);
    for (int i = 0; i < teeth; i++) {
        at[i] = 2 * i + i / 7 + (i == late);
        byte[i] = 4 * (MPI_Aint)at[i];
    }
    if (by_bytes)
        MPI_Type_create_hindexed_block(teeth, 4, byte, MPI_BYTE, &type);
    else
        MPI_Type_create_indexed_block(teeth, 1, at, MPI_INT, &type);
    MPI_Type_commit(&type);
    free(at);
    free(byte);
    return type;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void check_random(int cases)
{
    for (int i = 0; i < cases; i++) {
        MPI_Aint low, span;
        const int bytes = i % 2 ? 4 * NUMBERS : datatype_pick_bytes(&dropin.random, 6000);
        MPI_Datatype type = datatype_make(&dropin.random, bytes, SPAN);
        MPI_Type_get_true_extent(type, &low, &span);
        pass_one(type, -low);
        datatype_drop(&type);
    }
}

/* The same again and again, and then always another one. */
static void check_contents(int cases)
{
    int same_handle = 0;
    MPI_Datatype type, before = MPI_DATATYPE_NULL;
    int written_before = written;
    for (int i = 0; i < cases; i++) {
        type = comb(NUMBERS, -1, i % 2);
        pass_one(type, 0);
        MPI_Type_free(&type);
    }
    CHECK_EQ(written - written_before, 1);
    written_before = written;
    for (int i = 0; i < cases; i++) {
        type = comb(NUMBERS, i, false);
        same_handle += type == before;
        before = type;
        pass_one(type, 0);
        MPI_Type_free(&type);
    }
    CHECK_EQ(written - written_before, cases);
    printf("rank %d: %d of %d types had the handle of the one before\n", dropin.rank, same_handle, cases);
}

/* A type that lives on is taken apart once, or when its plan has had to go. */
static void check_kept(void)
{
    MPI_Datatype type = comb(40, 3, false);
    pass_one(type, 0);
    const int before = made;
    for (int i = 0; i < 10; i++)
        pass_one(type, 0);
    CHECK_EQ(made - before, 0);
    for (int i = 0; i < KEPT_PLANS + 10; i++) {
        MPI_Datatype other = comb(40 + i % 100, 4 + i / 100, false);
        pass_one(other, 0);
        MPI_Type_free(&other);
    }
    const int after = made;
    pass_one(type, 0);
    pass_one(type, 0);
    CHECK_EQ(made - after, 1);
    MPI_Type_free(&type);
}

/* A plan that was made while the pool was full gets its table once there is room. */
static void check_full_pool(void)
{
    enum { LONG_ONES = 16, HELD = LONG_ONES + 64, SHORT = 1000 }; /* together more than the pool */
    MPI_Datatype type = comb(NUMBERS - 7, -1, false);
    MPI_Request held[HELD];
    const int before = written, peer = 1 - dropin.rank;
    for (int i = 0; i < HELD; i++)
        MPI_Irecv(memory, i < LONG_ONES ? SPAN : SHORT, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &held[i]);
    pass_one(type, 0);
    CHECK_EQ(written - before, 0);
    for (int i = 0; i < HELD; i++)
        MPI_Send(host, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
    MPI_Waitall(HELD, held, MPI_STATUSES_IGNORE);
    /* The next request gives back what they had. */
    MPI_Irecv(memory, SHORT, MPI_BYTE, peer, 1, MPI_COMM_WORLD, held);
    MPI_Send(host, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
    MPI_Wait(held, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++)
        pass_one(type, 0);
    CHECK_EQ(written - before, 1);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    int cases;
    const char *set = getenv("SELVAGE_DROPIN_POOL_BYTES");
    dropin_begin(argc, argv, MPI_THREAD_SINGLE, &cases);
    CHECK_STATUS(selvage_device_malloc(dropin.device, SPAN, (void **)&memory), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_host_malloc(dropin.device, SPAN, (void **)&image), SELVAGE_SUCCESS);
    host = malloc(SPAN);
    packed = malloc(SPAN);
    check_random(cases);
    if (set)
        check_full_pool();
    const int pinned_before = pinned;
    check_contents(cases);
    check_kept();
    check_random(cases);
    CHECK_EQ(allocated, 0);
    CHECK_EQ(waits, 0);
    CHECK(pinned - pinned_before <= 2);
    CHECK(tables_most <= KEPT_PLANS + 1);
    /* One that is new, before an older one goes. */
    if (set)
        CHECK(tables_bytes_most <= strtoul(set, NULL, 10) / 16 + table_most);
    printf("rank %d: %d plans, %d tables written, %d of them at once and %zu bytes; memory was pinned %d times\n",
           dropin.rank, made, written, tables_most, tables_bytes_most, pinned);
    selvage_device_host_free(dropin.device, image);
    selvage_device_free(dropin.device, memory);
    free(host);
    free(packed);
    const int code = dropin_end("dropin_types");
    CHECK_EQ(ntables, 0);
    return code ? code : check_report("dropin_types");
}
