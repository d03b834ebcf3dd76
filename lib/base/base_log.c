/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes log lines. A line is formatted completely and written with one call, so that lines of several ranks on one
 * terminal do not mix. Lines that are too long are cut and end in three dots. Any thread may log; the host name is
 * looked up once per thread.
 */
#include "base/base_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/base_thread.h"

typedef struct subsystem {
    const char *name;
    const char *components[6]; /* up to a NULL */
} subsystem_t;

/* What is in none of them is only said with the whole log. */
static const subsystem_t subsystems[] = {
    {"INIT", {"comm", "config", "device", "topology", NULL}},
    {"NET", {"wire", "control", "recovery", NULL}},
    {"EXCHANGE", {"exchange", "commit", "grid", "recovery", NULL}},
    {"COLL", {"collective", NULL}},
    {"TRACE", {"timeline", "deadline", NULL}},
};
enum { SUBSYSTEMS = sizeof subsystems / sizeof subsystems[0] };

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

bool sv_log_subsystems(const char *list, unsigned *mask_out)
{
    unsigned mask = list[0] == '\0' ? ~0U : 0;
    for (size_t length; *list; list += length + (list[length] == ',' && list[length + 1])) {
        length = strcspn(list, ",");
        unsigned bit = length == strlen("ALL") && strncasecmp(list, "ALL", length) == 0 ? ~0U : 0;
        for (unsigned i = 0; i < SUBSYSTEMS; i++)
            if (strlen(subsystems[i].name) == length && strncasecmp(list, subsystems[i].name, length) == 0)
                bit = 1U << i;
        if (!bit || (list[length] == ',' && !list[length + 1]))
            return false;
        mask |= bit;
    }
    *mask_out = mask;
    return true;
}

static bool is_about(const char *component, unsigned mask)
{
    for (unsigned i = 0; i < SUBSYSTEMS && mask != ~0U; i++)
        for (const char *const *name = subsystems[i].components; mask >> i & 1 && *name; name++)
            if (strcmp(*name, component) == 0)
                return true;
    return mask == ~0U;
}

void sv_log(sv_log_level_t level, const char *component, const char *format, ...)
{
    static const char *const levels[] = {"none", "error", "warn", "info", "debug", "trace"};
    const sv_thread_binding_t *binding = sv_thread_binding();
    if ((int)level > binding->log_level)
        return;
    if ((int)level > binding->plain_level && !is_about(component, binding->subsystems))
        return;
    char speaker[24] = "";
    if (binding->rank >= 0)
        snprintf(speaker, sizeof speaker, "%d@", binding->rank);
    char line[LINE_BYTES + 1]; /* one more for the newline in place of the final zero */
    int head = snprintf(line, LINE_BYTES, "selvage[%s%s] %s: %.64s: ", speaker, host_name(),
                        (size_t)level < sizeof levels / sizeof levels[0] ? levels[level] : "log", component);
    size_t used = head > 0 ? (size_t)head : 0;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + used, LINE_BYTES - used, format, arguments);
    va_end(arguments);
    if (length >= (int)(LINE_BYTES - used))
        memcpy(line + LINE_BYTES - 4, "...", 4);
    if (binding->sink) {
        binding->sink(binding->sink_arg, level, line);
        return;
    }
    size_t end = strlen(line);
    line[end] = '\n';
    fwrite(line, 1, end + 1, stderr);
}
