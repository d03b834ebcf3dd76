/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file selvage.hpp
 * @brief The C API as C++11 classes: handles that own, errors that are thrown. Header only, one C call for each method.
 *
 * Conventions shared by the headers that this one takes in:
 * - A class owns one native handle. It can be moved and not copied; a moved-from object is empty, as one made by its
 *   default constructor is, and destroys nothing. Methods of an empty object throw SELVAGE_ERR_ARGUMENT.
 * - get() gives the native handle, which the object keeps; release() gives it away; reset() takes one over. An object
 *   stands for its handle in calls of the C API: `selvage_halo_start(halo, stream)` is halo.start(stream) without
 *   exceptions.
 * - Constructors and methods throw selvage::error, with the status and its detail, for what the C call returns as an
 *   error. Where exceptions are off (-fno-exceptions), the detail is printed and the program aborted.
 * - Destructors and assignments never throw. They make the C API's destroy call, which logs what goes wrong. What is
 *   collective there is collective here: objects are destroyed in one order on all ranks, also by the end of a block or
 *   an exception. Where only some ranks throw, destructors wait for the others up to their deadline.
 * - An object outlives what is made of it: device, communicator, grid, halo. Locals that are declared in this order are
 *   destroyed rightly. Memory and streams come before the exchanges and halos that use them, for the same reason.
 * - Arguments that are borrowed are native handles: an object, or a pointer of the C API's, will do. A stream is a
 *   `void *`: a selvage::stream, a cudaStream_t, a hipStream_t, or nullptr for the default stream.
 * - Ordering on streams, blocking and threads are those of the C call that the method names.
 */
#ifndef SELVAGE_HPP
#define SELVAGE_HPP

#include <selvage.h>

#include <selvage/cxx_collective.hpp>
#include <selvage/cxx_comm.hpp>
#include <selvage/cxx_device.hpp>
#include <selvage/cxx_error.hpp>
#include <selvage/cxx_exchange.hpp>
#include <selvage/cxx_handle.hpp>
#include <selvage/cxx_message.hpp>
#include <selvage/cxx_pack.hpp>
#include <selvage/cxx_span.hpp>

#endif
