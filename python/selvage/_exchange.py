# SPDX-License-Identifier: BSD-3-Clause
"""Exchanges: packets that are declared once, and moved and verified in every step."""
from __future__ import annotations

import ctypes as c
from typing import Any, Callable, Iterable, Sequence

from . import _arrays, _mpi, _streams
from ._arrays import View
from ._comm import Comm, Owned
from ._errors import ArgumentError, check
from ._library import library
from ._structs import ExchangeParams

ROUTES = {None: 0, "self": 1, "peer": 2, "shared": 3, "staged": 4, "direct": 5}
CHECKSUMS = {None: 0, "retry": 1, "report": 2, "abort": 3, "off": -1}
SCOPES = {None: 0, "all": 0, "neighbors": 1}


def word(name: str, value: Any, words: dict[Any, int]) -> int:
    """The number of a word that an argument may have."""
    if value not in words:
        raise ArgumentError(f"{name}: {value!r}, wanted one of {', '.join(map(repr, words))}", -1)
    return words[value]


class Epochs(Owned):
    """The calls of a step, which exchanges and halos have alike. Here are the rules of streams and of arrays.

    ``stream`` is an int, an object with ``ptr`` or ``cuda_stream``, or None for the framework's current stream. What is
    sent is read after the work that is on the stream already; after wait() and its kin later work on the stream sees
    what was received. Arrays belong to Selvage from start() to then, and stay allocated until close(); the object
    holds them.

    Arrays in host memory have no streams. Where there is one among those of the object, every call that ends a step
    returns only when all data is in place and verified, so that NumPy may read it.
    """

    _kind: str
    _current: Callable[[], int]
    _on_host: bool
    _start: Callable[[int | None, int], int]
    _test: Callable[[int | None, int], int]
    _wait: Callable[[int | None, int], int]
    _enqueue_wait: Callable[[int | None, int], int]
    _run: Callable[[int | None, int], int]

    def _begin(self, comm: Comm, views: Iterable[View]) -> None:
        views = list(views)
        self._device = comm.device
        self._arrays = [found.array for found in views]
        self._current = _streams.current_of(views)
        self._on_host = any(found.on_host for found in views)
        for verb in ("start", "test", "wait", "enqueue_wait", "run"):
            setattr(self, "_" + verb, getattr(library, f"selvage_{self._kind}_{verb}"))

    def start(self, stream: Any = None) -> None:
        """Begins a step after the work on the stream. Returns at once; launch what needs no halo after it. Local."""
        check(self._start(self._handle, _streams.native(stream, self._current)))

    def test(self, stream: Any = None) -> bool:
        """Whether the step is complete; then later work on the stream sees what was received. Never blocks."""
        at = _streams.native(stream, self._current)
        status = self._test(self._handle, at)
        check(status)
        if status == 0:
            self._settle(at)
        return status == 0

    def wait(self, stream: Any = None) -> None:
        """Blocks the host until the step is complete and verified; later work on the stream sees what was received."""
        at = _streams.native(stream, self._current)
        check(self._wait(self._handle, at))
        self._settle(at)

    def enqueue_wait(self, stream: Any = None) -> None:
        """Ends the step on the stream without the host: later work on it sees what was received.

        Errors are raised by the next call, so that work on the stream may have used bad data. Needs packets within a
        node, or SELVAGE_PROGRESS=thread. With host memory it is wait().
        """
        if self._on_host:
            self.wait(stream)
        else:
            check(self._enqueue_wait(self._handle, _streams.native(stream, self._current)))

    def run(self, stream: Any = None) -> None:
        """A whole step on the stream without the host, with one launch where that can be: start(), enqueue_wait()."""
        if self._on_host:
            self.exchange(stream)
        else:
            check(self._run(self._handle, _streams.native(stream, self._current)))

    def exchange(self, stream: Any = None) -> None:
        """A whole step, which blocks the host: start() and wait()."""
        at = _streams.native(stream, self._current)
        check(self._start(self._handle, at))
        check(self._wait(self._handle, at))
        self._settle(at)

    def _settle(self, at: int) -> None:
        if self._on_host:  # the last kernels that unpack may be work on the stream
            check(library.selvage_stream_synchronize(self._device._handle, at))


class _Side:
    """The packets of one direction in a graph: how many rows of an array, and where they begin, in bytes."""

    def __init__(self, name: str, kind: str, array: Any, rows: Sequence[int], first: Sequence[int] | None,
                 neighbours: int) -> None:
        self.view = _arrays.contiguous(array, name, written=name == "recv")
        count = self.view.shape[0] if self.view.shape else 0
        row_bytes = self.view.nbytes // count if count else 1
        numbers = [int(number) for number in rows]
        begins = [sum(numbers[:i]) for i in range(len(numbers))] if first is None else [int(at) for at in first]
        for what, given in (("rows", numbers), ("first", begins)):
            if len(given) != neighbours:
                raise ArgumentError(f"{name}_{what}: {len(given)} numbers, and graph has {neighbours} {kind}", -1)
        for number, begin in zip(numbers, begins):
            if min(number, begin) < 0 or begin + number > count:
                raise ArgumentError(f"{name}_rows: {number} rows from {begin} on, and the array has {count}", -1)
        self.bytes = (c.c_size_t * neighbours)(*(number * row_bytes for number in numbers))
        self.offsets = (c.c_size_t * neighbours)(*(begin * row_bytes for begin in begins))


class Exchange(Epochs):
    """A set of packets between ranks, declared once, committed, and moved as often as the program steps.

    The i-th send of a (source, destination, tag) meets the i-th receive of the same three. All ranks make and commit
    their exchanges in one order, also where a rank has no packets. ``route`` forces a route ("peer", "shared",
    "staged", "direct"); ``checksum`` is "retry", "report", "abort" or "off" (None: what SELVAGE_CHECKSUM says).
    ``varying=True``, on all ranks: packets may be shorter than declared, by another length in each step (set_bytes()).
    ``scope="neighbors"``: a rank and those to or from which it has packets make, commit and close it without other
    ranks; any two ranks commit what they share in one order. Making one is local; commit() and close() are collective.
    """

    _kind = "exchange"

    def __init__(self, comm: Comm, *, route: str | None = None, checksum: str | None = None,
                 varying: bool = False, scope: str | None = None) -> None:
        params = ExchangeParams(route=word("route", route, ROUTES), checksum=word("checksum", checksum, CHECKSUMS),
                                varying=bool(varying), scope=word("scope", scope, SCOPES))
        made = c.c_void_p()
        check(library.selvage_exchange_create(comm._handle, params, made))
        self._own(made, comm, library.selvage_exchange_destroy)
        self._views: list[View] = []
        self._begin(comm, ())

    def add_send(self, array: Any, peer: int, tag: int = 0, *, indices: Any = None) -> int | None:
        """Declares a packet to send: all elements of an array, in row-major order, whatever its strides.

        With ``indices``, a list of integers, it is those rows array[i] in that order; the array is contiguous then.
        Elements are packed on the device. Local; before commit(). ``peer`` may be MPI.PROC_NULL: then nothing is
        declared, and the result is None. Else it is the packet's index among this rank's sends.
        """
        return self._add("send", array, peer, tag, indices)

    def add_recv(self, array: Any, peer: int, tag: int = 0, *, indices: Any = None) -> int | None:
        """Declares a packet to receive; as add_send(). It has as many bytes as the send that it meets."""
        return self._add("recv", array, peer, tag, indices)

    def add_graph(self, graph: Any, send: Any, send_rows: Sequence[int], recv: Any, recv_rows: Sequence[int],
                  tag: int = 0, *, send_first: Sequence[int] | None = None,
                  recv_first: Sequence[int] | None = None) -> None:
        """Declares a packet to each neighbour, and one from each, of a communicator with a distributed graph of MPI.

        That is what ``graph.Neighbor_alltoallv`` moves, in rows array[i] of contiguous arrays: ``send_rows[i]`` rows go
        to the i-th destination, from row ``send_first[i]`` on, or from where those to the one before ended; and so for
        sources. ``graph`` is of mpi4py, and has the ranks of the communicator in the same order. Local; before commit().
        """
        if graph is None:
            raise TypeError("graph is a communicator of mpi4py with a distributed graph, not None")
        handle = _mpi.handle_of(graph)
        sources, destinations = _mpi.neighbours(graph)
        sent = _Side("send", "destinations", send, send_rows, send_first, destinations)
        received = _Side("recv", "sources", recv, recv_rows, recv_first, sources)
        check(library.selvage_exchange_add_graph(self._handle, handle, sent.view.pointer, sent.bytes, sent.offsets,
                                                 received.view.pointer, received.bytes, received.offsets, tag))
        self._views += [sent.view, received.view]

    def set_bytes(self, sends: Iterable[int] | None = None, recvs: Iterable[int] | None = None) -> None:
        """Says how many bytes each packet has from the next step on, at most as many as its array.

        One number for each packet, in the order of their indices; None leaves them. Both ends of a packet say the same
        number, else the step raises MismatchError on both. Local; nothing is negotiated. For ``varying=True``, after
        commit(), between two steps. Packets of arrays with gaps, and of indices with gaps, keep their length.
        """
        lists = [None if given is None else [int(number) for number in given] for given in (sends, recvs)]
        for name, given in zip(("sends", "recvs"), lists):
            if given and min(given) < 0:
                raise ArgumentError(f"{name}: {min(given)} bytes", -1)
        arguments: list[Any] = []
        for given in lists:
            arguments += [None, 0] if given is None else [(c.c_size_t * len(given))(*given), len(given)]
        check(library.selvage_exchange_set_bytes(self._handle, *arguments))

    def commit(self) -> Exchange:
        """Matches packets with the peers. Collective; blocks. After an error the exchange can only be closed.

        Returns the exchange, so that ``with exchange.commit():`` ends with close().
        """
        check(library.selvage_exchange_commit(self._handle))
        self._begin(self._comm, self._views)
        return self

    @property
    def epoch(self) -> int:
        """Number of steps started so far."""
        return library.selvage_exchange_epoch(self._handle)

    def send_route(self, index: int) -> str:
        """Route that commit() settled for the send with this index: "self", "peer", "shared", "staged", "direct"."""
        route = c.c_int()
        check(library.selvage_exchange_send_route(self._handle, index, route))
        return library.selvage_route_name(route.value).decode()

    def _add(self, verb: str, array: Any, peer: int, tag: int, indices: Any) -> int | None:
        index, nothing = c.c_uint32(), peer == _mpi.proc_null()
        if nothing:
            return None
        name = f"selvage_exchange_add_{verb}"
        if indices is not None:
            found = _arrays.contiguous(array, "array", written=verb == "recv")
            rows = [int(row) for row in indices]
            count = found.shape[0] if found.shape else 0
            if any(row < 0 or row >= count for row in rows):
                raise ArgumentError(f"indices: from {min(rows)} to {max(rows)}, and the array has {count} rows", -1)
            row_bytes = found.nbytes // count if count else 1
            check(getattr(library, name + "_indexed")(self._handle, found.pointer, row_bytes,
                                                      (c.c_int64 * len(rows))(*rows), len(rows), peer, tag, index))
        else:
            found = _arrays.view(array, "array", written=verb == "recv")
            if found.is_contiguous:
                check(getattr(library, name)(self._handle, found.pointer, found.nbytes, peer, tag, index))
            else:
                with _mpi.Strided(found.itemsize, found.shape, found.strides) as kind:
                    check(getattr(library, name + "_type")(self._handle, found.pointer, 1, kind, peer, tag, index))
        self._views.append(found)
        return index.value
