# SPDX-License-Identifier: BSD-3-Clause
"""How the package looks at arrays: where they lie, their shape, strides and type, whosever they are.

NumPy arrays are asked by ``__array_interface__``, PyTorch tensors by their own methods, CuPy and others by
``__cuda_array_interface__``, what has only DLPack by ``__dlpack__``. Nothing is copied, and no framework is imported.
"""
from __future__ import annotations

import ctypes as c
import sys
from dataclasses import dataclass
from typing import Any

from ._errors import ArgumentError

_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_DLPACK_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_DLPACK_HOST = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost


class _DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


@dataclass(frozen=True)
class View:
    """An array as the library sees it. ``pointer`` is that of element 0; ``strides`` are in bytes."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int
    on_host: bool
    framework: str
    array: Any

    @property
    def count(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, without gaps."""
        return self.count * self.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether elements lie one after the other, the last dimension fastest (row-major)."""
        return self.count == 0 or all(
            extent == 1 or stride == dense
            for extent, stride, dense in zip(self.shape, self.strides, dense_strides(self.shape, self.itemsize)))


def dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of a row-major array without gaps."""
    strides = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= max(extent, 1)
    return tuple(reversed(strides))


def _of_interface(array: Any, interface: dict[str, Any], framework: str, on_host: bool) -> tuple[View, bool]:
    if interface.get("mask") is not None:
        raise ArgumentError(f"a masked array of {framework}: its mask would not travel", -1)
    typestr, shape = interface["typestr"], tuple(interface["shape"])
    pointer, readonly = interface["data"]
    kind, itemsize = _KINDS.get(typestr[1]), int(typestr[2:])
    dtype = "other" if kind is None else kind if kind == "bool" else f"{kind}{8 * itemsize}"
    if typestr[0] == ">":
        dtype = "other"  # of the other byte order: it can be moved, and not be added
    strides = interface.get("strides") or dense_strides(shape, itemsize)
    return View(pointer or 0, shape, tuple(strides), dtype, itemsize, on_host, framework, array), readonly


def _of_torch(tensor: Any) -> tuple[View, bool]:
    itemsize = tensor.element_size()
    if tensor.device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"a tensor on {tensor.device}: wanted one in host memory or on a GPU", -1)
    if tensor.is_conj() or tensor.is_neg():
        raise ArgumentError("a tensor that is only marked as conjugate or negative: its memory holds other numbers; "
                            "pass tensor.resolve_conj().resolve_neg()", -1)
    dtype = str(tensor.dtype).replace("torch.", "")
    strides = tuple(itemsize * stride for stride in tensor.stride())
    return View(tensor.data_ptr(), tuple(tensor.shape), strides, dtype, itemsize, tensor.device.type == "cpu", "torch",
                tensor), False


def _of_dlpack(array: Any, framework: str) -> tuple[View, bool]:
    device = int(array.__dlpack_device__()[0])
    capsule = array.__dlpack__() if device == 1 else array.__dlpack__(stream=-1)  # -1: we order the streams
    get = c.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c.POINTER(_DLTensor), [c.py_object, c.c_char_p]
    tensor = get(capsule, b"dltensor").contents  # not taken over: the capsule frees it, and the array keeps its memory
    shape = tuple(tensor.shape[d] for d in range(tensor.ndim))
    itemsize = tensor.bits * tensor.lanes // 8
    strides = (tuple(itemsize * tensor.strides[d] for d in range(tensor.ndim)) if tensor.strides
               else dense_strides(shape, itemsize))
    kind = _DLPACK_CODES.get(tensor.code, "other")
    dtype = kind if kind in ("bool", "other") or tensor.lanes != 1 else f"{kind}{tensor.bits}"
    return View((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, itemsize, device in _DLPACK_HOST,
                framework, array), False


def view(array: Any, name: str, written: bool = False) -> View:
    """Looks at an array. ``name`` is what errors call it; ``written``: the call will write to it."""
    framework = type(array).__module__.split(".")[0]
    framework = "jax" if framework in ("jax", "jaxlib") else framework
    if framework == "jax":
        array.block_until_ready()  # JAX's streams are its own, so what computes the array is waited for
    if framework == "torch":
        found, readonly = _of_torch(array)
    elif framework == "numpy" and isinstance(array, sys.modules["numpy"].generic):
        raise ArgumentError(f"{name}: a scalar of NumPy is a copy, and no part of an array: take u[3:4], not u[3]", -1)
    elif hasattr(array, "__array_interface__") and framework != "jax":
        found, readonly = _of_interface(array, array.__array_interface__, framework, True)
    elif getattr(array, "__cuda_array_interface__", None) is not None:
        found, readonly = _of_interface(array, array.__cuda_array_interface__, framework, False)
    elif hasattr(array, "__dlpack__"):
        found, readonly = _of_dlpack(array, framework)
    else:
        raise TypeError(f"{name}: {type(array).__name__} is no array: it has neither __array_interface__ nor "
                        "__cuda_array_interface__ nor __dlpack__")
    if written and framework == "jax":
        raise ArgumentError(f"{name}: arrays of JAX are immutable, and this call would write to it", -1)
    if written and readonly:
        raise ArgumentError(f"{name}: the array is read-only, and this call would write to it", -1)
    return found


def contiguous(array: Any, name: str, written: bool = False) -> View:
    """As view(), of arrays without gaps only."""
    found = view(array, name, written)
    if not found.is_contiguous:
        raise ArgumentError(f"{name}: the array is not contiguous: shape {found.shape}, strides {found.strides} bytes, "
                            f"wanted {dense_strides(found.shape, found.itemsize)}", -1)
    return found


def empty_like(model: View, shape: tuple[int, ...]) -> Any:
    """A new array of the model's framework, type and device. Nobody but the caller has seen it."""
    framework = sys.modules.get(model.framework)
    if model.framework == "torch":
        return model.array.new_empty(shape)
    if model.framework == "jax":
        # Of one device, like the model; zeros() is a computation, so that its buffer is nobody else's.
        return sys.modules["jax"].device_put(sys.modules["jax"].numpy.zeros(shape, model.array.dtype),
                                             model.array.device).block_until_ready()
    if framework is not None and hasattr(framework, "empty"):
        return framework.empty(shape, model.array.dtype)
    if hasattr(model.array, "empty_like"):
        return model.array.empty_like(shape)
    raise ArgumentError(f"recv: arrays of {model.framework} are not known well enough to make one; pass one", -1)
