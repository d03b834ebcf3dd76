# SPDX-License-Identifier: BSD-3-Clause
"""run_pytest.py ARGUMENT...: pytest on every rank. What a rank prints is shown by rank 0, and by ranks that fail."""
import contextlib
import io
import sys

import pytest
from mpi4py import MPI

printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    status = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *sys.argv[1:]]))
if MPI.COMM_WORLD.rank == 0 or status != 0:
    print(printed.getvalue(), flush=True)
sys.exit(status)
