/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens files for writing; see base_file.h. The paths are users' settings, often below a folder that everybody may
 * write to, where somebody else may have placed a link under the name. Nothing but open() is called, so that a signal
 * handler may use this.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for O_CLOEXEC and O_NOFOLLOW */
#endif
#include "base/base_file.h"

#include <fcntl.h>

int sv_file_create(const char *path, int flags)
{
    return open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}
