/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that other processes can map; see base_mapping.h.
 *
 * The creator keeps the memfd open for as long as the mapping lives: /proc/PID/fd/N is the way in for others. Each
 * process remembers what it created under a random number. So a handle that comes home gives the creator's own address,
 * and nothing is mapped twice. It stays mapped until the creator and all who borrow it have closed it. That list is the
 * only global here, and its mutex makes it safe for any thread. Where memfd is missing, a 0600 file takes its place and
 * is unlinked at close.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_mapping.h"
#include "base/base_memory.h"
#include "base/base_status.h"

#define MAPPING_MAGIC 0x4d56534du

enum { MAPPING_PATH_BYTES = 48 };

/* What a handle says. Both ends run on one machine, so the byte order is the machine's. */
typedef struct mapping_ticket {
    uint32_t magic;
    int32_t pid;
    int32_t fd;
    uint32_t reserved;
    uint64_t inode, dev, bytes, nonce;
    char path[MAPPING_PATH_BYTES]; /* "" for a memfd, reached through /proc */
} mapping_ticket_t;

_Static_assert(sizeof(mapping_ticket_t) == SV_MAPPING_HANDLE_BYTES, "a handle has another size");

typedef struct mapping_entry {
    struct mapping_entry *next;
    uint64_t nonce;
    void *base;
    size_t bytes;
    unsigned users; /* its creator and who borrows it: the last one unmaps */
    bool closed;    /* by its creator: nobody opens it any more */
} mapping_entry_t;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static mapping_entry_t *registry;

/* A memfd, or where there is none a file: in /dev/shm first, because that is memory as well. */
static int open_backing(mapping_ticket_t *ticket)
{
    static const char *const folder[] = {"/dev/shm", "/tmp"};
    int fd = memfd_create("selvage", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(ticket->path, sizeof ticket->path, "%s/selvage-%d-%016llx", folder[i], (int)ticket->pid,
                 (unsigned long long)ticket->nonce);
        fd = open(ticket->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0)
            return fd;
    }
    ticket->path[0] = '\0';
    return -1;
}

/* Reserves the space now: a page that is missing later would be a SIGBUS in the middle of an exchange. */
static selvage_status_t reserve_bytes(int fd, size_t bytes)
{
    int failure;
    if (ftruncate(fd, (off_t)bytes) != 0)
        return sv_error(SELVAGE_ERR_MEMORY, "mappable memory: %zu bytes: %s", bytes, strerror(errno));
    do
        failure = posix_fallocate(fd, 0, (off_t)bytes);
    while (failure == EINTR);
    if (failure != 0)
        return sv_error(SELVAGE_ERR_MEMORY, "mappable memory: %zu bytes cannot be reserved: %s", bytes,
                        strerror(failure));
    /*
     * A peer's access must never outlive the pages, and no peer may forbid the owner to write. Files cannot be sealed;
     * they are private enough.
     */
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return SELVAGE_SUCCESS;
}

static selvage_status_t map_shared(int fd, size_t bytes, void **base_out)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return sv_error(SELVAGE_ERR_MEMORY, "mappable memory: mmap of %zu bytes: %s", bytes, strerror(errno));
    *base_out = base;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_mapping_create(size_t bytes, sv_mapping_t *mapping_out)
{
    mapping_ticket_t ticket = {.magic = MAPPING_MAGIC, .pid = (int32_t)getpid()};
    mapping_entry_t *entry = NULL;
    void *base = NULL;
    struct stat st;
    selvage_status_t status;
    /* Nothing stops a memfd from growing until the machine kills somebody, so the impossible is refused beforehand. */
    long pages = sysconf(_SC_PHYS_PAGES);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - page || (pages > 0 && bytes / page >= (size_t)pages))
        return sv_error(SELVAGE_ERR_MEMORY, "mappable memory: %zu bytes are more than this machine has", bytes);
    size_t size = bytes ? (bytes + page - 1) / page * page : page;
    if (getrandom(&ticket.nonce, sizeof ticket.nonce, GRND_NONBLOCK) != (ssize_t)sizeof ticket.nonce)
        ticket.nonce = sv_clock_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid() << 32;
    SV_TRY(sv_calloc(1, sizeof *entry, &entry));
    int fd = open_backing(&ticket);
    if (fd < 0) {
        status = sv_error(SELVAGE_ERR_MEMORY, "mappable memory: memfd_create: %s", strerror(errno));
        goto fail_entry;
    }
    SV_TRY_GOTO(status, reserve_bytes(fd, size), fail_fd);
    /* The ticket names the inode, so that an opener can tell that it reached this memory and no other. */
    if (fstat(fd, &st) != 0) {
        status = sv_error(SELVAGE_ERR_SYSTEM, "mappable memory: fstat: %s", strerror(errno));
        goto fail_fd;
    }
    ticket.fd = fd;
    ticket.inode = (uint64_t)st.st_ino;
    ticket.dev = (uint64_t)st.st_dev;
    ticket.bytes = size;
    SV_TRY_GOTO(status, map_shared(fd, size, &base), fail_fd);
    entry->nonce = ticket.nonce;
    entry->base = base;
    entry->bytes = size;
    entry->users = 1;
    pthread_mutex_lock(&registry_lock);
    entry->next = registry;
    registry = entry;
    pthread_mutex_unlock(&registry_lock);
    *mapping_out = (sv_mapping_t){.base = base, .bytes = size, .fd = fd, .owned = 1};
    memcpy(mapping_out->handle.bytes, &ticket, sizeof ticket);
    return SELVAGE_SUCCESS;
fail_fd:
    close(fd);
    if (ticket.path[0])
        unlink(ticket.path);
fail_entry:
    sv_free(entry);
    return status;
}

/* Maps the memory of another process, by the way in that its ticket names. */
static selvage_status_t open_remote(const mapping_ticket_t *ticket, void **base_out)
{
    char path[64];
    if (ticket->path[0])
        snprintf(path, sizeof path, "%s", ticket->path);
    else
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)ticket->pid, (int)ticket->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | (ticket->path[0] ? O_NOFOLLOW : 0)); /* those of /proc are links */
    if (fd < 0)
        return sv_error(SELVAGE_ERR_SYSTEM, "memory of process %d: open %s: %s", (int)ticket->pid, path,
                        strerror(errno));
    /* The descriptor must be the one that the ticket was written for, and not a later one of the same number. */
    struct stat st;
    selvage_status_t status;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_ino == ticket->inode && (uint64_t)st.st_dev == ticket->dev &&
        (uint64_t)st.st_size == ticket->bytes)
        status = map_shared(fd, (size_t)ticket->bytes, base_out);
    else
        status = sv_error(SELVAGE_ERR_SYSTEM, "memory of process %d: %s is not what the handle describes",
                          (int)ticket->pid, path);
    close(fd);
    return status;
}

selvage_status_t sv_mapping_open(const sv_mapping_handle_t *handle, sv_mapping_t *mapping_out)
{
    mapping_ticket_t ticket;
    void *base = NULL;
    memcpy(&ticket, handle->bytes, sizeof ticket);
    if (ticket.magic != MAPPING_MAGIC || ticket.path[MAPPING_PATH_BYTES - 1] != '\0')
        return sv_error(SELVAGE_ERR_SYSTEM, "the handle does not describe mappable memory");
    int borrowed = ticket.pid == (int32_t)getpid();
    if (!borrowed)
        SV_TRY(open_remote(&ticket, &base));
    if (borrowed) {
        pthread_mutex_lock(&registry_lock);
        for (mapping_entry_t *entry = registry; entry && !base; entry = entry->next)
            if (entry->nonce == ticket.nonce && !entry->closed) {
                entry->users++; /* partner: leave_mapping() */
                base = entry->base;
            }
        pthread_mutex_unlock(&registry_lock);
        if (!base)
            return sv_error(SELVAGE_ERR_SYSTEM, "the handle's memory has been closed in this process");
    }
    *mapping_out = (sv_mapping_t){.base = base, .bytes = (size_t)ticket.bytes, .fd = -1, .borrowed = borrowed,
                                  .handle = *handle};
    return SELVAGE_SUCCESS;
}

void sv_mapping_shut(sv_mapping_t *mapping)
{
    mapping_ticket_t ticket;
    if (!mapping->base || !mapping->owned || mapping->fd < 0)
        return;
    memcpy(&ticket, mapping->handle.bytes, sizeof ticket);
    if (ticket.path[0])
        unlink(ticket.path);
    close(mapping->fd);
    mapping->fd = -1;
}

/* Of what this process created: its creator or a borrower goes. */
static void leave_mapping(const sv_mapping_t *mapping)
{
    mapping_ticket_t ticket;
    memcpy(&ticket, mapping->handle.bytes, sizeof ticket);
    pthread_mutex_lock(&registry_lock);
    mapping_entry_t **link = &registry;
    while (*link && (*link)->nonce != ticket.nonce)
        link = &(*link)->next;
    mapping_entry_t *entry = *link;
    if (entry) {
        entry->closed |= mapping->owned;
        if (--entry->users > 0)
            entry = NULL;
        else
            *link = entry->next;
    }
    pthread_mutex_unlock(&registry_lock);
    if (entry)
        munmap(entry->base, entry->bytes);
    sv_free(entry);
}

void sv_mapping_close(sv_mapping_t *mapping)
{
    if (!mapping || !mapping->base)
        return;
    if (mapping->owned || mapping->borrowed)
        leave_mapping(mapping);
    else
        munmap(mapping->base, mapping->bytes);
    if (mapping->owned)
        sv_mapping_shut(mapping);
    *mapping = (sv_mapping_t){.fd = -1};
}
