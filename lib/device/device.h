/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device: memory, streams, events, copies and launches. This header is the whole contract. The software device and
 * the GPU plug-ins implement it, and a fault-injecting wrapper stacks on any of them.
 *
 * - Streams are in-order queues, named by a native handle (void *); NULL is the default stream. Events mark a point in
 *   one. A call named _async returns at once, and neither allocates, locks nor logs.
 * - Every call is thread-safe, but two threads must not enqueue to one stream at the same time without an order of
 *   their own. Queries never block.
 * - Host memory in copies is pinned (host_malloc, or host_register'ed). Kernels can read and write pinned memory. They
 *   reach registered memory only under its device address, which may be another one (host_address).
 * - Exported memory is a (base handle, offset) pair, because IPC exports whole allocations. Opening a handle of the
 *   same process gives the pointer itself.
 * - Allowed statuses: SUCCESS, IN_PROGRESS (queries), ERR_DEVICE, ERR_MEMORY, ERR_UNSUPPORTED. The detail names the
 *   native error.
 */
#ifndef SV_DEVICE_H
#define SV_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <selvage/comm.h>
#include <selvage/device.h>
#include <selvage/status.h>

enum { SV_DEVICE_ABI = 17, SV_KERNEL_ARG_BYTES = 1280, SV_DEVICE_HANDLE_BYTES = 96 };

/*
 * A kernel of the library: its name in code objects, and its body for soft, whose arg points at the argument struct.
 *
 * - early_start: the kernel calls sv_dev_launch_wait() before it touches what earlier work on the stream may change. A
 *   device that can may then bring it in while the kernel before it is still running.
 * - lanes: threads of each of its blocks, where a device has lanes; 0: as many as suit a bandwidth-bound kernel.
 * - is_brief: of soft: whether a launch of one block with these arguments waits for nobody. NULL: it may wait.
 */
typedef struct sv_kernel {
    const char *name;
    void (*soft)(const void *arg, unsigned block, unsigned nblocks);
    bool early_start;
    unsigned lanes;
    bool (*is_brief)(const void *arg);
} sv_kernel_t;

/* Which modelled link (or copy engine) a copy uses. PEER is device to device of another rank. */
typedef enum sv_copy_kind { SV_COPY_D2H, SV_COPY_H2D, SV_COPY_D2D, SV_COPY_PEER, SV_COPY_KINDS } sv_copy_kind_t;

/* Where memory lies, as far as that decides what can be done with it; host/memory_kind.h says what. */
typedef enum sv_memory_kind {
    SV_MEMORY_UNKNOWN,  /* the runtime would not say: taken for usable */
    SV_MEMORY_DEVICE,   /* within one allocation of this device that can be exported */
    SV_MEMORY_POOL,     /* of this device, from a stream-ordered pool */
    SV_MEMORY_VIRTUAL,  /* of this device, mapped by the calls for virtual memory */
    SV_MEMORY_MANAGED,
    SV_MEMORY_PINNED,   /* host memory that the device knows */
    SV_MEMORY_HOST,     /* other host memory, which this device reaches all the same */
    SV_MEMORY_PAGEABLE, /* other host memory, or nothing at all: not within reach */
    SV_MEMORY_OTHER,    /* of another device */
    SV_MEMORY_SPLIT,    /* begins in an allocation and goes on beyond it */
    SV_MEMORY_FREED,
    SV_MEMORY_KINDS
} sv_memory_kind_t;

/* Memory of one allocation of this device, for another process: plain bytes, sent over the wire. */
typedef struct sv_device_handle {
    uint8_t bytes[SV_DEVICE_HANDLE_BYTES];
} sv_device_handle_t;

typedef struct selvage_event sv_event_t;
typedef struct selvage_device sv_device_t;

typedef struct sv_device_ops {
    uint32_t abi;
    const char *name;
    void (*close)(sv_device_t *dev);
    /* Device memory, 256-byte aligned, exportable. bytes may be 0. */
    selvage_status_t (*malloc)(sv_device_t *dev, size_t bytes, void **ptr_out);
    void (*free)(sv_device_t *dev, void *ptr);
    /* Pinned host memory, 256-byte aligned. */
    selvage_status_t (*host_malloc)(sv_device_t *dev, size_t bytes, void **ptr_out);
    void (*host_free)(sv_device_t *dev, void *ptr);
    /* Pins memory that somebody else mapped (a node-shared segment). Partner: host_unregister. */
    selvage_status_t (*host_register)(sv_device_t *dev, void *ptr, size_t bytes);
    void (*host_unregister)(sv_device_t *dev, void *ptr);
    /* The address by which kernels, and copies too, reach a byte of registered memory. */
    selvage_status_t (*host_address)(sv_device_t *dev, void *ptr, void **address_out);
    selvage_status_t (*stream_create)(sv_device_t *dev, void **stream_out);
    /* Waits for the stream's work first. */
    void (*stream_destroy)(sv_device_t *dev, void *stream);
    selvage_status_t (*stream_sync)(sv_device_t *dev, void *stream);
    /* SUCCESS if nothing is left to do on the stream, else IN_PROGRESS. Not of a stream that is being captured. */
    selvage_status_t (*stream_query)(sv_device_t *dev, void *stream);
    selvage_status_t (*event_create)(sv_device_t *dev, sv_event_t **event_out);
    /* Safe while still enqueued somewhere. */
    void (*event_destroy)(sv_device_t *dev, sv_event_t *event);
    selvage_status_t (*event_record)(sv_device_t *dev, sv_event_t *event, void *stream);
    /* SUCCESS once everything before the last record is complete (or if never recorded), else IN_PROGRESS. */
    selvage_status_t (*event_query)(sv_device_t *dev, sv_event_t *event);
    /* Later work on stream waits for the event as last recorded at the time of this call. */
    selvage_status_t (*stream_wait_event)(sv_device_t *dev, void *stream, sv_event_t *event);
    selvage_status_t (*copy_async)(sv_device_t *dev, void *dst, const void *src, size_t bytes, sv_copy_kind_t kind,
                                   void *stream);
    selvage_status_t (*fill_async)(sv_device_t *dev, void *dst, int value, size_t bytes, void *stream);
    /* Stores value in a word of memory that the device reaches (8-byte aligned, device address). The store is a release
       at system scope after everything before it on the stream: a host that acquires the word sees all that. */
    selvage_status_t (*signal_async)(sv_device_t *dev, uint64_t *word, uint64_t value, void *stream);
    selvage_status_t (*delay_async)(sv_device_t *dev, double us, void *stream);
    /* arg is copied. nblocks blocks run at the same time. What comes again on a stream may be prepared for it once. */
    selvage_status_t (*launch)(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                               unsigned nblocks, void *stream);
    /* ERR_UNSUPPORTED, without a log line, for memory that is not an exportable allocation of this kind of device. */
    selvage_status_t (*export_memory)(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                                      uint64_t *offset_out);
    /* Maps the whole allocation of a handle, of so many bytes. The caller adds the offset. Partner: close_memory. */
    selvage_status_t (*open_memory)(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                    uint64_t *bytes_out);
    /* May wait for all work of this process on the device, whatever the mapping, and hold up every other call until
       then. So it is called only where a wait is allowed. The owner's memory stays occupied until this call, freed or
       not. */
    void (*close_memory)(sv_device_t *dev, void *base);
    /* As malloc, for flags and small slots: memory that other devices may write while a kernel of this one polls it.
       Where ordinary memory does not show such writes this one is not cached, and slow for bulk. Partner: free. */
    selvage_status_t (*malloc_fine)(sv_device_t *dev, size_t bytes, void **ptr_out);
    /* Begins and ends a range of the calling thread in a profiler's timeline; ranges nest. Nothing where the member
       `ranges` of the device is false. */
    void (*range_push)(sv_device_t *dev, const char *name);
    void (*range_pop)(sv_device_t *dev);
    /* Whether this device can reach the memory of the one with this bus id ("" for one without a bus); it can reach
       itself. ERR_UNSUPPORTED, without a log line, for a device that this process does not see. */
    selvage_status_t (*peer_access)(sv_device_t *dev, const char *bus_id, int *possible_out);
    /* Where bytes (at least 1) at ptr lie. Cannot fail; never logs. */
    sv_memory_kind_t (*memory_kind)(sv_device_t *dev, const void *ptr, size_t bytes);
    /* A number of the allocation at ptr that no other allocation of this process has or had; 0: not known. Cannot fail;
       never logs. */
    uint64_t (*memory_id)(sv_device_t *dev, const void *ptr);
    /* Whether work for the stream is recorded into a graph now, or refused for another stream's recording, instead of
       being run. Cannot fail; never logs. */
    bool (*stream_is_capturing)(sv_device_t *dev, void *stream);
    /* Waits for all work of this process on the device, and on the one that is current in the calling thread, whoever
       enqueued it and on which stream. */
    selvage_status_t (*device_sync)(sv_device_t *dev);
    /* Makes the device current in the calling thread, where it stays. The library's own threads call it. Else every
       call would switch to the device and back, and make a context on the GPU that threads begin with. */
    selvage_status_t (*make_current)(sv_device_t *dev);
    /* From begin to end what is enqueued on the stream is not run but recorded, and so is what this thread enqueues on
       others that it orders after it; the end makes a graph of it that can be launched any number of times. A launch is
       work of its stream, ordered as any other. After a failed end there is no graph, and no capture. */
    selvage_status_t (*graph_begin)(sv_device_t *dev, void *stream);
    selvage_status_t (*graph_end)(sv_device_t *dev, void *stream, void **graph_out);
    selvage_status_t (*graph_launch)(sv_device_t *dev, void *graph, void *stream);
    /* Launches that are under way go on. */
    void (*graph_destroy)(sv_device_t *dev, void *graph);
} sv_device_ops_t;

/* First member of every device; set once, when it is opened, but for the last. */
struct selvage_device {
    const sv_device_ops_t *ops;
    unsigned launch_blocks; /* how many blocks a bandwidth-bound kernel should use */
    size_t kernel_host_bytes; /* up to here a kernel reads and writes host memory sooner than a copy engine does */
    size_t kernel_peer_bytes; /* likewise, another device's memory */
    size_t kernel_summed_bytes; /* likewise, where a kernel must read everything for the checksum anyway */
    size_t kernel_alone_bytes; /* up to here one block alone moves a packet sooner than several, which must meet */
    bool kernels_wait;      /* a kernel may wait for what another stream or process does */
    bool shows_stores;      /* a kernel sees what other devices store while it runs, in ordinary memory, too */
    uint64_t early_wait_ns;   /* how long a kernel that is launched early may wait for a packet; 0: it may not */
    int index, count;       /* which of the devices of its kind that this process sees */
    char bus_id[32];        /* as sysfs writes it; "" where there is no bus */
    char model[96];         /* for people */
    bool ranges;            /* a profiler hears range_push */
    int sharing;            /* who knows whether other processes have it (device_sharing.h) */
    bool oversubscribed;    /* threads of this host's ranks outnumber its cores; communicators set it, relaxed */
};

/* Calls through the table: sv_device_<verb>(dev, ...). */
#define SV_DEVICE_CALL(dev, op, ...) ((dev)->ops->op((dev), __VA_ARGS__))

struct sv_config;

/* Opens the device that config names (name non-NULL overrides). Partner: dev->ops->close(dev). */
selvage_status_t sv_device_open(const char *name, const struct sv_config *config, sv_device_t **dev_out);

/* As above, after making the GPU that is this rank's share of the host's current: local rank modulo their number. */
selvage_status_t sv_device_open_local(const char *name, const struct sv_config *config, sv_device_t **dev_out);

/* Opens the GPU that holds memory; the current one if the driver does not know that memory. The calling thread's
   current GPU stays the same. */
selvage_status_t sv_device_open_at(const char *name, const void *memory, const struct sv_config *config,
                                   sv_device_t **dev_out);

/*
 * Counts the devices of this kind that this process sees, without opening one. If there is none: ERR_UNSUPPORTED, with
 * the reason in the detail and without a log line.
 */
selvage_status_t sv_device_probe(const char *name, const struct sv_config *config, int *count_out);

/*
 * Puts a wrapper in the place of *dev_inout that asks sv_fault_call_fails(SV_FAULT_CALL_DEVICE) before each call that
 * can fail. A call that fails so returns ERR_MEMORY if it allocates memory, and else ERR_DEVICE (queries too). close()
 * closes the wrapper, not the device under it.
 */
selvage_status_t sv_device_fault_wrap(sv_device_t **dev_inout);

/* The device of a communicator that has none yet: a call that needs one returns ERR_STATE. Never closed. */
sv_device_t *sv_device_absent(void);

/* Pinned allocations made so far, in the whole process (atomic; for tests). */
uint64_t sv_device_pinned_allocations(void);

/* Counts one more; every implementation of host_malloc calls it. */
void sv_device_note_pinned(void);

/* How often the application freed device memory by a call of Selvage's, in the whole process; counts one more. Any
   thread, relaxed: who frees what another thread uses meanwhile has no order to be kept. */
uint64_t sv_device_frees(void);
void sv_device_note_freed(void);

#endif
