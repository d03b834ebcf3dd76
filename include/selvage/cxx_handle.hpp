/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cxx_handle.hpp
 * @brief Part of selvage.hpp: what all classes have in common, the ownership of one native handle.
 *
 * The only place where handles are destroyed. A handle is destroyed once: by the destructor or reset() of the object
 * that holds it, and by nobody after release() or a move.
 */
#ifndef SELVAGE_CXX_HANDLE_HPP
#define SELVAGE_CXX_HANDLE_HPP

#include <cstddef>
#include <utility>

#include <selvage/cxx_error.hpp>
#include <selvage/device.h>

namespace selvage {

/**
 * Owner of one native handle, whose destroy call is `Destroy::destroy(native)`. The base of comm, exchange and others.
 */
template <class Native, class Destroy>
class handle {
public:
    /** Empty: holds nothing. */
    handle() noexcept : native_(nullptr) {}
    handle(handle &&other) noexcept : native_(other.release()) {}
    /** What was held before is destroyed, unless both are one object. */
    handle &operator=(handle &&other) noexcept
    {
        handle taken(std::move(other));
        swap(taken);
        return *this;
    }
    handle(const handle &) = delete;
    handle &operator=(const handle &) = delete;
    ~handle() { reset(); }

    /** The native handle, which stays this object's; null if empty. */
    Native *get() const noexcept { return native_; }
    /** As get(), in calls of the C API. Not of temporaries, which would have destroyed it by the time it is used. */
    operator Native *() const & noexcept { return native_; }
    operator Native *() const && = delete;
    /** Whether a handle is held. */
    explicit operator bool() const & noexcept { return native_ != nullptr; }

    /** Gives the handle to the caller, who destroys it; the object is empty then. */
    Native *release() noexcept
    {
        Native *given = native_;
        native_ = nullptr;
        return given;
    }

    /** Destroys what is held, and takes over @p native. */
    void reset(Native *native = nullptr) noexcept
    {
        Native *old = native_;
        native_ = native;
        if (old)
            Destroy::destroy(old);
    }

    void swap(handle &other) noexcept { std::swap(native_, other.native_); }
    friend void swap(handle &a, handle &b) noexcept { a.swap(b); }

protected:
    /* For the C calls that make a handle: only of an empty object. */
    Native **place() noexcept { return &native_; }

private:
    Native *native_;
};

/**
 * The same for what belongs to a device: `Destroy::destroy(device, native)`. The device is borrowed, and outlives it.
 */
template <class Native, class Destroy>
class device_handle {
public:
    device_handle() noexcept : device_(nullptr), native_(nullptr) {}
    device_handle(device_handle &&other) noexcept : device_(other.device_), native_(other.release()) {}
    device_handle &operator=(device_handle &&other) noexcept
    {
        device_handle taken(std::move(other));
        swap(taken);
        return *this;
    }
    device_handle(const device_handle &) = delete;
    device_handle &operator=(const device_handle &) = delete;
    ~device_handle() { reset(); }

    /** The native handle, which stays this object's; null if empty. */
    Native *get() const noexcept { return native_; }
    operator Native *() const & noexcept { return native_; }
    operator Native *() const && = delete;
    explicit operator bool() const & noexcept { return native_ != nullptr; }
    /** The device it belongs to; null if empty. */
    selvage_device_t *device() const noexcept { return device_; }

    /** Gives the handle to the caller, who destroys it on the same device; the object is empty then. */
    Native *release() noexcept
    {
        Native *given = native_;
        device_ = nullptr;
        native_ = nullptr;
        return given;
    }

    /** Destroys what is held; the object is empty then. */
    void reset() noexcept
    {
        selvage_device_t *device = device_;
        if (Native *old = release())
            Destroy::destroy(device, old);
    }

    /** Destroys what is held, and takes over @p native, which is of @p device. */
    void reset(selvage_device_t *device, Native *native) noexcept
    {
        reset();
        device_ = device;
        native_ = native;
    }

    void swap(device_handle &other) noexcept
    {
        std::swap(device_, other.device_);
        std::swap(native_, other.native_);
    }
    friend void swap(device_handle &a, device_handle &b) noexcept { a.swap(b); }

private:
    selvage_device_t *device_;
    Native *native_;
};

} // namespace selvage

#endif
