# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of NumPy arrays against NumPy, on numbers whose sums are exact."""
import numpy
import pytest

import selvage

OPS = {"sum": numpy.add, "prod": numpy.multiply, "min": numpy.minimum, "max": numpy.maximum}
TYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def numbers(rank, shape, dtype="float64"):
    count = int(numpy.prod(shape))
    return ((numpy.arange(count) * 7 + 3 * rank) % 5 + 1).astype(dtype).reshape(shape)


def reduced(comm, op, shape, dtype):
    result = numbers(0, shape, dtype)
    for rank in range(1, comm.size):
        result = OPS[op](result, numbers(rank, shape, dtype))
    return result


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", TYPES)
def test_allreduce(comm, op, dtype):
    for shape in ((), (1,), (1000,), (30, 7, 11)):
        send = numbers(comm.rank, shape, dtype)
        made = comm.allreduce(send, op=op)
        assert made.dtype == dtype and made.shape == shape and (made == reduced(comm, op, shape, dtype)).all()
        given = numpy.zeros(shape, dtype)
        assert comm.allreduce(send, given, op) is given and (given == made).all()
        assert comm.allreduce(send, send, op) is send and (send == made).all()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64"])
def test_bits(comm, dtype):
    given = [numpy.arange(301).astype(dtype) * (rank + 1) % 7 for rank in range(comm.size)]
    for op, combine in (("band", numpy.bitwise_and), ("bor", numpy.bitwise_or), ("bxor", numpy.bitwise_xor),
                        ("land", numpy.logical_and), ("lor", numpy.logical_or), ("lxor", numpy.logical_xor)):
        wanted = given[0]
        for other in given[1:]:
            wanted = combine(wanted, other)
        got = comm.allreduce(given[comm.rank], op=op)
        assert got.dtype == dtype and (got == wanted).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(comm, dtype):
    send = (numpy.arange(77) % 5 + comm.rank - 1j).astype(dtype)
    given = [(numpy.arange(77) % 5 + rank - 1j).astype(dtype) for rank in range(comm.size)]
    assert (comm.allreduce(send) == sum(given)).all()
    assert (comm.allreduce(send, op="prod") == numpy.prod(given, axis=0)).all()
    with pytest.raises(selvage.ArgumentError, match="operation min is not one of complex"):
        comm.allreduce(send, op="min")


def test_average(comm):
    assert (comm.allreduce(numpy.full(9, comm.size * 2.0), op="avg") == comm.size * 2).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_reduce_scatter(comm, dtype):
    shape = (comm.size * 3, 5)
    got = comm.reduce_scatter(numbers(comm.rank, shape, dtype))
    assert (got == reduced(comm, "sum", shape, dtype)[3 * comm.rank:3 * comm.rank + 3]).all()


@pytest.mark.parametrize("dtype", [*TYPES, "complex128", "bool", "int16"])
def test_moves(comm, dtype):
    """Calls that add nothing take any type."""
    send = numbers(comm.rank, (4, 3), dtype)
    gathered = comm.all_gather(send)
    assert gathered.shape == (comm.size, 4, 3) and gathered.dtype == dtype
    assert all((gathered[rank] == numbers(rank, (4, 3), dtype)).all() for rank in range(comm.size))
    flat = numpy.zeros((comm.size * 4, 3), dtype)
    assert comm.all_gather(send, flat) is flat and (flat == gathered.reshape(flat.shape)).all()
    blocks = comm.all_to_all(numbers(comm.rank, (comm.size * 2, 6), dtype)).reshape(comm.size, 2, 6)
    for rank in range(comm.size):
        assert (blocks[rank] == numbers(rank, (comm.size, 2, 6), dtype)[comm.rank]).all()
    for root in range(comm.size):
        array = numbers(comm.rank, (50,), dtype)
        assert comm.broadcast(array, root) is array and (array == numbers(root, (50,), dtype)).all()


def test_reduce_and_barrier(comm):
    for root in range(comm.size):
        got = comm.reduce(numbers(comm.rank, (20,)), root=root)
        assert (got is None) == (comm.rank != root)
        assert got is None or (got == reduced(comm, "sum", (20,), "float64")).all()
    comm.barrier()
    comm.device.synchronize()
    comm.check_collectives()


def test_device_memory(comm):
    """Stream-ordered: nothing is read before the stream has come to it."""
    send, recv = comm.device.empty(5000), comm.device.empty(5000)
    with comm.device.stream() as stream:
        send.set(numbers(comm.rank, (5000,)), stream)
        comm.allreduce(send, recv, stream=stream)
        comm.allreduce(recv, recv, "max", stream)
        stream.synchronize()
        comm.check_collectives()
        assert (recv.get(stream) == reduced(comm, "sum", (5000,), "float64")).all()
        gathered = comm.all_gather(send, stream=stream)
        assert isinstance(gathered, selvage.DeviceArray) and gathered.shape == (comm.size, 5000)
        assert (gathered.get(stream)[-1] == numbers(comm.size - 1, (5000,))).all()
