#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The Python package, from its sources and on the library of this build: its tests by pytest on 1 to 4 ranks,
# check_gpu.py on the software device, which needs no mpi4py, and the program of its README. Nothing is downloaded:
# skipped where PYTHON (make check PYTHON=...) has no NumPy, pytest or mpi4py, or an mpi4py of another MPI.
set -u
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
top_builddir=$(cd "${top_builddir:-.}" && pwd)
export top_srcdir top_builddir PYTHONPATH=$top_srcdir/python PYTHONDONTWRITEBYTECODE=1 SELVAGE_DEVICE=soft
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
skip() { echo "SKIP: $*"; exit 77; }
[ -n "${PYTHON:-}" ] || skip "no python3"
[ -e "$top_builddir/.libs/libselvage.so.0" ] || skip "no shared library"
[ -z "${SANITIZER:-}" ] || skip "Python is not built with a sanitizer"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "$PYTHON is older than 3.9"
for module in numpy pytest mpi4py; do
    "$PYTHON" -c "import $module" 2>/dev/null || skip "$PYTHON has no $module"
done
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
job() { bash "$top_srcdir/scripts/run-mpi" -t 240 "$@" >"$log" 2>&1; }
job -n 1 "$PYTHON" -c 'import mpi4py.MPI, selvage; selvage.Comm()'
status=$?
[ "$status" -ne 77 ] || skip "$(cat "$log")"
if [ "$status" -ne 0 ]; then
    reason=$(grep 'UnsupportedError' "$log") && skip "${reason#*: }"
    sed 's/^/    /' "$log"
    exit 1
fi
for ranks in 1 2 3 4; do
    [ "$ranks" -eq 2 ] || [ -z "${BRIEF:-}" ] || continue
    job -n "$ranks" "$PYTHON" "$top_srcdir/tests/python/run_pytest.py" "$top_srcdir/tests/python" ||
        { echo "pytest on $ranks ranks:"; cat "$log"; exit 1; }
    echo "$ranks ranks: $(grep ' passed' "$log")"
    job -n "$ranks" "$PYTHON" "$top_srcdir/python/check_gpu.py" --steps 2 &&
        [ "$(grep -o 'all right' "$log" | wc -l)" -eq "$ranks" ] ||
        { echo "check_gpu.py on $ranks ranks:"; cat "$log"; exit 1; }
done
for mpi in mpi4py.MPI selvage; do
    job -n 2 "$PYTHON" "$top_srcdir/tests/python/leave_open.py" "$mpi" &&
        [ "$(cat "$log")" = "$(printf 'done\ndone')" ] ||
        { echo "what is left open is not closed at the end, with $mpi:"; cat "$log"; exit 1; }
done
awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' "$top_srcdir/python/README.md" >"$log.py"
job -n 2 "$PYTHON" "$log.py"
status=$?
rm -f "$log.py"
if [ "$status" -ne 0 ] || [ "$(grep -o 'rank [01]: the halo below holds [19]*' "$log" | sort | tr '\n' ';')" != \
    "rank 0: the halo below holds 19;rank 1: the halo below holds 9;" ]; then
    echo "the program of the README ended with status $status:"
    cat "$log"
    exit 1
fi
