#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The UCX wire, built with the headers that are here, on the libraries of a newer UCX: those of the Python wheel
# libucx-cu13, which are fetched by pip. The tests of the wire, and of nodes, which UCX joins over TCP. Skips without a
# network.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
version=1.22.0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
case $(SELVAGE_DEVICE=soft "$top_builddir/tools/selvage-info" 2>/dev/null) in
*"UCX yes"*) ;;
*) echo "SKIP: this build has no UCX"; exit 77 ;;
esac
timeout 300 python3 -m pip download --quiet --no-deps --only-binary :all: -d "$dir" "libucx-cu13==$version" \
    >"$dir/log" 2>&1 && python3 -m zipfile -e "$dir"/*.whl "$dir/wheel" >>"$dir/log" 2>&1 ||
    { tail -n 3 "$dir/log"; echo "SKIP: no wheel of UCX $version"; exit 77; }
library=$(find "$dir/wheel" -name libucp.so.0 | head -n 1)
[ -n "$library" ] || { echo "FAIL: the wheel has no libucp.so.0"; exit 1; }
export LD_LIBRARY_PATH=${library%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export STOPPED_S=8
failed=0 skipped=0
env -u SELVAGE_MPI_KIND SELVAGE_DEVICE=soft SELVAGE_WIRE=ucx "$top_builddir/tools/selvage-info" >"$dir/out" 2>&1
grep "^wire  *ucx $version," "$dir/out" || { cat "$dir/out"; echo "FAIL: not UCX $version"; failed=1; }
for test in wire_ucx nodes; do
    bash "$top_srcdir/tests/mpi/test_$test.sh" >"$dir/out" 2>&1
    code=$?
    grep -E 'told after|SKIP' "$dir/out"
    [ "$code" -ne 77 ] || skipped=$((skipped + 1))
    [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || { cat "$dir/out"; echo "FAIL: test_$test.sh on UCX $version"; failed=1; }
done
[ "$failed" -ne 0 ] || [ "$skipped" -lt 2 ] || { echo "SKIP: neither test runs here"; exit 77; }
exit "$failed"
