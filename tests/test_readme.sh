#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The program of the README is what it says: it is taken from the page, compiled without a warning against the public
# headers, linked with the library of this build, and on 2 ranks each prints the halo that the other filled.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
top_builddir=${top_builddir:-.}
[ -e "$top_builddir/libselvage.la" ] || { echo "SKIP: the library is not built"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

awk '/^```c$/ { on = 1; next } /^```$/ && on { exit } on' "$top_srcdir/README.md" >"$dir/program.c"
lines=$(wc -l <"$dir/program.c")
[ "$lines" -gt 10 ] || { echo "the README has no program"; exit 1; }

sanitizer=
[ -z "${SANITIZER:-}" ] || sanitizer="-fsanitize=$SANITIZER"
system=$(echo "${MPI_CPPFLAGS:-}" | sed 's/\(^\| \)-I/ -isystem /g')
# shellcheck disable=SC2086  # lists of words
{
    ${CC:-cc} -std=gnu11 -Wall -Wextra -Werror $sanitizer -I"$top_srcdir/include" $system -c "$dir/program.c" \
        -o "$dir/program.o" &&
        "$top_builddir/libtool" --silent --tag=CC --mode=link ${CC:-cc} $sanitizer -o "$dir/program" "$dir/program.o" \
            "$top_builddir/libselvage.la" ${MPI_LIBS:-}
} || { echo "the program of the README does not build"; exit 1; }

"$top_srcdir/scripts/run-mpi" -n 2 -t 60 "$dir/program" >"$dir/out" 2>"$dir/err"
status=$?
sort "$dir/out" >"$dir/sorted"
printf 'rank 0: the halo from rank 1 holds 19\nrank 1: the halo from rank 0 holds 9\n' >"$dir/wanted"
if [ "$status" -ne 0 ] || grep -q 'selvage\[' "$dir/err" || ! cmp -s "$dir/sorted" "$dir/wanted"; then
    echo "the program of the README ended with status $status and printed:"
    cat "$dir/out" "$dir/err"
    exit 1
fi
echo "the $lines lines of the README's program build without a warning and are right on 2 ranks"
