/* SPDX-License-Identifier: BSD-3-Clause */
/* The software device, a GPU made of CPU threads: all that the device registry needs to know of it. */
#ifndef SV_SOFT_DEVICE_H
#define SV_SOFT_DEVICE_H

#include "base/base_config.h"
#include "device/device.h"

/* Reads the soft_ members of config. Partner: dev->ops->close(dev). */
selvage_status_t sv_soft_open(const sv_config_t *config, sv_device_t **dev_out);

#endif
