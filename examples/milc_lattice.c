/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reader and writer of MILC version-5 lattices; see milc_lattice.h. Nothing in a file is believed before it is checked:
 * extents are bounded before they are multiplied, and the size must be exact, so that a cut or padded file is refused
 * before any rank reads links from it.
 */
#include "milc_lattice.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MILC_MAGIC = 20103,
    MILC_HEADER_BYTES = 96,
    MILC_SITE_BYTES = MILC_SITE_FLOATS * 4,
    MILC_EXTENT_MAX = 4096 /* 4096^4 sites still fit in 64 bits of bytes */
};

/* The header as it lies in the file; all members are 32-bit words, so that no padding can creep in. */
typedef struct milc_header {
    uint32_t magic, extent[MILC_DIMS];
    char time_stamp[MILC_STAMP_BYTES];
    uint32_t order, sum29, sum31;
} milc_header_t;

_Static_assert(sizeof(milc_header_t) == MILC_HEADER_BYTES, "the header has no padding");

static int fail(char error[MILC_ERROR_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fail(char error[MILC_ERROR_BYTES], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, MILC_ERROR_BYTES, format, args);
    va_end(args);
    return -1;
}

static uint32_t rotate_left(uint32_t word, unsigned bits)
{
    return bits == 0 ? word : word << bits | word >> (32 - bits); /* a shift by 32 is undefined in C */
}

/* Adds words to both checksums; `first` is the position of the first one in the whole lattice. */
static void add_to_sums(uint32_t sums[2], const uint32_t *words, size_t count, uint64_t first)
{
    unsigned rank29 = (unsigned)(first % 29), rank31 = (unsigned)(first % 31);
    for (size_t i = 0; i < count; i++) {
        sums[0] ^= rotate_left(words[i], rank29);
        sums[1] ^= rotate_left(words[i], rank31);
        rank29 = rank29 == 28 ? 0 : rank29 + 1;
        rank31 = rank31 == 30 ? 0 : rank31 + 1;
    }
}

static void swap_words(uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        words[i] = __builtin_bswap32(words[i]);
}

static void swap_header(milc_header_t *header)
{
    swap_words(&header->magic, 1);
    swap_words(header->extent, MILC_DIMS);
    swap_words(&header->order, 1);
    swap_words(&header->sum29, 1);
    swap_words(&header->sum31, 1);
}

static uint64_t count_sites(const int extent[MILC_DIMS])
{
    uint64_t sites = 1;
    for (int d = 0; d < MILC_DIMS; d++)
        sites *= (uint64_t)extent[d];
    return sites;
}

/* Position of a site in the file. */
static uint64_t site_number(const int extent[MILC_DIMS], const int x[MILC_DIMS])
{
    uint64_t number = 0;
    for (int d = MILC_DIMS - 1; d >= 0; d--)
        number = number * (uint64_t)extent[d] + (uint64_t)x[d];
    return number;
}

static int check_header(milc_file_t *file, milc_header_t *header, char error[MILC_ERROR_BYTES])
{
    uint32_t magic = header->magic;
    file->swapped = magic != MILC_MAGIC;
    if (file->swapped)
        swap_header(header);
    if (header->magic != MILC_MAGIC)
        return fail(error, "%s: not a MILC version-5 lattice: magic number %" PRIu32 ", not %d in either byte order",
                    file->path, magic, MILC_MAGIC);
    for (int d = 0; d < MILC_DIMS; d++) {
        if (header->extent[d] < 1 || header->extent[d] > MILC_EXTENT_MAX)
            return fail(error, "%s: the header's n%c is %" PRId32 ", not within 1..%d", file->path, "xyzt"[d],
                        (int32_t)header->extent[d], MILC_EXTENT_MAX);
        file->extent[d] = (int)header->extent[d];
    }
    if (header->order != 0)
        return fail(error, "%s: site order %" PRId32 "; only 0, the natural order, can be read", file->path,
                    (int32_t)header->order);
    memcpy(file->time_stamp, header->time_stamp, MILC_STAMP_BYTES);
    file->time_stamp[MILC_STAMP_BYTES] = '\0';
    for (char *c = file->time_stamp; *c != '\0'; c++)
        if (*c < ' ' || *c > '~') /* it is printed: keep a damaged one away from the terminal */
            *c = '?';
    file->wanted[0] = header->sum29;
    file->wanted[1] = header->sum31;
    return 0;
}

static int check_size(const milc_file_t *file, char error[MILC_ERROR_BYTES])
{
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return fail(error, "%s: %s", file->path, strerror(errno));
    uint64_t wanted = MILC_HEADER_BYTES + count_sites(file->extent) * MILC_SITE_BYTES;
    if ((uint64_t)status.st_size != wanted)
        return fail(error, "%s: %s: %" PRIu64 " bytes, but a lattice of %dx%dx%dx%d has %" PRIu64, file->path,
                    (uint64_t)status.st_size < wanted ? "truncated" : "too long", (uint64_t)status.st_size,
                    file->extent[0], file->extent[1], file->extent[2], file->extent[3], wanted);
    return 0;
}

/* Reads exactly `bytes` at `offset`; a file that ends before is an error. */
static int read_at(const milc_file_t *file, void *to, size_t bytes, uint64_t offset, char error[MILC_ERROR_BYTES])
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(file->fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(error, "%s: %s", file->path, strerror(errno));
        if (got == 0)
            return fail(error, "%s: truncated: ends at byte %" PRIu64, file->path, offset + done);
        done += (size_t)got;
    }
    return 0;
}

int milc_open(const char *path, milc_file_t *file, char error[MILC_ERROR_BYTES])
{
    milc_header_t header;
    *file = (milc_file_t){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (file->fd < 0)
        return fail(error, "%s: %s", path, strerror(errno));
    if (read_at(file, &header, sizeof header, 0, error) == 0 && check_header(file, &header, error) == 0 &&
        check_size(file, error) == 0)
        return 0;
    milc_close(file);
    return -1;
}

void milc_close(milc_file_t *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

int milc_read_row(milc_file_t *file, const int from[MILC_DIMS], int sites, float *links, char error[MILC_ERROR_BYTES])
{
    uint64_t first = site_number(file->extent, from);
    size_t count = (size_t)sites * MILC_SITE_FLOATS;
    uint32_t *words = malloc(count * sizeof *words);
    if (words == NULL)
        return fail(error, "%s: no memory for a row of %d sites", file->path, sites);
    int failed = read_at(file, words, count * sizeof *words, MILC_HEADER_BYTES + first * MILC_SITE_BYTES, error);
    if (failed == 0) {
        if (file->swapped)
            swap_words(words, count);
        add_to_sums(file->sums, words, count, first * MILC_SITE_FLOATS);
        memcpy(links, words, count * sizeof *words);
    }
    free(words);
    return failed;
}

int milc_check_sums(const milc_file_t *file, const uint32_t sums[2], char error[MILC_ERROR_BYTES])
{
    if (sums[0] == file->wanted[0] && sums[1] == file->wanted[1])
        return 0;
    return fail(error,
                "%s: corrupt: the header's checksums are %08" PRIx32 " %08" PRIx32 ", those of the links %08" PRIx32
                " %08" PRIx32,
                file->path, file->wanted[0], file->wanted[1], sums[0], sums[1]);
}

/* Writes exactly `bytes` at `offset`. */
static int write_at(const milc_file_t *file, const void *from, size_t bytes, uint64_t offset,
                    char error[MILC_ERROR_BYTES])
{
    for (size_t done = 0; done < bytes;) {
        ssize_t put = pwrite(file->fd, (const char *)from + done, bytes - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail(error, "%s: cannot be written: %s", file->path, strerror(errno));
        done += (size_t)put;
    }
    return 0;
}

int milc_create(const char *path, const int extent[MILC_DIMS], milc_file_t *file, char error[MILC_ERROR_BYTES])
{
    *file = (milc_file_t){.path = path, .fd = -1};
    for (int d = 0; d < MILC_DIMS; d++) {
        if (extent[d] < 1 || extent[d] > MILC_EXTENT_MAX)
            return fail(error, "%s: n%c cannot be %d, not within 1..%d", path, "xyzt"[d], extent[d], MILC_EXTENT_MAX);
        file->extent[d] = extent[d];
    }
    file->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return fail(error, "%s: %s", path, strerror(errno));
    /* Zeros up to the end: a header of them is refused by readers until milc_seal() writes the true one. */
    if (ftruncate(file->fd, (off_t)(MILC_HEADER_BYTES + count_sites(extent) * MILC_SITE_BYTES)) == 0)
        return 0;
    milc_close(file);
    return fail(error, "%s: cannot be written: %s", path, strerror(errno));
}

int milc_write_row(milc_file_t *file, const int from[MILC_DIMS], int sites, const float *links,
                   char error[MILC_ERROR_BYTES])
{
    uint64_t first = site_number(file->extent, from);
    for (int i = 0; i < sites; i++) {
        uint32_t site[MILC_SITE_FLOATS];
        memcpy(site, links + (size_t)i * MILC_SITE_FLOATS, sizeof site);
        add_to_sums(file->sums, site, MILC_SITE_FLOATS, (first + (uint64_t)i) * MILC_SITE_FLOATS);
    }
    return write_at(file, links, (size_t)sites * MILC_SITE_BYTES, MILC_HEADER_BYTES + first * MILC_SITE_BYTES, error);
}

int milc_flush(const milc_file_t *file, char error[MILC_ERROR_BYTES])
{
    if (fsync(file->fd) == 0 || errno == EINVAL) /* a full disk may only show here; EINVAL: not that kind of file */
        return 0;
    return fail(error, "%s: cannot be written: %s", file->path, strerror(errno));
}

static milc_header_t make_header(const int extent[MILC_DIMS], const char *time_stamp, const uint32_t sums[2])
{
    milc_header_t header = {.magic = MILC_MAGIC, .sum29 = sums[0], .sum31 = sums[1]};
    for (int d = 0; d < MILC_DIMS; d++)
        header.extent[d] = (uint32_t)extent[d];
    snprintf(header.time_stamp, sizeof header.time_stamp, "%s", time_stamp);
    return header;
}

int milc_seal(const milc_file_t *file, const char *time_stamp, const uint32_t sums[2], char error[MILC_ERROR_BYTES])
{
    milc_header_t header = make_header(file->extent, time_stamp, sums);
    int failed = write_at(file, &header, sizeof header, 0, error);
    return failed != 0 ? failed : milc_flush(file, error);
}

/* Writes all words through a small buffer, swapped if asked for. */
static bool write_words(FILE *stream, const uint32_t *words, uint64_t count, bool swapped)
{
    uint32_t buffer[1024];
    for (uint64_t done = 0; done < count;) {
        size_t n = count - done < 1024 ? (size_t)(count - done) : 1024;
        memcpy(buffer, words + done, n * sizeof *buffer);
        if (swapped)
            swap_words(buffer, n);
        if (fwrite(buffer, sizeof *buffer, n, stream) != n)
            return false;
        done += n;
    }
    return true;
}

int milc_write(const char *path, const int extent[MILC_DIMS], const char *time_stamp, const float *links,
               bool swapped, char error[MILC_ERROR_BYTES])
{
    const uint32_t *words = (const uint32_t *)(const void *)links; /* only ever copied by memcpy */
    uint64_t count = count_sites(extent) * MILC_SITE_FLOATS;
    uint32_t sums[2] = {0, 0};
    for (uint64_t done = 0; done < count; done += MILC_SITE_FLOATS) {
        uint32_t site[MILC_SITE_FLOATS];
        memcpy(site, words + done, sizeof site);
        add_to_sums(sums, site, MILC_SITE_FLOATS, done);
    }
    milc_header_t header = make_header(extent, time_stamp, sums);
    if (swapped)
        swap_header(&header);
    FILE *stream = fopen(path, "wb");
    if (stream == NULL)
        return fail(error, "%s: %s", path, strerror(errno));
    bool ok = fwrite(&header, sizeof header, 1, stream) == 1 && write_words(stream, words, count, swapped);
    ok = fclose(stream) == 0 && ok; /* a full disk may only show here */
    return ok ? 0 : fail(error, "%s: cannot be written: %s", path, strerror(errno));
}

/* Finds "key = number" in a line; 1 if it is there. */
static int match_key(const char *line, const char *key, double *value)
{
    char name[64], *end;
    int length = 0;
    if (sscanf(line, " %63[^ =] = %n", name, &length) != 1 || strcmp(name, key) != 0 || length == 0)
        return 0;
    double number = strtod(line + length, &end);
    if (end == line + length)
        return 0;
    *value = number;
    return 1;
}

int milc_read_info(const char *path, milc_info_t *info, char error[MILC_ERROR_BYTES])
{
    static const char *const keys[3] = {"gauge.ssplaq", "gauge.stplaq", "gauge.nersc_linktr"};
    double values[3] = {0, 0, 0};
    int found[3] = {0, 0, 0};
    char line[256];
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return errno == ENOENT ? 1 : fail(error, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, stream) != NULL)
        for (int k = 0; k < 3; k++)
            found[k] |= match_key(line, keys[k], &values[k]);
    fclose(stream);
    for (int k = 0; k < 3; k++)
        if (!found[k])
            return fail(error, "%s: no number for %s", path, keys[k]);
    *info = (milc_info_t){values[0], values[1], values[2]};
    return 0;
}
