/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cxx_comm.hpp
 * @brief Part of selvage.hpp: communicators, and user memory that is exported to the peers of the node.
 */
#ifndef SELVAGE_CXX_COMM_HPP
#define SELVAGE_CXX_COMM_HPP

#include <mpi.h>

#include <cstddef>

#include <selvage/comm.h>
#include <selvage/cxx_error.hpp>
#include <selvage/cxx_handle.hpp>
#include <selvage/cxx_span.hpp>
#include <selvage/stats.h>

namespace selvage {
namespace detail {

struct destroy_comm {
    static void destroy(selvage_comm_t *native) noexcept { selvage_comm_destroy(native); }
};
/* What it refuses is logged; the memory stays exported then. */
struct unregister_buffer {
    static void destroy(selvage_buffer_t *native) noexcept { selvage_buffer_unregister(native); }
};

} // namespace detail

/**
 * A wrapped MPI communicator. Constructors are collective and block, as selvage_comm_create(); so is the destructor,
 * as selvage_comm_destroy(). All that is made on it is destroyed before. One thread at a time, but for messages.
 */
class comm : public handle<selvage_comm_t, detail::destroy_comm> {
public:
    comm() noexcept = default;
    /** On the device that SELVAGE_DEVICE names. @param mpi_comm  an intra-communicator, which may be freed at once */
    explicit comm(MPI_Comm mpi_comm) { check(selvage_comm_create(mpi_comm, nullptr, place())); }
    /** @param params  started by selvage_comm_params_init() */
    comm(MPI_Comm mpi_comm, const selvage_comm_params_t &params)
    {
        check(selvage_comm_create(mpi_comm, &params, place()));
    }
    /** @param device  borrowed: outlives the communicator */
    comm(MPI_Comm mpi_comm, selvage_device_t *device)
    {
        selvage_comm_params_t params = detail::started<selvage_comm_params_t>();
        params.device = device;
        check(selvage_comm_create(mpi_comm, &params, place()));
    }

    /** Rank of the caller; -1 if empty. */
    int rank() const noexcept { return selvage_comm_rank(get()); }
    /** Number of ranks; -1 if empty. */
    int size() const noexcept { return selvage_comm_size(get()); }
    /** Number of ranks on the caller's node; -1 if empty. */
    int node_size() const noexcept { return selvage_comm_node_size(get()); }
    /** What host messages may go by, for people; text of the communicator's. */
    const char *wire() const noexcept { return selvage_comm_wire(get()); }
    /** Its device, borrowed: for streams and memory. Null if it has none. */
    selvage_device_t *device() const noexcept { return selvage_comm_device(get()); }
    /** As selvage_comm_set_device(). */
    void set_device(selvage_device_t *device) const { check(selvage_comm_set_device(get(), device)); }
    /** Advances everything as far as it can go. Never blocks. */
    void progress() const { check(selvage_progress(get())); }
    /** The counters. */
    selvage_stats_t stats() const
    {
        selvage_stats_t counted = detail::started<selvage_stats_t>();
        check(selvage_comm_stats(get(), &counted));
        return counted;
    }
};

/**
 * Device memory that the peers of the node may map, as selvage_buffer_register(). The memory stays the caller's, and
 * is freed after this is destroyed; this, after exchanges that receive into it.
 */
class buffer : public handle<selvage_buffer_t, detail::unregister_buffer> {
public:
    buffer() noexcept = default;
    /** Local; does not block. */
    buffer(selvage_comm_t *comm, bytes memory)
    {
        check(selvage_buffer_register(comm, memory.data(), memory.size(), place()));
    }
    /**
     * What the destructor does, for those who want to know whether it could be.
     * @throws error SELVAGE_ERR_STATE while a committed exchange receives into it; the object keeps it then
     */
    void unregister()
    {
        check(selvage_buffer_unregister(get()));
        release();
    }
};

} // namespace selvage

#endif
