/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking upwards: this process, then its launcher's processes (some put each rank in a session of its own, where
 * /dev/tty does not exist). The search ends at the first ancestor that is no launcher, because the shell's terminal
 * says nothing about where the output goes.
 */
#define _GNU_SOURCE

#include "tools/smoke/smoke_terminal.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { ANCESTORS_MAX = 4 };

/* Name and parent of a process; false if it cannot be read. */
static int read_process(int pid, char name[64], int *parent)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const int fields = fscanf(file, "%*d (%63[^)]) %*c %d", name, parent);
    fclose(file);
    return fields == 2;
}

static int is_launcher(const char *name)
{
    static const char *const parts[] = {"mpirun", "mpiexec", "orte", "prte", "hydra", "srun", "slurmstep"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(name, parts[i]))
            return 1;
    }
    return 0;
}

/* The standard error of a process, opened anew, if it is a terminal; not to become the terminal of this session. */
static FILE *open_error_of(int pid)
{
    char path[64], target[64] = "";
    snprintf(path, sizeof path, "/proc/%d/fd/2", pid);
    if (readlink(path, target, sizeof target - 1) < 0 || strncmp(target, "/dev/", 5) != 0)
        return NULL;
    const int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || !isatty(fd)) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    FILE *terminal = fdopen(fd, "w");
    if (!terminal)
        close(fd);
    return terminal;
}

FILE *smoke_terminal_open(void)
{
    char name[64];
    int pid = getppid(), parent = 0;
    if (isatty(STDERR_FILENO))
        return stderr;
    for (int i = 0; i < ANCESTORS_MAX && read_process(pid, name, &parent) && is_launcher(name); i++, pid = parent) {
        FILE *terminal = open_error_of(pid);
        if (terminal)
            return terminal;
    }
    return NULL;
}

void smoke_terminal_close(FILE *terminal)
{
    if (terminal && terminal != stderr)
        fclose(terminal);
}
