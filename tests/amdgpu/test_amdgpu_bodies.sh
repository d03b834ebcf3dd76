#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs whose ranks are threads, with machine code for AMD GPUs in the place of the software device's kernels
# (emulated_bodies.cc): what no plug-in for AMD launches is executed too, runs among it. The programs are those that
# test the software device, and their inputs the same. bits_driver makes launches of its own, by both, after which all
# memory is the same; AMDGPU_BITS says how many inputs it has. The architectures are those of the build. With BRIEF, of
# either value, only some programs run, with few cases and each for one architecture; all of them, which take minutes,
# in check-long. Kernels of LL128, which the library has off on AMD GPUs, are not compiled for them, and stay the
# software device's.
set -u
top_builddir=${top_builddir:-.}
table=$top_builddir/tests/amdgpu/coverage_table
[ -n "${HIP_CLANG:-}" ] || { echo "SKIP: this build has no compiler for AMD GPUs (Debian: clang-19, lld-19)"; exit 77; }
"$table" || { [ $? -eq 77 ] && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
if [ -z "${AMDGPU_COVERAGE:-}" ]; then
    AMDGPU_COVERAGE=$work/coverage
    mkdir "$AMDGPU_COVERAGE" || exit 1
fi
export AMDGPU_COVERAGE AMDGPU_OBJECTS=$top_builddir/lib/kernels AMDGPU_WHOLE=1
runs=0 failed=0 skipped=0

emulated() { # PROGRAM
    runs=$((runs + 1))
    AMDGPU_SEED=$runs AMDGPU_LATE=$((runs % 2)) \
        timeout -k 5 1800 "$top_builddir/tests/amdgpu/emulated_$1" >"$work/out" 2>&1
    local status=$?
    if [ "$status" -ne 0 ] || ! grep -q "checks, 0 failed" "$work/out"; then
        echo "FAIL: status $status: $1 on $AMDGPU_ARCH"
        tail -n 20 "$work/out" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
}

bits() {
    runs=$((runs + 1))
    AMDGPU_SEED=$runs AMDGPU_LATE=$((runs % 2)) timeout -k 5 1800 "$top_builddir/tests/amdgpu/bits_driver" \
        "$AMDGPU_OBJECTS" "$AMDGPU_ARCH" "$inputs" $((inputs / 2)) >"$work/out" 2>&1 ||
        { echo "FAIL: bits_driver on $AMDGPU_ARCH"; tail -n 20 "$work/out" | sed 's/^/    /'; failed=$((failed + 1)); }
}

inputs=${AMDGPU_BITS:-${BRIEF:+30}}
inputs=${inputs:-600}
programs=(kernels kernel_rest exchange_random exchange_enqueue message_random)
if [ -n "${BRIEF:-}" ]; then
    export BRIEF=yes
else
    programs+=(exact_kernels pack exchange_local exchange_layout halo_random coll)
fi
read -ra archs <<<"${HIP_ARCHS:-gfx942 gfx90a}"
for arch in "${archs[@]}"; do
    export AMDGPU_ARCH=$arch
    for ((i = 0; i < ${#programs[@]}; i++)); do
        # With BRIEF each program runs the code for one of two architectures.
        [ -n "${BRIEF:-}" ] && [ ${#archs[@]} -eq 2 ] && [ $((i % 2)) -eq "$skipped" ] || emulated "${programs[i]}"
    done
    skipped=$((1 - skipped))
    bits
    "$table" "$AMDGPU_COVERAGE" "$arch" "$top_builddir"/lib/kernels/kernel_*."$arch.co" || failed=$((failed + 1))
done
od -A n -t u8 -N 24 "$AMDGPU_COVERAGE/counts" | tr -s ' \n' ' ' >"$work/counts"
read -r launches waves instructions <"$work/counts"
echo "test_amdgpu_bodies: emulated, never on a GPU: $launches blocks, $waves waves, $instructions instructions of waves"
[ "$launches" -gt 1000 ] || failed=$((failed + 1))
echo "test_amdgpu_bodies: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
