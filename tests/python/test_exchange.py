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


def test_neighbours_of_a_graph(comm):
    """Beside MPI's own collective: row counts that differ, in the graph's order and with rows left out."""
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    graph = MPI.COMM_WORLD.Create_dist_graph_adjacent([left, right], [right, left])
    u, v = numpy.arange(24.).reshape(8, 3) + 100 * comm.rank, numpy.full((8, 3), -1.)
    wanted = v.copy()
    for first in (None, ([5, 1], [4, 0])):
        sent_at, received_at = first or ([0, 2], [0, 2])
        graph.Neighbor_alltoallv([u, [6, 9], [3 * at for at in sent_at], MPI.DOUBLE],
                                 [wanted, [6, 9], [3 * at for at in received_at], MPI.DOUBLE])
        with selvage.Exchange(comm) as exchange:
            exchange.add_graph(graph, u, [2, 3], v, [2, 3], 4, send_first=first and sent_at,
                               recv_first=first and received_at)
            exchange.commit().exchange()
            assert (v == wanted).all()
        v[...] = wanted[...] = -1
    with selvage.Exchange(comm) as exchange:
        with pytest.raises(selvage.ArgumentError, match="send_rows: 1 numbers, and graph has 2 destinations"):
            exchange.add_graph(graph, u, [2], v, [2, 3])
        with pytest.raises(selvage.ArgumentError, match="recv_rows: 3 rows from 6 on, and the array has 8"):
            exchange.add_graph(graph, u, [2, 3], v, [2, 3], recv_first=[0, 6])
        with pytest.raises(selvage.ArgumentError, match="graph has no distributed graph topology"):
            exchange.add_graph(MPI.COMM_WORLD, u, [], v, [])
        with pytest.raises(TypeError, match="not None"):
            exchange.add_graph(None, u, [], v, [])
    graph.Free()


def test_lengths_that_change(comm):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    u, v = numpy.zeros(1000, "float32"), numpy.zeros(1000, "float32")
    with selvage.Exchange(comm, varying=True) as exchange:
        exchange.add_send(u, right)
        exchange.add_recv(v, left)
        exchange.commit()
        for step in range(5):
            u[:], v[:] = 10 * step + comm.rank, -1
            exchange.set_bytes([4 * (100 * step + comm.rank)], [4 * (100 * step + left)])
            exchange.exchange()
            assert (v[:100 * step + left] == 10 * step + left).all() and (v[100 * step + left:] == -1).all()
        with pytest.raises(selvage.ArgumentError, match="at most 4000 were declared"):
            exchange.set_bytes([4001])
        with pytest.raises(selvage.ArgumentError, match="recvs: -4 bytes"):
            exchange.set_bytes(None, [-4])
        exchange.set_bytes([8], [12])
        # A rank whose neighbour gave up before it hears of that.
        with pytest.raises((selvage.MismatchError, selvage.PeerError), match="this rank set|gave up the exchange"):
            exchange.exchange()


def test_neighbours_without_other_ranks(comm):
    """All but the last rank, in a chain; that one calls nothing."""
    last = comm.size - 2
    with pytest.raises(selvage.ArgumentError, match="scope: 'some', wanted one of"):
        selvage.Exchange(comm, scope="some")
    if comm.rank > last:
        return
    u, v = numpy.full(500, comm.rank, "float64"), numpy.full((2, 500), -1.)
    with selvage.Exchange(comm, scope="neighbors") as exchange:
        for place, peer in enumerate((comm.rank - 1, comm.rank + 1)):
            if 0 <= peer <= last:
                exchange.add_send(u, peer)
                exchange.add_recv(v[place], peer)
        exchange.commit().exchange()
        for place, peer in enumerate((comm.rank - 1, comm.rank + 1)):
            assert (v[place] == (peer if 0 <= peer <= last else -1)).all()
