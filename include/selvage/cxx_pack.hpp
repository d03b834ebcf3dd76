/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cxx_pack.hpp
 * @brief Part of selvage.hpp: elements of an MPI datatype, gathered into a stream of bytes and scattered from one.
 */
#ifndef SELVAGE_CXX_PACK_HPP
#define SELVAGE_CXX_PACK_HPP

#include <mpi.h>

#include <cstddef>
#include <cstdint>

#include <selvage/cxx_error.hpp>
#include <selvage/cxx_handle.hpp>
#include <selvage/cxx_span.hpp>
#include <selvage/pack.h>

namespace selvage {
namespace detail {

struct destroy_pack {
    static void destroy(selvage_pack_t *native) noexcept { selvage_pack_destroy(native); }
};

} // namespace detail

/** How elements of a datatype are gathered and scattered. Local. The device outlives it; its work is complete before it
 *  is destroyed. Any thread; several uses may be under way at once. */
class pack : public handle<selvage_pack_t, detail::destroy_pack> {
public:
    pack() noexcept = default;
    /** @param type  may be freed after the call */
    pack(selvage_device_t *device, std::size_t count, MPI_Datatype type)
    {
        check(selvage_pack_create(device, count, type, place()));
    }
    /** Length of the stream of bytes; 0 if empty. */
    std::size_t size_bytes() const noexcept { return selvage_pack_bytes(get()); }
    /** Bytes that set_table() wants; 0: it has no use for a table. */
    std::size_t table_bytes() const noexcept { return selvage_pack_table_bytes(get()); }
    /** As selvage_pack_set_table(): pinned memory that stays the plan's until it is destroyed. */
    void set_table(void *table) const { check(selvage_pack_set_table(get(), table)); }
    /** Enqueues gathering the elements at @p buf to @p packed. Returns at once; stream-ordered. */
    void gather(const void *buf, void *packed, void *stream) const
    {
        check(selvage_pack_gather(get(), buf, packed, stream));
    }
    /** Enqueues scattering what @p packed has to the elements at @p buf. Returns at once; stream-ordered. */
    void scatter(const_bytes packed, void *buf, void *stream) const
    {
        check(selvage_pack_scatter(get(), packed.data(), packed.size(), buf, stream));
    }
    friend bool operator==(const pack &a, const pack &b) noexcept
    {
        return selvage_pack_is_equal(a.get(), b.get()) != 0;
    }
    friend bool operator!=(const pack &a, const pack &b) noexcept { return !(a == b); }
};

} // namespace selvage

#endif
