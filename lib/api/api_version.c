/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The version of the library that is loaded. Text and numbers come from the same header, so they cannot differ. An
 * assertion here compares the header with the VERSION file, which the build took. No state; any thread.
 */
#include "config.h"

#include <stddef.h>

#include <selvage/version.h>

#define TEXT_OF(x) TEXT_OF_(x)
#define TEXT_OF_(x) #x
#define HEADER_VERSION \
    TEXT_OF(SELVAGE_VERSION_MAJOR) "." TEXT_OF(SELVAGE_VERSION_MINOR) "." TEXT_OF(SELVAGE_VERSION_PATCH)

/* The compiler can compare only the lengths. tests/tools/test_symbols.sh compares the text. */
_Static_assert(sizeof HEADER_VERSION == sizeof SELVAGE_VERSION_TEXT, "version.h and VERSION disagree");

const char *selvage_version(int *major, int *minor, int *patch)
{
    if (major != NULL)
        *major = SELVAGE_VERSION_MAJOR;
    if (minor != NULL)
        *minor = SELVAGE_VERSION_MINOR;
    if (patch != NULL)
        *patch = SELVAGE_VERSION_PATCH;
    return HEADER_VERSION;
}

const char *selvage_version_build(void)
{
    return SELVAGE_BUILD_TEXT "; plug-ins in " SELVAGE_PLUGIN_DIR;
}
