# SPDX-License-Identifier: BSD-3-Clause
"""Exchanges of NumPy arrays round a ring of ranks: contiguous, strided and listed elements, routes, empty packets."""
import numpy
import pytest
from mpi4py import MPI

import selvage

SHAPE = (6, 7, 8)
SLICES = [
    numpy.s_[...], numpy.s_[2], numpy.s_[:, 3], numpy.s_[:, :, 1], numpy.s_[1:5, 2:6, 3:7], numpy.s_[::2, ::3, ::2],
    numpy.s_[::-1], numpy.s_[:, ::-2, 1:3], numpy.s_[3, 4, 5:6], numpy.s_[2:2],
]


def numbered(rank, dtype="float64"):
    return (numpy.arange(numpy.prod(SHAPE)).reshape(SHAPE) * 3 + rank).astype(dtype)


@pytest.mark.parametrize("sliced", SLICES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "int16", "complex128"])
def test_slices(comm, sliced, dtype):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    u, v = numbered(comm.rank, dtype), numpy.zeros(SHAPE, dtype)
    wanted = numpy.zeros(SHAPE, dtype)
    with selvage.Exchange(comm) as exchange:
        exchange.add_send(u[sliced], right, tag=4)
        exchange.add_recv(v[sliced], left, tag=4)
        exchange.commit()
        for step in range(2):
            exchange.run() if step else exchange.exchange()
            wanted[sliced] = numbered(left, dtype)[sliced]
            assert (v == wanted).all()
            v[...] = wanted[...] = 0
        assert exchange.epoch == 2


@pytest.mark.parametrize("route", ["peer", "shared", "staged"])
def test_routes(comm, route):
    peer = comm.rank ^ 1
    if peer >= comm.size:
        peer = MPI.PROC_NULL
    for elements in (1, 1000, 300_000):
        u, v = numpy.full(elements, comm.rank, "float32"), numpy.full(elements, -1, "float32")
        with selvage.Exchange(comm, route=route) as exchange:
            index = exchange.add_send(u, peer)
            assert (exchange.add_recv(v, peer) is None) == (index is None) == (peer == MPI.PROC_NULL)
            with exchange.commit():
                if index is not None:
                    assert exchange.send_route(index) == route
                exchange.start()
                while not exchange.test():
                    pass
                assert (v == (peer if index is not None else -1)).all()


def test_lists_of_elements(comm):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    u, v = numpy.arange(40.).reshape(10, 4) + 100 * comm.rank, numpy.zeros((10, 4))
    rows, places = [7, 2, 5], [0, 9, 4]
    with selvage.Exchange(comm) as exchange:
        exchange.add_send(u, right, indices=rows)
        exchange.add_recv(v, left, indices=numpy.array(places))
        exchange.commit()
        exchange.exchange()
    wanted = numpy.zeros((10, 4))
    wanted[places] = (numpy.arange(40.).reshape(10, 4) + 100 * left)[rows]
    assert (v == wanted).all()


def test_order_of_equal_tags(comm):
    """The i-th send meets the i-th receive."""
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    sent = [numpy.full(4, 10 * comm.rank + number) for number in range(3)]
    got = [numpy.zeros(4, int) for _ in range(3)]
    with selvage.Exchange(comm, checksum="report") as exchange:
        for u, v in zip(sent, got):
            exchange.add_send(u, right)
            exchange.add_recv(v, left)
        exchange.commit().exchange()
    assert [v[0] for v in got] == [10 * left + number for number in range(3)]


def test_stream_of_the_device(comm):
    """Device memory of the library's own, filled and read in the order of a stream."""
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    u, v = comm.device.empty((100, 100), "int32"), comm.device.empty((100, 100), "int32")
    with comm.device.stream() as stream, comm.register(v), selvage.Exchange(comm) as exchange:
        exchange.add_send(u, right)
        exchange.add_recv(v, left)
        exchange.commit()
        for step in range(5):
            u.set(numpy.full((100, 100), 10 * comm.rank + step), stream)
            exchange.run(stream)
            assert (v.get(stream) == 10 * left + step).all()
            exchange.wait(stream)
    assert comm.stats()["packets_received"] > 0
