/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the files that the library writes. They are the user's alone, and never what somebody else's link points to. No
 * state.
 */
#ifndef SV_BASE_FILE_H
#define SV_BASE_FILE_H

/*
 * Opens path for writing, and makes it with mode 0600 if it is not there; flags are O_TRUNC or O_APPEND. A symbolic
 * link as the last component is refused (ELOOP). Gives the descriptor, or -1 with errno. Any thread, signal handlers.
 */
int sv_file_create(const char *path, int flags);

#endif
