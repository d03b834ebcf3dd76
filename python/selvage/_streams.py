# SPDX-License-Identifier: BSD-3-Clause
"""Streams: what the argument ``stream=`` may be.

An integer is the native handle (0: the legacy default stream); an object has it as ``ptr`` (CuPy, selvage.Stream), as
``cuda_stream`` (PyTorch) or by ``__cuda_stream__()``. None is the framework's current stream: of CuPy and PyTorch they
are asked at each call; for others it is the stream that ``__cuda_array_interface__`` names, else the legacy default.
"""
from __future__ import annotations

import sys
from typing import Any, Callable, Iterable

from ._arrays import View


def _current_torch(tensor: Any) -> Callable[[], int]:
    current, device = sys.modules["torch"].cuda.current_stream, tensor.device
    return lambda: current(device).cuda_stream


def _current_cupy() -> int:
    return sys.modules["cupy"].cuda.get_current_stream().ptr


def _default() -> int:
    return 0


def current_of(views: Iterable[View]) -> Callable[[], int]:
    """What tells the current stream of the framework whose arrays these are. The first one on a device decides."""
    for found in views:
        if found.framework == "torch" and not found.on_host:
            return _current_torch(found.array)
        if found.framework == "cupy":
            return _current_cupy
        named = None if found.on_host else getattr(found.array, "__cuda_array_interface__", {}).get("stream")
        if named is not None:
            return lambda: named
    return _default


def native(stream: Any, current: Callable[[], int]) -> int:
    """The native handle of what a caller passed as ``stream``."""
    if stream is None:
        return current()
    if isinstance(stream, int):
        return stream
    for name in ("ptr", "cuda_stream"):
        handle = getattr(stream, name, None)
        if handle is not None:
            return int(handle)
    if hasattr(stream, "__cuda_stream__"):
        asked = stream.__cuda_stream__
        return int((asked() if callable(asked) else asked)[1])
    raise TypeError(f"stream: {type(stream).__name__} is none: wanted an int, or an object with ptr, cuda_stream or "
                    "__cuda_stream__")
