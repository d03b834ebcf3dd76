/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings as the public calls show them: all of them, in the order of the table, with source and default; nothing
 * where the environment is refused; and the same names in the printed table.
 */
#include <stdlib.h>

#include <selvage/config.h>

#include "base/base_config_rows.h"
#include "fixtures/check.h"

typedef struct seen {
    int count, from_environment;
    char retry_value[64], retry_default[64], retry_range[64];
} seen_t;

static void see(void *arg, const selvage_setting_t *setting)
{
    seen_t *seen = arg;
    CHECK_EQ(setting->struct_size, sizeof *setting);
    CHECK(seen->count < SV_CONFIG_ROWS);
    if (seen->count < SV_CONFIG_ROWS)
        CHECK_STR(setting->name, sv_config_rows[seen->count].name);
    CHECK(setting->text[0] != '\0' && setting->range[0] != '\0');
    seen->count++;
    seen->from_environment += strcmp(setting->source, "environment") == 0;
    if (strcmp(setting->name, "SELVAGE_RETRY_MAX") == 0) {
        snprintf(seen->retry_value, sizeof seen->retry_value, "%s", setting->value);
        snprintf(seen->retry_default, sizeof seen->retry_default, "%s", setting->default_value);
        snprintf(seen->retry_range, sizeof seen->retry_range, "%s", setting->range);
        CHECK_EQ(setting->all_ranks_alike, 1);
    }
}

static void check_print(void)
{
    char text[32768];
    FILE *file = tmpfile();
    CHECK(file != NULL);
    if (!file)
        return;
    CHECK_STATUS(selvage_config_print(file), SELVAGE_SUCCESS);
    rewind(file);
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    for (int i = 0; i < SV_CONFIG_ROWS; i++)
        CHECK(strstr(text, sv_config_rows[i].name) != NULL);
    fclose(file);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        CHECK_STATUS(selvage_config_print(full), SELVAGE_ERR_SYSTEM);
        fclose(full);
    }
    CHECK_STATUS(selvage_config_print(NULL), SELVAGE_ERR_ARGUMENT);
}

int main(void)
{
    seen_t seen = {0}, none = {0};
    setenv("SELVAGE_LOG", "none", 1);
    setenv("SELVAGE_RETRY_MAX", "+7", 1);
    CHECK_STATUS(selvage_config_visit(see, &seen), SELVAGE_SUCCESS);
    CHECK_EQ(seen.count, SV_CONFIG_ROWS);
    CHECK_EQ(seen.from_environment, 2);
    CHECK_STR(seen.retry_value, "7");
    CHECK_STR(seen.retry_default, "5");
    CHECK_STR(seen.retry_range, "0..100");
    check_print();
    CHECK_STATUS(selvage_config_visit(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    setenv("SELVAGE_RETRY_MAX", "many", 1);
    CHECK_STATUS(selvage_config_visit(see, &none), SELVAGE_ERR_CONFIG);
    CHECK_STATUS(selvage_config_print(stdout), SELVAGE_ERR_CONFIG);
    CHECK(strstr(selvage_error_detail(), "SELVAGE_RETRY_MAX") != NULL);
    CHECK_EQ(none.count, 0);
    return check_report("config_api");
}
