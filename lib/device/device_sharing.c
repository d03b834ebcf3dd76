/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See device_sharing.h. The locks are Linux's of open file descriptions: unlike those of processes they do not end when
 * some other library closes the same file.
 */
#define _GNU_SOURCE
#include "device/device_sharing.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOCKS = 32, PATH_BYTES = 256, ASK_EVERY = 1024 };

typedef struct sharing_lock {
    char path[PATH_BYTES];
    int file;
    _Atomic uint32_t calls;
    _Atomic bool shared;
} sharing_lock_t;

/* An entry is complete before its number is given out. */
static struct {
    pthread_mutex_t mutex;
    int count;
    sharing_lock_t lock[LOCKS];
} locks = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int add_sharing_lock(const char *path)
{
    struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    const size_t length = strlen(path);
    if (locks.count == LOCKS || length >= PATH_BYTES)
        return SV_SHARING_NEVER;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (file < 0)
        return SV_SHARING_NEVER;
    if (fcntl(file, F_OFD_SETLK, &range) != 0) {
        (void)close(file);
        return SV_SHARING_NEVER;
    }
    memcpy(locks.lock[locks.count].path, path, length + 1);
    locks.lock[locks.count].file = file;
    return ++locks.count;
}

int sv_sharing_join_file(const char *path)
{
    int number = SV_SHARING_NEVER;
    pthread_mutex_lock(&locks.mutex);
    for (int i = 0; i < locks.count; i++)
        if (strcmp(locks.lock[i].path, path) == 0)
            number = i + 1;
    if (number == SV_SHARING_NEVER)
        number = add_sharing_lock(path);
    pthread_mutex_unlock(&locks.mutex);
    return number;
}

int sv_sharing_join(const char *bus_id)
{
    char path[PATH_BYTES];
    if (bus_id[0] == '\0' || strchr(bus_id, '/'))
        return SV_SHARING_NEVER;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", bus_id);
    return sv_sharing_join_file(path);
}

bool sv_sharing_ask(int sharing)
{
    if (sharing <= 0)
        return sharing == SV_SHARING_ALWAYS;
    sharing_lock_t *lock = &locks.lock[sharing - 1];
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    const bool shared = fcntl(lock->file, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
    atomic_store_explicit(&lock->shared, shared, memory_order_relaxed);
    return shared;
}

bool sv_sharing_is_shared(int sharing)
{
    if (sharing <= 0)
        return sharing == SV_SHARING_ALWAYS;
    sharing_lock_t *lock = &locks.lock[sharing - 1];
    const uint32_t calls = atomic_fetch_add_explicit(&lock->calls, 1, memory_order_relaxed) + 1;
    if ((calls & (calls - 1)) == 0 || calls % ASK_EVERY == 0)
        return sv_sharing_ask(sharing);
    return atomic_load_explicit(&lock->shared, memory_order_relaxed);
}
