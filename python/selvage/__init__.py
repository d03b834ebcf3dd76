# SPDX-License-Identifier: BSD-3-Clause
"""Selvage: halos and reductions between GPUs over MPI, each packet verified where it arrives.

    import numpy, selvage                                # cupy, torch and others alike
    with selvage.Comm() as comm:                         # or an mpi4py communicator
        grid = selvage.Grid(comm, (512, 512), periodic=True)
        u = numpy.zeros(grid.shape(width=1))             # this rank's cells, and a halo around them
        halo = selvage.Halo(grid, u, width=1)
        u[grid.own()] = comm.rank
        halo.exchange()                                  # filled and verified

Arrays of NumPy are for the software device (SELVAGE_DEVICE=soft), whose memory is host memory. Those of CuPy, PyTorch
and whatever has ``__cuda_array_interface__`` or DLPack are device memory, with streams as in CUDA. Arrays of JAX, which
are immutable, can be sent and can be what a collective makes. Every failure is a selvage.Error with status and detail.
"""
from ._collective import Collectives
from ._comm import Comm, Registration
from ._device import Device, DeviceArray, Stream
from ._errors import (
    AbortedError,
    ArgumentError,
    ChecksumError,
    ConfigError,
    DeadlineError,
    DeviceError,
    Error,
    InternalError,
    LimitError,
    MismatchError,
    MpiError,
    OperatingSystemError,
    OutOfMemoryError,
    PeerError,
    StateError,
    TruncatedError,
    UnsupportedError,
)
from ._exchange import Exchange
from ._grid import Grid
from ._halo import Field, Halo
from ._library import build, version

__all__ = [
    "AbortedError", "ArgumentError", "ChecksumError", "Collectives", "Comm", "ConfigError", "DeadlineError", "Device",
    "DeviceArray", "DeviceError", "Error", "Exchange", "Field", "Grid", "Halo", "InternalError", "LimitError",
    "MismatchError", "MpiError", "OperatingSystemError", "OutOfMemoryError", "PeerError", "Registration", "StateError",
    "Stream", "TruncatedError", "UnsupportedError", "build", "version",
]
