# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other frameworks: by __cuda_array_interface__ and DLPack, from stand-ins and from what is installed."""
import sys
import types

import numpy
import pytest

import selvage
from selvage import _arrays, _streams


class Named:
    """An array that only has __cuda_array_interface__, and names memory of the software device."""

    def __init__(self, array, strides=None, readonly=False):
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, readonly), "version": 3,
            "strides": strides}
        self.kept = array


class Capsule:
    """An array that only has DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Tensor:
    """What the package asks of a tensor of PyTorch, in whose module it says to be."""

    def __init__(self, array, device="cpu"):
        self.array, self.shape, self.dtype = array, array.shape, f"torch.{array.dtype}"
        self.device = types.SimpleNamespace(type=device)

    def data_ptr(self):
        return self.array.ctypes.data

    def element_size(self):
        return self.array.itemsize

    def stride(self):
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def is_conj(self):
        return self.shape == (11,)

    def is_neg(self):
        return False

    def new_empty(self, shape):
        return Tensor(numpy.empty(shape, self.array.dtype))


Tensor.__module__ = "torch"


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float64", "complex64", "bool"])
def test_views_agree(dtype):
    """Every protocol tells what NumPy does."""
    array = numpy.ones((3, 4, 5), dtype)
    for sliced in (array, array[1:, ::2], array.T):
        wanted = (sliced.ctypes.data, sliced.shape, sliced.strides, dtype, sliced.itemsize)
        for other in (sliced, Capsule(sliced), Named(sliced, sliced.strides), Tensor(sliced)):
            found = _arrays.view(other, "array")
            assert (found.pointer, found.shape, found.strides, found.dtype, found.itemsize) == wanted
            assert found.is_contiguous == sliced.flags.c_contiguous
            assert found.on_host == (not isinstance(other, Named))
    assert _arrays.view(Named(array), "array").strides == array.strides


@pytest.mark.parametrize("kind", [Named, Capsule])
def test_halo(comm, kind):
    with selvage.Grid(comm, (8 * comm.size,), periodic=True) as grid:
        u = numpy.full(grid.shape(), comm.rank)
        with selvage.Halo(grid, kind(u)) as halo:
            halo.exchange()
        comm.device.synchronize()  # memory that is not the host's is in the stream's order
        assert u[0] == (comm.rank - 1) % comm.size and u[-1] == (comm.rank + 1) % comm.size


def test_refused():
    with pytest.raises(selvage.ArgumentError, match="field: the array is read-only"):
        _arrays.view(Named(numpy.zeros(3), readonly=True), "field", written=True)
    with pytest.raises(TypeError, match="field: dict is no array"):
        _arrays.view({}, "field")
    with pytest.raises(selvage.ArgumentError, match="a tensor on"):
        _arrays.view(Tensor(numpy.zeros(3), "meta"), "field")
    with pytest.raises(selvage.ArgumentError, match="marked as conjugate"):
        _arrays.view(Tensor(numpy.zeros(11)), "field")
    masked = Named(numpy.zeros(3))
    masked.__cuda_array_interface__["mask"] = Named(numpy.zeros(3, bool))
    with pytest.raises(selvage.ArgumentError, match="a masked array"):
        _arrays.view(masked, "field")


def test_streams():
    class Native:
        def __init__(self, **members):
            self.__dict__.update(members)

    assert _streams.native(None, lambda: 7) == 7
    assert _streams.native(5, int) == 5
    assert _streams.native(Native(ptr=8), int) == 8
    assert _streams.native(Native(cuda_stream=9), int) == 9
    assert _streams.native(Native(__cuda_stream__=lambda: (0, 10)), int) == 10


def test_current_streams(monkeypatch):
    """Without a stream it is the framework's current one, asked for at each call."""
    at = [31]
    cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=at[0]))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    host, device = (_arrays.view(Tensor(numpy.zeros(3), kind), "array") for kind in ("cpu", "cuda"))
    current = _streams.current_of([host, device])
    assert _streams.native(None, current) == 31
    at[0] = 32
    assert _streams.native(None, current) == 32
    assert _streams.native(None, _streams.current_of([host])) == 0
    named = Named(numpy.zeros(3))
    named.__cuda_array_interface__["stream"] = 33
    assert _streams.native(None, _streams.current_of([_arrays.view(named, "array")])) == 33


def test_tensors(comm):
    sent = Tensor(numpy.full(8, comm.rank + 1, "float32"))
    assert (comm.allreduce(sent).array == sum(range(1, comm.size + 1))).all()
    assert comm.all_gather(sent).shape == (comm.size, 8)


def test_device_array(comm):
    array = comm.device.empty((3, 5), "int16").set(numpy.arange(15).reshape(3, 5))
    assert (array.get() == numpy.arange(15).reshape(3, 5)).all() and array.nbytes == 30
    with pytest.raises(selvage.ArgumentError, match="shape"):
        array.set(numpy.zeros(4))


def test_jax(comm):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_platforms", "cpu")
    send = jax.numpy.arange(6.0) + comm.rank
    total = comm.allreduce(send)
    assert isinstance(total, jax.Array)
    assert (numpy.asarray(total) == comm.size * numpy.arange(6.0) + sum(range(comm.size))).all()
    assert comm.all_gather(send.astype("bfloat16")).shape == (comm.size, 6)
    with pytest.raises(selvage.ArgumentError, match="immutable"):
        comm.allreduce(send, send)


def test_torch(comm):
    torch = pytest.importorskip("torch")
    u = torch.full((4, 4), float(comm.rank), dtype=torch.bfloat16)
    assert (comm.allreduce(u, op="max") == comm.size - 1).all()
    with selvage.Grid(comm, (8 * comm.size,), periodic=True) as grid:
        field = torch.full(grid.shape(), comm.rank)
        with selvage.Halo(grid, field) as halo:
            halo.exchange()
        assert field[0] == (comm.rank - 1) % comm.size
