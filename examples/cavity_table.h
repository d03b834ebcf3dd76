/* SPDX-License-Identifier: BSD-3-Clause */
/* The flow in the cavity as it was published, and the comparison with it. */
#ifndef CAVITY_TABLE_H
#define CAVITY_TABLE_H

/*
 * Prints the velocities on the centre lines beside the published ones. u and v are the whole field, in units of the
 * lid's velocity, row by row from the bottom; cells >= 4 are a row. reynolds is 100 or 1000. Returns how many of the
 * differences are larger than the resolution explains.
 */
int cavity_compare(int reynolds, int cells, const double *u, const double *v);

/*
 * Writes a picture of the flow: its speed in colours, streamlines in grey. Returns 0, or -1 with errno set.
 */
int cavity_picture(const char *file, int cells, const double *u, const double *v);

#endif
