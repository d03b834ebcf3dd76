/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gauge configurations in MILC version-5 format: a 96-byte header (magic, extents x y z t, time stamp, order and two
 * checksums) and then, for every site with x fastest, four 3x3 complex matrices of 32-bit floats (directions x y z t,
 * real and imaginary part in turn). Words may be of either byte order; readers get native ones.
 *
 * Knows files and bytes, nothing of MPI: each rank opens the file and reads only the rows it owns. Both checksums are
 * XORs of rotated words, so that the ranks' partial sums, combined by XOR, are the sums of the whole lattice.
 * Functions return 0, or -1 with a sentence in `error` that names the file. Not thread-safe on one handle.
 */
#ifndef MILC_LATTICE_H
#define MILC_LATTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MILC_DIMS = 4,
    MILC_SITE_FLOATS = 72, /* 4 directions x 3 x 3 x (real, imaginary) */
    MILC_STAMP_BYTES = 64,
    MILC_ERROR_BYTES = 512
};

typedef struct milc_file {
    const char *path; /* borrowed */
    int fd;
    bool swapped;     /* written with the other byte order */
    int extent[MILC_DIMS];
    char time_stamp[MILC_STAMP_BYTES + 1];
    uint32_t wanted[2]; /* the header's sum29 and sum31 */
    uint32_t sums[2];   /* of all rows read so far through this handle */
} milc_file_t;

/* What the .info file next to a lattice says about it. */
typedef struct milc_info {
    double space_plaquette, time_plaquette, link_trace;
} milc_info_t;

/* Opens a file; checks magic, extents, order and the exact size. Partner: milc_close(). */
int milc_open(const char *path, milc_file_t *file, char error[MILC_ERROR_BYTES]);
/* Accepts a handle whose open or create failed. */
void milc_close(milc_file_t *file);

/* Reads `sites` sites along x from the site `from` on (one row at most) and adds them to file->sums. */
int milc_read_row(milc_file_t *file, const int from[MILC_DIMS], int sites, float *links, char error[MILC_ERROR_BYTES]);

/* Compares the sums of the whole lattice with the header's. */
int milc_check_sums(const milc_file_t *file, const uint32_t sums[2], char error[MILC_ERROR_BYTES]);

/* Writes a lattice (links in the file's order), in this machine's byte order or in the other one. */
int milc_write(const char *path, const int extent[MILC_DIMS], const char *time_stamp, const float *links,
               bool swapped, char error[MILC_ERROR_BYTES]);

/*
 * Writing by many ranks: each creates the same file (then they wait for one another), writes its rows, which adds them
 * to file->sums, and flushes; then one, with the sums of the whole lattice, writes the header. Until then readers
 * refuse the file. In this machine's byte order.
 */
int milc_create(const char *path, const int extent[MILC_DIMS], milc_file_t *file, char error[MILC_ERROR_BYTES]);
int milc_write_row(milc_file_t *file, const int from[MILC_DIMS], int sites, const float *links,
                   char error[MILC_ERROR_BYTES]);
int milc_flush(const milc_file_t *file, char error[MILC_ERROR_BYTES]);
int milc_seal(const milc_file_t *file, const char *time_stamp, const uint32_t sums[2], char error[MILC_ERROR_BYTES]);

/* Reads the plaquettes and the link trace from a .info file. Returns 1 if there is no such file. */
int milc_read_info(const char *path, milc_info_t *info, char error[MILC_ERROR_BYTES]);

#endif
