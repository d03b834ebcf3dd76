# SPDX-License-Identifier: BSD-3-Clause
"""Devices, streams and memory of the library's own: what a program needs that has no GPU framework."""
from __future__ import annotations

import ctypes as c
import weakref
from typing import Any

from . import _arrays, _streams
from ._errors import ArgumentError, check
from ._library import library
from ._structs import DeviceInfo

_TO_HOST, _TO_DEVICE = 1, 2


class Device:
    """A GPU, or the software device ("soft"), whose memory is host memory and whose streams are threads.

    ``name`` is "soft", "nvidia", "amd", "auto", or None for what SELVAGE_DEVICE says. With ``local`` it is this rank's
    share of the host's GPUs, which is made current in this thread; with ``at``, an array, the GPU that the array is of;
    else the GPU that is current in this thread. Local.
    """

    def __init__(self, name: str | None = None, *, local: bool = False, at: Any = None) -> None:
        made = c.c_void_p()
        word = None if name is None else name.encode()
        if at is not None:
            check(library.selvage_device_open_at(word, _arrays.view(at, "at").pointer, made))
        elif local:
            check(library.selvage_device_open_local(word, made))
        else:
            check(library.selvage_device_open(word, made))
        self._handle: int | None = made.value
        self._owned = True

    @classmethod
    def _borrow(cls, handle: int) -> Device:
        device = cls.__new__(cls)
        device._handle, device._owned = handle, False
        return device

    @property
    def name(self) -> str:
        """Kind of the device: "soft", "nvidia" or "amd"."""
        return library.selvage_device_name(self._handle).decode()

    @property
    def model(self) -> str:
        """As the driver names it."""
        return self._describe().model.decode(errors="replace")

    @property
    def index(self) -> int:
        """Its number among those of its kind that this process sees: for torch.cuda.set_device() and its like."""
        return self._describe().index

    def _describe(self) -> DeviceInfo:
        info = DeviceInfo()
        check(library.selvage_device_describe(self._handle, info))
        return info

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "float64") -> DeviceArray:
        """A new array in device memory, not cleared. ``dtype`` is what numpy.dtype() takes."""
        return DeviceArray(self, shape, dtype)

    def stream(self) -> Stream:
        """A new in-order stream, which does not synchronise with the default stream."""
        return Stream(self)

    def synchronize(self, stream: Any = None) -> None:
        """Blocks until what is enqueued on a stream is complete; without one, all work of the process."""
        if stream is None:
            check(library.selvage_device_synchronize(self._handle))
        else:
            check(library.selvage_stream_synchronize(self._handle, _streams.native(stream, int)))

    def close(self) -> None:
        """Closes what this object opened, after the communicators, streams and arrays on it."""
        handle, self._handle = self._handle, None
        if self._owned:
            library.selvage_device_close(handle)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stream:
    """An in-order stream of a device. ``ptr`` is its native handle, for any framework that takes one."""

    def __init__(self, device: Device) -> None:
        made = c.c_void_p()
        check(library.selvage_stream_create(device._handle, made))
        self.ptr = made.value or 0
        self._device = device

    def synchronize(self) -> None:
        """Blocks until everything enqueued so far is complete."""
        check(library.selvage_stream_synchronize(self._device._handle, self.ptr))

    def close(self) -> None:
        """Destroys the stream after its work is done."""
        ptr, self.ptr = self.ptr, 0
        library.selvage_stream_destroy(self._device._handle, ptr)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DeviceArray:
    """A row-major array in device memory that the node's peers can map. CuPy, PyTorch, Numba and JAX take it by
    ``__cuda_array_interface__``. It is freed with the last reference (exchanges hold one), unless its device is closed
    before that, or the process ends.
    """

    def __init__(self, device: Device, shape: int | tuple[int, ...], dtype: Any = "float64") -> None:
        import numpy

        self.dtype = numpy.dtype(dtype)
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
        self.device = device
        self.nbytes = self.dtype.itemsize
        for extent in self.shape:
            self.nbytes *= extent
        made = c.c_void_p()
        check(library.selvage_device_malloc(device._handle, self.nbytes, made))
        self.ptr = made.value or 0
        self._freed = weakref.finalize(self, _free, device, self.ptr)
        self._freed.atexit = False  # exchanges may still be open then

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.ptr, False), "version": 3,
                "strides": None, "stream": None}

    def empty_like(self, shape: tuple[int, ...]) -> DeviceArray:
        """A new array of this type on this device."""
        return DeviceArray(self.device, shape, self.dtype)

    def set(self, array: Any, stream: Any = 0) -> DeviceArray:
        """Copies a NumPy array of this shape here, after the work on ``stream``. Blocks until it is there."""
        import numpy

        source = numpy.ascontiguousarray(array, self.dtype)
        if source.shape != self.shape:
            raise ArgumentError(f"array: shape {source.shape}, wanted {self.shape}", -1)
        self._copy(self.ptr, source.ctypes.data, _TO_DEVICE, stream)
        return self

    def get(self, stream: Any = 0) -> Any:
        """A copy as a NumPy array, made after the work on ``stream``. Blocks until it is there."""
        import numpy

        copy = numpy.empty(self.shape, self.dtype)
        self._copy(copy.ctypes.data, self.ptr, _TO_HOST, stream)
        return copy

    def _copy(self, to: int, source: int, direction: int, stream: Any) -> None:
        handle = _streams.native(stream, int)
        check(library.selvage_device_copy(self.device._handle, to, source, self.nbytes, direction, handle))
        check(library.selvage_stream_synchronize(self.device._handle, handle))


def _free(device: Device, ptr: int) -> None:
    if device._handle is not None:
        library.selvage_device_free(device._handle, ptr)
