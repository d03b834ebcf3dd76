/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run set-user-id by test_secure.sh, with SELVAGE_ variables of a caller who has fewer rights: none of them may
 * be seen, neither good ones nor unknown ones, and the plug-in that SELVAGE_DEVICE_PATH names must not be loaded.
 */
#include <sys/auxv.h>

#include "base/base_config.h"
#include "base/base_local_rank.h"
#include "base/base_profiler.h"
#include "fixtures/check.h"
#include "device/device.h"

int main(void)
{
    sv_config_t config;
    sv_device_t *dev = NULL;
    if (!getauxval(AT_SECURE)) {
        printf("the program has the rights of its caller here\n");
        return CHECK_SKIP;
    }
    CHECK_STATUS(sv_config_load(NULL, NULL, &config), SELVAGE_SUCCESS);
    CHECK_EQ(config.environment_rows[0] | config.environment_rows[1], 0);
    CHECK_STR(config.device_path, "");
    CHECK_STR(config.trace, "");
    CHECK_STR(config.flight_file, "");
    CHECK_EQ(sv_local_rank(NULL, NULL), -1);
    CHECK(!sv_profiler_wants_ranges());
    if (sv_device_open("nvidia", &config, &dev) == SELVAGE_SUCCESS) /* there may be one, from where it is installed */
        dev->ops->close(dev);
    return check_report("secure_settings");
}
