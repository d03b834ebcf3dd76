/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls on the configuration. Each reads the environment and shows it; nothing is kept. Any thread may call.
 */
#include <errno.h>
#include <string.h>

#include <selvage/config.h>

#include "base/base_config.h"
#include "base/base_config_rows.h"
#include "base/base_status.h"
#include "base/base_thread.h"

static selvage_status_t load_and_bind(sv_config_t *config_out)
{
    SV_TRY(sv_config_load(NULL, NULL, config_out));
    sv_config_bind_log(config_out, sv_thread_binding());
    return SELVAGE_SUCCESS;
}

void selvage_config_warn_unknown(void)
{
    sv_config_forgive_unknown();
}

selvage_status_t selvage_config_visit(selvage_setting_visitor_t visitor, void *arg)
{
    sv_config_t config;
    if (!visitor)
        return sv_error(SELVAGE_ERR_ARGUMENT, "visitor: must not be NULL");
    SV_TRY(load_and_bind(&config));
    for (int i = 0; i < SV_CONFIG_ROWS; i++) {
        const sv_config_row_t *row = &sv_config_rows[i];
        char value[SV_CONFIG_TEXT_BYTES];
        sv_config_value_text(row, &config, value, sizeof value);
        const selvage_setting_t setting = {sizeof setting,    row->name,
                                           value,             sv_config_source_text(i, &config),
                                           row->default_text, sv_config_range_text(row),
                                           row->text,         row->agreed};
        visitor(arg, &setting);
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_config_print(FILE *stream)
{
    sv_config_t config;
    if (!stream)
        return sv_error(SELVAGE_ERR_ARGUMENT, "stream: must not be NULL");
    SV_TRY(load_and_bind(&config));
    sv_config_print(stream, &config);
    if (fflush(stream) != 0 || ferror(stream))
        return sv_error(SELVAGE_ERR_SYSTEM, "the settings could not be printed: %s", strerror(errno));
    return SELVAGE_SUCCESS;
}
