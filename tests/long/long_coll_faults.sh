#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A thousand ranks killed or stopped in collectives between nodes: see test_coll_faults.sh.
exec env COLL_FAULTS="${COLL_FAULTS:-1000}" COLL_FAULTS_AT_ONCE="${COLL_FAULTS_AT_ONCE:-8}" BRIEF= \
    bash "${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/mpi/test_coll_faults.sh"
