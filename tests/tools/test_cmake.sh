#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The CMake package, in a folder other than the one that was configured: projects in C and in C++, and one in Fortran
# where that module is built, are configured, built and run. Another version, or a component that is not
# there, is refused.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
command -v cmake >/dev/null 2>&1 || { echo "no cmake"; exit 77; }
[ -e "$top_builddir/.libs/libselvage.so" ] || { echo "SKIP: no shared library"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset SELVAGE_MPI_KIND
failed=0
fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$dir/log"
    failed=1
}

# As after an installation, under the names that configure was told.
variable() { sed -n "s/^$1=//p" "$top_builddir/selvage.pc"; }
prefix=$(variable prefix)
resolve() { local exec_prefix=$prefix; eval "echo \"$(variable "$1")\""; }
libdir=$dir/moved$(resolve libdir) includedir=$dir/moved$(resolve includedir)
mkdir -p "$libdir/cmake/Selvage" "$libdir/fortran" "$includedir"
cp "$top_builddir"/SelvageConfig*.cmake "$libdir/cmake/Selvage" || exit 1
for file in "$top_builddir"/.libs/libselvage.so* "$top_builddir"/.libs/libselvage_fortran.so*; do
    [ ! -e "$file" ] || ln -s "$file" "$libdir"
done
for file in "$top_srcdir"/include/selvage{,.h,.hpp}; do ln -s "$file" "$includedir"; done
[ ! -e "$top_builddir/fortran/selvage.mod" ] || ln -s "$top_builddir/fortran/selvage.mod" "$libdir/fortran"

sanitizer=${SANITIZER:+-fsanitize=$SANITIZER}
# project NAME LANGUAGE PACKAGE LIBRARY FILE: configures it.
project() {
    mkdir -p "$dir/$1"
    cp "$dir/$5" "$dir/$1"
    printf '%s\n' "cmake_minimum_required(VERSION 3.13)" "project($1 LANGUAGES $2)" \
        "find_package(Selvage $3 REQUIRED)" "add_executable(program $5)" "target_link_libraries(program $4)" \
        >"$dir/$1/CMakeLists.txt"
    cmake -S "$dir/$1" -B "$dir/$1/build" -DSelvage_DIR="$libdir/cmake/Selvage" -DCMAKE_C_FLAGS="$sanitizer" \
        -DCMAKE_CXX_FLAGS="$sanitizer" -DCMAKE_Fortran_FLAGS="$sanitizer" >"$dir/log" 2>&1
}
# builds NAME LANGUAGE PACKAGE LIBRARY FILE: ... builds it, and it tells the version.
builds() {
    project "$@" || { fail "$1 is not configured"; return; }
    cmake --build "$dir/$1/build" >"$dir/log" 2>&1 || { fail "$1 is not built"; return; }
    "$dir/$1/build/program" >"$dir/log" 2>&1 && grep -q "$(cat "$top_srcdir/VERSION")" "$dir/log" || fail "$1 is wrong"
}
printf '#include <selvage.h>\n#include <stdio.h>\nint main(void) { puts(selvage_version(0, 0, 0)); return 0; }\n' \
    >"$dir/user.c"
printf '#include <selvage.hpp>\n#include <cstdio>\nint main()\n{\n    selvage::device soft("soft");\n%s}\n' \
    '    std::printf("%s %s\n", soft.name(), selvage_version(nullptr, nullptr, nullptr));' >"$dir/user.cc"
printf 'program user\n  use selvage\n  print *, selvage_version()\nend program\n' >"$dir/user.f90"
builds c C "$(cut -d. -f1,2 "$top_srcdir/VERSION")" Selvage::selvage user.c
builds cxx CXX "" Selvage::selvage user.cc
if [ -e "$libdir/fortran/selvage.mod" ]; then
    builds fortran Fortran "COMPONENTS Fortran" Selvage::fortran user.f90
fi
for package in 99 0.0.1 "COMPONENTS Cobol"; do
    ! project refused C "$package" Selvage::selvage user.c || fail "not refused: $package"
    rm -rf "$dir/refused"
done
[ "$failed" -eq 0 ] && echo "projects in C, C++ and Fortran find the package and are right"
exit "$failed"
