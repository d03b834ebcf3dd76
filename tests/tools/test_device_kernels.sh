#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The kernels were compiled for GPUs, where the build found compilers for them: each file is device code of the right
# kind and holds at least one kernel, which needs no memory of its own and no more of a multiprocessor than its part,
# and on AMD waits where it releases and acquires; and what is embedded has code for every GPU. A kernel that does need
# such memory is found, and one that does not wait, and one that uses what no kernel of the library may yet use is good.
# Says how many kernels there are, and how large the library and the plug-ins are with all their symbols, which may not
# be above 20 MB.
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
found=$("${check[@]}" --cuda-archs "${CUDA_ARCHS:-80,90}" "${files[@]}") ||
    fail "kernels that spill or take too much, or code that is missing"
echo "$found"
kernels=$(sed -n 's/^    \(sv_[a-z0-9_]*\): .*/\1/p' <<<"$found" | sort -u | wc -l)
echo "$kernels kernels"
[ "$kernels" -gt 0 ] || fail "no kernel is named"
most_bytes=20000000 measured=0
for library in "$top_builddir"/.libs/libselvage.so "$top_builddir"/.libs/selvage-device-*.so; do
    [ -e "$library" ] || continue # a build of static libraries
    bytes=$(wc -c <"$library")
    measured=$((measured + 1))
    echo "$bytes bytes: ${library##*/}"
    [ "$bytes" -le "$most_bytes" ] || fail "${library##*/} has $bytes bytes, wanted at most $most_bytes"
done
[ "$measured" -gt 0 ] || echo "no shared libraries in this build: nothing said about their size"

lines=(-std=c++17 "-I$top_srcdir/include" "-I$top_srcdir/lib" -DSV_BUILD "$top_srcdir/tests/fixtures/line_kernel.cc")

# must_find FILE TIMES: the kernels of spill_kernel.cc are refused, for each GPU that they were compiled for.
must_find() {
    local said
    if said=$("${check[@]}" "$1"); then
        fail "nothing wrong found in ${1##*/}: $said"
        return
    fi
    for kernel in spill_array spill_registers much_shared; do
        [ "$(grep -c "FAIL: $kernel:" <<<"$said")" -ge "$2" ] || fail "$kernel passes in ${1##*/}: $said"
    done
}
if [ -n "${NVCC:-}" ]; then
    "$NVCC" -x cu -fatbin -no-compress -O3 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
        "$top_srcdir/tests/fixtures/spill_kernel.cc" -o "$work/spill.fatbin" ||
        fail "spill_kernel.cc does not compile for NVIDIA"
    must_find "$work/spill.fatbin" 2
    "$NVCC" -x cu -fatbin -no-compress -O3 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
        -gencode arch=compute_90,code=compute_90 "${lines[@]}" -o "$work/lines.fatbin" ||
        fail "line_kernel.cc does not compile for NVIDIA"
    "${check[@]}" "$work/lines.fatbin" || fail "line_kernel.cc for NVIDIA"
    "$NVCC" -x cu -fatbin -no-compress -arch=sm_90 "$top_srcdir/tests/fixtures/spill_kernel.cc" \
        -o "$work/spill.fatbin" &&
        "${check[@]}" "$work/spill.fatbin" >/dev/null && fail "a fatbin without sm_80 passes"
fi
if [ -n "${HIP_CLANG:-}" ]; then
    "$HIP_CLANG" -x hip --offload-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -O3 --offload-arch=gfx942 \
        "$top_srcdir/tests/fixtures/spill_kernel.cc" -o "$work/spill.co" ||
        fail "spill_kernel.cc does not compile for AMD"
    must_find "$work/spill.co" 1
    for arch in gfx90a gfx942; do
        "$HIP_CLANG" -x hip --offload-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -O3 \
            --offload-arch=$arch "$top_srcdir/tests/fixtures/unfenced_kernel.cc" -o "$work/unfenced.co" ||
            fail "unfenced_kernel.cc does not compile for $arch"
        said=$("${check[@]}" "$work/unfenced.co") && fail "nothing wrong found in unfenced_kernel.cc for $arch: $said"
        for what in "write-back .* that nothing waits for" "invalidation .* that waits for no load"; do
            [ "$(grep -c "FAIL: an\{0,1\} $what" <<<"$said")" -eq 1 ] || fail "$arch: not once '$what': $said"
        done
        "$HIP_CLANG" -x hip --offload-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -O3 \
            --offload-arch=$arch "${lines[@]}" -o "$work/lines.co" || fail "line_kernel.cc does not compile for $arch"
        "${check[@]}" "$work/lines.co" || fail "line_kernel.cc for $arch"
    done
fi
[ -n "${NVCC:-}" ] || echo "no nvcc in this build: nothing said about NVIDIA"
[ -n "${HIP_CLANG:-}" ] || echo "no compiler for AMD in this build: nothing said about AMD"
echo '' >"$work/empty.fatbin"
"${check[@]}" "$work/empty.fatbin" >/dev/null && fail "an empty file passes"
echo "$count files of device code"
exit "$failed"
