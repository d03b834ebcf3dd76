#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Nothing grows with the number of objects that have lived, of the device (long_lives), of the library on one rank
# and on two (long_objects), and of programs with the drop-in (long_dropin_objects): LIVES_TURNS of each
# (100000), on two ranks a tenth of that, since ranks agree in each turn; and 10,000 live exchanges with 1,024
# descriptors.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
[ -z "${SANITIZER:-}" ] || { echo "sanitizers keep what was freed"; exit 77; }
turns=${LIVES_TURNS:-100000} limit_s=3600 failed=0
export SELVAGE_DEVICE="${SELVAGE_DEVICE:-soft}"
run() { "$@" || { echo "FAIL: $*"; failed=1; }; }
run env -u SELVAGE_MPI_KIND "$top_builddir/tests/long/long_lives" "$turns"
run "$top_srcdir/scripts/run-mpi" -n 1 -t "$limit_s" "$top_builddir/tests/unit/test_exchange_many" 10000 1024
run "$top_srcdir/scripts/run-mpi" -n 1 -t "$limit_s" "$top_builddir/tests/long/long_objects" "$turns"
run "$top_srcdir/scripts/run-mpi" -n 2 -t "$limit_s" "$top_builddir/tests/long/long_objects" $((turns / 10))
if [ -x "$top_builddir/tests/long/long_dropin_objects" ]; then
    run "$top_srcdir/scripts/run-mpi" -n 1 -t "$limit_s" "$top_builddir/tests/long/long_dropin_objects" "$turns"
    run "$top_srcdir/scripts/run-mpi" -n 2 -t "$limit_s" "$top_builddir/tests/long/long_dropin_objects" $((turns / 10))
fi
exit "$failed"
