/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for rocTX, AMD's library of ranges for profilers. At exit, if there were any ranges, one line on standard
 * error: how many were begun and ended, how many are open or were ended without a beginning in their thread, and the
 * names.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 8 };

int roctxRangePushA(const char *name);
int roctxRangePop(void);

static __thread int depth;
static struct {
    pthread_mutex_t lock;
    unsigned long begun, ended, wrong;
    char name[NAMES_MAX][64];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

int roctxRangePushA(const char *name)
{
    int i = 0;
    pthread_mutex_lock(&state.lock);
    state.begun++;
    while (i < NAMES_MAX - 1 && state.name[i][0] && strcmp(state.name[i], name) != 0)
        i++;
    snprintf(state.name[i], sizeof state.name[i], "%s", name);
    pthread_mutex_unlock(&state.lock);
    return depth++;
}

int roctxRangePop(void)
{
    pthread_mutex_lock(&state.lock);
    state.ended++;
    state.wrong += depth <= 0;
    pthread_mutex_unlock(&state.lock);
    return --depth;
}

__attribute__((destructor)) static void end(void)
{
    if (state.begun == 0 && state.ended == 0)
        return;
    fprintf(stderr, "roctx stand-in: %lu begun, %lu ended, %lu wrong:", state.begun, state.ended,
            state.wrong + (state.begun - state.ended));
    for (int i = 0; i < NAMES_MAX && state.name[i][0]; i++)
        fprintf(stderr, " %s", state.name[i]);
    fprintf(stderr, "\n");
}
