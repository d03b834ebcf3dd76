#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each public header compiles alone as C11 and as C++17, with every warning, and twice in one file.
# MPI's own headers come in as system headers: their warnings are not ours.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
system=$(echo "$MPI_CPPFLAGS" | sed 's/\(^\| \)-I/ -isystem /g')
failed=0 count=0
for header in "$top_srcdir"/include/selvage.h "$top_srcdir"/include/selvage/*.h; do
    name=${header#"$top_srcdir"/include/}
    printf '#include <%s>\n#include <%s>\nextern int in_use;\n' "$name" "$name" | tee "$dir/one.c" >"$dir/one.cc"
    # shellcheck disable=SC2086  # lists of words
    $CC -std=c11 -pedantic -Wall -Wextra -Wundef -Werror -I"$top_srcdir/include" $system -c "$dir/one.c" \
        -o "$dir/one.o" || { echo "$name: not C11"; failed=1; }
    # shellcheck disable=SC2086
    $CXX -std=c++17 -pedantic -Wall -Wextra -Wundef -Werror -I"$top_srcdir/include" $system -c "$dir/one.cc" \
        -o "$dir/one.o" || { echo "$name: not C++17"; failed=1; }
    count=$((count + 1))
done
echo "$count headers"
exit "$failed"
