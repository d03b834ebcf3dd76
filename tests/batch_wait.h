/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of test_batch in which kernels wait, for the words of other streams or of the host.
 */
#ifndef SELVAGE_TESTS_BATCH_WAIT_H
#define SELVAGE_TESTS_BATCH_WAIT_H

#include "device/device.h"

/* concurrent: streams run beside each other and beside the host. */
void batch_test_waits(sv_device_t *dev, void *stream, void *other, bool concurrent);

#endif
