#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The kernels were compiled for GPUs, where the build found compilers for them: each file is device code of the right
# kind and holds at least one kernel, which needs no memory of its own; and what is embedded has code for every GPU. A
# kernel that does need such memory is found.
set -u
if [ -z "${HIP_CLANG:-}" ] && [ -z "${NVCC:-}" ]; then
    echo "no compiler of device code in this build"
    exit 77
fi
command -v readelf >/dev/null 2>&1 || { echo "no readelf"; exit 77; }
check=("${PYTHON:-python3}" "$top_srcdir/scripts/check-device-code")
failed=0 count=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fail() { echo "FAIL: $*"; failed=1; }

files=()
for kernel in $device_kernels; do
    file=$top_builddir/$kernel
    files+=("$file")
    count=$((count + 1))
    case $kernel in *.fatbin) continue ;; esac # several files in one, which check-device-code takes apart
    header=$(readelf -hW "$file" 2>&1)
    contents=$(readelf -sSW "$file" 2>/dev/null)
    if ! grep -q "Machine:.*AMD GPU" <<<"$header"; then
        fail "$kernel: no code for AMD GPU: $(grep Machine <<<"$header")"
    elif ! grep -qE '\.kd$' <<<"$contents"; then
        fail "$kernel: holds no kernel"
    fi
done
[ "$count" -gt 0 ] || fail "no files of device code"
"${check[@]}" "${files[@]}" || fail "kernels that spill, or code that is missing"

# must_find FILE TIMES: both kernels of tests/spill_kernel.cc are refused, for each GPU that they were compiled for.
must_find() {
    local said
    if said=$("${check[@]}" "$1"); then
        fail "nothing wrong found in ${1##*/}: $said"
        return
    fi
    for kernel in spill_array spill_registers; do
        [ "$(grep -c "FAIL: $kernel:" <<<"$said")" -ge "$2" ] || fail "$kernel passes in ${1##*/}: $said"
    done
}
if [ -n "${NVCC:-}" ]; then
    "$NVCC" -x cu -fatbin -no-compress -O3 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
        "$top_srcdir/tests/spill_kernel.cc" -o "$work/spill.fatbin" ||
        fail "spill_kernel.cc does not compile for NVIDIA"
    must_find "$work/spill.fatbin" 2
    "$NVCC" -x cu -fatbin -no-compress -arch=sm_90 "$top_srcdir/tests/spill_kernel.cc" -o "$work/spill.fatbin" &&
        "${check[@]}" "$work/spill.fatbin" >/dev/null && fail "a fatbin without sm_80 passes"
fi
if [ -n "${HIP_CLANG:-}" ]; then
    "$HIP_CLANG" -x hip --offload-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -O3 --offload-arch=gfx942 \
        "$top_srcdir/tests/spill_kernel.cc" -o "$work/spill.co" || fail "spill_kernel.cc does not compile for AMD"
    must_find "$work/spill.co" 1
fi
[ -n "${NVCC:-}" ] || echo "no nvcc in this build: nothing said about NVIDIA"
[ -n "${HIP_CLANG:-}" ] || echo "no compiler for AMD in this build: nothing said about AMD"
echo '' >"$work/empty.fatbin"
"${check[@]}" "$work/empty.fatbin" >/dev/null && fail "an empty file passes"
echo "$count files of device code"
exit "$failed"
