/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The terminal for the progress line, if a person watches. Launchers give ranks pipes, so the question is whether the
 * launcher's own standard error is a terminal of this machine. Redirected output is never written to.
 */
#ifndef SELVAGE_SMOKE_TERMINAL_H
#define SELVAGE_SMOKE_TERMINAL_H

#include <stdio.h>

/* NULL where there is none. Partner: smoke_terminal_close(). */
FILE *smoke_terminal_open(void);
/* Accepts NULL. */
void smoke_terminal_close(FILE *terminal);

#endif
