#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The end of jobs on a loaded machine: 4 ranks, of the library and of the drop-in in turn, beside processes that take
# every core (FINALIZE_LOAD of them; as many as cores). Each job must end by itself, with status 0. FINALIZE_JOBS of
# each (250), at most FINALIZE_SECONDS (1500).
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
[ -n "${MPIRUN:-}" ] || { echo "SKIP: no launcher"; exit 77; }
jobs=${FINALIZE_JOBS:-250} limit_s=${FINALIZE_SECONDS:-1500} failed=0 done=0
[ -z "${SANITIZER:-}" ] || jobs=$((jobs / 10 + 1))
work=$(mktemp -d) || exit 1
load=()
for ((i = 0; i < ${FINALIZE_LOAD:-$(nproc)}; i++)); do (while :; do :; done) & load+=($!); done
trap '[ ${#load[@]} -eq 0 ] || kill "${load[@]}" 2>/dev/null; rm -rf "$work"' EXIT
# shellcheck disable=SC2016 # for the script that is written
printf '#!/bin/bash\nif [ "$1" = --version ]; then exec %q --version; fi\nexec %q %q "$@"\n' "$MPIRUN" \
    "$top_builddir/tools/selvage-run" "$MPIRUN" >"$work/mpirun"
chmod +x "$work/mpirun"
export SELVAGE_DEVICE="${SELVAGE_DEVICE:-soft}"

job() { # LAUNCHER PATTERN PROGRAM [ARGUMENT...]
    local launcher=$1 pattern=$2 status
    shift 2
    MPIRUN=$launcher "$top_srcdir/scripts/run-mpi" -n 4 -t 120 "$@" >"$work/out" 2>&1
    status=$?
    done=$((done + 1))
    if [ "$status" -eq 0 ] && grep -Eq "$pattern" "$work/out"; then return; fi
    failed=$((failed + 1))
    echo "FAIL: status $status, job $done: $*"
    tail -n 20 "$work/out" | sed 's/^/    /'
}

for ((n = 1; n <= jobs && SECONDS < limit_s; n++)); do
    job "$MPIRUN" 'silent wrong elements 0, errors 0' "$top_builddir/tests/mpi/fault_driver" --epochs 3 \
        --route "$( ((n % 2)) && echo staged || echo peer)"
    [ -r "$top_builddir/.libs/libselvage-mpi.so" ] && [ -x "$top_builddir/examples/dropin/jacobi" ] &&
        [ -z "${SANITIZER:-}" ] || continue
    SELVAGE_DROPIN_FAST=$( ((n % 3)) && echo auto || echo on) SELVAGE_RANKS_PER_NODE=$((n % 5 ? 0 : 2)) \
        job "$work/mpirun" ': right$' "$top_builddir/examples/dropin/jacobi" --n 40 --steps 4
done
echo "long_finalize: $done jobs of 4 ranks, $failed failed"
[ "$failed" -eq 0 ]
