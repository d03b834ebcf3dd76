# SPDX-License-Identifier: BSD-3-Clause
"""What the arrays of a halo hold before and after a step, worked out from global indices, without the library."""
import numpy

UNTOUCHED = 77


def global_values(indices, extent, dtype, salt=0):
    """A number for each cell of the domain, which differs from its neighbours'."""
    number = numpy.zeros(numpy.broadcast(*indices).shape, "int64") + salt
    for index, cells in zip(indices, extent):
        number = number * 13 + index % cells
    return (number % 113 + 1).astype(dtype)


def arrays(grid, widths, dtype, shape="faces", salt=0):
    """The array before the step, with own cells only, and after it."""
    rows = [numpy.arange(-width, own + width) for width, own in zip(widths, grid.local_extent)]
    local = numpy.meshgrid(*rows, indexing="ij")
    place = [index + first for index, first in zip(local, grid.local_first)]
    outside = sum(((index < 0) | (index >= own)).astype(int) for index, own in zip(local, grid.local_extent))
    exists = numpy.ones(outside.shape, bool)
    for index, cells, periodic in zip(place, grid.extent, grid.periodic):
        exists &= periodic | ((index >= 0) & (index < cells))
    values = global_values(place, grid.extent, dtype, salt)
    untouched = numpy.full(values.shape, UNTOUCHED, dtype)
    filled = exists if shape == "full" else exists & (outside <= 1)
    return numpy.where(outside == 0, values, untouched), numpy.where(filled, values, untouched)
