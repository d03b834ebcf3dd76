# SPDX-License-Identifier: BSD-3-Clause
"""Collectives over arrays in device memory."""
from __future__ import annotations

import ctypes as c
from typing import Any, Callable, TypeVar

from . import _arrays, _streams
from ._arrays import View
from ._errors import ArgumentError, check
from ._library import library

Array = TypeVar("Array")

_UINT8 = 2
_TYPES = {"int8": 1, "uint8": _UINT8, "int32": 3, "uint32": 4, "int64": 5, "uint64": 6, "float16": 7, "bfloat16": 8,
          "float32": 9, "float64": 10, "float8_e4m3fn": 11, "float8_e5m2": 12, "int16": 13, "uint16": 14, "complex64": 15,
          "complex128": 16}
_OPS = {"sum": 1, "prod": 2, "min": 3, "max": 4, "avg": 5, "band": 6, "bor": 7, "bxor": 8, "land": 9, "lor": 10,
        "lxor": 11}


def _number(found: View) -> int:
    if found.dtype not in _TYPES:
        raise ArgumentError(f"send: elements are {found.dtype}, which is not reduced; wanted one of "
                            + ", ".join(_TYPES), -1)
    return _TYPES[found.dtype]


def _operation(op: str) -> int:
    if op not in _OPS:
        raise ArgumentError(f"op: {op!r}, wanted one of {', '.join(_OPS)}", -1)
    return _OPS[op]


class Collectives:
    """The collective calls of a communicator.

    All ranks make the same calls in the same order. Arrays are contiguous and of one type; without ``recv`` a new array
    is made. What is returned is ``recv``. With arrays in device memory a call enqueues on ``stream`` and returns: later
    work on the stream sees the result, and check_collectives() says, when the stream has been synchronised, whether it
    may be believed. Arrays stay as long. With arrays in host memory, which the software device takes, a call blocks
    until the result is there and verified. ``op`` is "sum", "prod", "min", "max", "avg", or of integers "band", "bor",
    "bxor", "land", "lor" or "lxor"; complex numbers have sums, products and averages.
    """

    _handle: int | None
    _children: list[Any]
    device: Any
    _collectives: int | None = None

    @property
    def size(self) -> int:
        """Number of ranks."""
        return int(library.selvage_comm_size(self._handle))

    @property
    def rank(self) -> int:
        """Rank of the caller."""
        return int(library.selvage_comm_rank(self._handle))

    def allreduce(self, send: Array, recv: Any = None, op: str = "sum", stream: Any = None) -> Any:
        """recv[i] = op over ranks of send[i], the same bits on all ranks. ``recv`` may be ``send``."""
        source = _arrays.contiguous(send, "send")
        kind, operation = _number(source), _operation(op)
        target, made = self._target(source, recv, source.shape)
        return self._call(lambda coll, at: library.selvage_coll_all_reduce(
            coll, source.pointer, target.pointer, source.count, kind, operation, at), source, target, made, stream)

    def reduce(self, send: Array, recv: Any = None, op: str = "sum", root: int = 0, stream: Any = None) -> Any:
        """recv[i] on ``root`` = op over ranks of send[i]; other ranks get None, and their ``recv`` is not looked at."""
        source = _arrays.contiguous(send, "send")
        kind, operation = _number(source), _operation(op)
        target, made = self._target(source, recv, source.shape) if self.rank == root else (source, None)
        return self._call(lambda coll, at: library.selvage_coll_reduce(
            coll, source.pointer, target.pointer, source.count, kind, operation, root, at), source, target, made,
            stream)

    def reduce_scatter(self, send: Array, recv: Any = None, op: str = "sum", stream: Any = None) -> Any:
        """recv[i] = op over ranks of send[rank, i]: send has shape (size * n, ...), recv (n, ...)."""
        source = _arrays.contiguous(send, "send")
        kind, operation = _number(source), _operation(op)
        target, made = self._target(source, recv, self._share(source))
        return self._call(lambda coll, at: library.selvage_coll_reduce_scatter(
            coll, source.pointer, target.pointer, target.count, kind, operation, at), source, target, made, stream)

    def all_gather(self, send: Array, recv: Any = None, stream: Any = None) -> Any:
        """recv[r] = send of rank r: send has any shape, recv (size, *send.shape), or (size * n, ...) for (n, ...)."""
        source = _arrays.contiguous(send, "send")
        target, made = self._target(source, recv, (self.size, *source.shape))
        return self._call(lambda coll, at: library.selvage_coll_all_gather(
            coll, source.pointer, target.pointer, source.nbytes, _UINT8, at), source, target, made, stream)

    def all_to_all(self, send: Array, recv: Any = None, stream: Any = None) -> Any:
        """Block r of recv = block ``rank`` of rank r's send: both have shape (size * n, ...). Not in place."""
        source = _arrays.contiguous(send, "send")
        self._share(source)
        target, made = self._target(source, recv, source.shape)
        return self._call(lambda coll, at: library.selvage_coll_all_to_all(
            coll, source.pointer, target.pointer, source.nbytes // self.size, _UINT8, at), source, target, made, stream)

    def broadcast(self, array: Array, root: int = 0, stream: Any = None) -> Array:
        """Fills ``array`` with that of ``root``, and returns it. All ranks' arrays have the same shape."""
        found = _arrays.contiguous(array, "array", written=self.rank != root)
        return self._call(lambda coll, at: library.selvage_coll_broadcast(
            coll, found.pointer, found.pointer, found.nbytes, _UINT8, root, at), found, found, array, stream)

    def barrier(self, stream: Any = 0) -> None:
        """Later work on the stream starts when every rank's earlier work on its stream is complete."""
        check(library.selvage_coll_barrier(self._open_collectives(), _streams.native(stream, int)))

    def check_collectives(self) -> None:
        """Raises the first error that a kernel or rank met. Local; never blocks. Call it when the stream of a call has
        been synchronised, before its results are used."""
        if self._collectives is not None:
            check(library.selvage_coll_error(self._collectives))

    def _share(self, source: View) -> tuple[int, ...]:
        if not source.shape or source.shape[0] % self.size:
            raise ArgumentError(f"send: shape {source.shape}: the first extent is no multiple of the {self.size} ranks",
                                -1)
        return (source.shape[0] // self.size, *source.shape[1:])

    def _target(self, source: View, recv: Any, shape: tuple[int, ...]) -> tuple[View, Any]:
        made = _arrays.empty_like(source, shape) if recv is None else recv
        target = _arrays.contiguous(made, "recv", written=recv is not None)
        wanted = source.itemsize
        for extent in shape:
            wanted *= extent
        if target.dtype != source.dtype or target.nbytes != wanted:
            raise ArgumentError(f"recv: {target.dtype} of shape {target.shape}, wanted {source.dtype} of shape {shape}",
                                -1)
        return target, made

    def _call(self, enqueue: Callable[[int, int], int], source: View, target: View, made: Any, stream: Any) -> Any:
        at = _streams.native(stream, _streams.current_of((target, source)))
        check(enqueue(self._open_collectives(), at))
        if source.on_host or target.on_host or target.framework == "jax":
            check(library.selvage_stream_synchronize(self.device._handle, at))
            self.check_collectives()
        return made

    def _open_collectives(self) -> int:
        """Made by the first call, which is collective as all of them are, and freed with the communicator."""
        if self._collectives is None:
            made = c.c_void_p()
            check(library.selvage_coll_create(self._handle, None, made))
            self._collectives = made.value
            self._children.append(_Handle(self))
        assert self._collectives is not None
        return self._collectives


class _Handle:
    """The communicator's handle of collectives among what is to be closed."""

    def __init__(self, comm: Collectives) -> None:
        self._comm = comm

    def close(self) -> None:
        handle, self._comm._collectives = self._comm._collectives, None
        self._comm._children.remove(self)
        library.selvage_coll_destroy(handle)
