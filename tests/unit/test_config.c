/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration table: defaults, every type, refusals and their texts, unknown names, the hash, the print. */
#include <stdlib.h>
#include <string.h>

#include "base/base_config.h"
#include "base/base_config_table.h"
#include "base/base_log.h"
#include "base/base_thread.h"
#include "fixtures/check.h"

/* A lookup that knows pairs of name and value, ended by NULL. */
static const char *from_pairs(void *arg, const char *full_name)
{
    const char *const *pairs = arg;
    for (; pairs[0]; pairs += 2)
        if (strcmp(pairs[0], full_name) == 0)
            return pairs[1];
    return NULL;
}

static selvage_status_t load(const char *const *pairs, sv_config_t *config_out)
{
    return sv_config_load(from_pairs, (void *)(uintptr_t)pairs, config_out);
}

static selvage_status_t load_one(const char *name, const char *value, sv_config_t *config_out)
{
    return load((const char *const[]){name, value, NULL}, config_out);
}

static void check_defaults(void)
{
    sv_config_t c;
    CHECK_STATUS(load((const char *const[]){NULL}, &c), SELVAGE_SUCCESS);
    CHECK_EQ(c.device, SV_CONFIG_DEVICE_AUTO);
    CHECK_EQ(c.log, SV_LOG_WARN);
    CHECK_EQ(c.checksum, SV_CONFIG_CHECKSUM_RETRY);
    CHECK_EQ(c.retry_max, 5);
    CHECK(c.timeout_s == 300.0);
    CHECK_EQ(c.segment_bytes, 1 << 20);
    CHECK_EQ(c.inflight_bytes, 1 << 30);
    CHECK(c.flight_signal);
    CHECK_STR(c.trace, "");
    CHECK_EQ(c.environment_rows[0] | c.environment_rows[1], 0);
}

static void check_values(void)
{
    static const char *const pairs[] = {
        "SELVAGE_DEVICE", "soft", "SELVAGE_ROUTE", "staged", "SELVAGE_TIMEOUT_S", "2.5e1", "SELVAGE_CHECKSUM", "on",
        "SELVAGE_FLIGHT_SIGNAL", "no", "SELVAGE_SEGMENT_BYTES", "64K", "SELVAGE_INFLIGHT_BYTES", "1T",
        "SELVAGE_RANKS_PER_NODE", "2", "SELVAGE_TRACE", "out.json", "SELVAGE_KERNEL_COPY_MAX_BYTES", "0",
        "SELVAGE_SOFT_D2H_GBS", "0.25", NULL};
    sv_config_t c;
    CHECK_STATUS(load(pairs, &c), SELVAGE_SUCCESS);
    CHECK_EQ(c.device, SV_CONFIG_DEVICE_SOFT);
    CHECK_EQ(c.route, 4);
    CHECK(c.timeout_s == 25.0);
    CHECK_EQ(c.checksum, SV_CONFIG_CHECKSUM_RETRY); /* as "on" says */
    CHECK(!c.flight_signal);
    CHECK_EQ(c.segment_bytes, 65536);
    CHECK_EQ(c.inflight_bytes, INT64_C(1) << 40);
    CHECK_EQ(c.ranks_per_node, 2);
    CHECK_STR(c.trace, "out.json");
    CHECK_EQ(c.kernel_copy_max_bytes, 0);
    CHECK(c.soft_d2h_gbs == 0.25);
    CHECK_STATUS(load_one("SELVAGE_TIMEOUT_S", "-1", &c), SELVAGE_SUCCESS);
    CHECK(c.timeout_s == -1.0);
    CHECK_STATUS(load_one("SELVAGE_FLIGHT_SIGNAL", "1", &c), SELVAGE_SUCCESS);
    CHECK(c.flight_signal);
}

static void check_refused(const char *name, const char *value)
{
    sv_config_t c, before;
    memset(&c, 0x5a, sizeof c);
    before = c;
    CHECK_STATUS(load_one(name, value, &c), SELVAGE_ERR_CONFIG);
    CHECK(memcmp(&c, &before, sizeof c) == 0);
    CHECK(strstr(selvage_error_detail(), name) != NULL);
    CHECK(strlen(value) > 100 || strstr(selvage_error_detail(), value) != NULL);
    CHECK(strstr(selvage_error_detail(), "wanted") != NULL);
}

static void check_refusals(void)
{
    static const char *const pairs[][2] = {
        {"SELVAGE_TIMEOUT_S", "abc"},       {"SELVAGE_TIMEOUT_S", "0"},          {"SELVAGE_TIMEOUT_S", "-0.5"},
        {"SELVAGE_TIMEOUT_S", "3 "},        {"SELVAGE_TIMEOUT_S", "nan"},        {"SELVAGE_TIMEOUT_S", "inf"},
        {"SELVAGE_TIMEOUT_S", "0x10"},      {"SELVAGE_TIMEOUT_S", "1e99"},       {"SELVAGE_TIMEOUT_S", ""},
        {"SELVAGE_TIMEOUT_S", "1e999"},     {"SELVAGE_RETRY_MAX", "101"},        {"SELVAGE_RETRY_MAX", "-1"},
        {"SELVAGE_RETRY_MAX", "5x"},        {"SELVAGE_RETRY_MAX", " 5"},         {"SELVAGE_RETRY_MAX", "1.5"},
        {"SELVAGE_SEGMENT_BYTES", "4097"},  {"SELVAGE_SEGMENT_BYTES", "4KB"},    {"SELVAGE_SEGMENT_BYTES", "-64"},
        {"SELVAGE_DIRECT_MESSAGE_BYTES", "4100"}, {"SELVAGE_DIRECT", "on"},
        {"SELVAGE_SEGMENT_BYTES", "1"},     {"SELVAGE_INFLIGHT_BYTES", "99999999999999999999"},
        {"SELVAGE_INFLIGHT_BYTES", "99999999999T"}, {"SELVAGE_CHECKSUM", "Retry"}, {"SELVAGE_CHECKSUM", "ret"},
        {"SELVAGE_CHECKSUM", "retry|report"}, {"SELVAGE_FLIGHT_SIGNAL", "maybe"}, {"SELVAGE_ROUTE", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        check_refused(pairs[i][0], pairs[i][1]);
    char text[SV_CONFIG_TEXT_BYTES + 1];
    memset(text, 'a', sizeof text);
    text[SV_CONFIG_TEXT_BYTES] = '\0';
    check_refused("SELVAGE_TRACE", text);
    check_refused("SELVAGE_DEBUG_SUBSYS", "COLL,NONE");
    sv_config_t c;
    CHECK_STATUS(load_one("SELVAGE_TRACE", text + 1, &c), SELVAGE_SUCCESS);
    static const char *const few[] = {"SELVAGE_COLL_CHANNELS_MIN", "4", "SELVAGE_COLL_CHANNELS_MAX", "3", NULL};
    CHECK_STATUS(load(few, &c), SELVAGE_ERR_CONFIG);
    load_one("SELVAGE_TIMEOUT_S", "abc", &c);
    CHECK_STR(selvage_error_detail(), "SELVAGE_TIMEOUT_S is \"abc\"; wanted a number in -1..1000000");
}

extern char **environ;
static int warnings;
static char warning[256];

static void keep_warning(void *arg, int level, const char *line)
{
    (void)arg;
    warnings += level == SV_LOG_WARN;
    if (level == SV_LOG_WARN)
        snprintf(warning, sizeof warning, "%s", line);
}

/* Only this test uses the real environment; main() has taken out what the caller had set. */
static void check_unknown(void)
{
    sv_config_t c;
    CHECK_STATUS(sv_config_load(NULL, NULL, &c), SELVAGE_SUCCESS);
    setenv("SELVAGE_RETRY_MAX", "7", 1);
    CHECK_STATUS(sv_config_load(NULL, NULL, &c), SELVAGE_SUCCESS);
    CHECK_EQ(c.retry_max, 7);
    setenv("SELVAGE_CHEKSUM", "off", 1);
    CHECK_STATUS(sv_config_load(NULL, NULL, &c), SELVAGE_ERR_CONFIG);
    CHECK_STR(selvage_error_detail(), "unknown variable SELVAGE_CHEKSUM; did you mean SELVAGE_CHECKSUM? "
                                      "(SELVAGE_UNKNOWN=warn continues)");
    setenv("SELVAGE_UNKNOWN", "warn", 1);
    CHECK_STATUS(sv_config_load(NULL, NULL, &c), SELVAGE_SUCCESS);
    CHECK_EQ(warnings, 1);
    CHECK(strstr(warning, "config: unknown variable SELVAGE_CHEKSUM; did you mean SELVAGE_CHECKSUM?") != NULL);
    setenv("SELVAGE_UNKNOWN", "ignore", 1);
    CHECK_STATUS(sv_config_load(NULL, NULL, &c), SELVAGE_SUCCESS);
    CHECK_EQ(warnings, 1);
    setenv("SELVAGE_UNKNOWN", "error", 1);
    unsetenv("SELVAGE_CHEKSUM");
    setenv("SELVAGE_QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ", "1", 1);
    CHECK_STATUS(sv_config_load(NULL, NULL, &c), SELVAGE_ERR_CONFIG);
    CHECK(strstr(selvage_error_detail(), "did you mean") == NULL);
}

static void check_hash(void)
{
    sv_config_t a, b;
    load((const char *const[]){NULL}, &a);
    load_one("SELVAGE_COLL_LL_MAX", "0", &b);
    CHECK(sv_config_agreed_hash(&a) != sv_config_agreed_hash(&b));
    load_one("SELVAGE_COLL_ALGO", "ring", &b);
    CHECK(sv_config_agreed_hash(&a) != sv_config_agreed_hash(&b));
    load_one("SELVAGE_LOG", "debug", &b);
    CHECK(sv_config_agreed_hash(&a) == sv_config_agreed_hash(&b));
    load_one("SELVAGE_SEGMENT_BYTES", "1048576", &b);
    CHECK(sv_config_agreed_hash(&a) == sv_config_agreed_hash(&b));
    load_one("SELVAGE_SEGMENT_BYTES", "8M", &b);
    CHECK(sv_config_agreed_hash(&a) != sv_config_agreed_hash(&b));
    load_one("SELVAGE_CHECKSUM", "off", &b);
    CHECK(sv_config_agreed_hash(&a) != sv_config_agreed_hash(&b));
}

static void bind(const char *log, const char *debug, const char *subsystems, sv_thread_binding_t *binding)
{
    sv_config_t c;
    CHECK_STATUS(load((const char *const[]){"SELVAGE_LOG", log, "SELVAGE_DEBUG", debug, "SELVAGE_DEBUG_SUBSYS",
                                            subsystems, NULL}, &c), SELVAGE_SUCCESS);
    sv_config_bind_log(&c, binding);
}

/* DEBUG adds to LOG, and never takes away. */
static void check_debug(void)
{
    sv_thread_binding_t b = *sv_thread_binding();
    bind("warn", "none", "COLL", &b);
    CHECK_EQ(b.log_level, SV_LOG_WARN);
    CHECK_EQ(b.plain_level, SV_LOG_WARN);
    bind("error", "info", "coll,Init", &b);
    CHECK_EQ(b.log_level, SV_LOG_INFO);
    CHECK_EQ(b.plain_level, SV_LOG_ERROR);
    CHECK(b.subsystems != 0 && b.subsystems != ~0U);
    bind("trace", "warn", "", &b);
    CHECK_EQ(b.log_level, SV_LOG_TRACE);
    CHECK_EQ(b.subsystems, ~0U);
    bind("none", "trace", "", &b);
    CHECK_EQ(b.log_level, SV_LOG_TRACE);
}

static void check_print(void)
{
    static char text[32768];
    sv_config_t c;
    load_one("SELVAGE_SEGMENT_BYTES", "8388608", &c);
    FILE *file = tmpfile();
    CHECK(file != NULL);
    if (!file)
        return;
    sv_config_print(file, &c);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *line = strstr(text, "SELVAGE_SEGMENT_BYTES");
    CHECK(line != NULL);
    CHECK(line && strstr(line, "8M         environment") == line + 31);
    line = strstr(text, "SELVAGE_CHECKSUM ");
    CHECK(line && strstr(line, "retry      default      off|retry|report|abort|on") == line + 31);
    const char *heading = strstr(text, "what it does");
    line = strstr(text, "SELVAGE_COLL_ALGO"); /* whose range is the longest: the column after it begins where all do */
    CHECK(heading && line && strstr(line, "algorithm of") == line + (heading - text));
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
#define COUNT(name, member, type, default_text, range, agreed, says) lines--;
    SV_CONFIG_TABLE(COUNT)
    CHECK_EQ(lines, 1);
}

static void clear_environment(void)
{
    for (char **entry = environ; *entry;) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(name, "SELVAGE_", 8) == 0 && unsetenv(name) == 0)
            entry = environ;
        else
            entry++;
    }
}

int main(void)
{
    clear_environment();
    sv_thread_binding()->sink = keep_warning;
    check_defaults();
    check_values();
    check_refusals();
    check_unknown();
    check_hash();
    check_debug();
    check_print();
    return check_report("config");
}
