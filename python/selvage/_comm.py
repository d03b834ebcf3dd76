# SPDX-License-Identifier: BSD-3-Clause
"""Communicators, and the order in which what was made on them is freed."""
from __future__ import annotations

import atexit
import ctypes as c
import sys
from typing import Any, Callable

from . import _arrays, _mpi
from ._collective import Collectives
from ._device import Device
from ._errors import check
from ._library import library
from ._structs import CommParams, Stats


class Owned:
    """A handle of the library that is freed once, by close(), by the end of its ``with``, or with its communicator.

    Most are freed collectively, so none is freed by the garbage collector, whose times differ between ranks.
    """

    _handle: int | None
    _comm: Comm

    def _own(self, handle: c.c_void_p, comm: Comm, destroy: Callable[[int | None], Any]) -> None:
        self._handle, self._comm, self._destroy = handle.value, comm, destroy
        comm._children.append(self)

    def close(self) -> None:
        """Frees it, in the same order on all ranks. Later calls on it are refused; another close() does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._comm._children.remove(self)
            self._destroy(handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Comm(Collectives):
    """An MPI communicator together with a device, and the collectives over its ranks.

    Collective over ``mpi_comm``; blocks. ``mpi_comm`` is an mpi4py communicator, which may be freed at once, or None
    for MPI_COMM_WORLD, which needs no mpi4py: MPI is initialised if nobody did so. ``device`` is a name ("soft",
    "nvidia", "amd", "auto"), "local" for this rank's share of the host's GPUs, an array for the GPU that it is of, a
    Device, which is closed after the communicator, or None for what SELVAGE_DEVICE says. ``timeout_s`` is the deadline
    of every wait in seconds, -1 for none.

    One thread at a time uses a communicator and what is made on it. close() is collective, and first frees what was
    made on the communicator and is still there, the latest first; so does the end of the interpreter, unless an
    exception ends it.
    """

    def __init__(self, mpi_comm: Any = None, device: Any = None, *, timeout_s: float = 0) -> None:
        self._handle: int | None = None
        self._children: list[Owned] = []
        handle = _mpi.handle_of(mpi_comm)
        self._opened: Device | None = None
        if isinstance(device, str):
            self._opened = Device(local=True) if device == "local" else Device(device)
        elif device is not None and not isinstance(device, Device):
            self._opened = Device(at=device)
        chosen = self._opened if self._opened is not None else device
        params = CommParams(device=None if chosen is None else chosen._handle, timeout_s=timeout_s)
        made = c.c_void_p()
        status = library.selvage_comm_create(handle, params, made)
        if status < 0 and self._opened is not None:
            self._opened.close()
        check(status)
        self._handle = made.value
        self.device = chosen if chosen is not None else Device._borrow(library.selvage_comm_device(self._handle))
        _open_comms[id(self)] = self
        atexit.unregister(_close_all)
        atexit.register(_close_all)  # the latest is called first, and MPI is finalised after it

    @property
    def node_size(self) -> int:
        """Number of ranks on the caller's node."""
        return library.selvage_comm_node_size(self._handle)

    @property
    def wire(self) -> str:
        """What host messages may go by, for people."""
        return library.selvage_comm_wire(self._handle).decode()

    def stats(self) -> dict[str, int]:
        """Counters since the communicator was made: what was moved, and what went wrong and was mended. Local."""
        found = Stats()
        check(library.selvage_comm_stats(self._handle, found))
        return {name: getattr(found, name) for name, kind in Stats._fields_[1:] if kind is c.c_uint64}

    def progress(self) -> None:
        """Advances everything as far as it can go; never blocks. For programs that neither wait nor test for long."""
        check(library.selvage_progress(self._handle))

    def register(self, array: Any) -> Registration:
        """Exports an array in device memory to the peers of the node, so that receives land in it without a copy.

        Local. Exchanges that are committed later make use of it, and are closed before the registration.
        """
        return Registration(self, array)

    def close(self) -> None:
        """Frees the communicator and all that was made on it. Collective; blocks, at most for the deadline."""
        if self._handle is None:
            return
        for child in reversed(self._children.copy()):
            child.close()
        handle, self._handle = self._handle, None
        library.selvage_comm_destroy(handle)
        del _open_comms[id(self)]
        if self._opened is not None:
            self._opened.close()
        elif not self.device._owned:
            self.device.close()  # it was the communicator's, and is gone

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Registration(Owned):
    """Memory that the peers of the node may map, until close(). The array stays allocated as long."""

    def __init__(self, comm: Comm, array: Any) -> None:
        found, made = _arrays.contiguous(array, "array", written=True), c.c_void_p()
        check(library.selvage_buffer_register(comm._handle, found.pointer, found.nbytes, made))
        self._array = array
        self._own(made, comm, lambda handle: check(library.selvage_buffer_unregister(handle)))


_open_comms: dict[int, Comm] = {}


def _close_all() -> None:
    if getattr(sys, "last_value", None) is not None:
        return  # the other ranks may be anywhere, and would be waited for
    for comm in reversed(list(_open_comms.values())):
        comm.close()
