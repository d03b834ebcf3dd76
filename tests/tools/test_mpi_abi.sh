#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A build for the binary interface of MPI 5: the library and the drop-in need that and no MPI's own, have no Fortran
# names that go on to MPI, and move packets under the MPI that is there. Skipped in other builds.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
[ "${SELVAGE_MPI_KIND:-}" = abi ] || { echo "SKIP: not built for the ABI of MPI 5"; exit 77; }
failed=0
libraries=libselvage.so
[ ! -e "$top_builddir/.libs/libselvage-mpi.so" ] || libraries="$libraries libselvage-mpi.so"
for library in $libraries; do
    needed=$(readelf -d "$top_builddir/.libs/$library" | sed -n 's/.*NEEDED.*\[\(libmpi[^]]*\)\].*/\1/p')
    [ "$needed" = libmpi_abi.so.1 ] || { echo "FAIL: $library needs '$needed'"; failed=1; }
done
# Those that are there end a Fortran program with a line.
if [ "$libraries" != libselvage.so ]; then
names=$(${NM:-nm} -D --defined-only "$top_builddir/.libs/libselvage-mpi.so" | awk '{print $3}' | grep '^mpi_')
odd=$(grep -v '^mpi_init' <<<"$names")
[ -z "$odd" ] || { echo "FAIL: Fortran names: $odd"; failed=1; }
grep -q '^mpi_init_$' <<<"$names" || { echo "FAIL: a Fortran program is not met"; failed=1; }
fi
env -u SELVAGE_MPI_KIND SELVAGE_DEVICE=soft "$top_builddir/tools/selvage-info" | grep -q 'MPI abi 1' ||
    { echo "FAIL: selvage-info does not say what it was built for"; failed=1; }
SELVAGE_DEVICE=soft "$top_srcdir/scripts/run-mpi" -n 2 -t 200 "$top_builddir/tools/selvage-smoke" --sizes 4K --quick ||
    { echo "FAIL: smoke"; failed=1; }
exit "$failed"
