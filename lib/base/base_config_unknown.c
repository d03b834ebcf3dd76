/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks for unknown SELVAGE_ variables. A misspelt name would be a setting that silently does nothing, so by default it
 * is refused, and the nearest name that exists is given. Only the environment itself can be searched, because a lookup
 * function cannot list its names. A library that enters programs which know nothing of Selvage makes the default a
 * warning, once per process. The caller must not change the environment meanwhile, as with getenv().
 */
#include "base/base_config_rows.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/base_log.h"
#include "base/base_status.h"

enum { NAME_MAX_LENGTH = 63 };
enum { UNKNOWN_ERROR, UNKNOWN_WARN, UNKNOWN_IGNORE }; /* positions in the list of SELVAGE_UNKNOWN */

extern char **environ;

/* Whether errors of the default are warnings here. A flag of its own, which publishes nothing: relaxed. */
enum { AS_CONFIGURED, TO_BE_WARNED, HAS_WARNED };
static _Atomic int forgiveness = AS_CONFIGURED;

/* Characters to insert, delete or replace between a and b (Levenshtein), with one row of the usual table. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[NAME_MAX_LENGTH + 1];
    size_t length = strlen(b);
    if (length > NAME_MAX_LENGTH)
        return NAME_MAX_LENGTH + 1;
    for (unsigned j = 0; j <= length; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1] != '\0'; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            unsigned above = row[j], least = diagonal + (a[i - 1] != b[j - 1]);
            least = above + 1 < least ? above + 1 : least;
            row[j] = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            diagonal = above;
        }
    }
    return row[length];
}

selvage_status_t sv_config_check_name(const char *name, const sv_config_t *config)
{
    if (config->unknown == UNKNOWN_IGNORE)
        return SELVAGE_SUCCESS;
    /* The nearest name of the table is a hint only if half of the characters after the prefix are right. */
    const char *nearest = NULL;
    unsigned best = (unsigned)(strlen(name) - strlen("SELVAGE_")) / 2 + 1;
    for (int i = 0; i < SV_CONFIG_ROWS; i++) {
        if (strcmp(sv_config_rows[i].name, name) == 0)
            return SELVAGE_SUCCESS;
        unsigned distance = edit_distance(sv_config_rows[i].name, name);
        if (distance < best) {
            best = distance;
            nearest = sv_config_rows[i].name;
        }
    }
    char hint[NAME_MAX_LENGTH + 32] = "";
    if (nearest)
        snprintf(hint, sizeof hint, "; did you mean %s?", nearest);
    if (config->unknown == UNKNOWN_ERROR)
        return sv_error(SELVAGE_ERR_CONFIG, "unknown variable %.100s%s (SELVAGE_UNKNOWN=warn continues)", name, hint);
    if (config->log >= SV_LOG_WARN)
        sv_log(SV_LOG_WARN, "config", "unknown variable %.100s%s", name, hint);
    return SELVAGE_SUCCESS;
}

void sv_config_forgive_unknown(void)
{
    int before = AS_CONFIGURED;
    atomic_compare_exchange_strong_explicit(&forgiveness, &before, TO_BE_WARNED, memory_order_relaxed,
                                            memory_order_relaxed);
}

static selvage_status_t check_names(const sv_config_t *config)
{
    for (char **entry = environ; entry && *entry; entry++) {
        char name[128];
        if (strncmp(*entry, "SELVAGE_", strlen("SELVAGE_")) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        SV_TRY(sv_config_check_name(name, config));
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_config_refuse_unknown(const sv_config_t *config)
{
    if (getauxval(AT_SECURE)) /* none of them is read either */
        return SELVAGE_SUCCESS;
    const bool told = config->environment_rows[SV_CONFIG_ROW_UNKNOWN / 64] >> SV_CONFIG_ROW_UNKNOWN % 64 & 1;
    if (told || atomic_load_explicit(&forgiveness, memory_order_relaxed) == AS_CONFIGURED)
        return check_names(config);
    if (atomic_exchange_explicit(&forgiveness, HAS_WARNED, memory_order_relaxed) == HAS_WARNED)
        return SELVAGE_SUCCESS;
    sv_config_t lenient = *config;
    lenient.unknown = UNKNOWN_WARN;
    return check_names(&lenient);
}
