# SPDX-License-Identifier: BSD-3-Clause
"""One communicator for all tests, on the software device. Ranks run the same tests in the same order."""
import pytest
from mpi4py import MPI

import selvage


@pytest.fixture(scope="session")
def comm():
    with selvage.Comm(MPI.COMM_WORLD, "soft", timeout_s=30) as made:
        yield made
