# SPDX-License-Identifier: BSD-3-Clause
"""What is refused: by the package before a call, by the library on one rank, and where ranks do not agree."""
import subprocess
import sys
import types

import numpy
import pytest
from mpi4py import MPI

import selvage
from selvage import _mpi


def test_errors_have_status_and_detail(comm):
    with selvage.Exchange(comm) as exchange:
        with pytest.raises(selvage.ArgumentError) as caught:
            exchange.add_send(numpy.zeros(3), comm.size + 5)
    assert (caught.value.status, caught.value.name) == (-1, "SELVAGE_ERR_ARGUMENT")
    assert caught.value.detail and caught.value.detail in str(caught.value)
    assert isinstance(caught.value, selvage.Error) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("wrong, error, text", [
    (numpy.zeros((4, 4))[:, 1], selvage.ArgumentError, "send: the array is not contiguous"),
    (numpy.zeros(4, "bool"), selvage.ArgumentError, "send: elements are bool"),
    (numpy.zeros(4, ">f8"), selvage.ArgumentError, "send: elements are other"),
    (numpy.float64(3), selvage.ArgumentError, "send: a scalar of NumPy"),
    ([1.0, 2.0], TypeError, "send: list is no array"),
])
def test_what_is_no_input(comm, wrong, error, text):
    with pytest.raises(error, match=text):
        comm.allreduce(wrong)


def test_collectives_refuse(comm):
    u = numpy.zeros(6 * comm.size)
    with pytest.raises(selvage.ArgumentError, match="op: 'mean'"):
        comm.allreduce(u, op="mean")
    with pytest.raises(selvage.ArgumentError, match="recv: float32 .* wanted float64"):
        comm.allreduce(u, u.astype("float32"))
    with pytest.raises(selvage.ArgumentError, match="recv: .* shape"):
        comm.allreduce(u, numpy.zeros(5))
    with pytest.raises(selvage.ArgumentError, match="in place|overlap"):
        comm.all_to_all(u, u)
    with pytest.raises(TypeError, match="stream: str"):
        comm.allreduce(u, stream="default")
    readonly = u.copy()
    readonly.flags.writeable = False
    with pytest.raises(selvage.ArgumentError, match="recv: the array is read-only"):
        comm.allreduce(u, readonly)
    if comm.size > 1:
        with pytest.raises(selvage.ArgumentError, match="no multiple"):
            comm.reduce_scatter(numpy.zeros(comm.size + 1))


def test_halos_refuse(comm):
    with selvage.Grid(comm, (8 * comm.size, 8), periodic=True, blocks=(comm.size, 1)) as grid:
        with pytest.raises(selvage.ArgumentError, match=r"fields\[0\]: shape .* its halos have \(10, 10\)"):
            selvage.Halo(grid, numpy.zeros((9, 10)))
        with pytest.raises(selvage.ArgumentError, match="the grid has 2 dimensions"):
            selvage.Halo(grid, numpy.zeros(10))
        with pytest.raises(selvage.ArgumentError, match="width: 3 numbers"):
            selvage.Halo(grid, numpy.zeros((10, 10)), (1, 1, 1))
        with pytest.raises(selvage.ArgumentError, match="have gaps"):
            selvage.Halo(grid, numpy.zeros((10, 10, 4))[..., ::2])
        with pytest.raises(selvage.ArgumentError, match="int8 is not added"):
            selvage.Halo(grid, numpy.zeros((10, 10), "int8"), reverse=True)
        with pytest.raises(selvage.ArgumentError, match="shape: 'corners'"):
            selvage.Halo(grid, numpy.zeros((10, 10)), shape="corners")
        with pytest.raises(selvage.ArgumentError):  # by the library, on all ranks: wider than a block
            selvage.Halo(grid, numpy.zeros((26, 26)), 9)
    with pytest.raises(selvage.ArgumentError, match="extent: 5 dimensions"):
        selvage.Grid(comm, (8, 8, 8, 8, 8))
    with pytest.raises(selvage.ArgumentError, match="blocks"):
        selvage.Grid(comm, (8, 8), blocks=(comm.size, 2))


def test_exchanges_refuse(comm):
    u = numpy.zeros((10, 4))
    with selvage.Exchange(comm) as exchange:
        with pytest.raises(selvage.ArgumentError, match="indices: from -1 to 3"):
            exchange.add_send(u, 0, indices=[3, -1])
        with pytest.raises(selvage.StateError):
            exchange.start()
        exchange.commit()
        with pytest.raises(selvage.StateError):
            exchange.add_send(u, 0)
    with pytest.raises(selvage.ArgumentError, match="route: 'carrier pigeon'"):
        selvage.Exchange(comm, route="carrier pigeon")


def test_closed(comm):
    with selvage.Exchange(comm) as exchange:
        exchange.commit()
    exchange.close()  # once more, which does nothing
    with pytest.raises(selvage.ArgumentError):
        exchange.start()
    other = selvage.Comm(MPI.COMM_WORLD, "soft")
    left_open = selvage.Exchange(other)
    outlives = other.device.empty(10)
    other.close()
    with pytest.raises(selvage.ArgumentError):
        outlives.get()
    del outlives
    assert left_open._handle is None
    with pytest.raises(selvage.ArgumentError):
        selvage.Exchange(other)


def test_freed_memory(comm):
    u, v = comm.device.empty(10), comm.device.empty(10)
    with selvage.Exchange(comm) as exchange:
        exchange.add_send(u, comm.rank)
        exchange.add_recv(v, comm.rank)
        exchange.commit()
        exchange.exchange()
        u._freed()  # what the last reference does
        with pytest.raises(selvage.ArgumentError):
            exchange.start()


def test_another_rank_disagrees(comm):
    """One rank sends more than its neighbour expects: all ranks hear of it, and who it was."""
    if comm.size == 1:
        pytest.skip("one rank agrees with itself")
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    with selvage.Exchange(comm) as exchange:
        exchange.add_send(numpy.zeros(9 if comm.rank == 1 else 8), right)
        exchange.add_recv(numpy.zeros(8), left)
        with pytest.raises(selvage.MismatchError, match="rank"):
            exchange.commit()
    with pytest.raises(selvage.MismatchError, match="rank"):
        selvage.Grid(comm, (64, 64 + (comm.rank == 1)))


def test_deadline_and_peer(comm):
    """A rank that does not come is waited for until the deadline, and is told of it."""
    if comm.size == 1:
        pytest.skip("one rank does not wait for another")
    with selvage.Comm(MPI.COMM_WORLD, "soft", timeout_s=5) as brief:
        u, v = numpy.zeros(5), numpy.zeros(5)
        with selvage.Exchange(brief) as exchange:
            exchange.add_send(u, (brief.rank + 1) % brief.size)
            exchange.add_recv(v, (brief.rank - 1) % brief.size)
            exchange.commit()
            if brief.rank in (0, 2):  # the neighbours of rank 1, which does not start
                with pytest.raises((selvage.DeadlineError, selvage.PeerError)) as caught:
                    exchange.exchange()
                assert isinstance(caught.value, TimeoutError) == (caught.value.status == -9)
                with pytest.raises(type(caught.value)):  # the exchange has failed for good
                    exchange.start()


def test_communicators(comm):
    with pytest.raises(TypeError, match="mpi_comm"):
        selvage.Comm(5)
    with pytest.raises(selvage.ArgumentError):
        selvage.Comm(MPI.COMM_WORLD, "abacus")


def test_mpi4py_of_another_mpi(comm, monkeypatch):
    other = types.SimpleNamespace(_handleof=lambda _: 12345, COMM_WORLD=None,
                                  Get_library_version=lambda: "Other MPI v7.1, package")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", other)
    with pytest.raises(selvage.UnsupportedError, match="Other MPI v7.1, and this Selvage was built for"):
        _mpi.handle_of(None)


def test_library_that_is_not_there(comm):
    """The error of the import says what to do."""
    if comm.rank > 0:
        return
    code = (
        "import ctypes\n"
        "def missing(name, *a, **k):\n    raise OSError('no such file')\n"
        "ctypes.CDLL = missing\ntry:\n    import selvage\nexcept ImportError as error:\n    print(error)\n")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "SELVAGE_PREFIX" in ran.stdout and "LD_LIBRARY_PATH" in ran.stdout
