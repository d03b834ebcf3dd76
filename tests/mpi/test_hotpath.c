/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between start and landed Selvage allocates nothing, pins nothing, takes no lock, reads no environment and starts no
 * thread. The linker puts the functions below in the place of those that Selvage and this program call (hotpath.am),
 * not of those inside MPI and the C library; they count while `armed`, on every thread. An exchange of every route
 * carries packets of every kind: none, small, odd, one segment, more segments than slots, registered and not, and in
 * pieces: of a list, and of a box that is added in arrays that swap from epoch to epoch. Messages take locks, but they
 * allocate nothing either, once there have been some like them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for secure_getenv */
#endif
#include <mpi.h>
#include <pthread.h>
#include <selvage.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/base_memory.h"
#include "fixtures/check.h"
#include "device/device.h"
#include "pipeline/pipe_layout.h"

enum { EPOCHS = 6, PACKETS = 6, TAG = 3, TAG_LIST = 4, TAG_BOX = 5, ELEMENTS = 3000, SETS = 2 };
static const size_t packet_bytes[PACKETS] = {0, 8, 4097, 65536, 1000001, 300000};

static _Atomic int armed;
static _Atomic long counted, allocated;

/* The first call is kept, to say where to look. */
static const char *_Atomic first_counted;

static void note(const char *name)
{
    const char *none = NULL;
    if (!atomic_load(&armed))
        return;
    atomic_fetch_add(&counted, 1);
    if (strstr(name, "alloc") || strcmp(name, "mmap") == 0)
        atomic_fetch_add(&allocated, 1);
    atomic_compare_exchange_strong(&first_counted, &none, name);
}

/* One line per watched function: result, name, parameters, arguments. */
#define WATCH(result, name, parameters, arguments) \
    result __real_##name parameters;               \
    result __wrap_##name parameters;               \
    result __wrap_##name parameters                \
    {                                              \
        note(#name);                               \
        return __real_##name arguments;            \
    }

WATCH(void *, malloc, (size_t bytes), (bytes))
WATCH(void *, calloc, (size_t count, size_t bytes), (count, bytes))
WATCH(void *, realloc, (void *ptr, size_t bytes), (ptr, bytes))
WATCH(int, posix_memalign, (void **out, size_t alignment, size_t bytes), (out, alignment, bytes))
WATCH(void *, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes))
WATCH(void *, mmap, (void *addr, size_t bytes, int prot, int flags, int fd, off_t offset),
      (addr, bytes, prot, flags, fd, offset))
WATCH(int, munmap, (void *addr, size_t bytes), (addr, bytes))
WATCH(char *, getenv, (const char *name), (name))
WATCH(char *, secure_getenv, (const char *name), (name))
WATCH(int, pthread_mutex_lock, (pthread_mutex_t *mutex), (mutex))
WATCH(int, pthread_mutex_trylock, (pthread_mutex_t *mutex), (mutex))
WATCH(int, pthread_rwlock_rdlock, (pthread_rwlock_t *lock), (lock))
WATCH(int, pthread_rwlock_wrlock, (pthread_rwlock_t *lock), (lock))
WATCH(int, pthread_spin_lock, (pthread_spinlock_t *lock), (lock))
WATCH(int, pthread_cond_wait, (pthread_cond_t *cond, pthread_mutex_t *mutex), (cond, mutex))
WATCH(int, pthread_create, (pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg),
      (thread, attr, body, arg))

void __real_free(void *ptr);
void __wrap_free(void *ptr);
void __wrap_free(void *ptr)
{
    note("free");
    __real_free(ptr);
}

static void arm(void)
{
    atomic_store(&counted, 0);
    atomic_store(&allocated, 0);
    atomic_store(&first_counted, NULL);
    atomic_store(&armed, 1);
}

static long disarm(void)
{
    atomic_store(&armed, 0);
    return atomic_load(&counted);
}

/* Calls are seen from here and from inside the library; not armed, none is. */
static void check_counting(selvage_device_t *device)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    void *volatile memory; /* volatile: the pair must not be optimised away */
    void *inside = NULL, *pinned = NULL, *mapped = NULL;
    uint64_t before = sv_device_pinned_allocations();
    arm();
    memory = malloc(10);
    free(memory);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    CHECK(getenv("HOTPATH_IS_NOT_SET") == NULL);
    CHECK(secure_getenv("HOTPATH_IS_NOT_SET") == NULL);
    CHECK_EQ(disarm(), 5);
    CHECK_STR(atomic_load(&first_counted), "malloc");
    arm();
    CHECK_STATUS(sv_calloc(1, 10, &inside), SELVAGE_SUCCESS);
    CHECK_EQ(disarm(), 1);
    arm();
    CHECK_STATUS(selvage_device_host_malloc(device, 100, &pinned), SELVAGE_SUCCESS);
    CHECK_EQ(disarm(), 1);
    CHECK_EQ(sv_device_pinned_allocations(), before + 1);
    arm();
    CHECK_STATUS(selvage_device_malloc(device, 100, &mapped), SELVAGE_SUCCESS);
    CHECK(disarm() >= 1); /* the lock of the table, perhaps more */
    arm();
    CHECK_EQ(disarm(), 0);
    selvage_device_free(device, mapped);
    selvage_device_host_free(device, pinned);
    sv_free(inside);
    CHECK_EQ(atomic_load(&counted), 0);
}

typedef struct traffic {
    selvage_comm_t *comm;
    selvage_device_t *device;
    void *stream;
    unsigned char *send[PACKETS], *recv[PACKETS];
    uint64_t *out[SETS], *in, *sum[SETS]; /* of packets in pieces: twice ELEMENTS each; every other one takes part */
    selvage_buffer_t *registered;
    int rank, size;
} traffic_t;

static uint64_t element(int rank, int set, int i)
{
    return (uint64_t)(rank + 1) * 1000003 + (uint64_t)set * 77777 + (uint64_t)i;
}

static uint64_t *make_elements(const traffic_t *t, int set)
{
    void *elements = NULL;
    CHECK_STATUS(selvage_device_malloc(t->device, 2 * ELEMENTS * sizeof(uint64_t), &elements), SELVAGE_SUCCESS);
    for (int i = 0; i < 2 * ELEMENTS; i++)
        ((uint64_t *)elements)[i] = set < 0 ? 0 : element(t->rank, set, i);
    return elements;
}

/* The last packet lands in registered memory. */
static void traffic_init(traffic_t *t)
{
    t->device = selvage_comm_device(t->comm);
    t->rank = selvage_comm_rank(t->comm);
    t->size = selvage_comm_size(t->comm);
    CHECK_STATUS(selvage_stream_create(t->device, &t->stream), SELVAGE_SUCCESS);
    for (int p = 0; p < PACKETS; p++) {
        CHECK_STATUS(selvage_device_malloc(t->device, packet_bytes[p], (void **)&t->send[p]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_malloc(t->device, packet_bytes[p], (void **)&t->recv[p]), SELVAGE_SUCCESS);
    }
    t->in = make_elements(t, -1);
    for (int set = 0; set < SETS; set++) {
        t->out[set] = make_elements(t, set);
        t->sum[set] = make_elements(t, -1);
    }
    CHECK_STATUS(selvage_buffer_register(t->comm, t->recv[PACKETS - 1], packet_bytes[PACKETS - 1], &t->registered),
                 SELVAGE_SUCCESS);
}

static void traffic_fini(traffic_t *t)
{
    CHECK_STATUS(selvage_buffer_unregister(t->registered), SELVAGE_SUCCESS);
    for (int p = 0; p < PACKETS; p++) {
        selvage_device_free(t->device, t->send[p]);
        selvage_device_free(t->device, t->recv[p]);
    }
    for (int set = 0; set < SETS; set++) {
        selvage_device_free(t->device, t->out[set]);
        selvage_device_free(t->device, t->sum[set]);
    }
    selvage_device_free(t->device, t->in);
    selvage_stream_destroy(t->device, t->stream);
}

static unsigned char filling(int rank, int packet, int epoch)
{
    return (unsigned char)(1 + rank * 101 + packet * 13 + epoch * 7);
}

/* Device memory of the software device is read where it lies. */
static int wrong_packets(const traffic_t *t, int source, int epoch)
{
    int wrong = 0;
    for (int p = 0; p < PACKETS; p++) {
        unsigned char wanted = filling(source, p, epoch);
        size_t i = 0;
        while (i < packet_bytes[p] && t->recv[p][i] == wanted)
            i++;
        wrong += i < packet_bytes[p];
    }
    return wrong;
}

/* A list: the even elements of the first array, backwards, go to the odd ones. */
static void add_list(const traffic_t *t, selvage_exchange_t *ex, int to, int from)
{
    static int64_t even[ELEMENTS], odd[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        even[i] = 2 * (ELEMENTS - 1 - i);
        odd[i] = 2 * i + 1;
    }
    CHECK_STATUS(selvage_exchange_add_send_indexed(ex, t->out[0], sizeof(uint64_t), even, ELEMENTS, to, TAG_LIST, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv_indexed(ex, t->in, sizeof(uint64_t), odd, ELEMENTS, from, TAG_LIST, NULL),
                 SELVAGE_SUCCESS);
}

static selvage_status_t bind(const traffic_t *t, selvage_exchange_t *ex, int set)
{
    void *bases[2] = {t->out[set], t->sum[set]};
    return sv_exchange_rebind(ex, bases, 2);
}

/* A box: the even elements of base 1 are added to those of base 2. */
static void add_box(const traffic_t *t, selvage_exchange_t *ex, int to, int from)
{
    const sv_pack_shape_t box = {.element_bytes = 8, .ndims = 1, .dim = {{ELEMENTS, 16}}};
    sv_layout_t *out = NULL, *in = NULL;
    CHECK_STATUS(sv_layout_create(SV_LAYOUT_ALIGNED, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_layout_create(SV_LAYOUT_ALIGNED, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_layout_add_box(out, 1, &box, SV_LAYOUT_STORE), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_layout_add_box(in, 2, &box, SV_LAYOUT_ADD_INT64), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_exchange_add_send_layout(ex, out, to, TAG_BOX, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_exchange_add_recv_layout(ex, in, from, TAG_BOX, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(bind(t, ex, 0), SELVAGE_SUCCESS);
    memset(t->in, 0, 2 * ELEMENTS * sizeof *t->in);
    for (int set = 0; set < SETS; set++)
        memset(t->sum[set], 0, 2 * ELEMENTS * sizeof *t->sum[set]);
}

/* After so many epochs, of which the first had the first set. */
static int wrong_elements(const traffic_t *t, int source, int epoch)
{
    int wrong = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        wrong += t->in[2 * i] != 0 || t->in[2 * i + 1] != element(source, 0, 2 * (ELEMENTS - 1 - i));
        for (int set = 0; set < SETS; set++)
            wrong += t->sum[set][2 * i] != (uint64_t)((epoch + 1 - set) / SETS) * element(source, set, 2 * i);
    }
    return wrong;
}

/* One epoch; even ones are waited for, odd ones tested. Sets of arrays that the device knows cost nothing either. */
static void run_epoch(const traffic_t *t, selvage_exchange_t *ex, int source, int epoch)
{
    selvage_status_t bound = SELVAGE_SUCCESS, started, ended;
    if (epoch <= SETS)
        CHECK_STATUS(bind(t, ex, (epoch - 1) % SETS), SELVAGE_SUCCESS);
    for (int p = 0; p < PACKETS; p++)
        selvage_device_fill(t->device, t->send[p], filling(t->rank, p, epoch), packet_bytes[p], t->stream);
    uint64_t pinned = sv_device_pinned_allocations();
    arm();
    if (epoch > SETS)
        bound = bind(t, ex, (epoch - 1) % SETS);
    started = selvage_exchange_start(ex, t->stream);
    do
        ended = epoch & 1 ? selvage_exchange_test(ex, t->stream) : selvage_exchange_wait(ex, t->stream);
    while (ended == SELVAGE_IN_PROGRESS);
    long calls = disarm();
    CHECK_STATUS(bound, SELVAGE_SUCCESS);
    CHECK_STATUS(started, SELVAGE_SUCCESS);
    CHECK_STATUS(ended, SELVAGE_SUCCESS);
    CHECK_EQ(sv_device_pinned_allocations(), pinned);
    CHECK_EQ(calls, 0);
    CHECK_STR(calls ? atomic_load(&first_counted) : "", "");
    CHECK_EQ(wrong_packets(t, source, epoch), 0);
    CHECK_STATUS(selvage_stream_synchronize(t->device, t->stream), SELVAGE_SUCCESS);
    CHECK_EQ(wrong_elements(t, source, epoch), 0);
}

/* distance 0: a rank to itself. */
static void run_route(const traffic_t *t, selvage_route_t route, int distance)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = route};
    selvage_exchange_t *ex;
    selvage_route_t settled = SELVAGE_ROUTE_DEFAULT;
    const int to = (t->rank + distance) % t->size, from = (t->rank + t->size - distance) % t->size;
    CHECK_STATUS(selvage_exchange_create(t->comm, &params, &ex), SELVAGE_SUCCESS);
    for (int p = 0; p < PACKETS; p++) {
        selvage_exchange_add_send(ex, t->send[p], packet_bytes[p], to, TAG, NULL);
        selvage_exchange_add_recv(ex, t->recv[p], packet_bytes[p], from, TAG, NULL);
    }
    add_list(t, ex, to, from);
    add_box(t, ex, to, from);
    selvage_status_t status = selvage_exchange_commit(ex);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_send_route(ex, PACKETS - 1, &settled), SELVAGE_SUCCESS);
    CHECK_STR(selvage_route_name(settled), selvage_route_name(route));
    for (int epoch = 1; epoch <= EPOCHS && status == SELVAGE_SUCCESS; epoch++)
        run_epoch(t, ex, from, epoch);
    selvage_exchange_destroy(ex);
}

/* Packets of all sizes, each as a message to the next rank. Whether one comes before its receive, or two at once, is a
   matter of time: what was never needed before may be made in a later round, too, but not for each message. */
static void run_messages(const traffic_t *t)
{
    enum { LEARNED = 4, LATE = 2 };
    int late = 0;
    const int to = (t->rank + 1) % t->size, from = (t->rank + t->size - 1) % t->size;
    for (int round = 0; round < 2 * LEARNED; round++)
        for (int p = 0; p < PACKETS; p++) {
            selvage_request_t *both[2] = {NULL, NULL};
            selvage_device_fill(t->device, t->send[p], filling(t->rank, p, round), packet_bytes[p], t->stream);
            uint64_t pinned = sv_device_pinned_allocations();
            arm();
            selvage_status_t received = selvage_message_irecv(t->comm, t->recv[p], packet_bytes[p], MPI_BYTE, from, p,
                                                              t->stream, &both[0]);
            selvage_status_t sent = selvage_message_isend(t->comm, t->send[p], packet_bytes[p],
                                                          MPI_BYTE, to, p, t->stream, &both[1]);
            selvage_status_t ended = selvage_message_waitall(2, both, NULL);
            disarm();
            CHECK_STATUS(received, SELVAGE_SUCCESS);
            CHECK_STATUS(sent, SELVAGE_SUCCESS);
            CHECK_STATUS(ended, SELVAGE_SUCCESS);
            if (round < LEARNED)
                continue;
            late += atomic_load(&allocated) > 0 || sv_device_pinned_allocations() != pinned;
        }
    CHECK(late <= LATE);
    CHECK_EQ(wrong_packets(t, from, 2 * LEARNED - 1), 0);
}

int main(int argc, char **argv)
{
    traffic_t t = {0};
    int provided;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
    selvage_status_t status = selvage_comm_create(MPI_COMM_WORLD, NULL, &t.comm);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    if (status == SELVAGE_SUCCESS) {
        traffic_init(&t);
        check_counting(t.device);
        run_route(&t, SELVAGE_ROUTE_SELF, 0);
        run_route(&t, SELVAGE_ROUTE_STAGED, 0);
        run_route(&t, SELVAGE_ROUTE_STAGED, 1);
        if (strcmp(selvage_device_name(t.device), "soft") == 0) /* of others the MPI must say that it is able */
            run_route(&t, SELVAGE_ROUTE_DIRECT, 1);
        run_route(&t, SELVAGE_ROUTE_SHARED, 1);
        run_route(&t, SELVAGE_ROUTE_PEER, 1);
        run_messages(&t); /* last: from here on polls of exchanges take a lock, too */
        traffic_fini(&t);
    }
    selvage_comm_destroy(t.comm);
    MPI_Finalize();
    return check_report("hotpath");
}
