/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file device.h
 * @brief Device memory, streams and copies that read the same on a GPU and on the software device ("soft").
 *
 * Applications with a GPU runtime of their own need nothing from here: they pass their pointers and streams to the
 * exchange. Tools, tests and portable examples use these calls. Streams made here never synchronise implicitly with
 * the default stream (NULL). All calls are local; any thread.
 */
#ifndef SELVAGE_DEVICE_H
#define SELVAGE_DEVICE_H

#include <stddef.h>

#include <selvage/comm.h>
#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * @brief Opens a device by name.
 * @param[in]  name     "soft", "auto" (the best that is there), or NULL for what SELVAGE_DEVICE says
 * @param[out] dev_out  freed by selvage_device_close()
 * @return ERR_ARGUMENT (no such name), ERR_CONFIG, ERR_UNSUPPORTED (not on this machine), ERR_MEMORY, ERR_DEVICE
 */
selvage_status_t selvage_device_open(const char *name, selvage_device_t **dev_out);

/**
 * @brief Opens the GPU that is this rank's share of the host's: for programs that leave the choice to Selvage.
 *
 * As selvage_device_open(), but first makes a GPU current in the calling thread, where it stays. The GPU's number is
 * the local rank modulo the number of GPUs that this process sees. The launcher gives the local rank (Open MPI, MPICH
 * and its kin, PALS, Flux, Slurm). If none does, or the device is soft, nothing is chosen. May be called before
 * MPI_Init. Give the device to selvage_comm_create() in selvage_comm_params_t, and close it after the communicator.
 *
 * @param[in]  name     as for selvage_device_open()
 * @param[out] dev_out  freed by selvage_device_close()
 * @return as selvage_device_open(); ERR_DEVICE also if that GPU cannot be made current
 */
selvage_status_t selvage_device_open_local(const char *name, selvage_device_t **dev_out);

/**
 * @brief Opens the GPU that memory is of, whichever is current: for threads and libraries that are handed pointers.
 *
 * As selvage_device_open() otherwise, also where the driver does not know the memory. What is current in the calling
 * thread stays so.
 *
 * @param[in]  name     as for selvage_device_open()
 * @param[in]  memory   an address in device memory, or in pinned memory that one GPU made
 * @param[out] dev_out  freed by selvage_device_close()
 * @return as selvage_device_open(); ERR_ARGUMENT also for no address
 */
selvage_status_t selvage_device_open_at(const char *name, const void *memory, selvage_device_t **dev_out);

/**
 * @brief Says how many devices of a kind this process sees. Opens none; logs nothing.
 * @param[in]  name       "soft", "nvidia", "amd"; "auto" always is there
 * @param[out] count_out  at least 1
 * @return ERR_UNSUPPORTED (none; the detail says why), ERR_ARGUMENT (no such name), ERR_CONFIG
 */
selvage_status_t selvage_device_probe(const char *name, int *count_out);

/** @brief Closes a device that one of these calls opened. Its streams must be destroyed. Accepts NULL. */
void selvage_device_close(selvage_device_t *dev);

/**
 * @brief Makes the device current in the calling thread, as hipSetDevice() and cudaSetDevice() do, where it stays.
 *
 * No call needs it. It saves a thread that makes many calls the way to the device and back in each. It also saves the
 * context that the runtime would make on the GPU which threads begin with.
 *
 * @return ERR_ARGUMENT (dev is NULL), ERR_DEVICE
 */
selvage_status_t selvage_device_make_current(selvage_device_t *dev);

/** @brief Kind of the device: "soft", "nvidia", "amd". Static text; "" for NULL. */
const char *selvage_device_name(const selvage_device_t *dev);

/** Which device it is, for reports. */
typedef struct selvage_device_info {
    size_t struct_size; /**< set by SELVAGE_DEVICE_INFO_INIT; tells how much is filled */
    int index;          /**< its number among those of its kind that this process sees */
    int count;          /**< how many these are, when it was opened */
    char bus_id[32];    /**< PCI address in lower case ("0000:0f:00.0"), which no mask changes; "" for soft */
    char model[96];     /**< as the driver names it; "" if it does not */
} selvage_device_info_t;

/** Initialiser: `selvage_device_info_t i = {SELVAGE_DEVICE_INFO_INIT};` */
#define SELVAGE_DEVICE_INFO_INIT .struct_size = sizeof(selvage_device_info_t)

/** @brief The same as a function, which serves in any C++: an empty struct to be filled. Local. */
static inline selvage_device_info_t selvage_device_info_init(void)
{
    selvage_device_info_t started = SELVAGE_ZEROED_(selvage_device_info_t);
    started.struct_size = sizeof started;
    return started;
}

/**
 * @brief Tells which device it is.
 * @param[in,out] info  struct_size says how much the caller knows; at most that much is written
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_device_describe(const selvage_device_t *dev, selvage_device_info_t *info);

/**
 * @brief Tells whether a device can reach the memory of another one directly. Logs nothing.
 * @param[in]  bus_id        of the other one, as selvage_device_describe() gives it, in whatever process; "" for soft
 * @param[out] possible_out  1 (always for itself) or 0
 * @return ERR_UNSUPPORTED (this process does not see the other one, so that nobody can say), ERR_ARGUMENT, ERR_DEVICE
 */
selvage_status_t selvage_device_peer_access(selvage_device_t *dev, const char *bus_id, int *possible_out);

/**
 * @brief Tells whether other processes have the device open, so that kernels of one wait for their turn.
 *
 * They are seen from when they open it by Selvage to their end, if they share this process's sysfs; SELVAGE_GPU_SHARED
 * says it instead. The answer may be as old as the last thousand calls and short copies. Local; any thread; neither
 * blocks nor logs.
 *
 * @param[out] shared_out  1 or 0. Unless SELVAGE_GPU_SHARED is on, 1 is said of NVIDIA GPUs only, and not of the
 *                         instances that one is cut into (MIG)
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_device_is_shared(selvage_device_t *dev, int *shared_out);

/**
 * @brief Allocates device memory, aligned to 256 bytes, mappable by the peers of the node. Does not clear it.
 * @param[in]  bytes    0 gives a valid pointer that may be freed and not be read
 * @param[out] ptr_out  freed by selvage_device_free()
 * @return ERR_ARGUMENT, ERR_MEMORY
 */
selvage_status_t selvage_device_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out);

/** @brief Frees device memory; work that uses it must be complete. Accepts a NULL pointer. */
void selvage_device_free(selvage_device_t *dev, void *ptr);

/**
 * @brief Allocates pinned host memory, aligned to 256 bytes.
 * @param[out] ptr_out  freed by selvage_device_host_free()
 * @return ERR_ARGUMENT, ERR_MEMORY
 */
selvage_status_t selvage_device_host_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out);

/** @brief Frees pinned host memory. Accepts a NULL pointer. */
void selvage_device_host_free(selvage_device_t *dev, void *ptr);

/**
 * @brief Makes an in-order stream.
 * @param[out] stream_out  native handle, freed by selvage_stream_destroy()
 * @return ERR_ARGUMENT, ERR_MEMORY, ERR_DEVICE
 */
selvage_status_t selvage_stream_create(selvage_device_t *dev, void **stream_out);

/** @brief Destroys a stream after its work is done (blocks for that). Accepts a NULL stream, which does nothing. */
void selvage_stream_destroy(selvage_device_t *dev, void *stream);

/** @brief Blocks until everything enqueued on @p stream so far is complete.
 * @return ERR_ARGUMENT; ERR_DEVICE, the first error of the device */
selvage_status_t selvage_stream_synchronize(selvage_device_t *dev, void *stream);

/** A place in a stream that can be waited for while work after it goes on (opaque). */
typedef struct selvage_event selvage_event_t;

/**
 * @brief Makes an event, which is not recorded yet.
 * @param[out] event_out  freed by selvage_event_destroy()
 * @return ERR_ARGUMENT, ERR_MEMORY, ERR_DEVICE
 */
selvage_status_t selvage_event_create(selvage_device_t *dev, selvage_event_t **event_out);

/** @brief Destroys an event, which may still be on its way. Accepts NULL. */
void selvage_event_destroy(selvage_device_t *dev, selvage_event_t *event);

/** @brief Records the event after all that is enqueued on @p stream so far. Returns at once. The last record counts.
 * @return ERR_ARGUMENT, ERR_DEVICE */
selvage_status_t selvage_event_record(selvage_device_t *dev, selvage_event_t *event, void *stream);

/** @brief Asks whether what was before the last record is complete; never blocks.
 * @return SUCCESS if it is, or if there is no record; IN_PROGRESS; ERR_ARGUMENT; ERR_DEVICE, the first error */
selvage_status_t selvage_event_query(selvage_device_t *dev, selvage_event_t *event);

/** @brief Blocks until what was before the last record is complete; not at all if there is none.
 * @return ERR_ARGUMENT; ERR_DEVICE, the first error of the device */
selvage_status_t selvage_event_synchronize(selvage_device_t *dev, selvage_event_t *event);

/**
 * What was captured of a stream (opaque): a native cudaGraphExec_t or hipGraphExec_t, or what soft has in its place.
 *
 * For portable programs and tests. Programs with a GPU runtime of their own capture by its calls; Selvage notices.
 * Which of its calls may be captured their own pages say.
 */
typedef struct selvage_graph selvage_graph_t;

/**
 * @brief Begins to capture: what is enqueued on @p stream from now on is recorded and not run. Does not block.
 * @param[in] stream  not the default stream
 * @return ERR_ARGUMENT, ERR_DEVICE (it is being captured already), ERR_MEMORY
 */
selvage_status_t selvage_graph_begin(selvage_device_t *dev, void *stream);

/**
 * @brief Ends the capture and makes a graph of it, ready to be launched. Does not wait for the device.
 *
 * The capture is over even if this fails. On soft, events cannot be captured: a graph is one stream.
 *
 * @param[out] graph_out  freed by selvage_graph_destroy()
 * @return ERR_ARGUMENT, ERR_DEVICE (not being captured, or what was captured makes no graph), ERR_MEMORY
 */
selvage_status_t selvage_graph_end(selvage_device_t *dev, void *stream, selvage_graph_t **graph_out);

/** @brief Runs all of it on @p stream, once for each call. Returns at once; stream-ordered.
 * @return ERR_ARGUMENT, ERR_MEMORY, ERR_DEVICE */
selvage_status_t selvage_graph_launch(selvage_device_t *dev, selvage_graph_t *graph, void *stream);

/** @brief Frees a graph; launches under way go on. Accepts NULL. */
void selvage_graph_destroy(selvage_device_t *dev, selvage_graph_t *graph);

/** @brief Blocks until all work of this process on the device is complete, whatever its stream.
 * @return ERR_ARGUMENT; ERR_DEVICE, the first error of the device */
selvage_status_t selvage_device_synchronize(selvage_device_t *dev);

/** Where memory lies. */
typedef enum selvage_memory {
    SELVAGE_MEMORY_UNKNOWN = 0, /**< the runtime would not say */
    SELVAGE_MEMORY_DEVICE = 1,  /**< of this device: an allocation, a pool's, or virtual memory */
    SELVAGE_MEMORY_OTHER = 2,   /**< of another device of this process */
    SELVAGE_MEMORY_MANAGED = 3, /**< moves between device and host */
    SELVAGE_MEMORY_PINNED = 4,  /**< host memory that the device knows */
    SELVAGE_MEMORY_HOST = 5,    /**< other host memory */
    SELVAGE_MEMORY_NONE = 6     /**< it was freed, or goes on beyond the allocation it begins in */
} selvage_memory_t;

/**
 * @brief Says where @p bytes bytes at @p ptr lie. Local; any thread; neither blocks nor logs.
 * @param[in]  bytes       at least 1
 * @param[out] memory_out  of addresses that were never memory: HOST
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_device_memory(selvage_device_t *dev, const void *ptr, size_t bytes,
                                       selvage_memory_t *memory_out);

/** Direction of a copy; decides which link it uses. */
typedef enum selvage_copy {
    SELVAGE_COPY_DEVICE_TO_HOST = 1,
    SELVAGE_COPY_HOST_TO_DEVICE = 2,
    SELVAGE_COPY_DEVICE_TO_DEVICE = 3
} selvage_copy_t;

/**
 * @brief Enqueues a copy; returns at once. Host memory should be pinned, or the copy may block. Stream-ordered.
 *
 * In which order its bytes arrive is not said: a kernel that polls a word while that is copied may see a part of it.
 *
 * @param[out] dst        where to
 * @param[in]  src        where from
 * @param[in]  direction  which of the two is device memory
 * @return ERR_ARGUMENT, ERR_MEMORY, ERR_DEVICE
 */
selvage_status_t selvage_device_copy(selvage_device_t *dev, void *dst, const void *src, size_t bytes,
                                     selvage_copy_t direction, void *stream);

/**
 * @brief Enqueues a fill of @p bytes bytes with @p value. Stream-ordered.
 * @param[out] dst    device or pinned memory
 * @param[in]  value  of each byte, as in memset()
 * @return ERR_ARGUMENT, ERR_MEMORY, ERR_DEVICE
 */
selvage_status_t selvage_device_fill(selvage_device_t *dev, void *dst, int value, size_t bytes, void *stream);

/**
 * @brief Enqueues a pause of @p us microseconds: a modelled kernel that takes time and does nothing.
 *
 * Stream-ordered; returns at once. On soft it uses no CPU, so that overlap can be measured on a small machine.
 *
 * @return ERR_ARGUMENT, ERR_MEMORY, ERR_DEVICE
 */
selvage_status_t selvage_device_delay_us(selvage_device_t *dev, double us, void *stream);

/** A kernel of the software device: called once per block; @p arg is the launch's private copy of the argument. */
typedef void (*selvage_soft_kernel_t)(const void *arg, unsigned block, unsigned nblocks);

/**
 * @brief Launches a C function as a kernel of the software device: one CPU thread per block. Stream-ordered.
 *
 * Returns at once; @p arg is copied. All blocks run at the same time, so they may wait for each other.
 *
 * @param[in] kernel     called once for each block
 * @param[in] arg        its argument
 * @param[in] arg_bytes  at most 1280
 * @param[in] nblocks    at least 1
 * @return ERR_UNSUPPORTED on a GPU, where applications launch their own kernels; ERR_ARGUMENT; ERR_MEMORY
 */
selvage_status_t selvage_device_launch_soft(selvage_device_t *dev, selvage_soft_kernel_t kernel, const void *arg,
                                            size_t arg_bytes, unsigned nblocks, void *stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
