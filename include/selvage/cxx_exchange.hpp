/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cxx_exchange.hpp
 * @brief Part of selvage.hpp: exchanges, grids and halos.
 *
 * Buffers and fields stay allocated until the exchange or halo is destroyed, so they are declared before it. Streams
 * exist until the wait that ends the epoch.
 */
#ifndef SELVAGE_CXX_EXCHANGE_HPP
#define SELVAGE_CXX_EXCHANGE_HPP

#include <mpi.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>

#include <selvage/cxx_error.hpp>
#include <selvage/cxx_handle.hpp>
#include <selvage/cxx_span.hpp>
#include <selvage/device_api.h>
#include <selvage/exchange.h>
#include <selvage/grid.h>
#include <selvage/halo.h>

namespace selvage {
namespace detail {

struct destroy_exchange {
    static void destroy(selvage_exchange_t *native) noexcept { selvage_exchange_destroy(native); }
};
struct destroy_grid {
    static void destroy(selvage_grid_t *native) noexcept { selvage_grid_destroy(native); }
};
struct destroy_halo {
    static void destroy(selvage_halo_t *native) noexcept { selvage_halo_destroy(native); }
};

} // namespace detail

/**
 * A set of packets that is declared once and moved in every step. The constructor is local; the destructor is
 * collective once the exchange is committed, and blocks as selvage_exchange_destroy().
 */
class exchange : public handle<selvage_exchange_t, detail::destroy_exchange> {
public:
    exchange() noexcept = default;
    explicit exchange(selvage_comm_t *comm) { check(selvage_exchange_create(comm, nullptr, place())); }
    /** @param params  started by selvage_exchange_params_init() */
    exchange(selvage_comm_t *comm, const selvage_exchange_params_t &params)
    {
        check(selvage_exchange_create(comm, &params, place()));
    }

    /** Declares a packet to send, before commit. Local. @return its index among this rank's sends */
    std::uint32_t add_send(const_bytes data, int peer, int tag) const
    {
        std::uint32_t index = 0;
        check(selvage_exchange_add_send(get(), data.data(), data.size(), peer, tag, &index));
        return index;
    }
    /** Declares a packet to receive, before commit. Local. @return its index among this rank's receives */
    std::uint32_t add_recv(bytes data, int peer, int tag) const
    {
        std::uint32_t index = 0;
        check(selvage_exchange_add_recv(get(), data.data(), data.size(), peer, tag, &index));
        return index;
    }
    /** The same of @p count elements of an MPI datatype, which may be freed after the call. */
    std::uint32_t add_send_type(const void *buf, std::size_t count, MPI_Datatype type, int peer, int tag) const
    {
        std::uint32_t index = 0;
        check(selvage_exchange_add_send_type(get(), buf, count, type, peer, tag, &index));
        return index;
    }
    std::uint32_t add_recv_type(void *buf, std::size_t count, MPI_Datatype type, int peer, int tag) const
    {
        std::uint32_t index = 0;
        check(selvage_exchange_add_recv_type(get(), buf, count, type, peer, tag, &index));
        return index;
    }
    /** The same of a list of elements of the array that begins at @p elements; the list is read during the call. */
    template <class T>
    std::uint32_t add_send_indexed(const T *elements, span<const std::int64_t> indices, int peer, int tag) const
    {
        std::uint32_t index = 0;
        check(selvage_exchange_add_send_indexed(get(), elements, sizeof(T), indices.data(), indices.size(), peer, tag,
                                                &index));
        return index;
    }
    template <class T>
    std::uint32_t add_recv_indexed(T *elements, span<const std::int64_t> indices, int peer, int tag) const
    {
        std::uint32_t index = 0;
        check(selvage_exchange_add_recv_indexed(get(), elements, sizeof(T), indices.data(), indices.size(), peer, tag,
                                                &index));
        return index;
    }

    /** The same with indices of 32 bits. */
    template <class T>
    std::uint32_t add_send_indexed(const T *elements, span<const std::int32_t> indices, int peer, int tag) const
    {
        std::uint32_t index = 0;
        check(selvage_exchange_add_send_indexed32(get(), elements, sizeof(T), indices.data(), indices.size(), peer, tag,
                                                  &index));
        return index;
    }
    template <class T>
    std::uint32_t add_recv_indexed(T *elements, span<const std::int32_t> indices, int peer, int tag) const
    {
        std::uint32_t index = 0;
        check(selvage_exchange_add_recv_indexed32(get(), elements, sizeof(T), indices.data(), indices.size(), peer, tag,
                                                  &index));
        return index;
    }

    /** As selvage_exchange_add_graph(): a packet to and from each neighbour in a distributed graph of MPI. */
    void add_graph(MPI_Comm graph, const void *send, span<const std::size_t> send_bytes, void *recv,
                   span<const std::size_t> recv_bytes, int tag) const
    {
        check(selvage_exchange_add_graph(get(), graph, send, send_bytes.data(), nullptr, recv, recv_bytes.data(),
                                         nullptr, tag));
    }

    /** Matches packets with the peers. Collective; blocks. After an error the exchange can only be destroyed. */
    void commit() const { check(selvage_exchange_commit(get())); }
    /** Other buffers between epochs, in the order of the indices; a null pointer, or an empty span, leaves what is
     *  there. Local. Needs params.rebindable. */
    void rebind(span<const void *const> sends, span<void *const> recvs) const
    {
        check(selvage_exchange_rebind(get(), sends.empty() ? nullptr : sends.data(), count_of(sends.size()),
                                      recvs.empty() ? nullptr : recvs.data(), count_of(recvs.size())));
    }
    /** Lengths from the next epoch on, in the order of the indices; an empty span leaves what is there. Local. Needs
     *  params.varying. */
    void set_bytes(span<const std::size_t> sends, span<const std::size_t> recvs) const
    {
        check(selvage_exchange_set_bytes(get(), sends.empty() ? nullptr : sends.data(), count_of(sends.size()),
                                         recvs.empty() ? nullptr : recvs.data(), count_of(recvs.size())));
    }
    /** Starts an epoch after the work on @p stream. Returns at once. */
    void start(void *stream) const { check(selvage_exchange_start(get(), stream)); }
    /** Whether the epoch is complete; then later work on @p stream sees what was received. Never blocks. */
    bool test(void *stream) const { return detail::is_complete(selvage_exchange_test(get(), stream)); }
    /** Blocks until the epoch is complete and verified; later work on @p stream sees what was received. */
    void wait(void *stream) const { check(selvage_exchange_wait(get(), stream)); }
    /** Ends the epoch on @p stream, without the host. An error is thrown by the next call. */
    void enqueue_wait(void *stream) const { check(selvage_exchange_enqueue_wait(get(), stream)); }
    /** start() and enqueue_wait(), with one launch where that can be. */
    void run(void *stream) const { check(selvage_exchange_run(get(), stream)); }
    /** Announces a session of a kernel's: selvage_exchange_device(). */
    selvage_device_exchange_t session(unsigned epochs, void *stream) const
    {
        selvage_device_exchange_t announced;
        check(selvage_exchange_device(get(), epochs, stream, &announced));
        return announced;
    }
    /** Number of epochs started so far; 0 if empty. */
    std::uint64_t epoch() const noexcept { return selvage_exchange_epoch(get()); }
    /** Route that commit settled for the send with this index. */
    selvage_route_t send_route(std::uint32_t index) const
    {
        selvage_route_t route = SELVAGE_ROUTE_DEFAULT;
        check(selvage_exchange_send_route(get(), index, &route));
        return route;
    }

private:
    /* More than there can be are refused by name. */
    static std::uint32_t count_of(std::size_t size) noexcept
    {
        return size < UINT32_MAX ? static_cast<std::uint32_t>(size) : UINT32_MAX;
    }
};

/** A domain that is cut into blocks, one for each rank. Constructors are collective and block; the destructor is
 *  local. Its communicator outlives it. */
class grid : public handle<selvage_grid_t, detail::destroy_grid> {
public:
    /** One number for each dimension that a grid can have. */
    template <class T>
    using numbers = std::array<T, SELVAGE_DIMS_MAX>;

    /** Extent of a block, and the global index of its first cell. */
    struct block_place {
        numbers<std::int64_t> extent, first;
    };

    grid() noexcept = default;
    /** @param params  started by selvage_grid_params_init(), with at least ndims and global_extent */
    grid(selvage_comm_t *comm, const selvage_grid_params_t &params)
    {
        check(selvage_grid_create(comm, &params, place()));
    }
    /** As selvage_grid_create_cart(): blocks, periods and places are those of MPI's topology. */
    static grid from_cart(selvage_comm_t *comm, MPI_Comm cart, const selvage_grid_params_t &params)
    {
        grid made;
        check(selvage_grid_create_cart(comm, cart, &params, made.place()));
        return made;
    }

    /** What it is like, for this rank. */
    selvage_grid_info_t describe() const
    {
        selvage_grid_info_t info = detail::started<selvage_grid_info_t>();
        check(selvage_grid_describe(get(), &info));
        return info;
    }
    /** Coordinates of any rank's block; 0 in dimensions above the grid's, here and below. */
    numbers<int> coords(int rank) const
    {
        numbers<int> found = {{0, 0, 0, 0}};
        check(selvage_grid_coords(get(), rank, found.data()));
        return found;
    }
    /** Rank of the block at @p coords; -1 if it lies outside in an open dimension. */
    int rank(const numbers<int> &coords) const
    {
        int found = -1;
        check(selvage_grid_rank(get(), coords.data(), &found));
        return found;
    }
    /** Rank of the neighbour that lies @p offset (-1, 0, 1 each) away; as rank(). */
    int neighbour(const numbers<int> &offset) const
    {
        int found = -1;
        check(selvage_grid_neighbour(get(), offset.data(), &found));
        return found;
    }
    /** Where any rank's block lies. */
    block_place block(int rank) const
    {
        block_place found = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}};
        check(selvage_grid_block(get(), rank, found.extent.data(), found.first.data()));
        return found;
    }
    /** Own cells whose stencil of these widths stays within own cells: to be computed while halos travel. */
    selvage_box_t interior(const numbers<int> &width_lo, const numbers<int> &width_hi) const
    {
        selvage_box_t found;
        check(selvage_grid_interior(get(), width_lo.data(), width_hi.data(), &found));
        return found;
    }
    /** The other own cells, as two slabs for each dimension of the grid; those of dimensions above it are empty. */
    std::array<selvage_box_t, 2 * SELVAGE_DIMS_MAX> boundary(const numbers<int> &width_lo,
                                                             const numbers<int> &width_hi) const
    {
        std::array<selvage_box_t, 2 * SELVAGE_DIMS_MAX> found = std::array<selvage_box_t, 2 * SELVAGE_DIMS_MAX>();
        check(selvage_grid_boundary(get(), width_lo.data(), width_hi.data(), found.data()));
        return found;
    }
};

/**
 * The halo exchange of some fields of a grid, ready to be started. Constructors are collective and block; so is the
 * destructor, as selvage_halo_destroy(). The grid outlives it, and so do the fields' arrays.
 */
class halo : public handle<selvage_halo_t, detail::destroy_halo> {
public:
    halo() noexcept = default;
    /** Of one field, through the faces. @param field  started by selvage_field_init() */
    halo(selvage_grid_t *grid, const selvage_field_t &field)
    {
        check(selvage_halo_create(grid, nullptr, &field, 1, place()));
    }
    /** Of some fields, read during the call, through the faces. */
    halo(selvage_grid_t *grid, span<const selvage_field_t> fields)
    {
        check(selvage_halo_create(grid, nullptr, fields.data(), count_of(fields), place()));
    }
    /** @param params  started by selvage_halo_params_init() */
    halo(selvage_grid_t *grid, const selvage_halo_params_t &params, span<const selvage_field_t> fields)
    {
        check(selvage_halo_create(grid, &params, fields.data(), count_of(fields), place()));
    }

    /** Starts an epoch after the work on @p stream. Returns at once; launch the interior after it. */
    void start(void *stream) const { check(selvage_halo_start(get(), stream)); }
    /** Whether the epoch is complete, as exchange::test(). Never blocks. */
    bool test(void *stream) const { return detail::is_complete(selvage_halo_test(get(), stream)); }
    /** Blocks until the epoch is complete and verified; later work on @p stream sees the halos. */
    void wait(void *stream) const { check(selvage_halo_wait(get(), stream)); }
    /** Ends the epoch on @p stream, without the host. An error is thrown by the next call. */
    void enqueue_wait(void *stream) const { check(selvage_halo_enqueue_wait(get(), stream)); }
    /** start() and enqueue_wait(), with one launch where that can be. */
    void run(void *stream) const { check(selvage_halo_run(get(), stream)); }
    /** start() and wait(): for codes that have nothing to compute meanwhile. Named after the verb, as in C. */
    void exchange(void *stream) const { check(selvage_halo_exchange(get(), stream)); }
    /** Announces a session of a kernel's: selvage_halo_device(). */
    selvage_device_exchange_t session(unsigned epochs, void *stream) const
    {
        selvage_device_exchange_t announced;
        check(selvage_halo_device(get(), epochs, stream, &announced));
        return announced;
    }
    /**
     * Gives the fields other arrays of the same shape, between two epochs. Local.
     * @param data  one pointer for each field, in their order: not checked
     */
    void rebind(span<void *const> data) const { check(selvage_halo_rebind(get(), data.data())); }
    /** The same for a halo of one field. */
    void rebind(void *data) const { check(selvage_halo_rebind(get(), &data)); }
    /** What it moves on this rank. */
    selvage_halo_info_t describe() const
    {
        selvage_halo_info_t info = detail::started<selvage_halo_info_t>();
        check(selvage_halo_describe(get(), &info));
        return info;
    }

private:
    /* More than an int can count are refused by name: as less than none. */
    static int count_of(span<const selvage_field_t> fields)
    {
        return fields.size() <= INT_MAX ? static_cast<int>(fields.size()) : -1;
    }
};

} // namespace selvage

#endif
