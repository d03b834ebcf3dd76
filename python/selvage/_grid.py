# SPDX-License-Identifier: BSD-3-Clause
"""Grids: a Cartesian domain of 1 to 4 dimensions, cut into blocks, one for each rank."""
from __future__ import annotations

import ctypes as c
from typing import Any, Sequence

from . import _mpi
from ._comm import Comm, Owned
from ._errors import ArgumentError, check
from ._library import library
from ._structs import DIMS_MAX, Box, GridInfo, GridParams, Ints, Longs


def per_dimension(name: str, value: Any, ndims: int) -> list[int]:
    """One number for each dimension, of one number or of a sequence."""
    numbers = [int(number) for number in value] if hasattr(value, "__iter__") else [int(value)] * ndims
    if len(numbers) != ndims:
        raise ArgumentError(f"{name}: {len(numbers)} numbers, and the grid has {ndims} dimensions", -1)
    return numbers


class Grid(Owned):
    """A domain of ``extent`` cells, cut into one block for each rank of ``comm``.

    Collective; blocks. ``extent`` has a number for each dimension (1 to 4), which are those of arrays in the same
    order: array[i, j] is the cell (i, j). ``periodic`` and ``width`` are one value for all dimensions or one for each;
    ``blocks`` fixes the number of blocks (0: chosen so that the fewest cells of halos of ``width`` are moved).
    ``reorder`` places neighbours on one node where that helps. ``cart`` is an mpi4py communicator with a Cartesian
    topology over the same ranks, which then decides blocks, periods and places.
    """

    def __init__(self, comm: Comm, extent: Sequence[int], *, periodic: Any = False, blocks: Any = 0,
                 reorder: bool = False, width: Any = 1, cart: Any = None) -> None:
        extent = [int(cells) for cells in extent]
        ndims = len(extent)
        if not 1 <= ndims <= DIMS_MAX:
            raise ArgumentError(f"extent: {ndims} dimensions, wanted 1 to {DIMS_MAX}", -1)
        params = GridParams(ndims=ndims, global_extent=Longs(*extent), reorder=int(reorder),
                            width=Ints(*per_dimension("width", width, ndims)))
        made = c.c_void_p()
        if cart is not None:
            check(library.selvage_grid_create_cart(comm._handle, _mpi.handle_of(cart), params, made))
        else:
            params.periodic = Ints(*per_dimension("periodic", periodic, ndims))
            params.blocks = Ints(*per_dimension("blocks", blocks, ndims))
            check(library.selvage_grid_create(comm._handle, params, made))
        self._own(made, comm, library.selvage_grid_destroy)
        info = GridInfo()
        check(library.selvage_grid_describe(self._handle, info))
        self.ndims = ndims
        self.comm = comm
        self.extent: tuple[int, ...] = tuple(info.global_extent[:ndims])
        self.periodic: tuple[bool, ...] = tuple(bool(period) for period in info.periodic[:ndims])
        self.blocks: tuple[int, ...] = tuple(info.blocks[:ndims])
        self.coords: tuple[int, ...] = tuple(info.coords[:ndims])
        #: Own cells of this rank, and the global index of the first of them.
        self.local_extent: tuple[int, ...] = tuple(info.local_extent[:ndims])
        self.local_first: tuple[int, ...] = tuple(info.local_first[:ndims])

    def shape(self, width: Any = 1) -> tuple[int, ...]:
        """Shape of an array of this rank's own cells with ``width`` halo cells on either side."""
        widths = per_dimension("width", width, self.ndims)
        return tuple(own + 2 * halo for own, halo in zip(self.local_extent, widths))

    def own(self, width: Any = 1) -> tuple[slice, ...]:
        """Index of this rank's own cells in such an array: u[grid.own()]."""
        widths = per_dimension("width", width, self.ndims)
        return tuple(slice(halo, halo + own) for own, halo in zip(self.local_extent, widths))

    def interior(self, width: Any = 1) -> tuple[slice, ...]:
        """Index, in such an array, of the own cells that need no halo: to be computed between start() and wait()."""
        widths = per_dimension("width", width, self.ndims)
        box = Box()
        check(library.selvage_grid_interior(self._handle, Ints(*widths), Ints(*widths), box))
        return tuple(slice(box.first[d] + widths[d], max(box.first[d], box.end[d]) + widths[d])
                     for d in range(self.ndims))

    def neighbour(self, offset: Sequence[int]) -> int:
        """Rank of the block ``offset`` (-1, 0 or 1 in each dimension) away; -1 outside the domain."""
        rank = c.c_int()
        steps = per_dimension("offset", offset, self.ndims)
        check(library.selvage_grid_neighbour(self._handle, Ints(*steps), rank))
        return rank.value

    def block(self, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Extent of a rank's block, and the global index of its first cell."""
        extent, first = Longs(), Longs()
        check(library.selvage_grid_block(self._handle, rank, extent, first))
        return tuple(extent[:self.ndims]), tuple(first[:self.ndims])
