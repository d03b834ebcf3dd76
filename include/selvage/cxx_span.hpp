/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cxx_span.hpp
 * @brief Part of selvage.hpp: elements in a row, and bytes in a row, that belong to somebody else.
 *
 * They are made of whatever has data() and size(): std::vector, std::array, std::span, device_array. They never read
 * what they point to, so they serve for device memory as well as for the host's.
 */
#ifndef SELVAGE_CXX_SPAN_HPP
#define SELVAGE_CXX_SPAN_HPP

#include <cstddef>
#include <type_traits>
#include <utility>

namespace selvage {
namespace detail {

/* What data() of a container points to. */
template <class Container>
using element_of = typename std::remove_pointer<decltype(std::declval<Container &>().data())>::type;

template <class Container>
using size_of = decltype(static_cast<std::size_t>(std::declval<Container &>().size()));

} // namespace detail

/** Elements in a row: a pointer and a number. Borrowed; copied as freely as a pointer. std::span for C++11. */
template <class T>
class span {
public:
    using element_type = T;
    using value_type = typename std::remove_cv<T>::type;

    constexpr span() noexcept : data_(nullptr), size_(0) {}
    constexpr span(T *data, std::size_t length) noexcept : data_(data), size_(length) {}

    template <std::size_t N>
    constexpr span(T (&array)[N]) noexcept : data_(array), size_(N)
    {
    }

    /** Of a container whose elements are T, or become it by `const`. */
    template <class Container,
              class = typename std::enable_if<
                  std::is_convertible<detail::element_of<Container> (*)[], T (*)[]>::value>::type,
              class = detail::size_of<Container>>
    constexpr span(Container &&container) noexcept
        : data_(container.data()), size_(static_cast<std::size_t>(container.size()))
    {
    }

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    /** Reads memory: of what the host can read only. Not checked, as all indices here. */
    constexpr T &operator[](std::size_t index) const { return data_[index]; }
    /** @p length elements from @p first on. */
    constexpr span subspan(std::size_t first, std::size_t length) const { return span(data_ + first, length); }

private:
    T *data_;
    std::size_t size_;
};

/** Bytes in a row that are written: what is received. Of any container of plain elements that are not const. */
class bytes {
public:
    constexpr bytes(void *data, std::size_t length) noexcept : data_(data), size_(length) {}

    template <class Container, class Element = detail::element_of<Container>, class = detail::size_of<Container>,
              class = typename std::enable_if<!std::is_const<Element>::value && !std::is_void<Element>::value>::type>
    constexpr bytes(Container &&container) noexcept
        : data_(container.data()), size_(static_cast<std::size_t>(container.size()) * sizeof(Element))
    {
        static_assert(std::is_trivially_copyable<Element>::value, "elements travel as their bytes");
    }

    constexpr void *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    void *data_;
    std::size_t size_;
};

/** Bytes in a row that are read: what is sent. Of any container of plain elements. */
class const_bytes {
public:
    constexpr const_bytes(const void *data, std::size_t length) noexcept : data_(data), size_(length) {}
    constexpr const_bytes(const bytes &other) noexcept : data_(other.data()), size_(other.size()) {}

    template <class Container, class Element = detail::element_of<const Container>,
              class = detail::size_of<const Container>,
              class = typename std::enable_if<!std::is_void<Element>::value>::type>
    constexpr const_bytes(const Container &container) noexcept
        : data_(container.data()), size_(static_cast<std::size_t>(container.size()) * sizeof(Element))
    {
        static_assert(std::is_trivially_copyable<Element>::value, "elements travel as their bytes");
    }

    constexpr const void *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    const void *data_;
    std::size_t size_;
};

} // namespace selvage

#endif
