/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file selvage.h
 * @brief Everything an application needs: halos and packets between GPUs over MPI, each proved on arrival.
 *
 * Conventions shared by every header:
 * - names are `selvage_<object>_<verb>`; handles are opaque structs made by `create`/`register`/`open` and freed by
 *   `destroy`/`unregister`/`close`, which accept NULL;
 * - calls that can fail return #selvage_status_t, and write their outputs (last in the list) only on success;
 * - parameter structs begin with `struct_size` and are started from their `_INIT` macro, or by their `_init()` function
 *   in C++; zero means "default";
 * - streams are the device's native handles as `void *`; NULL is the legacy default stream;
 * - one thread at a time per communicator, but for messages.
 */
#ifndef SELVAGE_H
#define SELVAGE_H

#include <selvage/collective.h>
#include <selvage/comm.h>
#include <selvage/config.h>
#include <selvage/device.h>
#include <selvage/device_api.h>
#include <selvage/exchange.h>
#include <selvage/grid.h>
#include <selvage/halo.h>
#include <selvage/message.h>
#include <selvage/pack.h>
#include <selvage/stats.h>
#include <selvage/status.h>
#include <selvage/version.h>

#endif
