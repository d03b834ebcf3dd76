/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration as text. One value is shown as a user would type it, which is also what ranks compare. The whole
 * table has the source of each value; tools print it, and the manual page is made from it.
 */
#include "base/base_config_rows.h"

#include <string.h>

/* The largest suffix that divides the number, so that 4194304 reads 4M. */
static void bytes_text(uint64_t value, char *text_out, size_t bytes)
{
    static const char suffixes[] = "KMGT";
    int steps = 0;
    if (value == SV_CONFIG_BYTES_AUTO) {
        snprintf(text_out, bytes, "auto");
        return;
    }
    while (steps < 4 && value != 0 && value % 1024 == 0) {
        value /= 1024;
        steps++;
    }
    char suffix[2] = {steps ? suffixes[steps - 1] : '\0', '\0'};
    snprintf(text_out, bytes, "%llu%s", (unsigned long long)value, suffix);
}

void sv_config_value_text(const sv_config_row_t *row, const sv_config_t *config, char *text_out, size_t bytes)
{
    const void *member = (const char *)config + row->offset;
    switch (row->type) {
    case SV_CONFIG_TYPE_BOOL:
        snprintf(text_out, bytes, "%s", *(const bool *)member ? "on" : "off");
        break;
    case SV_CONFIG_TYPE_INT:
        snprintf(text_out, bytes, "%d", *(const int *)member);
        break;
    case SV_CONFIG_TYPE_REAL:
        snprintf(text_out, bytes, "%.10g", *(const double *)member);
        break;
    case SV_CONFIG_TYPE_BYTES:
        bytes_text(*(const uint64_t *)member, text_out, bytes);
        break;
    case SV_CONFIG_TYPE_CHOICE: {
        const char *word = row->range;
        for (int position = *(const int *)member; position > 0 && strchr(word, '|'); position--)
            word = strchr(word, '|') + 1;
        snprintf(text_out, bytes, "%.*s", (int)strcspn(word, "|"), word);
        break;
    }
    case SV_CONFIG_TYPE_TEXT:
        snprintf(text_out, bytes, "%s", (const char *)member);
        break;
    }
}

/* Types whose range column would be empty still say what they take. */
const char *sv_config_range_text(const sv_config_row_t *row)
{
    if (row->type == SV_CONFIG_TYPE_BOOL)
        return "on|off";
    return row->type == SV_CONFIG_TYPE_TEXT ? "text" : row->range;
}

const char *sv_config_source_text(int position, const sv_config_t *config)
{
    return config->environment_rows[position / 64] >> position % 64 & 1 ? "environment" : "default";
}

void sv_config_print(FILE *stream, const sv_config_t *config)
{
    static const char form[] = "%-30s %-10s %-12s %-*s %s\n";
    int width = 0; /* of the longest range, so that what follows is one column */
    for (int i = 0; i < SV_CONFIG_ROWS; i++) {
        const int length = (int)strlen(sv_config_range_text(&sv_config_rows[i]));
        width = length > width ? length : width;
    }
    fprintf(stream, form, "variable", "value", "source", width, "range", "what it does");
    for (int i = 0; i < SV_CONFIG_ROWS; i++) {
        const sv_config_row_t *row = &sv_config_rows[i];
        char value[SV_CONFIG_TEXT_BYTES];
        sv_config_value_text(row, config, value, sizeof value);
        fprintf(stream, form, row->name, value[0] ? value : "-", sv_config_source_text(i, config),
                width, sv_config_range_text(row), row->text);
    }
}
