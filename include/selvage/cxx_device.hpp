/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cxx_device.hpp
 * @brief Part of selvage.hpp: devices, streams, events, graphs, and arrays in device and pinned memory.
 *
 * As device.h: for programs without a GPU runtime of their own, and for portable ones. Other programs pass their
 * pointers and streams. All calls are local; any thread may make them, one at a time for each object.
 */
#ifndef SELVAGE_CXX_DEVICE_HPP
#define SELVAGE_CXX_DEVICE_HPP

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <selvage/cxx_error.hpp>
#include <selvage/cxx_handle.hpp>
#include <selvage/cxx_span.hpp>
#include <selvage/device.h>

namespace selvage {
namespace detail {

struct close_device {
    static void destroy(selvage_device_t *native) noexcept { selvage_device_close(native); }
};
struct destroy_stream {
    static void destroy(selvage_device_t *device, void *native) noexcept { selvage_stream_destroy(device, native); }
};
struct destroy_event {
    static void destroy(selvage_device_t *device, selvage_event_t *native) noexcept
    {
        selvage_event_destroy(device, native);
    }
};
struct destroy_graph {
    static void destroy(selvage_device_t *device, selvage_graph_t *native) noexcept
    {
        selvage_graph_destroy(device, native);
    }
};

/* Where the memory of an array comes from, and goes to. */
struct device_memory {
    static selvage_status_t allocate(selvage_device_t *device, std::size_t length, void **made)
    {
        return selvage_device_malloc(device, length, made);
    }
    static void destroy(selvage_device_t *device, void *memory) noexcept { selvage_device_free(device, memory); }
};
struct pinned_memory {
    static selvage_status_t allocate(selvage_device_t *device, std::size_t length, void **made)
    {
        return selvage_device_host_malloc(device, length, made);
    }
    static void destroy(selvage_device_t *device, void *memory) noexcept { selvage_device_host_free(device, memory); }
};

} // namespace detail

/** A device that was opened. Outlives communicators, streams and memory of it. */
class device : public handle<selvage_device_t, detail::close_device> {
public:
    /** Empty. */
    device() noexcept = default;
    /** As selvage_device_open(): "soft", "auto", or nullptr for what SELVAGE_DEVICE says. */
    explicit device(const char *name) { check(selvage_device_open(name, place())); }

    /** As selvage_device_open_local(): the GPU that is this rank's share of the host's. */
    static device open_local(const char *name = nullptr)
    {
        device made;
        check(selvage_device_open_local(name, made.place()));
        return made;
    }
    /** As selvage_device_open_at(): the GPU that @p memory is of. */
    static device open_at(const char *name, const void *memory)
    {
        device made;
        check(selvage_device_open_at(name, memory, made.place()));
        return made;
    }
    /** As selvage_device_probe(): how many devices of a kind this process sees. */
    static int count(const char *name)
    {
        int found = 0;
        check(selvage_device_probe(name, &found));
        return found;
    }

    /** Kind of the device: "soft", "nvidia", "amd"; "" if empty. */
    const char *name() const noexcept { return selvage_device_name(get()); }
    /** Number, bus id and model. */
    selvage_device_info_t describe() const
    {
        selvage_device_info_t info = detail::started<selvage_device_info_t>();
        check(selvage_device_describe(get(), &info));
        return info;
    }
    /** As selvage_device_make_current(). */
    void make_current() const { check(selvage_device_make_current(get())); }
    /** Blocks until all work of this process on the device is complete. */
    void synchronize() const { check(selvage_device_synchronize(get())); }
    /** As selvage_device_peer_access(): whether it reaches the memory of the device with that bus id. */
    bool reaches(const char *bus_id) const
    {
        int possible = 0;
        check(selvage_device_peer_access(get(), bus_id, &possible));
        return possible != 0;
    }
    /** As selvage_device_is_shared(): whether other processes have it open. */
    bool is_shared() const
    {
        int shared = 0;
        check(selvage_device_is_shared(get(), &shared));
        return shared != 0;
    }
    /** As selvage_device_memory(): where @p length bytes at @p ptr lie. */
    selvage_memory_t memory(const void *ptr, std::size_t length) const
    {
        selvage_memory_t found = SELVAGE_MEMORY_UNKNOWN;
        check(selvage_device_memory(get(), ptr, length, &found));
        return found;
    }
};

/** A place in a stream that can be waited for. Recorded by stream::record(); destroyed while on its way, if need be. */
class event : public device_handle<selvage_event_t, detail::destroy_event> {
public:
    event() noexcept = default;
    /** Not recorded yet. */
    explicit event(selvage_device_t *device)
    {
        selvage_event_t *made = nullptr;
        check(selvage_event_create(device, &made));
        reset(device, made);
    }
    /** Records the event after all that is enqueued on @p stream. Returns at once; the last record counts. */
    void record(void *stream) const { check(selvage_event_record(device(), get(), stream)); }
    /** Whether what was before the last record is complete. Never blocks. */
    bool query() const { return detail::is_complete(selvage_event_query(device(), get())); }
    /** Blocks until it is. */
    void synchronize() const { check(selvage_event_synchronize(device(), get())); }
};

/** What was captured of a stream, by stream::end_capture(). Launches under way outlive it. */
class graph : public device_handle<selvage_graph_t, detail::destroy_graph> {
public:
    graph() noexcept = default;
    /** Runs all of it on @p stream. Returns at once; stream-ordered. */
    void launch(void *stream) const { check(selvage_graph_launch(device(), get(), stream)); }
};

/**
 * An in-order stream of a device. The destructor blocks until its work is done. An empty one stands for the default
 * stream where the C API takes a stream; its own methods throw.
 */
class stream : public device_handle<void, detail::destroy_stream> {
public:
    stream() noexcept = default;
    explicit stream(selvage_device_t *device)
    {
        void *made = nullptr;
        check(selvage_stream_create(device, &made));
        reset(device, made);
    }
    /** Blocks until everything enqueued so far is complete. */
    void synchronize() const { check(selvage_stream_synchronize(device(), get())); }

    /**
     * Enqueues a copy of all bytes of @p from; returns at once. Host memory should be pinned, or the copy may block.
     * @throws error SELVAGE_ERR_ARGUMENT if there is less room in @p to; what selvage_device_copy() returns
     */
    void copy(bytes to, const_bytes from, selvage_copy_t direction) const
    {
        if (to.size() < from.size())
            detail::refuse("stream::copy: `to` has fewer bytes than `from`");
        check(selvage_device_copy(device(), to.data(), from.data(), from.size(), direction, get()));
    }
    /** Enqueues a fill of all bytes of @p to with @p value; returns at once. */
    void fill(bytes to, int value) const
    {
        check(selvage_device_fill(device(), to.data(), value, to.size(), get()));
    }
    /** As selvage_device_delay_us(): enqueues a pause. */
    void delay_us(double us) const { check(selvage_device_delay_us(device(), us, get())); }
    /** As selvage_device_launch_soft(): a function as a kernel of the software device. @p arg is copied. */
    template <class Argument>
    void launch_soft(selvage_soft_kernel_t kernel, const Argument &arg, unsigned nblocks) const
    {
        static_assert(std::is_trivially_copyable<Argument>::value, "the argument is copied as its bytes");
        check(selvage_device_launch_soft(device(), kernel, &arg, sizeof arg, nblocks, get()));
    }

    /** As selvage_graph_begin(): what is enqueued from now on is recorded and not run. */
    void begin_capture() const { check(selvage_graph_begin(device(), get())); }
    /** As selvage_graph_end(): the graph of it. The capture is over even if this throws. */
    graph end_capture() const
    {
        selvage_graph_t *made = nullptr;
        check(selvage_graph_end(device(), get(), &made));
        graph captured;
        captured.reset(device(), made);
        return captured;
    }
};

/**
 * Elements in memory that a device allocated, not cleared; use device_array and pinned_array. Work that uses them is
 * complete before they are destroyed.
 */
template <class T, class Memory>
class array : private device_handle<void, Memory> {
    using base = device_handle<void, Memory>;
    static_assert(std::is_trivially_copyable<T>::value, "elements are moved as their bytes");

public:
    using element_type = T;
    using value_type = T;
    using base::device;
    using base::operator bool;

    array() noexcept : size_(0) {}
    /**
     * @param owner   device, borrowed
     * @param number  of elements; 0 makes an array that may be destroyed and not be read
     */
    array(selvage_device_t *owner, std::size_t number) : size_(number)
    {
        void *made = nullptr;
        check(Memory::allocate(owner, number <= SIZE_MAX / sizeof(T) ? number * sizeof(T) : SIZE_MAX, &made));
        base::reset(owner, made);
    }
    array(array &&other) noexcept : base(std::move(other)), size_(other.size_) { other.size_ = 0; }
    array &operator=(array &&other) noexcept
    {
        array taken(std::move(other));
        swap(taken);
        return *this;
    }

    /** Its first byte: an address on the device for device_array, of the host as well for pinned_array. */
    T *data() const noexcept { return static_cast<T *>(base::get()); }
    std::size_t size() const noexcept { return size_; }
    std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    /** Frees the memory; the array is empty then. */
    void reset() noexcept { array().swap(*this); }

    void swap(array &other) noexcept
    {
        base::swap(other);
        std::swap(size_, other.size_);
    }
    friend void swap(array &a, array &b) noexcept { a.swap(b); }

private:
    std::size_t size_;
};

/** Device memory, aligned to 256 bytes, mappable by the peers of the node. */
template <class T>
using device_array = array<T, detail::device_memory>;

/** Pinned host memory, for copies that do not block: `span<T>(pinned)[i]` is its element. */
template <class T>
using pinned_array = array<T, detail::pinned_memory>;

} // namespace selvage

#endif
