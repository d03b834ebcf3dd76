#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Kernels that communicate by selvage/device_api.h compile with each compiler that is here: for the software device with
# every warning, from the installed header alone; for GPUs without a stack, scratch memory or spilled registers, and on
# AMD with a wait at each release and acquire. The example of doc/device-api.md is one of them. With BRIEF, code for the
# software device is parsed only, and each source is compiled for one GPU.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
check=("${PYTHON:-python3}" "$top_srcdir/scripts/check-device-code")
failed=0 compiled=0

fail() { echo "FAIL: $*"; failed=1; }

# The C++ between the fences of the page.
sed -n '/^```c++$/,/^```$/p' "$top_srcdir/doc/device-api.md" | grep -v '^```' >"$work/page_example.cc"
[ "$(wc -l <"$work/page_example.cc")" -gt 20 ] || fail "doc/device-api.md has no example"
mkdir "$work/include"
cp -r "$top_srcdir/include/." "$work/include"
sources=("$work/page_example.cc" "$top_srcdir"/examples/{heat3d,wilson}_loops.cc
         "$top_srcdir"/tests/fixtures/session{,_checked}_loops.cc)
flags=(-std=c++17 -O3 -I"$work/include" -I"$top_srcdir/examples")
architectures=(gfx90a gfx942)

for compiler in "${CXX:-c++}" "$(command -v clang++)"; do
    [ -n "$compiler" ] || continue
    for source in "${sources[@]}"; do
        # shellcheck disable=SC2086  # a compiler may be several words
        $compiler "${flags[@]}" -pedantic -Wall -Wextra -Wundef -Werror \
            ${BRIEF:+-fsyntax-only} -c "$source" -o "$work/soft.o" ||
            fail "$compiler: ${source##*/}"
        compiled=$((compiled + 1))
    done
done

nvcc=${NVCC:-$(command -v nvcc)}
clang=${HIP_CLANG:-$(command -v clang-19 || command -v clang-18)}
for ((i = 0; i < ${#sources[@]}; i++)); do
    source=${sources[i]}
    name=$(basename "$source" .cc)
    nvidia=$nvcc amd=("${architectures[@]}")
    if [ -n "${BRIEF:-}" ]; then
        amd=("${architectures[i / 2 % 2]}")
        if [ -n "$nvcc" ] && [ -n "$clang" ]; then
            if [ $((i % 2)) -eq 0 ]; then amd=(); else nvidia=''; fi
        fi
    fi
    if [ -n "$nvidia" ]; then
        "$nvcc" -x cu -fatbin -no-compress -fmad=false "${flags[@]}" -gencode arch=compute_90,code=sm_90 \
            -gencode arch=compute_90,code=compute_90 "$source" -o "$work/$name.fatbin" || fail "nvcc: $name"
    fi
    for arch in "${amd[@]}"; do
        [ -n "$clang" ] || continue
        "$clang" -x hip --offload-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -fno-exceptions -fno-rtti \
            -ffp-contract=off "${flags[@]}" --offload-arch="$arch" "$source" -o "$work/$name.$arch.co" ||
            fail "$clang: $name"
    done
done
built=("$work"/*.fatbin "$work"/*.co)
for file in "${built[@]}"; do
    [ -e "$file" ] || continue
    "${check[@]}" --cuda-archs 90 --application "$file" >"$work/said" || fail "$(cat "$work/said")"
    compiled=$((compiled + 1))
done
echo "$compiled compilations"
[ "$compiled" -ge "${#sources[@]}" ] || fail "nothing was compiled"
exit "$failed"
