/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cxx_error.hpp
 * @brief Part of selvage.hpp: the exception that carries a status and its detail, and the check that throws it.
 */
#ifndef SELVAGE_CXX_ERROR_HPP
#define SELVAGE_CXX_ERROR_HPP

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include <selvage/status.h>

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define SELVAGE_CXX_THROWS_ 1
#else
#define SELVAGE_CXX_THROWS_ 0
#endif

/** Everything of the C++ headers. */
namespace selvage {

/**
 * What a failing call throws. what() is "SELVAGE_ERR_TIMEOUT: " and the detail. Copies do not throw.
 */
class error : public std::runtime_error {
public:
    /** Of a status, and a text to go with it: by default the detail of this thread's last failing call. */
    explicit error(selvage_status_t status, const char *detail = selvage_error_detail())
        : std::runtime_error(std::string(selvage_status_name(status)) + ": " + detail), status_(status)
    {
    }

    /** The status that the call returned. */
    selvage_status_t status() const noexcept { return status_; }

    /** The detail, as selvage_error_detail() had it; text of the exception's. */
    const char *detail() const noexcept { return what() + std::strlen(selvage_status_name(status_)) + 2; }

private:
    selvage_status_t status_;
};

namespace detail {

/* Out of line, so that a call and its check stay short. */
[[noreturn]] __attribute__((noinline, cold)) inline void fail(selvage_status_t status, const char *detail)
{
#if SELVAGE_CXX_THROWS_
    throw error(status, detail);
#else
    std::fprintf(stderr, "%s: %s\n", selvage_status_name(status), detail);
    std::abort();
#endif
}

/* Of what these headers themselves refuse. */
[[noreturn]] inline void refuse(const char *detail)
{
    fail(SELVAGE_ERR_ARGUMENT, detail);
}

} // namespace detail

/**
 * Throws selvage::error if the status of a C call is an error; SELVAGE_IN_PROGRESS is none.
 *
 *     selvage::check(selvage_halo_rebind(halo, fields));
 */
inline void check(selvage_status_t status)
{
    if (status < 0)
        detail::fail(status, selvage_error_detail());
}

namespace detail {

/* Of a call that tests: true for SUCCESS, false for IN_PROGRESS. */
inline bool is_complete(selvage_status_t status)
{
    check(status);
    return status == SELVAGE_SUCCESS;
}

/* A struct of the C API's that begins with struct_size, all else zero. */
template <class Struct>
Struct started()
{
    Struct made = Struct();
    made.struct_size = sizeof made;
    return made;
}

} // namespace detail
} // namespace selvage

#endif
