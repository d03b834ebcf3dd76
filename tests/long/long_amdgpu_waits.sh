#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Mutations of machine code for AMD GPUs: each s_waitcnt that a run of the smoke test executes in sv_push and sv_pull is
# dropped, one at a time, and the run made again with late accesses and some seeds. It says of how many the run then
# fails, and names those that nobody noticed: another wait may come before the result is used, or the run does not use
# it. AMDGPU_SEEDS seeds are tried for each (4).
set -u
top_srcdir=${top_srcdir:-.}
top_builddir=${top_builddir:-.}
[ -n "${HIP_SOVERSION:-}" ] || { echo "SKIP: this build has no HIP headers (Debian: libamdhip64-dev)"; exit 77; }
"$top_builddir/tests/amdgpu/coverage_table" || { [ $? -eq 77 ] && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
seeds=${AMDGPU_SEEDS:-4}
export LD_LIBRARY_PATH=$top_builddir/tests/fixtures/hip_standin/.libs SELVAGE_DEVICE=amd
export SELVAGE_DEVICE_PATH=$top_builddir/.libs HIP_STANDIN_EMULATE=1 AMDGPU_LATE=1 SELVAGE_TIMEOUT_S=5
export SELVAGE_RETRY_MAX=0 # damage is not to be repaired
failed=0

# A run that is right takes a second; one whose flags are lost waits for its deadline.
smoke() {
    (
        ulimit -c 0
        timeout -k 2 20 "$top_builddir/tools/selvage-smoke" --sizes 0,13,4K,100001 --epochs 2 --routes self,staged
        exit $?
    ) >"$work/out" 2>&1 && grep -q "every packet was right" "$work/out"
}

for arch in ${HIP_ARCHS:-gfx942 gfx90a}; do
    export HIP_STANDIN_ARCH=$arch
    for kernel in push pull; do
        mkdir "$work/$arch.$kernel" || exit 1
        AMDGPU_COVERAGE=$work/$arch.$kernel smoke || { echo "FAIL: nothing was dropped"; failed=$((failed + 1)); }
        "$top_builddir/tests/amdgpu/coverage_table" -w "$work/$arch.$kernel" "$arch" \
            "$top_builddir/lib/kernels/kernel_$kernel.$arch.co" >"$work/waits"
        tried=0 caught=0 missed=
        while read -r offset text; do
            tried=$((tried + 1))
            for ((seed = 1; seed <= seeds; seed++)); do
                if ! AMDGPU_SEED=$seed AMDGPU_DROP=sv_$kernel:$offset smoke; then
                    caught=$((caught + 1))
                    continue 2
                fi
            done
            missed+="    $offset $text"$'\n'
        done <"$work/waits"
        echo "sv_$kernel on $arch: $tried waits dropped, $caught noticed"
        printf '%s' "$missed"
        [ "$caught" -gt 0 ] || failed=$((failed + 1))
    done
done
[ "$failed" -eq 0 ]
