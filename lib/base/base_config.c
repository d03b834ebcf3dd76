/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the configuration. The table becomes rows, and each row's text goes through one parser: the user's text, or
 * else the default. The result is handed out only if all of it is good. There is no state: the struct is the caller's.
 *
 * The configuration is read when a communicator or a device is made, and never later, so that a changed environment
 * cannot split a run. A program with more rights than its caller (set-user-id, capabilities) has the defaults, because
 * settings name code to load and files to write.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for secure_getenv */
#endif
#include "base/base_config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_config_rows.h"
#include "base/base_log.h"
#include "base/base_parse.h"
#include "base/base_status.h"
#include "base/base_thread.h"

/* What a member must be for each type of the table, so that a wrong row does not compile. */
#define BYTES_OF_BOOL sizeof(bool)
#define BYTES_OF_INT sizeof(int)
#define BYTES_OF_REAL sizeof(double)
#define BYTES_OF_BYTES sizeof(uint64_t)
#define BYTES_OF_CHOICE sizeof(int)
#define BYTES_OF_TEXT ((size_t)SV_CONFIG_TEXT_BYTES)
#define CHECK_MEMBER(name, member, type, default_text, range, agreed, text) \
    _Static_assert(sizeof(((sv_config_t *)0)->member) == BYTES_OF_##type, "SELVAGE_" #name ": type of the member");
SV_CONFIG_TABLE(CHECK_MEMBER)

_Static_assert(SV_CONFIG_ROWS <= 8 * sizeof(((sv_config_t *)0)->environment_rows),
               "environment_rows has one bit per row");

const sv_config_row_t sv_config_rows[SV_CONFIG_ROWS] = {
#define TABLE_ROW(name, member, type, default_text, range, agreed, text) \
    {"SELVAGE_" #name, default_text, range, text, offsetof(sv_config_t, member), SV_CONFIG_TYPE_##type, agreed},
    SV_CONFIG_TABLE(TABLE_ROW)
#undef TABLE_ROW
};

static const char *config_from_environment(void *arg, const char *full_name)
{
    (void)arg;
    return secure_getenv(full_name);
}

/* Splits "low..high". The table is constant, so both ends are there and short. */
static void split_range(const char *range, char low_out[32], const char **high_out)
{
    size_t length = (size_t)(strstr(range, "..") - range);
    memcpy(low_out, range, length);
    low_out[length] = '\0';
    *high_out = range + length + 2;
}

/* Parses text by the row's type into the row's member. False if it is malformed or outside the row's range. */
static bool parse_row(const sv_config_row_t *row, const char *text, sv_config_t *config)
{
    void *member = (char *)config + row->offset;
    const char *range = row->range, *high_text;
    char low_text[32];
    switch (row->type) {
    case SV_CONFIG_TYPE_BOOL:
        return sv_parse_bool(text, member);
    case SV_CONFIG_TYPE_CHOICE:
        return sv_parse_choice(text, range, member);
    case SV_CONFIG_TYPE_INT: {
        int64_t value, low = 0, high = 0;
        split_range(range, low_text, &high_text);
        if (!sv_parse_int(low_text, &low) || !sv_parse_int(high_text, &high) || !sv_parse_int(text, &value))
            return false;
        if (value < low || value > high || value < INT_MIN || value > INT_MAX)
            return false;
        *(int *)member = (int)value;
        return true;
    }
    case SV_CONFIG_TYPE_REAL: {
        double value, low = 0, high = 0;
        split_range(range, low_text, &high_text);
        if (!sv_parse_real(low_text, &low) || !sv_parse_real(high_text, &high) || !sv_parse_real(text, &value))
            return false;
        if (value < low || value > high)
            return false;
        *(double *)member = value;
        return true;
    }
    case SV_CONFIG_TYPE_BYTES: {
        static const char automatic[] = "auto|"; /* a range may begin with it */
        uint64_t value, low = 0, high = 0;
        if (strncmp(range, automatic, sizeof automatic - 1) == 0) {
            range += sizeof automatic - 1;
            if (strcmp(text, "auto") == 0) {
                *(uint64_t *)member = SV_CONFIG_BYTES_AUTO;
                return true;
            }
        }
        split_range(range, low_text, &high_text);
        if (!sv_parse_bytes(low_text, &low) || !sv_parse_bytes(high_text, &high) || !sv_parse_bytes(text, &value))
            return false;
        if (value < low || value > high)
            return false;
        *(uint64_t *)member = value;
        return true;
    }
    case SV_CONFIG_TYPE_TEXT: {
        size_t length = strlen(text);
        if (length >= SV_CONFIG_TEXT_BYTES)
            return false;
        memcpy(member, text, length + 1);
        return true;
    }
    }
    return false;
}

static selvage_status_t refuse_setting(const sv_config_row_t *row, const char *text, const char *wanted,
                                       const char *range)
{
    return sv_error(SELVAGE_ERR_CONFIG, "%s is \"%.200s\"; wanted %s%s", row->name, text, wanted, range);
}

/* Rules that a range cannot say. */
static selvage_status_t check_row(const sv_config_row_t *row, const char *text, const sv_config_t *config)
{
    ptrdiff_t position = row - sv_config_rows;
    if ((position == SV_CONFIG_ROW_SEGMENT_BYTES && config->segment_bytes % 64 != 0) ||
        (position == SV_CONFIG_ROW_DIRECT_MESSAGE_BYTES && config->direct_message_bytes % 64 != 0))
        return refuse_setting(row, text, "a multiple of 64", "");
    if (position == SV_CONFIG_ROW_COLL_CHANNELS_MAX && config->coll_channels_max != 0 &&
        config->coll_channels_max < config->coll_channels_min)
        return refuse_setting(row, text, "not less than SELVAGE_COLL_CHANNELS_MIN", "");
    unsigned subsystems;
    if (position == SV_CONFIG_ROW_DEBUG_SUBSYS && !sv_log_subsystems(text, &subsystems))
        return refuse_setting(row, text, "a list of INIT, NET, EXCHANGE, COLL, TRACE with commas", "");
    if (position == SV_CONFIG_ROW_TIMEOUT_S && config->timeout_s <= 0 && config->timeout_s != -1)
        return refuse_setting(row, text, "-1 (no deadline) or a number above 0", "");
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_config_load(sv_config_lookup_t lookup, void *lookup_arg, sv_config_t *config_out)
{
    /* What a good value would have been, as the end of a sentence; the range follows it. */
    static const char *const wanted[] = {
        [SV_CONFIG_TYPE_BOOL] = "on or off",
        [SV_CONFIG_TYPE_INT] = "a whole number in ",
        [SV_CONFIG_TYPE_REAL] = "a number in ",
        [SV_CONFIG_TYPE_BYTES] = "bytes (K, M, G, T may follow) in ",
        [SV_CONFIG_TYPE_CHOICE] = "one of ",
        [SV_CONFIG_TYPE_TEXT] = "a shorter text",
    };
    sv_config_t config;
    memset(&config, 0, sizeof config);
    sv_config_lookup_t read = lookup ? lookup : config_from_environment;
    for (int i = 0; i < SV_CONFIG_ROWS; i++) {
        const sv_config_row_t *row = &sv_config_rows[i];
        const char *users_text = read(lookup_arg, row->name);
        const char *text = users_text ? users_text : row->default_text;
        if (!parse_row(row, text, &config))
            return refuse_setting(row, text, wanted[row->type], row->range);
        if (users_text)
            config.environment_rows[i / 64] |= UINT64_C(1) << i % 64;
        SV_TRY(check_row(row, text, &config));
    }
    if (config.checksum == SV_CONFIG_CHECKSUM_ON)
        config.checksum = SV_CONFIG_CHECKSUM_RETRY;
    if (!lookup)
        SV_TRY(sv_config_refuse_unknown(&config));
    *config_out = config;
    return SELVAGE_SUCCESS;
}

static const char *look_up_one(void *arg, const char *full_name)
{
    return strcmp(arg, full_name) == 0 ? secure_getenv(full_name) : NULL;
}

selvage_status_t sv_config_load_one(const char *full_name, sv_config_t *config_out)
{
    char name[64];
    snprintf(name, sizeof name, "%s", full_name);
    return sv_config_load(look_up_one, name, config_out);
}

bool sv_config_is_set(const char *full_name)
{
    return secure_getenv(full_name) != NULL;
}

void sv_config_bind_log(const sv_config_t *config, struct sv_thread_binding *binding)
{
    static const int levels[] = {0, SV_LOG_WARN, SV_LOG_INFO, SV_LOG_DEBUG, SV_LOG_TRACE}; /* of the list of DEBUG */
    int debug_level = levels[config->debug];
    binding->plain_level = config->log;
    binding->log_level = debug_level > config->log ? debug_level : config->log;
    sv_log_subsystems(config->debug_subsys, &binding->subsystems); /* checked when it was loaded */
}

/* FNV-1a, with the final zero as a separator between texts. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    } while (*text++ != '\0');
    return hash;
}

uint64_t sv_config_agreed_hash(const sv_config_t *config)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < SV_CONFIG_ROWS; i++) {
        char value[SV_CONFIG_TEXT_BYTES];
        if (!sv_config_rows[i].agreed)
            continue;
        sv_config_value_text(&sv_config_rows[i], config, value, sizeof value);
        hash = hash_text(hash_text(hash, sv_config_rows[i].name), value);
    }
    return hash;
}
