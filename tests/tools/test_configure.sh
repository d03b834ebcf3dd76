#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What configure decides about GPUs, by compilers and runtimes that are stand-ins. auto builds device code where both
# are there, and says what is missing otherwise; --with-hip=compiler is content with a compiler; what is asked for by
# yes or by a path, and cannot be had, is an error.
set -u
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
[ -z "${SANITIZER:-}" ] || { echo "SKIP: configure decides the same without a sanitizer"; exit 77; }
[ -x "$top_srcdir/configure" ] || { echo "SKIP: there is no configure"; exit 77; }
[ ! -e "$top_srcdir/config.status" ] || { echo "SKIP: this tree is configured in place"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }

# Compilers that compile anything, ahead of all others; headers that hide the machine's own.
mkdir -p "$dir/bin" "$dir/cuda/bin" "$dir/toolkit/bin" "$dir/hidden/hip"
for compiler in bin/amdclang++ cuda/bin/nvcc toolkit/bin/nvcc; do
    printf '#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" != -o ] || : >"$2"; shift; done\n' >"$dir/$compiler"
    chmod +x "$dir/$compiler"
done
echo '#error there is no HIP' >"$dir/hidden/hip/hip_runtime_api.h"
library() { # FOLDER NAME FUNCTION
    mkdir -p "$1"
    echo "int $3(void); int $3(void) { return 0; }" >"$dir/$3.c"
    # shellcheck disable=SC2086  # the compiler may have options
    ${CC:-cc} -fPIC -shared -Wl,-soname,"$2" -o "$1/${2%.so*}.so" "$dir/$3.c"
}
mkdir -p "$dir/rocm/hip" "$dir/toolkit/include"
echo 'int hipGetLastError(void);' >"$dir/rocm/hip/hip_runtime_api.h"
library "$dir/rocm" libamdhip64.so.6 hipGetLastError
echo 'int cudaGetLastError(void);' >"$dir/toolkit/include/cuda_runtime_api.h"
echo 'int cuInit(unsigned flags);' >"$dir/toolkit/include/cuda.h"
library "$dir/toolkit/lib64/stubs" libcuda.so cuInit
# shellcheck disable=SC2086
echo 'int cudaGetLastError(void); int cudaGetLastError(void) { return 0; }' | ${CC:-cc} -x c -c -o "$dir/cudart.o" - &&
    ar rc "$dir/toolkit/lib64/libcudart_static.a" "$dir/cudart.o" || fail "no stand-in for a runtime"

# configured NAME HEADERS OPTION...: its summary is in $dir/NAME/log, its status is that of the function. HEADERS are
# those of HIP's stand-in, or what hides HIP.
configured() {
    mkdir -p "$dir/$1"
    (cd "$dir/$1" && PATH=$path C_INCLUDE_PATH=$dir/$2 CONFIG_SHELL=/bin/sh \
        "$top_srcdir/configure" --quiet --cache-file="$dir/cache" --with-fortran=no --with-hwloc=no --with-ucx=no \
        --disable-dependency-tracking CC="${CC:-cc}" CXX="${CXX:-c++}" MPIRUN=none \
        LDFLAGS="-L$dir/rocm" "${@:3}") >"$dir/$1/log" 2>&1
}
# says NAME PATTERN: a line of the summary, or of what stopped it.
says() {
    grep -qE "$2" "$dir/$1/log" || { tail -n 24 "$dir/$1/log"; fail "$1: nothing is said as $2"; }
}
# has NAME VARIABLE VALUE: in its Makefile.
has() {
    grep -qxF "$2 = $3" "$dir/$1/Makefile" || { grep "^$2 = " "$dir/$1/Makefile"; fail "$1: $2 is not '$3'"; }
}

path=$dir/cuda/bin:$dir/bin:$PATH
configured bare hidden || fail "auto with compilers alone"
has bare HIP_CLANG ''
has bare NVCC ''
says bare "AMD kernels +no: $dir/bin/amdclang\+\+, but no HIP runtime with headers"
says bare "NVIDIA kernels +no: $dir/cuda/bin/nvcc, but no CUDA runtime with headers in $dir/cuda"
grep -qF "SELVAGE_NO_CUDA_TEXT \"configured --with-cuda=auto; $dir/cuda/bin/nvcc, but no CUDA" "$dir/bare/config.h" ||
    fail "the library would not say why it has no NVIDIA plug-in"

path=$dir/toolkit/bin:$dir/bin:$PATH
configured both rocm || fail "auto with both runtimes"
has both HIP_CLANG "$dir/bin/amdclang++"
has both HIP_SOVERSION 6
has both NVCC "$dir/toolkit/bin/nvcc"
says both 'AMD device +plug-in for libamdhip64.so.6'

configured compiler hidden --with-hip=compiler --with-cuda=no || fail "--with-hip=compiler"
has compiler HIP_CLANG "$dir/bin/amdclang++"
has compiler HIP_SOVERSION ''
has compiler NVCC ''

if configured yes hidden --with-hip=yes --with-cuda=no; then fail "--with-hip=yes without HIP"; fi
says yes 'error: --with-hip=yes: hip/hip_runtime_api.h or libamdhip64 is missing'
if configured path hidden --with-hip=no --with-cuda="$dir/cuda"; then fail "--with-cuda=PATH without CUDA"; fi
says path "error: --with-cuda=$dir/cuda: $dir/cuda/bin/nvcc, but no CUDA runtime with headers in $dir/cuda"
exit "$failed"
