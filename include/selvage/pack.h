/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file pack.h
 * @brief Elements of an MPI datatype in device memory, gathered into a stream and scattered from one on the device.
 */
#ifndef SELVAGE_PACK_H
#define SELVAGE_PACK_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include <selvage/comm.h>
#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** How elements of a datatype are gathered and scattered on a device (opaque). */
typedef struct selvage_pack selvage_pack_t;

/**
 * @brief Takes a datatype apart. Local; does not block; a thread that may call MPI.
 * @param[in]  dev       outlives the plan
 * @param[in]  count     elements, 0 too
 * @param[in]  type      as for selvage_exchange_add_send_type(); it may be freed after the call
 * @param[out] pack_out  freed by selvage_pack_destroy()
 * @return ERR_ARGUMENT, ERR_UNSUPPORTED (darray), ERR_LIMIT, ERR_MEMORY, ERR_STATE (MPI is not initialised), ERR_MPI
 */
selvage_status_t selvage_pack_create(selvage_device_t *dev, size_t count, MPI_Datatype type,
                                     selvage_pack_t **pack_out);

/** @brief Bytes of the stream, as MPI_Type_size says them. Local; 0 for NULL. */
size_t selvage_pack_bytes(const selvage_pack_t *pack);

/**
 * @brief Bytes of the table by which a plan of many small pieces moves all of them in one launch. Local; 0: the plan
 * has no use for one, or is NULL. Without its table such a plan takes a launch or a copy for each piece.
 */
size_t selvage_pack_table_bytes(const selvage_pack_t *pack);

/**
 * @brief Writes the plan's table. Local; does not block; not while another thread uses the plan.
 * @param[in]  pack   has no table yet
 * @param[out] table  selvage_pack_table_bytes() bytes of pinned memory, aligned to 16 bytes; they stay the plan's
 *                    until it is freed and its work is complete
 * @return ERR_ARGUMENT, ERR_STATE (the plan has a table)
 */
selvage_status_t selvage_pack_set_table(selvage_pack_t *pack, void *table);

/**
 * @brief A number that is the same for plans that say the same: where the bytes of the elements lie, in which order,
 * and on which device, whatever constructors the type was made by. Local; 0 for NULL.
 */
uint64_t selvage_pack_digest(const selvage_pack_t *pack);

/**
 * @brief Whether two plans say the same, so that one can be used in place of the other. Local; 0 if either is NULL.
 * @param[in] other  the other plan
 */
int selvage_pack_is_equal(const selvage_pack_t *pack, const selvage_pack_t *other);

/**
 * @brief Enqueues gathering the elements at @p buf to @p packed. Returns at once; stream-ordered.
 *
 * Any thread; several uses of one plan may be under way at once.
 *
 * @param[in]  buf     as in MPI_Pack, in memory that the device reaches
 * @param[out] packed  the stream, in device or pinned memory
 * @return ERR_ARGUMENT, ERR_DEVICE, ERR_LIMIT
 */
selvage_status_t selvage_pack_gather(selvage_pack_t *pack, const void *buf, void *packed, void *stream);

/**
 * @brief Enqueues scattering the first @p bytes of a stream to the elements at @p buf; what lies between the elements
 * is not touched. As selvage_pack_gather().
 */
selvage_status_t selvage_pack_scatter(selvage_pack_t *pack, const void *packed, size_t bytes, void *buf, void *stream);

/**
 * @brief As selvage_pack_gather(), of a part of the stream: @p bytes bytes of it, from byte @p from on, to @p packed.
 * Parts that begin at multiples of 8 are the fastest. A part that is out of the stream is ERR_ARGUMENT.
 * @param[in] from  first byte of the stream to be moved
 */
selvage_status_t selvage_pack_gather_part(selvage_pack_t *pack, const void *buf, size_t from, size_t bytes,
                                          void *packed, void *stream);

/**
 * @brief As selvage_pack_scatter(), of a part of the stream: what is at @p packed begins with its byte @p from.
 * @param[in] from  first byte of the stream to be moved
 */
selvage_status_t selvage_pack_scatter_part(selvage_pack_t *pack, const void *packed, size_t from, size_t bytes,
                                           void *buf, void *stream);

/** @brief Frees a plan whose work is complete. Accepts NULL. */
void selvage_pack_destroy(selvage_pack_t *pack);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
