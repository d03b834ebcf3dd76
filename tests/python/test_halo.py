# SPDX-License-Identifier: BSD-3-Clause
"""Halos of NumPy arrays, every cell against global indices: dimensions, ends, widths, types, layouts, fields."""
import types

import numpy
import pytest
from halo_reference import UNTOUCHED, arrays, global_values

import selvage
from selvage import _exchange


def stored(array, layout):
    """The same numbers, stored in another way."""
    if layout == "C":
        return numpy.ascontiguousarray(array)
    if layout == "F":
        return numpy.asfortranarray(array)
    room = numpy.full(tuple(2 * extent for extent in array.shape), UNTOUCHED, array.dtype)
    view = room[tuple(slice(1, None, 2) for _ in array.shape)]
    view[...] = array
    return view


@pytest.mark.parametrize("extent", [(40,), (17, 23), (12, 13, 14), (9, 8, 9, 10)])
@pytest.mark.parametrize("periodic", [True, False, "mixed"])
@pytest.mark.parametrize("shape", ["faces", "full"])
@pytest.mark.parametrize("layout", ["C", "F", "gaps"])
def test_every_cell(comm, extent, periodic, shape, layout):
    widths = [1, 2, 1, 2][:len(extent)]
    periods = [d % 2 == 0 for d in range(len(extent))] if periodic == "mixed" else periodic
    with selvage.Grid(comm, extent, periodic=periods, width=widths) as grid:
        before, after = arrays(grid, widths, "float64", shape)
        u = stored(before, layout)
        with selvage.Halo(grid, u, widths, shape=shape) as halo:
            halo.exchange()
            assert (u == after).all()
            u[...] = -before  # another step, in the other form
            halo.start()
            halo.wait()
            assert (u == numpy.where(after == UNTOUCHED, -UNTOUCHED, -after)).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64",
                                   "complex64", "complex128", "bool"])
def test_types(comm, dtype):
    with selvage.Grid(comm, (16, 12), periodic=True) as grid:
        u, after = arrays(grid, (1, 1), dtype)
        with selvage.Halo(grid, u) as halo:
            halo.run()
        assert (u == after).all()


@pytest.mark.parametrize("route", [None, "peer", "shared", "staged"])
def test_several_fields(comm, route):
    """A field by itself, one with vectors at the end, one with planes of components at the beginning."""
    with selvage.Grid(comm, (18, 16), periodic=(True, False)) as grid:
        plain, plain_after = arrays(grid, (1, 1), "float32")
        wide = [arrays(grid, (2, 2), "int32", salt=salt) for salt in range(3)]
        vectors = numpy.stack([before for before, _ in wide], axis=-1)
        planes = numpy.stack([before for before, _ in wide], axis=0)
        fields = [plain, selvage.Field(vectors, width=2), selvage.Field(planes, width=2, components=True)]
        with selvage.Halo(grid, fields, route=route) as halo:
            assert halo.bytes_sent > 0 or comm.size == 1
            for _ in range(3):
                halo.exchange()
        assert (plain == plain_after).all()
        for number, (_, after) in enumerate(wide):
            assert (vectors[..., number] == after).all()
            assert (planes[number] == after).all()


def test_host_memory_is_waited_for(comm, monkeypatch):
    """The stream is synchronised where NumPy reads, which times seldom show, and where device memory is, it is not."""
    asked = []
    with selvage.Grid(comm, (24, 8), periodic=True) as grid:
        for field, wanted in ((numpy.zeros(grid.shape()), 3), (comm.device.empty(grid.shape()), 0)):
            with selvage.Halo(grid, field) as halo, monkeypatch.context() as patched:
                fake = types.SimpleNamespace(selvage_stream_synchronize=lambda *handles: asked.append(handles) or 0)
                patched.setattr(_exchange, "library", fake)
                halo.exchange()
                halo.run()
                halo.wait()
            assert len(asked) == wanted
            asked.clear()


def test_rebind(comm):
    with selvage.Grid(comm, (24, 8), periodic=True) as grid:
        (a, a_after), (b, b_after) = arrays(grid, (1, 1), "float64"), arrays(grid, (1, 1), "float64", salt=5)
        with selvage.Halo(grid, a) as halo:
            halo.rebind(b)
            halo.exchange()
            assert (b == b_after).all() and not (a == a_after).all()
            halo.rebind(a)
            halo.exchange()
            assert (a == a_after).all()
            with pytest.raises(selvage.ArgumentError, match="float32"):
                halo.rebind(a.astype("float32"))


def test_array_with_other_room(comm):
    """The block lies somewhere in a larger array."""
    with selvage.Grid(comm, (20, 20), periodic=True) as grid:
        before, after = arrays(grid, (1, 1), "float64")
        room = numpy.full(tuple(extent + 5 for extent in before.shape), float(UNTOUCHED))
        place = tuple(slice(3, 3 + extent) for extent in before.shape)
        room[place] = before
        with selvage.Halo(grid, selvage.Field(room, first=4)) as halo:
            halo.exchange()
        assert (room[place] == after).all()
        room[place] = UNTOUCHED
        assert (room == UNTOUCHED).all()


def test_reverse_adds(comm):
    """What lies in halos comes back to the cells that they stand for."""
    with selvage.Grid(comm, (6 * comm.size,), periodic=True) as grid:
        u = numpy.zeros(grid.shape())
        u[0], u[-1], u[1:-1] = 10, 100, 1
        with selvage.Halo(grid, u, reverse=True) as halo:
            halo.exchange()
        assert list(u[1:-1]) == [101, 1, 1, 1, 1, 11]


def test_uneven_widths(comm):
    with selvage.Grid(comm, (9 * comm.size,), periodic=True) as grid:
        u = numpy.full(1 + 9 + 3, -1)
        u[1:10] = numpy.arange(9) + 9 * comm.rank
        with selvage.Halo(grid, selvage.Field(u, width=1, width_hi=3)) as halo:
            halo.exchange()
        assert list(u) == [(9 * comm.rank + i) % (9 * comm.size) for i in range(-1, 12)]


def test_staggered(comm):
    """A field on faces has one more of them at the end of an open domain."""
    with selvage.Grid(comm, (8 * comm.size,)) as grid:
        last = comm.rank == comm.size - 1
        faces = 8 + last
        u = numpy.full(faces + 2, -1)
        u[1:-1] = numpy.arange(faces) + 8 * comm.rank
        with selvage.Halo(grid, selvage.Field(u, stagger=1)) as halo:
            halo.exchange()
        below, above = 8 * comm.rank - 1, -1 if last else 8 * (comm.rank + 1)
        assert list(u) == [below, *range(8 * comm.rank, 8 * comm.rank + faces), above]


def test_overlapped_stencil(comm):
    """The interior between start and wait, the rest after it: the same as all at once on the whole domain."""
    with selvage.Grid(comm, (20, 18), periodic=True) as grid:
        u, _ = arrays(grid, (1, 1), "float64")
        new = numpy.zeros_like(u)

        def smooth(rows, columns):
            def side(up, right):
                return u[rows.start + up:rows.stop + up, columns.start + right:columns.stop + right]
            new[rows, columns] = side(1, 0) + side(-1, 0) + side(0, 1) + side(0, -1)

        with selvage.Halo(grid, u) as halo:
            halo.start()
            smooth(*grid.interior())
            inside = new.copy()
            halo.wait()
            smooth(*grid.own())
        rows = [numpy.arange(first, first + own) for first, own in zip(grid.local_first, grid.local_extent)]
        place = numpy.meshgrid(*rows, indexing="ij")
        wanted = sum(global_values([place[0] + i, place[1] + j], grid.extent, "float64")
                     for i, j in ((1, 0), (-1, 0), (0, 1), (0, -1)))
        assert (new[grid.own()] == wanted).all()
        assert (inside[grid.interior()] == new[grid.interior()]).all()


def test_grid(comm):
    with selvage.Grid(comm, (30, 31), periodic=(True, False), blocks=(comm.size, 1)) as grid:
        assert grid.blocks == (comm.size, 1) and grid.periodic == (True, False)
        assert grid.shape(2) == tuple(own + 4 for own in grid.local_extent)
        assert sum(grid.block(rank)[0][0] for rank in range(comm.size)) == 30
        assert grid.neighbour((0, 1)) == -1
        assert grid.block(grid.neighbour((1, 0)))[1][0] == (grid.local_first[0] + grid.local_extent[0]) % 30


def test_grid_of_mpi(comm):
    from mpi4py import MPI
    dims = MPI.Compute_dims(comm.size, 2)
    cart = MPI.COMM_WORLD.Create_cart(dims, periods=(True, False))
    with selvage.Grid(comm, (24, 24), cart=cart) as grid:
        assert list(grid.blocks) == dims and grid.periodic == (True, False)
        assert list(grid.coords) == cart.coords
    cart.Free()
