/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file config.h
 * @brief The settings in force: every SELVAGE_ variable with its value, where that comes from, and what it does.
 */
#ifndef SELVAGE_CONFIG_H
#define SELVAGE_CONFIG_H

#include <stddef.h>
#include <stdio.h>

#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** One setting, as selvage_config_visit() shows it. Selvage's; value ends with the call, all else is static. */
typedef struct selvage_setting {
    size_t struct_size;        /**< how much of the struct this library knows */
    const char *name;          /**< "SELVAGE_ROUTE" */
    const char *value;         /**< as a user would type it; "" for none */
    const char *source;        /**< "environment" or "default" */
    const char *default_value; /**< "" for none */
    const char *range;         /**< "0..100" for numbers, "a|b|c" for choices, "text" */
    const char *text;          /**< what it does */
    int all_ranks_alike;       /**< 1 if ranks with different values are refused */
} selvage_setting_t;

/** Is shown one setting; @p arg is the caller's. */
typedef void (*selvage_setting_visitor_t)(void *arg, const selvage_setting_t *setting);

/**
 * @brief Reads the environment as selvage_comm_create() would, and shows every setting, in the order of the manual.
 *
 * Local; does not block; any thread; may be called before MPI_Init. Nothing is shown if the environment is refused.
 *
 * @param[in] visitor  called once for each setting
 * @return ERR_ARGUMENT; ERR_CONFIG with the variable, its value and what was wanted in the detail
 */
selvage_status_t selvage_config_visit(selvage_setting_visitor_t visitor, void *arg);

/**
 * @brief Prints the same as a table, for the head of a job's log. Local; any thread; may be called before MPI_Init.
 * @param[in] stream  of the C library, open for writing
 * @return ERR_ARGUMENT, ERR_CONFIG; ERR_SYSTEM if @p stream does not take it
 */
selvage_status_t selvage_config_print(FILE *stream);

/**
 * @brief From now on an unknown SELVAGE_ variable is a warning, once per process, where SELVAGE_UNKNOWN is not set.
 *
 * For libraries that enter programs which know nothing of Selvage, as the drop-in does. What somebody left in the
 * environment must not end such a program. Local; any thread; may be called before MPI_Init.
 */
void selvage_config_warn_unknown(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
