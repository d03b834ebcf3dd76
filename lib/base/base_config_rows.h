/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration table as constant data, for the files that read it, search it for names, and print it. */
#ifndef SV_BASE_CONFIG_ROWS_H
#define SV_BASE_CONFIG_ROWS_H

#include <stddef.h>

#include "base/base_config.h"
#include "base/base_config_table.h"

typedef enum sv_config_type {
    SV_CONFIG_TYPE_BOOL,
    SV_CONFIG_TYPE_INT,
    SV_CONFIG_TYPE_REAL,
    SV_CONFIG_TYPE_BYTES,
    SV_CONFIG_TYPE_CHOICE,
    SV_CONFIG_TYPE_TEXT
} sv_config_type_t;

typedef struct sv_config_row {
    const char *name;         /* in full: "SELVAGE_DEVICE" */
    const char *default_text;
    const char *range;
    const char *text;
    size_t offset;            /* of the member in sv_config_t */
    sv_config_type_t type;
    int agreed;
} sv_config_row_t;

enum {
#define SV_CONFIG_POSITION_(name, member, type, default_text, range, agreed, text) SV_CONFIG_ROW_##name,
    SV_CONFIG_TABLE(SV_CONFIG_POSITION_)
#undef SV_CONFIG_POSITION_
        SV_CONFIG_ROWS
};

extern const sv_config_row_t sv_config_rows[SV_CONFIG_ROWS];

/* The row's value in config as a user would type it; at most bytes with the final zero. */
void sv_config_value_text(const sv_config_row_t *row, const sv_config_t *config, char *text_out, size_t bytes);

/* What the row's value may be: "low..high", "a|b|c", "on|off", "text". */
const char *sv_config_range_text(const sv_config_row_t *row);

/* "environment" if the row at this position was set by the user, else "default". */
const char *sv_config_source_text(int position, const sv_config_t *config);

/* Handles every SELVAGE_ name of the environment that is not in the table, as config->unknown says. */
selvage_status_t sv_config_refuse_unknown(const sv_config_t *config);

/* From now on an unknown name is a warning, once, where SELVAGE_UNKNOWN is not set. Any thread. */
void sv_config_forgive_unknown(void);

/* As above for one name, without the rest of the environment. SUCCESS if it is known. */
selvage_status_t sv_config_check_name(const char *name, const sv_config_t *config);

#endif
