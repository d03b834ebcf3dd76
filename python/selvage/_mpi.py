# SPDX-License-Identifier: BSD-3-Clause
"""The little of MPI that the package needs: handles of communicators, with mpi4py and without, and datatypes.

A handle of Open MPI is an address, one of MPICH a number, and so are those of the ABI of MPI 5 that are named here. All
fit into a pointer, which is how they are passed. The functions are those of the MPI that the library itself is linked
with.
"""
from __future__ import annotations

import atexit
import ctypes as c
import sys
from typing import Any

from ._errors import MpiError, UnsupportedError
from ._library import build, library

PROC_NULL = {"openmpi": -2, "mpich": -1, "abi": -3}
_THREAD_MULTIPLE = 3  # as mpi4py asks for
_kind = build().split()[1]  # "MPI openmpi 4.1.4; ..."


def _handle(symbol: str, number: int, abi_number: int) -> int:
    if _kind == "openmpi":
        return c.addressof(c.c_char.in_dll(library, symbol))
    if _kind == "mpich":
        return number
    if _kind == "abi":
        return abi_number
    raise UnsupportedError(f"this Selvage was built for an MPI whose handles Python does not know ({build()})")


def proc_null() -> int:
    """MPI_PROC_NULL: the rank to which nothing is sent."""
    return PROC_NULL[_kind]


def world() -> int:
    """The handle of MPI_COMM_WORLD in the MPI that the library is linked with."""
    return _handle("ompi_mpi_comm_world", 0x44000000, 0x101)


def call(name: str, *arguments: Any) -> None:
    """Makes an MPI call that is given as "Type_commit"."""
    error = getattr(library, "MPI_" + name)(*arguments)
    if error != 0:
        raise MpiError(f"MPI_{name} returned {error}")


def _initialise() -> None:
    flag = c.c_int()
    call("Initialized", c.byref(flag))
    if not flag.value:
        call("Init_thread", None, None, _THREAD_MULTIPLE, c.byref(c.c_int()))
        atexit.register(call, "Finalize")


def handle_of(mpi_comm: Any) -> int:
    """The handle of an mpi4py communicator; None is MPI_COMM_WORLD, which is initialised if nobody did so.

    An mpi4py of another MPI than the library's would crash in the first call. Its MPI_COMM_WORLD is another one, which
    tells also two installations of one MPI from each other.
    """
    module = sys.modules.get("mpi4py.MPI")
    if module is not None:
        if module._handleof(module.COMM_WORLD) != world():
            theirs = " ".join(module.Get_library_version().split(",")[0].split("\n")[0].split())
            ours = " ".join(build().split(";")[0].split()[1:])
            raise UnsupportedError(
                f"mpi4py runs with {theirs}, and this Selvage was built for {ours}: of two MPIs, or two installations "
                "of one, neither knows the other's communicators. Build the package again with MPICC=<the compiler "
                "wrapper of mpi4py's MPI>")
    _initialise()
    if mpi_comm is None:
        return world()
    if module is None or not isinstance(mpi_comm, module.Comm):
        raise TypeError(f"mpi_comm is a communicator of mpi4py, or None for all ranks; not {type(mpi_comm).__name__}")
    return int(module._handleof(mpi_comm))


def neighbours(graph: Any) -> tuple[int, int]:
    """How many sources and destinations a communicator of mpi4py has. Of others than distributed graphs: none."""
    if graph == sys.modules["mpi4py.MPI"].COMM_NULL or graph.Get_topology() != sys.modules["mpi4py.MPI"].DIST_GRAPH:
        return 0, 0
    sources, destinations, _ = graph.Get_dist_neighbors_count()
    return sources, destinations


class Strided:
    """An MPI datatype of the elements of a strided array, for the time of a ``with``."""

    def __init__(self, itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self._made: list[c.c_void_p] = []
        self._take("Type_contiguous", c.c_int(itemsize), c.c_void_p(_handle("ompi_mpi_byte", 0x4C00010D, 0x247)))
        for extent, stride in zip(reversed(shape), reversed(strides)):
            self._take("Type_create_hvector", c.c_int(extent), c.c_int(1), c.c_ssize_t(stride), self._made[-1])
        call("Type_commit", c.byref(self._made[-1]))

    def _take(self, name: str, *arguments: Any) -> None:
        made = c.c_void_p()
        call(name, *arguments, c.byref(made))
        self._made.append(made)

    def __enter__(self) -> c.c_void_p:
        return self._made[-1]

    def __exit__(self, *_: object) -> None:
        for made in self._made:
            call("Type_free", c.byref(made))
