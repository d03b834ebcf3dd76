/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names and texts of statuses, from the public table, and sv_error(), the one way in which an error comes into being.
 * The text of an error goes to the calling thread's detail, and once to the log. Any thread; nothing is shared.
 */
#include "base/base_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base_log.h"
#include "base/base_thread.h"

const char *selvage_status_name(selvage_status_t status)
{
    switch (status) {
#define STATUS_CASE(name, number, text) \
    case SELVAGE_##name:                \
        return "SELVAGE_" #name;
        SELVAGE_STATUS_TABLE(STATUS_CASE)
#undef STATUS_CASE
    }
    return "SELVAGE_UNKNOWN";
}

const char *selvage_status_string(selvage_status_t status)
{
    switch (status) {
#define STATUS_CASE(name, number, text) \
    case SELVAGE_##name:                \
        return text;
        SELVAGE_STATUS_TABLE(STATUS_CASE)
#undef STATUS_CASE
    }
    return "a number that is no Selvage status";
}

selvage_status_t sv_status_of(int64_t number)
{
    switch (number) {
#define STATUS_CASE(name, number, text) case number:
        SELVAGE_STATUS_TABLE(STATUS_CASE)
#undef STATUS_CASE
        return (selvage_status_t)number;
    default:
        return SELVAGE_ERR_INTERNAL;
    }
}

selvage_status_t sv_status_of_error(int64_t number)
{
    return number < 0 ? sv_status_of(number) : SELVAGE_ERR_INTERNAL;
}

const char *selvage_error_detail(void)
{
    return sv_thread_last_detail();
}

/* Formats aside first: an argument may be the old detail text itself. */
static void set_detail(const char *format, va_list arguments)
{
    char text[SV_DETAIL_BYTES];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length < 0)
        snprintf(text, sizeof text, "(the error text could not be formatted)");
    if (length >= (int)sizeof text)
        memcpy(text + sizeof text - 4, "...", 4);
    memcpy(sv_thread_detail(), text, sizeof text);
    sv_thread_mark_detail();
}

selvage_status_t sv_error_quiet(selvage_status_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_detail(format, arguments);
    va_end(arguments);
    return status;
}

selvage_status_t sv_error(selvage_status_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_detail(format, arguments);
    va_end(arguments);
    sv_log(SV_LOG_ERROR, selvage_status_name(status), "%s", sv_thread_detail());
    return status;
}
