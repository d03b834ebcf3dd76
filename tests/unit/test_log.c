/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines: their form, the level of the thread, the sink, lines that are too long. */
#include <string.h>
#include <unistd.h>

#include "base/base_log.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "fixtures/check.h"

typedef struct capture {
    int lines, level;
    char line[2 * SV_DETAIL_BYTES];
} capture_t;

static void keep_line(void *arg, int level, const char *line)
{
    capture_t *capture = arg;
    capture->lines++;
    capture->level = level;
    snprintf(capture->line, sizeof capture->line, "%s", line);
}

static void host_label(char *name, size_t bytes)
{
    if (gethostname(name, bytes - 1) != 0 || name[0] == '\0')
        snprintf(name, bytes, "localhost");
    name[bytes - 1] = '\0';
    name[strcspn(name, ".")] = '\0';
}

static void check_form(capture_t *capture)
{
    char host[64] = "", wanted[256];
    host_label(host, sizeof host);
    sv_thread_binding()->rank = -1;
    sv_log(SV_LOG_WARN, "wire", "peer %d is slow", 3);
    snprintf(wanted, sizeof wanted, "selvage[%s] warn: wire: peer 3 is slow", host);
    CHECK_STR(capture->line, wanted);
    CHECK_EQ(capture->level, SV_LOG_WARN);
    sv_thread_binding()->rank = 12;
    sv_log(SV_LOG_ERROR, "pipeline", "packet %u is bad", 5u);
    snprintf(wanted, sizeof wanted, "selvage[12@%s] error: pipeline: packet 5 is bad", host);
    CHECK_STR(capture->line, wanted);
    CHECK_EQ(capture->level, SV_LOG_ERROR);
    sv_error(SELVAGE_ERR_TIMEOUT, "packet %d did not come", 9);
    CHECK(strstr(capture->line, "error: SELVAGE_ERR_TIMEOUT: packet 9 did not come") != NULL);
}

static void check_levels(capture_t *capture)
{
    int before = capture->lines;
    sv_log(SV_LOG_INFO, "wire", "not said");
    CHECK_EQ(capture->lines, before);
    sv_thread_binding()->log_level = SV_LOG_TRACE;
    sv_log(SV_LOG_TRACE, "wire", "said");
    CHECK_EQ(capture->lines, before + 1);
    CHECK(strstr(capture->line, " trace: wire: said") != NULL);
    sv_thread_binding()->log_level = 0;
    sv_log(SV_LOG_ERROR, "wire", "nothing is said at level none");
    CHECK_EQ(capture->lines, before + 1);
    sv_thread_binding()->log_level = SV_LOG_WARN;
}

/* More than the plain level only of the subsystems asked for. */
static void check_subsystems(capture_t *capture)
{
    sv_thread_binding_t *binding = sv_thread_binding(), kept = *binding;
    unsigned all = 0, some = 0, kept_mask = 7;
    CHECK(sv_log_subsystems("", &all));
    CHECK_EQ(all, ~0U);
    CHECK(sv_log_subsystems("coll,ALL", &all));
    CHECK_EQ(all, ~0U);
    CHECK(sv_log_subsystems("COLL,init", &some));
    CHECK(some != 0 && some != ~0U);
    static const char *const refused[] = {"COL", "COLLS", "COLL,", ",COLL", "COLL,,INIT", " COLL", ","};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        CHECK(!sv_log_subsystems(refused[i], &kept_mask));
    CHECK_EQ(kept_mask, 7);
    binding->log_level = SV_LOG_INFO;
    binding->plain_level = SV_LOG_WARN;
    binding->subsystems = some;
    int before = capture->lines;
    sv_log(SV_LOG_INFO, "collective", "said");
    sv_log(SV_LOG_INFO, "comm", "said");
    CHECK_EQ(capture->lines, before + 2);
    sv_log(SV_LOG_INFO, "wire", "not said");
    sv_log(SV_LOG_DEBUG, "collective", "not said");
    CHECK_EQ(capture->lines, before + 2);
    sv_log(SV_LOG_WARN, "wire", "said");
    CHECK_EQ(capture->lines, before + 3);
    *binding = kept;
}

static void check_long(capture_t *capture)
{
    char text[4 * SV_DETAIL_BYTES];
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    sv_log(SV_LOG_WARN, "wire", "%s", text);
    size_t length = strlen(capture->line);
    CHECK(length > SV_DETAIL_BYTES && length < 2 * SV_DETAIL_BYTES - 1);
    CHECK_STR(capture->line + length - 3, "...");
}

/* Without a sink the line goes to standard error, newline included. */
static void check_standard_error(void)
{
    char text[512] = "";
    int ends[2], saved = dup(STDERR_FILENO);
    CHECK_EQ(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    sv_thread_binding()->sink = NULL;
    sv_log(SV_LOG_WARN, "base", "to the terminal");
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    CHECK(strncmp(text, "selvage[12@", 11) == 0);
    CHECK(strstr(text, " warn: base: to the terminal\n") != NULL);
}

int main(void)
{
    static capture_t capture;
    CHECK_EQ(sv_thread_binding()->log_level, SV_LOG_WARN);
    sv_thread_binding()->sink = keep_line;
    sv_thread_binding()->sink_arg = &capture;
    check_form(&capture);
    check_levels(&capture);
    check_subsystems(&capture);
    check_long(&capture);
    check_standard_error();
    return check_report("log");
}
