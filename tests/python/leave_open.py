# SPDX-License-Identifier: BSD-3-Clause
"""leave_open.py MODULE: a program that closes nothing, and has imported MODULE first (mpi4py.MPI, or selvage alone)."""
import importlib
import sys

importlib.import_module(sys.argv[1])
import numpy  # noqa: E402

import selvage  # noqa: E402

comm = selvage.Comm(timeout_s=20)
grid = selvage.Grid(comm, (12, 10), periodic=True)
field = comm.device.empty(grid.shape()).set(numpy.zeros(grid.shape()))
registration = comm.register(field)
halo = selvage.Halo(grid, field)
halo.run()
comm.allreduce(numpy.zeros(4))
print("done\n", end="", flush=True)
