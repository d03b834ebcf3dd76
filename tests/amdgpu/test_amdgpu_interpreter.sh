#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The interpreter of code objects for AMD GPUs itself. Integers and floats of many lanes, every edge of both among them,
# come out as the host has them, bit for bit, from code that the compiler made for either GPU. What it does not know or
# would not be right about ends a run or is refused, with its name: an unknown instruction and its address, a trap,
# memory and LDS out of reach, an atomic access that is not aligned, a jump out of the code, a stack, another file.
# With late accesses a load that nothing waits for is seen.
set -u
top_srcdir=${top_srcdir:-.}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/amdgpu/interpreter_driver
[ -n "${HIP_CLANG:-}" ] || { echo "SKIP: this build has no compiler for AMD GPUs (Debian: clang-19, lld-19)"; exit 77; }
"$top_builddir/tests/amdgpu/coverage_table" || { [ $? -eq 77 ] && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 checks=0

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out"
    failed=$((failed + 1))
}

compile() { # SOURCE ARCH OUTPUT
    # Loads of the stack kernel go to scratch; exceptions and contraction as for the library's kernels.
    # shellcheck disable=SC2086  # a list of words
    $HIP_CLANG -x hip --offload-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -fno-exceptions -fno-rtti \
        -ffp-contract=off -std=c++17 -O3 --offload-arch="$2" -I"$top_srcdir/tests" "$top_srcdir/tests/amdgpu/$1" \
        -o "$3" >"$work/out" 2>&1 || fail "$1 does not compile for $2"
}

# expect TEXT ARGUMENT...: the run ends badly, and says why.
expect() {
    local text=$1
    shift
    checks=$((checks + 1))
    (ulimit -c 0; "$driver" "$@"; exit $?) >"$work/out" 2>&1 && fail "no error, wanted '$text'"
    grep -q -- "$text" "$work/out" || fail "no '$text'"
}

for arch in gfx90a gfx942; do
    object=$work/arithmetic.co
    compile arithmetic_kernel.cc "$arch" "$object"
    compile stack_kernel.cc "$arch" "$work/stack.co"
    checks=$((checks + 1))
    "$driver" "$object" "$arch" >"$work/out" 2>&1 || fail "arithmetic on $arch"
    cat "$work/out"
    expect "emulated $arch: mistake at 0x[0-9a-f]*: an unknown instruction:.*v_sin_f32" "$object" "$arch" 0
    expect "mistake at .*: a trap:.*s_trap" "$object" "$arch" 1
    expect "memory that the GPU does not reach:.*store_dword" "$object" "$arch" 2
    expect "outside of LDS:.*store_dword" "$object" "$arch" 3
    expect "a word that is not aligned:.*atomic_add" "$object" "$arch" 4
    expect "a way out of the code" "$object" "$arch" 5
    expect "refused: a kernel wants a stack" "$work/stack.co" "$arch"
    expect "refused: it is no code object" "$driver" "$arch"
    # A load that nothing waits for: there at once, or, with late accesses, mostly not yet.
    for seed in 1 2 3 4 5 6 7 8; do
        AMDGPU_SEED=$seed "$driver" "$object" "$arch" 6
        AMDGPU_SEED=$seed AMDGPU_LATE=1 "$driver" "$object" "$arch" 7
    done >"$work/out" 2>&1
    [ "$(grep -c 'ran, word 2$' "$work/out")" -eq 16 ] || fail "loads that are there, or waited for"
    for seed in 1 2 3 4 5 6 7 8; do
        AMDGPU_SEED=$seed AMDGPU_LATE=1 "$driver" "$object" "$arch" 6
    done >"$work/out" 2>&1
    grep -q "ran, word $((0xdeadbeef))\$" "$work/out" || fail "a wait that is missing is never seen"
    checks=$((checks + 2))
    AMDGPU_LATE=1 "$driver" "$object" "$arch" >"$work/out" 2>&1 || fail "arithmetic with late accesses on $arch"
    checks=$((checks + 1))
done
echo "test_amdgpu_interpreter: $checks checks, $failed failed"
[ "$failed" -eq 0 ]
