# SPDX-License-Identifier: BSD-3-Clause
"""Halos: arrays on a grid, and the exchange that fills the cells around a rank's block."""
from __future__ import annotations

import ctypes as c
from dataclasses import dataclass
from typing import Any

from . import _arrays
from ._arrays import View
from ._errors import ArgumentError, check
from ._exchange import CHECKSUMS, ROUTES, Epochs, word
from ._grid import Grid, per_dimension
from ._library import library
from ._structs import FieldStruct, HaloInfo, HaloParams, Ints, Longs

_SHAPES = {"faces": 1, "full": 2}
_NUMBERS = {"float32": 1, "float64": 2, "int32": 3, "int64": 4}


@dataclass(frozen=True)
class Field:
    """An array of a halo that differs from the usual in something.

    The usual array has a dimension for each of the grid's, in the same order and with any strides, and its first own
    cell after ``width`` halo cells. Further dimensions are parts of a cell: they come last and have no gaps; with
    ``components`` there is one more dimension, which comes first, has any stride, and 1 to 2^31-1 entries.

    ``width``: halo cells, one number or one for each dimension; None: that of the halo. ``width_hi``: those above the
    block, if they differ from those below. ``first``: index of the first own cell. ``stagger``: 1 in dimensions on
    whose faces the field lives: the last block of an open dimension has one own cell more there.
    """

    array: Any
    width: Any = None
    width_hi: Any = None
    first: Any = None
    stagger: Any = 0
    components: bool = False


class Halo(Epochs):
    """The halo exchange of one or more arrays on a grid, ready to be started.

    Collective over the grid's communicator; blocks. ``fields`` is an array, a Field, or a sequence of them; ``width``
    the halo cells on either side, one number or one for each dimension. ``shape``: "faces" fills the halos beside the
    faces of the block, "full" those at its edges and corners, too. ``reverse``: halo cells travel back and are added to
    the cells that they stand for (float32, float64, int32 and int64). At open ends of the domain nothing is written.
    ``route`` and ``checksum`` are as for Exchange. How arrays lie in memory may differ between ranks; all else is
    the same.
    """

    _kind = "halo"

    def __init__(self, grid: Grid, fields: Any, width: Any = 1, *, shape: str = "faces", reverse: bool = False,
                 route: str | None = None, checksum: str | None = None) -> None:
        listed = list(fields) if isinstance(fields, (list, tuple)) else [fields]
        listed = [field if isinstance(field, Field) else Field(field) for field in listed]
        views, structs = [], (FieldStruct * len(listed))()
        for number, field in enumerate(listed):
            found = _arrays.view(field.array, f"fields[{number}]", written=True)
            views.append(found)
            structs[number] = _describe(f"fields[{number}]", field, found, grid, width, reverse)
        params = HaloParams(shape=word("shape", shape, _SHAPES), reverse=int(reverse),
                            route=word("route", route, ROUTES), checksum=word("checksum", checksum, CHECKSUMS))
        made = c.c_void_p()
        check(library.selvage_halo_create(grid._handle, params, structs, len(listed), made))
        self._own(made, grid.comm, library.selvage_halo_destroy)
        self._begin(grid.comm, views)
        self._views = views
        info = HaloInfo()
        check(library.selvage_halo_describe(self._handle, info))
        #: Per step: packets sent, one for each neighbour; bytes sent and received.
        self.packets, self.bytes_sent, self.bytes_received = info.packets, info.bytes_sent, info.bytes_received

    def rebind(self, *arrays: Any) -> None:
        """Gives the fields other arrays of the same shape, strides and type: for codes that swap two in every step.

        Local; between the end of a step and the next start() only.
        """
        if len(arrays) != len(self._views):
            raise ArgumentError(f"arrays: {len(arrays)}, and the halo has {len(self._views)} fields", -1)
        views: list[View] = []
        for number, (array, now) in enumerate(zip(arrays, self._views)):
            found = _arrays.view(array, f"arrays[{number}]", written=True)
            if (found.shape, found.strides, found.dtype) != (now.shape, now.strides, now.dtype):
                raise ArgumentError(f"arrays[{number}]: {found.dtype}, shape {found.shape}, strides {found.strides}: "
                                    f"wanted {now.dtype}, {now.shape}, {now.strides}", -1)
            views.append(found)
        pointers = (c.c_void_p * len(views))(*(found.pointer for found in views))
        check(library.selvage_halo_rebind(self._handle, pointers))
        self._views = views
        self._begin(self._comm, views)


def _describe(name: str, field: Field, found: View, grid: Grid, width: Any, reverse: bool) -> FieldStruct:
    before, ndims = int(field.components), grid.ndims
    if len(found.shape) < before + ndims:
        raise ArgumentError(f"{name}: shape {found.shape}: the grid has {ndims} dimensions"
                            f"{' and the field components' if before else ''}", -1)
    cells, strides = found.shape[before:before + ndims], found.strides[before:before + ndims]
    parts, part_strides = found.shape[before + ndims:], found.strides[before + ndims:]
    element_bytes, number = found.itemsize, 0
    for extent, stride in zip(reversed(parts), reversed(part_strides)):
        if extent > 1 and stride != element_bytes:
            raise ArgumentError(f"{name}: strides {found.strides} bytes: the parts of a cell, dimensions after the "
                                f"grid's {ndims}, have gaps", -1)
        element_bytes *= extent
    if reverse:
        if found.dtype not in _NUMBERS:
            raise ArgumentError(f"{name}: {found.dtype} is not added; wanted one of {', '.join(_NUMBERS)}", -1)
        number = _NUMBERS[found.dtype]
    lo = per_dimension(f"{name}.width", width if field.width is None else field.width, ndims)
    hi = lo if field.width_hi is None else per_dimension(f"{name}.width_hi", field.width_hi, ndims)
    struct = FieldStruct(data=found.pointer, element_bytes=element_bytes, width_lo=Ints(*lo), width_hi=Ints(*hi),
                         stagger=Ints(*per_dimension(f"{name}.stagger", field.stagger, ndims)),
                         array_extent=Longs(*cells), has_first=int(field.first is not None), number=number)
    struct.stride_bytes[:ndims] = strides
    if field.first is not None:
        struct.first = Longs(*per_dimension(f"{name}.first", field.first, ndims))
    else:
        wanted = tuple(lo[d] + grid.local_extent[d] + hi[d] for d in range(ndims))
        stagger, edge = struct.stagger, grid.blocks
        wanted = tuple(cells_d + (1 if stagger[d] and not grid.periodic[d] and grid.coords[d] == edge[d] - 1 else 0)
                       for d, cells_d in enumerate(wanted))
        if tuple(cells) != wanted:
            raise ArgumentError(f"{name}: shape {found.shape}: the block and its halos have {wanted}; an array with "
                                "other room around them is a Field with first", -1)
    if before:
        struct.components, struct.component_stride_bytes = found.shape[0], found.strides[0]
    return struct
