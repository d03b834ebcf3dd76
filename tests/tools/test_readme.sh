#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The programs of the README and of doc/guide.md are what these pages say: two are taken from the guide, a third is the
# first with the guide's loop that never waits in place of its own, a fourth calls the function of the README, and a
# fifth is the guide's in C++. All are compiled without a warning against the public headers, linked with the library of
# this build, and on 2 ranks each prints the halo that the other filled.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
[ -e "$top_builddir/libselvage.la" ] || { echo "SKIP: the library is not built"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# block PAGE NUMBER [LANGUAGE]: the C, or C++, of a page, from 1.
block() {
    awk -v wanted="$2" -v fence="\`\`\`${3:-c}" \
        '$0 == fence { on = ++n == wanted; next } /^```$/ { on = 0 } on' "$top_srcdir/$1"
}
block doc/guide.md 1 >"$dir/wait.c"
block doc/guide.md 2 >"$dir/halo.c"
block doc/guide.md 3 >"$dir/loop"
block doc/guide.md 1 c++ >"$dir/cxx.cc"
grep -q 'selvage_exchange_enqueue_wait(ex, stream)' "$dir/loop" || { echo "the guide has no enqueue_wait"; exit 1; }
# The README's function in the guide's program with a halo, in place of its loop.
block README.md 1 >"$dir/function"
grep -q '^selvage_status_t smooth(' "$dir/function" || { echo "the README has no function"; exit 1; }
{ cat "$dir/function"; awk '/^    OK\(selvage_halo_create/ { next } /^    selvage_field_t fields/ { getline; next }
    /^    for \(int step/ { print "    OK(selvage_device_fill(device, u, 10 * rank + 9, bytes, stream));"
                            print "    OK(smooth(grid, u, 10, stream));"; off = 1 }
    !off { gsub(/selvage_halo_destroy\(halo\); /, ""); gsub(/ selvage_halo_t \*halo;/, ""); print }
    off && /^    }$/ { off = 0 }' "$dir/halo.c"; } >"$dir/smooth.c"
awk -v loop="$dir/loop" '/^    for \(int step/ { while ((getline line <loop) > 0) print line; off = 1 }
    !off { print } off && /^    }$/ { off = 0 }' "$dir/wait.c" >"$dir/enqueue.c"
lines=$(cat "$dir/wait.c" "$dir/halo.c" "$dir/loop" "$dir/function" "$dir/cxx.cc" | wc -l)
[ "$(wc -l <"$dir/wait.c")" -gt 10 ] || { echo "the guide has no program"; exit 1; }
grep -q 'halo.wait(stream)' "$dir/cxx.cc" || { echo "the guide has no C++"; exit 1; }
grep -q 'selvage_halo_wait(halo, stream)' "$dir/halo.c" || { echo "the guide has no halo"; exit 1; }
if grep -q enqueue_wait "$dir/wait.c" || [ "$(grep -c 'for (int step' "$dir/enqueue.c")" -ne 1 ]; then
    echo "the two loops of the guide were mixed up"
    exit 1
fi

sanitizer=
[ -z "${SANITIZER:-}" ] || sanitizer="-fsanitize=$SANITIZER"
system=$(echo "${MPI_CPPFLAGS:-}" | sed 's/\(^\| \)-I/ -isystem /g')
printf 'rank 0: the halo from rank 1 holds 19\nrank 1: the halo from rank 0 holds 9\n' >"$dir/wanted"

for program in wait halo enqueue smooth cxx; do
    compiler="${CC:-cc}" tag=CC source=$dir/$program.c flags=-std=gnu11
    [ "$program" != cxx ] || { # with the definitions that selvage.pc has
        compiler="${CXX:-c++}" tag=CXX source=$dir/cxx.cc
        flags="-std=c++11 $(sed -n 's/^Cflags:.* \(-DOMPI[^ ]* -DMPICH[^ ]*\)$/\1/p' "$top_builddir/selvage.pc")"
    }
    # shellcheck disable=SC2086  # lists of words
    {
        $compiler $flags -Wall -Wextra -Werror $sanitizer -I"$top_srcdir/include" $system -c "$source" \
            -o "$dir/$program.o" &&
            "$top_builddir/libtool" --silent --tag=$tag --mode=link $compiler $sanitizer -o "$dir/$program" \
                "$dir/$program.o" "$top_builddir/libselvage.la" ${MPI_LIBS:-}
    } || { echo "the program of the pages ($program) does not build"; exit 1; }

    "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$dir/$program" >"$dir/out" 2>"$dir/err"
    status=$?
    sort "$dir/out" >"$dir/sorted"
    if [ "$status" -ne 0 ] || grep -q 'selvage\[' "$dir/err" || ! cmp -s "$dir/sorted" "$dir/wanted"; then
        echo "the program of the pages ($program) ended with status $status and printed:"
        cat "$dir/out" "$dir/err"
        exit 1
    fi
done
# What is refused is said once by each rank, with the call that met it.
SELVAGE_RETRY_MAX=many "$top_srcdir/scripts/run-mpi" -n 1 -t 240 "$dir/wait" >"$dir/out" 2>"$dir/err"
if [ "$(cat "$dir/out" "$dir/err" | grep -c 'SELVAGE_RETRY_MAX is "many"')" -ne 1 ] ||
    ! grep -q '^failed: selvage_comm_create(MPI_COMM_WORLD, NULL, &comm)' "$dir/err"; then
    echo "a failing call is not said once, with its name:"
    cat "$dir/out" "$dir/err"
    exit 1
fi
echo "the $lines lines of the pages' programs build without a warning and are right on 2 ranks: waiting, enqueued," \
    "with a halo, by the README's function, and in C++"
