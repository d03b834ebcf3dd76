/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines. A line is formatted completely and written with one call, so that lines of several ranks on one terminal
 * do not mix. Longer lines are cut and end in three dots. Any thread; the host name is looked up once per thread.
 */
#include "base/base_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base_thread.h"

enum { HOST_BYTES = 64, LINE_BYTES = SV_DETAIL_BYTES + 256 };

/* First label of the host name: enough to find the machine, short enough for every line. */
static const char *host_name(void)
{
    static _Thread_local char name[HOST_BYTES];
    if (name[0] == '\0') {
        if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0')
            strcpy(name, "localhost");
        name[sizeof name - 1] = '\0';
        name[strcspn(name, ".")] = '\0';
    }
    return name;
}

static const char *level_name(int level)
{
    static const char *const names[] = {"none", "error", "warn", "info", "debug", "trace"};
    return level >= 0 && level < (int)(sizeof names / sizeof names[0]) ? names[level] : "log";
}

static size_t write_head(char *line, size_t bytes, int rank, int level, const char *component)
{
    char speaker[24] = "";
    if (rank >= 0)
        snprintf(speaker, sizeof speaker, "%d@", rank);
    int length = snprintf(line, bytes, "selvage[%s%s] %s: %.64s: ", speaker, host_name(), level_name(level), component);
    return length > 0 ? (size_t)length : 0;
}

static void emit(const sv_thread_binding_t *binding, int level, char *line, size_t length)
{
    if (binding->sink) {
        binding->sink(binding->sink_arg, level, line);
        return;
    }
    line[length] = '\n';
    fwrite(line, 1, length + 1, stderr);
}

void sv_log(sv_log_level_t level, const char *component, const char *format, ...)
{
    const sv_thread_binding_t *binding = sv_thread_binding();
    if ((int)level > binding->log_level)
        return;
    char line[LINE_BYTES + 1]; /* one more for the newline in place of the final zero */
    size_t used = write_head(line, LINE_BYTES, binding->rank, level, component);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + used, LINE_BYTES - used, format, arguments);
    va_end(arguments);
    if (length >= (int)(LINE_BYTES - used))
        memcpy(line + LINE_BYTES - 4, "...", 4);
    emit(binding, level, line, strlen(line));
}
