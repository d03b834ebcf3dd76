/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A picture of the flow in the cavity. Streamlines are where the stream function, the volume that passes below a point,
 * takes one of some values; a pixel is on one if its neighbour is on the other side of it.
 */
#include "cavity_table.h"
#include "picture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { PIXELS_MIN = 768 };

/* As in Ghia, Ghia and Shin's figures: the large vortex turns with the lid and is negative, the eddies are positive. */
static const double levels[] = {-0.11, -0.1,  -0.09, -0.07, -0.05, -0.03, -0.01, -1e-3,
                                -1e-4, -1e-6, 1e-6,  1e-5,  1e-4,  5e-4,  1e-3,  1.5e-3};

static int level(double stream)
{
    int count = 0;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        count += stream > levels[i];
    return count;
}

/* Linear between the centres of cells. */
static double between(const double *field, int cells, double x, double y)
{
    int i = (int)fmax(0, fmin(cells - 2, floor(x))), j = (int)fmax(0, fmin(cells - 2, floor(y)));
    const double *f = field + (size_t)j * (size_t)cells + i;
    double a = x - i, b = y - j;
    return (1 - b) * ((1 - a) * f[0] + a * f[1]) + b * ((1 - a) * f[cells] + a * f[cells + 1]);
}

static void find_stream(int cells, const double *u, double *stream)
{
    for (int x = 0; x < cells; x++) {
        double below = 0;
        for (int y = 0; y < cells; y++) {
            size_t i = (size_t)y * (size_t)cells + (size_t)x;
            stream[i] = below + 0.5 * u[i] / cells;
            below += u[i] / cells;
        }
    }
}

int cavity_picture(const char *file, int cells, const double *u, const double *v)
{
    int scale = (PIXELS_MIN + cells - 1) / cells, size = scale * cells;
    size_t count = (size_t)cells * (size_t)cells, pixels = (size_t)size * (size_t)size;
    double *stream = malloc((2 * count + pixels) * sizeof *stream);
    if (stream == NULL)
        return errno = ENOMEM, -1;
    double *speed = stream + count, *picture = speed + count;
    find_stream(cells, u, stream);
    for (size_t i = 0; i < count; i++)
        speed[i] = hypot(u[i], v[i]);
    for (int row = 0; row < size; row++)
        for (int column = 0; column < size; column++) {
            double x = (column + 0.5) / scale - 0.5, y = (size - row - 0.5) / scale - 0.5, step = 1.0 / scale;
            int here = level(between(stream, cells, x, y));
            int line = here != level(between(stream, cells, x + step, y)) ||
                       here != level(between(stream, cells, x, y + step));
            picture[(size_t)row * (size_t)size + (size_t)column] = line ? NAN : between(speed, cells, x, y);
        }
    int result = picture_write(file, picture, size, size, 0, 0.6);
    free(stream);
    return result;
}
