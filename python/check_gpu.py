#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_gpu.py [--arrays cupy|torch|own] [--cells N] [--steps N]: halos on this machine's GPUs, and what a call costs.

    mpirun -n 2 python3 check_gpu.py

Each rank takes its share of the host's GPUs. Arrays are CuPy's or PyTorch's, whichever is installed, else the package's
own. Every cell of halos in two and three dimensions, in several types, is compared with slices of the whole domain, by
each way to make a step. All-reduce is compared with a sum. Needs NumPy, and no mpi4py. The exit status is 0 if all is
right. Without a GPU (SELVAGE_DEVICE=soft) it checks the software device.
"""
import argparse
import importlib
import sys
import time

import numpy

import selvage


class Cupy:
    """Arrays and streams of CuPy."""

    name = "cupy"

    def __init__(self, device):
        self.cupy = importlib.import_module("cupy")
        self.cupy.cuda.Device(device.index).use()

    def array(self, numbers):
        return self.cupy.asarray(numbers)

    def numbers(self, array):
        return array.get()

    def synchronize(self):
        self.cupy.cuda.get_current_stream().synchronize()


class Torch:
    """Tensors of PyTorch, and its current stream."""

    name = "torch"

    def __init__(self, device):
        self.torch = importlib.import_module("torch")
        if not self.torch.cuda.is_available():
            raise ImportError("this PyTorch has no GPU")
        self.torch.cuda.set_device(device.index)

    def array(self, numbers):
        return self.torch.from_numpy(numbers).cuda()

    def numbers(self, array):
        return array.cpu().numpy()

    def synchronize(self):
        self.torch.cuda.current_stream().synchronize()


class Own:
    """Memory of the library's, known by __cuda_array_interface__ only."""

    name = "own"

    def __init__(self, device):
        self.device = device

    def array(self, numbers):
        return self.device.empty(numbers.shape, numbers.dtype).set(numbers)

    def numbers(self, array):
        return array.get()

    def synchronize(self):
        self.device.synchronize(0)


def frameworks(wanted, device):
    """The frameworks that are asked for, or one that is here."""
    for kind in (Cupy, Torch, Own):
        if wanted == kind.name or (wanted is None and (kind is Own or device.name != "soft")):
            try:
                return kind(device)
            except ImportError as error:
                if wanted:
                    raise SystemExit(f"--arrays {wanted}: {error}") from error
    raise SystemExit(f"--arrays {wanted}: wanted cupy, torch or own")


def whole_domain(extent, dtype, salt):
    """Numbers for all cells of the domain, alike on all ranks."""
    return numpy.random.default_rng(salt).integers(1, 100, extent).astype(dtype)


def expected(domain, grid, width, before):
    """The rank's array with its faces filled: slices of the domain, which is periodic."""
    after = before.copy()
    place_of = [numpy.arange(-width, own + width) + first for own, first in zip(grid.local_extent, grid.local_first)]
    for d in range(domain.ndim):
        for part in (slice(0, width), slice(width + grid.local_extent[d], None)):
            place = list(grid.own(width))
            place[d] = part
            cells = [indices[at] % extent for indices, at, extent in zip(place_of, place, domain.shape)]
            after[tuple(place)] = domain[numpy.ix_(*cells)]
    return after


def check_halo(comm, arrays, extent, dtype, width, way):
    """One halo by one way to make a step, three times; the number of cells that are wrong."""
    wrong = 0
    with selvage.Grid(comm, extent, periodic=True, width=width) as grid:
        own = tuple(slice(first, first + cells) for first, cells in zip(grid.local_first, grid.local_extent))
        before, after = [], []
        for salt in range(2):
            domain = whole_domain(extent, dtype, salt)
            before.append(numpy.zeros(grid.shape(width), dtype))
            before[salt][grid.own(width)] = domain[own]
            after.append(expected(domain, grid, width, before[salt]))
        fields = [arrays.array(field) for field in before]
        with selvage.Halo(grid, fields, width) as halo:
            for _ in range(3):
                if way == "start, wait":
                    halo.start()
                    halo.wait()
                elif way == "start, enqueue_wait":
                    halo.start()
                    halo.enqueue_wait()
                else:
                    getattr(halo, way)()
            arrays.synchronize()
            halo.wait()
            wrong = sum(int((arrays.numbers(field) != good).sum()) for field, good in zip(fields, after))
            arrays.synchronize()
    return wrong


def check_allreduce(comm, arrays):
    """A sum over ranks in device memory; the number of elements that are wrong."""
    send = arrays.array(numpy.arange(100000, dtype="float32") + comm.rank)
    got = comm.allreduce(send)
    arrays.synchronize()
    comm.check_collectives()
    wanted = numpy.arange(100000, dtype="float32") * comm.size + sum(range(comm.size))
    return int((arrays.numbers(got) != wanted).sum())


def time_calls(comm, arrays, cells, steps, way):
    """Median time of a step in us, as the host sees it, in five rows of steps."""
    with selvage.Grid(comm, (cells,) * 3, periodic=True) as grid:
        u = arrays.array(numpy.zeros(grid.shape(), "float64"))
        with selvage.Halo(grid, u) as halo:
            step, rows = getattr(halo, way), []
            for _ in range(6):
                begin = time.perf_counter()
                for _ in range(steps):
                    step()
                arrays.synchronize()
                rows.append((time.perf_counter() - begin) / steps * 1e6)
            halo.wait()
    return sorted(rows[1:])[2]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    options.add_argument("--arrays", choices=[kind.name for kind in (Cupy, Torch, Own)])
    options.add_argument("--cells", type=int, default=64, help="of the timed halo, in each of three dimensions")
    options.add_argument("--steps", type=int, default=200)
    asked = options.parse_args()
    with selvage.Comm(device="local") as comm:
        arrays, bad = frameworks(asked.arrays, comm.device), 0

        def say(*words):
            if comm.rank == 0:
                print(*words, flush=True)

        say(f"{comm.size} ranks, device {comm.device.name} {comm.device.model}, arrays of {arrays.name};",
            f"Selvage {selvage.version()}, {selvage.build()}")
        ways = ["exchange", "start, wait", "run", "start, enqueue_wait"]
        for extent, dtype, width in [((96, 80), "float64", 1), ((96, 80), "int8", 2), ((40, 36, 32), "float32", 1),
                                     ((40, 36, 32), "complex64", 2), ((256, 256, 256), "float64", 1)]:
            for way in ways:
                try:
                    wrong = check_halo(comm, arrays, extent, dtype, width, way)
                except selvage.UnsupportedError as error:
                    say(f"halo {extent} {dtype} width {width} by {way}: not possible here: {error.detail}")
                    continue
                bad += wrong
                say(f"halo {extent} {dtype} width {width} by {way}: {wrong} cells wrong")
        try:
            wrong = check_allreduce(comm, arrays)
            bad += wrong
            say(f"all-reduce of 100000 float32: {wrong} elements wrong")
        except selvage.UnsupportedError as error:
            say(f"all-reduce: not possible here: {error.detail}")
        for way in ("exchange", "run"):
            try:
                say(f"halo of {asked.cells}^3 float64: {way}() takes",
                    f"{time_calls(comm, arrays, asked.cells, asked.steps, way):.2f} us a step")
            except selvage.UnsupportedError as error:
                say(f"{way}(): not possible here: {error.detail}")
        verdict = "all right" if bad == 0 else f"{bad} numbers are wrong"
        print(f"rank {comm.rank}: {verdict}\n", end="", flush=True)  # in one piece, beside the other ranks
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
