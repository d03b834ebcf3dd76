# SPDX-License-Identifier: BSD-3-Clause
"""measure_calls.py [CALLS]: what a call costs in Python more than in C, in us, on one rank and the same object.

The C loop is compiled here by $CC (cc). The halo is one of a few cells, so that there is little else to measure. Shown
are medians of nine measurements each, made in turn.
"""
import ctypes
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import selvage
from selvage._library import library

LOOP = """
void loop(int (*first)(void *, void *), int (*second)(void *, void *), void *object, void *stream, long calls)
{
    for (long i = 0; i < calls; i++) {
        first(object, stream);
        if (second)
            second(object, stream);
    }
}
"""


def compiled():
    """The loop of C calls."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = os.path.join(folder, "loop.c"), os.path.join(folder, "loop.so")
        with open(source, "w", encoding="ascii") as opened:
            opened.write(LOOP)
        subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-O2", "-shared", "-fPIC", source, "-o", made],
                       check=True)
        loop = ctypes.CDLL(made).loop
    loop.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_long]
    loop.restype = None
    return loop


def address(name):
    """Where a function of the library is."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p)


def compare(name, in_c, in_python, settle, calls):
    """Prints what both cost, and the difference."""
    turns = {in_c: [], in_python: []}
    for _ in range(9):
        for work, times in turns.items():
            begin = time.perf_counter()
            work(calls)
            settle()
            times.append((time.perf_counter() - begin) / calls * 1e6)
    c, python = statistics.median(turns[in_c]), statistics.median(turns[in_python])
    print(f"{name:40} C {c:7.2f} us, Python {python:7.2f} us, difference {python - c:6.2f} us")


def repeat(call):
    """A loop of a Python call."""
    def work(calls):
        for _ in range(calls):
            call()
    return work


def main():
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    loop = compiled()
    start, wait, run, exchange = (address(f"selvage_halo_{verb}") for verb in ("start", "wait", "run", "exchange"))
    with selvage.Comm() as comm, comm.device.stream() as stream, selvage.Grid(comm, (16,), periodic=True) as grid:
        device_field = comm.device.empty(grid.shape()).set(numpy.zeros(grid.shape()))
        for field, kind in ((device_field, "device memory"), (numpy.zeros(grid.shape()), "NumPy")):
            with selvage.Halo(grid, field) as halo:
                handle = halo._handle

                def settle(stream=stream):
                    stream.synchronize()

                verb, whole = ("run", run) if field is device_field else ("exchange", exchange)
                compare(f"halo.{verb}(), {kind}", lambda n: loop(whole, None, handle, stream.ptr, n),
                        repeat(lambda: getattr(halo, verb)(stream)), settle, calls)
                halo.wait(stream)
                compare(f"halo.start(), halo.wait(), {kind}", lambda n: loop(start, wait, handle, stream.ptr, n),
                        repeat(lambda: (halo.start(stream), halo.wait(stream))), settle, calls)
        rank = address("selvage_comm_rank")
        compare("comm.rank, which only reads", lambda n: loop(rank, None, comm._handle, None, n),
                repeat(lambda: comm.rank), settle, calls)


if __name__ == "__main__":
    main()
