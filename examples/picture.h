/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a field of numbers as a picture: PNG if the file's name ends in .png, else PPM. Needs no library. */
#ifndef PICTURE_H
#define PICTURE_H

/*
 * Row 0 is the uppermost. Values from low to high become dark blue, blue, green, yellow, red; what is outside takes the
 * end's colour, what is not a number is grey. Returns 0, or -1 with errno set.
 */
int picture_write(const char *file, const double *values, int width, int height, double low, double high);

#endif
