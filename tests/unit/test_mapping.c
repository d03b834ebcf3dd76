/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that other processes map: through a memfd, and through the file that takes its place where there is none.
 * Another process must see this one's bytes and write bytes that this one sees; handles that are damaged, closed or
 * recycled must be refused.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base_mapping.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"

static int memfd_missing;

/* Takes the place of the C library's, so that a kernel without memfd can be played. */
int memfd_create(const char *name, unsigned flags)
{
    if (memfd_missing) {
        errno = ENOSYS;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

enum { CHILD_GOOD = 0, CHILD_NOT_OPENED = 1, CHILD_WRONG_BYTES = 2, BYTES = 100000 };

static int child_main(int from_parent)
{
    sv_mapping_handle_t handle;
    sv_mapping_t mapping = {0};
    if (read(from_parent, &handle, sizeof handle) != (ssize_t)sizeof handle)
        return CHILD_NOT_OPENED;
    if (sv_mapping_open(&handle, &mapping) != SELVAGE_SUCCESS || mapping.borrowed || mapping.bytes < BYTES)
        return CHILD_NOT_OPENED;
    unsigned char *bytes = mapping.base;
    if (bytes[0] != 17 || bytes[BYTES - 1] != 99)
        return CHILD_WRONG_BYTES;
    bytes[1] = 71;
    sv_mapping_close(&mapping);
    return CHILD_GOOD;
}

/* The child is made before the mapping, so that it can have it by no other way than the handle. */
static void check_other_process(void)
{
    int channel[2], result = -1;
    sv_mapping_t mapping = {0};
    CHECK_EQ(pipe(channel), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(child_main(channel[0]));
    CHECK(child > 0);
    CHECK_STATUS(sv_mapping_create(BYTES, &mapping), SELVAGE_SUCCESS);
    unsigned char *bytes = mapping.base;
    CHECK_EQ(bytes[0], 0);
    CHECK_EQ(bytes[BYTES - 1], 0);
    bytes[0] = 17;
    bytes[BYTES - 1] = 99;
    CHECK_EQ(write(channel[1], &mapping.handle, sizeof mapping.handle), sizeof mapping.handle);
    CHECK_EQ(waitpid(child, &result, 0), child);
    CHECK(WIFEXITED(result));
    CHECK_EQ(WEXITSTATUS(result), CHILD_GOOD);
    CHECK_EQ(bytes[1], 71);
    sv_mapping_close(&mapping);
    CHECK(mapping.base == NULL);
    close(channel[0]);
    close(channel[1]);
}

/* Whoever opens the memory could otherwise seal it against writing, or its owner's size against him. */
static void check_seals(void)
{
    sv_mapping_t mapping = {0};
    CHECK_STATUS(sv_mapping_create(BYTES, &mapping), SELVAGE_SUCCESS);
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    CHECK_EQ(fcntl(mapping.fd, F_GET_SEALS) & seals, seals);
    CHECK(fcntl(mapping.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0);
    sv_mapping_close(&mapping);
}

/* A child that inherits the mapping is another process all the same. */
static void check_inherited(void)
{
    int result = -1;
    sv_mapping_t mapping = {0};
    CHECK_STATUS(sv_mapping_create(1, &mapping), SELVAGE_SUCCESS);
    pid_t child = fork();
    if (child == 0) {
        sv_mapping_t opened = {0};
        selvage_status_t status = sv_mapping_open(&mapping.handle, &opened);
        _exit(status == SELVAGE_SUCCESS && !opened.borrowed && opened.base != mapping.base ? CHILD_GOOD : 1);
    }
    CHECK_EQ(waitpid(child, &result, 0), child);
    CHECK_EQ(WEXITSTATUS(result), CHILD_GOOD);
    sv_mapping_close(&mapping);
}

static void check_same_process(void)
{
    sv_mapping_t mapping = {0}, opened = {0}, again = {0};
    CHECK_STATUS(sv_mapping_create(BYTES, &mapping), SELVAGE_SUCCESS);
    CHECK_EQ(mapping.owned, 1);
    CHECK_EQ(mapping.bytes % (size_t)sysconf(_SC_PAGESIZE), 0);
    CHECK_STATUS(sv_mapping_open(&mapping.handle, &opened), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_mapping_open(&mapping.handle, &again), SELVAGE_SUCCESS);
    CHECK(opened.base == mapping.base && again.base == mapping.base);
    CHECK_EQ(opened.borrowed, 1);
    sv_mapping_close(&opened);
    sv_mapping_close(&again);
    ((unsigned char *)mapping.base)[0] = 1; /* still there */
    /* Who borrows it keeps it when its creator goes, and nobody comes after that. */
    CHECK_STATUS(sv_mapping_open(&mapping.handle, &opened), SELVAGE_SUCCESS);
    sv_mapping_handle_t handle = mapping.handle;
    sv_mapping_close(&mapping);
    CHECK_STATUS(sv_mapping_open(&handle, &again), SELVAGE_ERR_SYSTEM);
    CHECK_EQ(((volatile unsigned char *)opened.base)[0], 1);
    sv_mapping_close(&opened);
    CHECK_STATUS(sv_mapping_open(&handle, &opened), SELVAGE_ERR_SYSTEM);
}

/* What the child answers for a handle that must be refused. */
static void check_refused_elsewhere(const sv_mapping_handle_t *handle)
{
    int result = -1;
    pid_t child = fork();
    if (child == 0) {
        sv_mapping_t opened = {0};
        sv_thread_binding()->log_level = 0;
        _exit(sv_mapping_open(handle, &opened) == SELVAGE_ERR_SYSTEM && !opened.base ? CHILD_GOOD : 1);
    }
    CHECK_EQ(waitpid(child, &result, 0), child);
    CHECK_EQ(WEXITSTATUS(result), CHILD_GOOD);
}

static void check_refused(void)
{
    sv_mapping_t first = {0}, second = {0}, opened = {0};
    sv_mapping_handle_t handle = {{0}};
    CHECK_STATUS(sv_mapping_open(&handle, &opened), SELVAGE_ERR_SYSTEM);
    CHECK_STATUS(sv_mapping_create(BYTES, &first), SELVAGE_SUCCESS);
    handle = first.handle;
    int fd = first.fd;
    sv_mapping_close(&first);
    check_refused_elsewhere(&handle);
    /* The descriptor's number comes back for other memory of the same size. */
    CHECK_STATUS(sv_mapping_create(BYTES, &second), SELVAGE_SUCCESS);
    CHECK(memfd_missing || second.fd == fd);
    check_refused_elsewhere(&handle);
    sv_mapping_close(&second);
    CHECK_STATUS(sv_mapping_create(SIZE_MAX, &first), SELVAGE_ERR_MEMORY);
    CHECK_STATUS(sv_mapping_create((size_t)1 << 50, &first), SELVAGE_ERR_MEMORY);
    CHECK(first.base == NULL);
    sv_mapping_close(&first);
    sv_mapping_close(NULL);
}

int main(void)
{
    sv_thread_binding()->log_level = 0;
    check_seals();
    for (memfd_missing = 0; memfd_missing < 2; memfd_missing++) {
        check_same_process();
        check_other_process();
        check_inherited();
        check_refused();
    }
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("mapping");
}
