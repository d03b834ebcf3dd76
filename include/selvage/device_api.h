/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file device_api.h
 * @brief Packets from inside kernels: an application's own kernel stores packets into the receivers' memory, closes
 * them, waits for those of its neighbours, reads them and verifies them.
 *
 * A session is a row of epochs that one kernel runs. The host announces it and launches the kernel:
 *
 *     selvage_device_exchange_t handle;                             // about 80 bytes, a kernel argument by value
 *     selvage_exchange_device(ex, epochs, stream, &handle);         // returns at once
 *     step<<<blocks, 256, 0, stream>>>(handle, ...);                // exactly one kernel, on that stream
 *
 * In the kernel, for each epoch e from 0 to handle.epochs - 1, each packet sent is opened, filled and closed, and each
 * packet received is awaited, read and closed, by blocks or by warps (selvage_coop_t):
 *
 *     selvage_outgoing_t out = selvage_outgoing_open(handle, coop, send, e);      // waits for a free slot
 *     selvage_outgoing_store(out, 8 * i, value);                                 // into the receiver's memory
 *     selvage_outgoing_close(handle, coop, out);                                 // digest, record, signal
 *     selvage_incoming_t in = selvage_incoming_await(handle, coop, receive, e);  // waits for the packet
 *     value = selvage_incoming_load<double>(in, 8 * i);
 *     selvage_incoming_close(handle, coop, in);                                  // verifies, gives the slot back
 *
 * and at its end every block calls selvage_device_leave(). Index `send` and `receive` are those that add_send and
 * add_recv gave, from 0. doc/device-api.md has the rules, in short:
 *
 * - Routes self and peer only, packets that kernels move (SELVAGE_KERNEL_PEER_MAX_BYTES); others are refused by name.
 * - The buffers of the declarations are not touched: what is sent is what the kernel stores, every byte once; what
 *   came is what it loads, every byte once. Offsets and sizes are multiples of 8, but for the end of a packet.
 * - All ranks that exchange with each other run these epochs in kernels, or by selvage_exchange_run(). Eager epochs
 *   may come before a session and after it.
 * - Blocks wait for blocks of other ranks, so all blocks of the kernel must be on the device at the same time.
 * - Every wait ends at the deadline. What fails poisons the exchange: waits end at once from then on, opened packets
 *   are not open (stores to them do nothing), and the next host call returns the error. Loaded data may have been
 *   used before that.
 * - Define SELVAGE_DEVICE_DEBUG before including this file, and the rules of epochs and offsets are checked.
 *
 * The file needs nothing but the C++ compiler: nvcc, clang or hipcc for AMD, and for the software device any compiler
 * of C++17. C programs see the types and the calls of the host only.
 */
#ifndef SELVAGE_DEVICE_API_H
#define SELVAGE_DEVICE_API_H

#include <selvage/device_handle.h>
#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct selvage_exchange; /* selvage_exchange_t and selvage_halo_t, whose headers this file does not need */
struct selvage_halo;

/**
 * @brief Announces a session of @p epochs epochs, which the kernel launched next on @p stream runs.
 *
 * Local; returns at once, but the first call on an exchange makes memory and waits for the device. All epochs of the
 * session count as started: the next start, run or session is after them, on @p stream or ordered after it.
 * selvage_exchange_wait() waits for the kernel's end and returns what it has found, and test looks; any other call on
 * the exchange returns it once it is known. The kernel reads nothing of the declared buffers, and writes nothing there.
 *
 * @param[in]  epochs      1 to 2^24
 * @param[out] handle_out  for that kernel only; another session needs another handle. NULL: no session is announced,
 *                         the call only says whether it could be
 * @return ERR_UNSUPPORTED with the packet named (a route through the host, longer than kernels move), also where no
 *         kernel may wait (ranks that share a GPU, the software device without threads), faults are injected, a
 *         progress thread runs, or @p stream is being captured; ERR_STATE (not committed, an epoch under
 *         way); ERR_ARGUMENT; ERR_MEMORY; ERR_DEVICE; the exchange's first error
 */
selvage_status_t selvage_exchange_device(struct selvage_exchange *ex, unsigned epochs, void *stream,
                                         selvage_device_exchange_t *handle_out);

/**
 * @brief The same for a halo, whose packets selvage_outgoing_gather() and selvage_incoming_scatter() move.
 *
 * Packets are one for each neighbour rank, in the order of their ranks; the fields' pointers are given in the kernel.
 *
 * @return as selvage_exchange_device(); ERR_UNSUPPORTED also for reverse halos
 */
selvage_status_t selvage_halo_device(struct selvage_halo *halo, unsigned epochs, void *stream,
                                     selvage_device_exchange_t *handle_out);

#pragma GCC visibility pop
#ifdef __cplusplus
}

#include <selvage/device_pieces.h>

#include <selvage/device_session.h> /* and with these all others of device_*.h */
#endif
#endif
