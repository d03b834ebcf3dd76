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

/** @brief Closes a device opened by selvage_device_open(). Its streams must be destroyed. Accepts NULL. */
void selvage_device_close(selvage_device_t *dev);

/** @brief Kind of the device: "soft". Static text; "" for NULL. */
const char *selvage_device_name(const selvage_device_t *dev);

/**
 * @brief Allocates device memory, aligned to 256 bytes, mappable by the peers of the node. Does not clear it.
 * @param[in]  bytes    0 gives a valid pointer that may be freed and not be read
 * @param[out] ptr_out  freed by selvage_device_free()
 * @return ERR_ARGUMENT, ERR_MEMORY
 */
selvage_status_t selvage_device_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out);

/** @brief Frees device memory; work that uses it must be complete. Accepts a NULL pointer. */
void selvage_device_free(selvage_device_t *dev, void *ptr);

/** @brief Allocates pinned host memory, aligned to 256 bytes. Freed by selvage_device_host_free(). */
selvage_status_t selvage_device_host_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out);

/** @brief Frees pinned host memory. Accepts a NULL pointer. */
void selvage_device_host_free(selvage_device_t *dev, void *ptr);

/** @brief Makes an in-order stream. @param[out] stream_out native handle, freed by selvage_stream_destroy() */
selvage_status_t selvage_stream_create(selvage_device_t *dev, void **stream_out);

/** @brief Destroys a stream after its work is done (blocks for that). Accepts a NULL stream, which does nothing. */
void selvage_stream_destroy(selvage_device_t *dev, void *stream);

/** @brief Blocks until everything enqueued on @p stream so far is complete. @return the first device error */
selvage_status_t selvage_stream_synchronize(selvage_device_t *dev, void *stream);

/** Direction of a copy; decides which link it uses. */
typedef enum selvage_copy {
    SELVAGE_COPY_DEVICE_TO_HOST = 1,
    SELVAGE_COPY_HOST_TO_DEVICE = 2,
    SELVAGE_COPY_DEVICE_TO_DEVICE = 3
} selvage_copy_t;

/** @brief Enqueues a copy; returns at once. Host memory should be pinned, or the copy may block. Stream-ordered. */
selvage_status_t selvage_device_copy(selvage_device_t *dev, void *dst, const void *src, size_t bytes,
                                     selvage_copy_t direction, void *stream);

/** @brief Enqueues a fill of @p bytes bytes with @p value. Stream-ordered. */
selvage_status_t selvage_device_fill(selvage_device_t *dev, void *dst, int value, size_t bytes, void *stream);

/**
 * @brief Enqueues a pause of @p us microseconds: a modelled kernel that takes time and does nothing.
 *
 * Stream-ordered; returns at once. On soft it uses no CPU, so that overlap can be measured on a small machine.
 */
selvage_status_t selvage_device_delay_us(selvage_device_t *dev, double us, void *stream);

/** A kernel of the software device: called once per block; @p arg is the launch's private copy of the argument. */
typedef void (*selvage_soft_kernel_t)(const void *arg, unsigned block, unsigned nblocks);

/**
 * @brief Launches a C function as a kernel of the software device: one CPU thread per block. Stream-ordered.
 *
 * Returns at once; @p arg is copied. All blocks run at the same time, so they may wait for each other.
 *
 * @param[in] arg_bytes  at most 192
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
