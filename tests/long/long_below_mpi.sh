#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Every message of every class, by every kind of fault: see test_below_mpi.sh.
exec env BELOW_LONG=yes bash "${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/mpi/test_below_mpi.sh"
