#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Collectives, all of them: every call, type and operation by every algorithm and protocol on 1 to 8 ranks, random ones
# for minutes. For `make check-long`.
set -eu
top_builddir=${top_builddir:-.}
"$top_builddir/tests/ranks/test_coll" -s 1 -n "${COLL_WORLDS:-600}"
COLL_CASES=200 COLL_STRIDE=1 bash "${top_srcdir:-.}/tests/mpi/test_coll_mpi.sh"
