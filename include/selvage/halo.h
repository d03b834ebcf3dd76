/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file halo.h
 * @brief Halos: fields on a decomposed grid, and the exchange that fills the cells around a rank's block.
 *
 * A field is an array in device memory that holds this rank's own cells and, around them, room for the neighbours'
 * (two dimensions, width 1 below and 2 above, dimension 1 fastest):
 *
 *                 dimension 1 ->
 *       data --> h h h h h h h       index of the first own cell in the array: first[] = {1, 1}
 *                h o o o o h h       o: own cells, local_extent[] = {3, 4}
 *                h o o o o h h       h: halo, owned by a neighbour
 *                h o o o o h h       array_extent[] = {6, 7}
 *                h h h h h h h
 *                h h h h h h h
 *
 * One exchange moves any number of fields: one packet per neighbour rank, one launch that packs all of them and one
 * that verifies and unpacks. Rules of ordering and ownership are those of exchange.h.
 */
#ifndef SELVAGE_HALO_H
#define SELVAGE_HALO_H

#include <stddef.h>
#include <stdint.h>

#include <selvage/exchange.h>
#include <selvage/grid.h>
#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A halo exchange (opaque). */
typedef struct selvage_halo selvage_halo_t;

/** Which dimension of an array varies fastest where strides are not given. */
typedef enum selvage_order {
    SELVAGE_ORDER_DEFAULT = 0, /**< the last (row-major, C) */
    SELVAGE_ORDER_FIRST = 1    /**< the first (column-major, Fortran) */
} selvage_order_t;

/** Which cells of the array exist. Parity of a cell: the sum of its global indices modulo 2. */
typedef enum selvage_parity {
    SELVAGE_PARITY_ALL = 0,  /**< every cell */
    SELVAGE_PARITY_EVEN = 1, /**< only even ones; see selvage_field_t */
    SELVAGE_PARITY_ODD = 2   /**< only odd ones */
} selvage_parity_t;

/** Numbers that a reverse exchange can add. */
typedef enum selvage_number {
    SELVAGE_NUMBER_NONE = 0,
    SELVAGE_NUMBER_FLOAT32 = 1,
    SELVAGE_NUMBER_FLOAT64 = 2,
    SELVAGE_NUMBER_INT32 = 3, /**< wraps */
    SELVAGE_NUMBER_INT64 = 4  /**< wraps */
} selvage_number_t;

/**
 * One field. Zero means the usual thing for every member but struct_size, data, element_bytes and the widths.
 *
 * Where an element of component c at local index i lies: data + c * component_stride_bytes + sum over d of
 * (first[d] + i[d]) * stride_bytes[d].
 *
 * A field of one parity is stored compactly: dimension `packed_dim` (the fastest one) has half as many places. The cell
 * at array index j in it lies at place j / 2, rounded down, of its row. array_extent[packed_dim] (in cells) must be
 * even, and so must periodic dimensions of the domain in which the field has a halo. Faces are packed fastest where
 * first[packed_dim] is even: then each is a box.
 */
typedef struct selvage_field {
    size_t struct_size;                       /**< set by SELVAGE_FIELD_INIT */
    void *data;                               /**< first byte of the array, in memory that the device reaches */
    size_t element_bytes;                     /**< of one component of a cell: any size */
    int width_lo[SELVAGE_DIMS_MAX];           /**< halo cells below, per dimension */
    int width_hi[SELVAGE_DIMS_MAX];           /**< halo cells above */
    selvage_order_t order;
    int stagger[SELVAGE_DIMS_MAX];            /**< 1: the field lives on faces of this dimension. The face below a cell
                                                   has the cell's index; the uppermost face of an open dimension belongs
                                                   to the last block, whose own extent is one more there */
    int64_t array_extent[SELVAGE_DIMS_MAX];   /**< of the array, in cells; 0: width_lo + own + width_hi */
    int64_t first[SELVAGE_DIMS_MAX];          /**< array index of the first own cell, if has_first; else width_lo */
    int has_first;
    ptrdiff_t stride_bytes[SELVAGE_DIMS_MAX]; /**< all zero: by order and array_extent, without gaps */
    int components;                           /**< planes of a structure of arrays; 0 is 1 */
    ptrdiff_t component_stride_bytes;         /**< from plane to plane; 0: one array after the other */
    selvage_parity_t parity;
    int packed_dim;                           /**< of a field of one parity: the dimension with half as many places */
    selvage_number_t number;                  /**< for reverse exchanges: what an element consists of */
} selvage_field_t;

/** Initialiser: `selvage_field_t f = {SELVAGE_FIELD_INIT, .data = u, .element_bytes = 8, ...};` */
#define SELVAGE_FIELD_INIT .struct_size = sizeof(selvage_field_t)

/** @brief The same as a function, which serves in any C++: a field that is all zero. Local. */
static inline selvage_field_t selvage_field_init(void)
{
    selvage_field_t started = SELVAGE_ZEROED_(selvage_field_t);
    started.struct_size = sizeof started;
    return started;
}

/** Which neighbours take part. */
typedef enum selvage_halo_shape {
    SELVAGE_HALO_DEFAULT = 0, /**< faces only */
    SELVAGE_HALO_FACES = 1,
    SELVAGE_HALO_FULL = 2,      /**< faces, edges and corners in one shot */
    SELVAGE_HALO_DIRECTIONS = 3 /**< those that `directions` lists */
} selvage_halo_shape_t;

/** Parameters of selvage_halo_create(). */
typedef struct selvage_halo_params {
    size_t struct_size;            /**< set by SELVAGE_HALO_PARAMS_INIT */
    selvage_halo_shape_t shape;
    int ndirections;               /**< of SELVAGE_HALO_DIRECTIONS: how many */
    const int *directions;         /**< ndims numbers each, -1, 0 or 1, not all 0: where data travels to. {1, 0, 0}
                                        fills the lower halo of dimension 0 from the neighbour below. Read during
                                        the call */
    int reverse;                   /**< not 0: halo cells travel back and are added to the cells that they stand for;
                                        every field has a number. The order of additions depends on the grid only */
    selvage_route_t route;         /**< as for selvage_exchange_create() */
    selvage_checksum_t checksum;   /**< as for selvage_exchange_create() */
} selvage_halo_params_t;

/** Initialiser: `selvage_halo_params_t p = {SELVAGE_HALO_PARAMS_INIT, .shape = SELVAGE_HALO_FULL};` */
#define SELVAGE_HALO_PARAMS_INIT .struct_size = sizeof(selvage_halo_params_t)

/** @brief The same as a function, which serves in any C++: parameters that are all default. Local. */
static inline selvage_halo_params_t selvage_halo_params_init(void)
{
    selvage_halo_params_t started = SELVAGE_ZEROED_(selvage_halo_params_t);
    started.struct_size = sizeof started;
    return started;
}

/**
 * @brief Makes the halo exchange of some fields, ready to be started.
 *
 * Collective over the grid's communicator, in one order on all ranks; blocks up to the deadline; not stream-ordered.
 * How a field lies in memory (data, order, array_extent, first, strides) may differ between ranks. It is fastest where
 * all ranks have their dimensions in one order. Everything else of the fields is the same everywhere, which is checked.
 * At the open ends of a domain nothing is sent or written.
 *
 * @param[in]  params    NULL: faces, forward
 * @param[in]  fields    read during the call
 * @param[out] halo_out  owned by the caller; freed by selvage_halo_destroy() before the grid
 * @return ERR_ARGUMENT with the argument named (a halo wider than a block, no field with any width, fields that
 *         overlap, an array that does not hold its halo, ...), ERR_MISMATCH (ranks differ: the field and its member are
 *         named), and what selvage_exchange_commit() returns
 */
selvage_status_t selvage_halo_create(selvage_grid_t *grid, const selvage_halo_params_t *params,
                                     const selvage_field_t *fields, int nfields, selvage_halo_t **halo_out);

/** @brief Frees a halo. Collective; as selvage_exchange_destroy(). Accepts NULL. */
void selvage_halo_destroy(selvage_halo_t *halo);

/** @brief Phases 0 and 1: as selvage_exchange_start(). Returns at once; launch the interior after it. */
selvage_status_t selvage_halo_start(selvage_halo_t *halo, void *stream);

/** @brief As selvage_exchange_test(). */
selvage_status_t selvage_halo_test(selvage_halo_t *halo, void *stream);

/**
 * @brief Phases 2 to 6: as selvage_exchange_wait(). Later work on @p stream sees the halos.
 *
 * Unpacking may be such work itself: a host that reads them synchronises @p stream first.
 */
selvage_status_t selvage_halo_wait(selvage_halo_t *halo, void *stream);

/** @brief Ends the exchange on the stream, without the host: as selvage_exchange_enqueue_wait(). */
selvage_status_t selvage_halo_enqueue_wait(selvage_halo_t *halo, void *stream);

/** @brief start and enqueue_wait in one, with one launch where that can be: as selvage_exchange_run(). */
selvage_status_t selvage_halo_run(selvage_halo_t *halo, void *stream);

/** @brief start and wait in one: for codes that have nothing to compute meanwhile. @return as selvage_halo_wait() */
selvage_status_t selvage_halo_exchange(selvage_halo_t *halo, void *stream);

/**
 * @brief Gives the fields other arrays of the same shape: for codes that swap A and B in every step.
 *
 * Local; not collective (every rank may do so at its own time); between wait, or enqueue_wait, and the next start only.
 * Graphs keep the arrays of their capture. After one, ERR_STATE for more than five fields.
 * Sets of pointers that were seen lately cost nothing; a new set is copied to the device, for which the host waits.
 *
 * @param[in] data  one pointer per field, in their order; arrays do not overlap, and are aligned like the first ones
 * @return ERR_ARGUMENT with the pointer named, ERR_STATE while an epoch is under way, ERR_DEVICE
 */
selvage_status_t selvage_halo_rebind(selvage_halo_t *halo, void *const *data);

/** What a halo moves, on this rank. */
typedef struct selvage_halo_info {
    size_t struct_size;       /**< set by SELVAGE_HALO_INFO_INIT; tells how much is filled */
    int packets;              /**< sent per epoch: one per neighbour rank */
    size_t bytes_sent;        /**< per epoch, paddings included */
    size_t bytes_contiguous;  /**< those of them that needed no packing */
    size_t bytes_received;
} selvage_halo_info_t;

/** Initialiser: `selvage_halo_info_t i = {SELVAGE_HALO_INFO_INIT};` */
#define SELVAGE_HALO_INFO_INIT .struct_size = sizeof(selvage_halo_info_t)

/** @brief The same as a function, which serves in any C++: an empty struct to be filled. Local. */
static inline selvage_halo_info_t selvage_halo_info_init(void)
{
    selvage_halo_info_t started = SELVAGE_ZEROED_(selvage_halo_info_t);
    started.struct_size = sizeof started;
    return started;
}

/**
 * @brief Tells what a halo moves. Local.
 * @param[in,out] info  struct_size says how much is written
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_halo_describe(const selvage_halo_t *halo, selvage_halo_info_t *info);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
