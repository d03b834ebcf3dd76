#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The drop-in where a process sees several GPUs, on a machine without one: over the stand-in for AMD's runtime, whose
# threads, like those of the real ones, begin with GPU 0. Work on the memory's GPU must be waited for whichever is
# current, and memory of every GPU be copied and packed. The same programs run on real GPUs in test_dropin_run.sh.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
[ -n "${HIP_SOVERSION:-}" ] || { echo "SKIP: this build has no HIP headers (Debian: libamdhip64-dev)"; exit 77; }
if [ -n "${SANITIZER:-}" ]; then echo "SKIP: sanitizers want to be loaded first"; exit 77; fi
[ -n "${MPIRUN:-}" ] || { echo "SKIP: no launcher"; exit 77; }
plugins=$top_builddir/.libs
standin=$top_builddir/tests/fixtures/hip_standin/.libs
runtime=$standin/libamdhip64.so.$HIP_SOVERSION
if ! [ -e "$plugins/selvage-device-amd.so" ] || ! [ -e "$runtime" ]; then
    echo "SKIP: the plug-in or the stand-in is not built shared"
    exit 77
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export LD_LIBRARY_PATH=$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export SELVAGE_DEVICE=amd SELVAGE_DEVICE_PATH=$plugins HIP_STANDIN_DEVICES=3
# Some of these programs forget to wait for streams of their own.
export SELVAGE_DROPIN_SYNC=auto
# shellcheck disable=SC2016 # for the script that is written
printf '#!/bin/bash\nif [ "$1" = --version ]; then exec %q --version; fi\nexec %q %q "$@"\n' "$MPIRUN" \
    "$top_builddir/tools/selvage-run" "$MPIRUN" >"$dir/mpirun"
chmod +x "$dir/mpirun"
runs=0 failed=0 unwanted=

# program WHAT PATTERN [VARIABLE=VALUE...]: on two ranks; it must succeed, say this, and misuse nothing.
program() {
    local what=$1 pattern=$2
    shift 2
    runs=$((runs + 1))
    if ! env "$@" MPIRUN="$dir/mpirun" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 \
        "$top_builddir/tests/mpi/dropin_unmodified" "$what" >"$dir/out" 2>&1 || ! grep -Eq "$pattern" "$dir/out" ||
        grep -q "selvage-mpi: $unwanted" "$dir/out" ||
        [ "$(grep -c 'hip stand-in: .* 0 misuses' "$dir/out")" -ne 2 ]; then
        tail -n 30 "$dir/out"
        echo "FAIL: $what, no \"$pattern\", a warning or a misuse: $*"
        failed=$((failed + 1))
    fi
}
# opened TIMES GPU: how often the last program and the drop-in in it have opened that GPU.
opened() {
    [ "$(grep -c "amd GPU $2 (" "$dir/out")" -eq "$1" ] && return
    echo "FAIL: GPU $2 was not opened $1 times"
    failed=$((failed + 1))
}
# Each rank has its own GPU, and the drop-in opens no other, whatever the runtime says of host memory.
for denies in '' -2; do
    program device-writes-late '0 failed' SELVAGE_LOG=info UNMODIFIED_RUNTIME="$runtime" \
        ${denies:+HIP_STANDIN_UNREGISTERED=$denies}
    opened 2 0
    opened 2 1
done
program thread-per-tag '0 failed'
program progress-thread '0 failed' SELVAGE_PROGRESS=thread
program several-gpus '^3 GPUs'
program several-gpus '^3 GPUs' SELVAGE_DROPIN_SYNC=default
unwanted=".*GPU"
program several-gpus 'MPI_Sendrecv: the device was still writing 262144 bytes' SELVAGE_DROPIN_SYNC=check
unwanted=
program several-gpus '^3 GPUs' SELVAGE_PROGRESS=thread
unwanted="[^mp]" # but the titles of the report
# What the route's GPU can reach goes by it, memory of others does not.
program several-gpus '^ +0 +1 +MPI_Isend +fast ' SELVAGE_DROPIN_FAST=on SELVAGE_DROPIN_FAST_BYTES=96 SELVAGE_REPORT=1
grep -Eq '^ +0 +1 +MPI_Isend +staged ' "$dir/out" || { echo "FAIL: nothing was staged"; failed=$((failed + 1)); }

echo "test_dropin_gpus: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
