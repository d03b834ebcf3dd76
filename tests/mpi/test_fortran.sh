#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The Fortran module: its cases with `use mpi` and with `use mpi_f08`, on rank counts that divide the grids and that do
# not; an error that nobody looks at ends the job, says why, and loses nothing that was written; the program of the page
# doc/guide.md is what it says; what has the wrong type does not compile.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
[ -e "$top_builddir/libselvage_fortran.la" ] || { echo "SKIP: the Fortran module is not built"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# fortran PROGRAM RANKS: all cases pass, and the log has only the errors that they want.
fortran() {
    "$top_srcdir/scripts/run-mpi" -n "$2" -t 240 "$top_builddir/tests/mpi/fortran_$1" >"$dir/out" 2>&1
    status=$?
    if [ "$status" -eq 0 ] && grep -q "^fortran_$1: [0-9]* checks, 0 failed" "$dir/out" &&
        ! grep -q 'selvage\[.*warn' "$dir/out"; then
        return
    fi
    echo "FAIL: fortran_$1 on $2 ranks: status $status"
    sed 's/^/    /' "$dir/out"
    failed=1
}

for ranks in 1 2 3 4; do fortran mpi "$ranks"; done
if [ -x "$top_builddir/tests/mpi/fortran_f08" ]; then
    for ranks in 1 2 6; do fortran f08 "$ranks"; done
else
    echo "the module mpi_f08 is not usable here: its communicators were not tested"
fi

"$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/fortran_mpi" stop >"$dir/out" 2>&1
status=$?
if [ "$status" -eq 0 ] || ! grep -q 'selvage: SELVAGE_ERR_ARGUMENT: .*peer' "$dir/out" ||
    ! grep -q 'this was written before' "$dir/out" || grep -q 'this must not be written' "$dir/out"; then
    echo "FAIL: an error that nobody looks at: status $status"
    sed 's/^/    /' "$dir/out"
    failed=1
fi

# The program of the guide, linked as one of this build.
awk '/^```fortran$/ { on = 1; next } /^```$/ { on = 0 } on' "$top_srcdir/doc/guide.md" >"$dir/faces.f90"
printf 'rank 0: from below came 1 and 10\nrank 1: from below came 0 and 0\n' >"$dir/wanted"
sanitizer=
[ -z "${SANITIZER:-}" ] || sanitizer="-fsanitize=$SANITIZER"
# shellcheck disable=SC2086  # lists of words
if [ -x "$top_builddir/tests/mpi/fortran_f08" ]; then
    if ! { ${FC:-gfortran} ${FCFLAGS:-} ${MPI_FCFLAGS:-} $sanitizer -I"$top_builddir/fortran" -c "$dir/faces.f90" \
               -o "$dir/faces.o" &&
           "$top_builddir/libtool" --silent --tag=FC --mode=link ${FC:-gfortran} $sanitizer -o "$dir/faces" \
               "$dir/faces.o" "$top_builddir/libselvage_fortran.la" "$top_builddir/libselvage.la" ${MPI_FCLIBS:-} &&
           "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$dir/faces" >"$dir/out" 2>&1 &&
           sort "$dir/out" | cmp -s - "$dir/wanted"; }; then
        echo "FAIL: the Fortran program of the guide"
        cat "$dir/out"
        failed=1
    fi
fi

# Each line of this program that begins with !N! is wrong; without them it compiles, with any of them it must not.
# shellcheck disable=SC2086  # lists of words
compile() { ${FC:-gfortran} ${FCFLAGS:-} -I"$top_builddir/fortran" -c "$1" -o "$dir/refused.o" >"$dir/out" 2>&1; }
cp "$top_srcdir/tests/mpi/fortran_refused.f90" "$dir/right.f90"
if ! compile "$dir/right.f90"; then
    echo "FAIL: the program without its wrong lines does not compile"
    cat "$dir/out"
    failed=1
fi
wrong=0
for n in $(sed -n 's/^ *!\([0-9]*\)!.*/\1/p' "$dir/right.f90"); do
    sed "s/!$n!//" "$dir/right.f90" >"$dir/wrong.f90"
    wrong=$((wrong + 1))
    if compile "$dir/wrong.f90"; then
        echo "FAIL: compiles, and must not: $(sed -n "s/^ *!$n! *//p" "$dir/right.f90")"
        failed=1
    fi
done
[ "$wrong" -gt 0 ] || { echo "FAIL: no wrong lines found"; failed=1; }

echo "test_fortran: $wrong wrong lines refused by the compiler"
exit "$failed"
