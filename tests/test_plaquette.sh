#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The lattice example on 1, 2, 3, 4, 8 and 16 ranks and on every route: on lattices it writes itself, against its serial
# computation, and on the published configuration (SELVAGE_LATTICE, or ../shared/data beside the sources), against the
# published values. Where that file is not there, its part is skipped.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
top_builddir=${top_builddir:-.}
example=$top_builddir/examples/plaquette
published=${SELVAGE_LATTICE:-$top_srcdir/../shared/data/lattice/lat.sample.l8888}
unset SELVAGE_LATTICE # the library's variables reach the program; each run names its file
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$example" ] || { echo "SKIP: $example is not built"; exit 77; }
runs=0 failed=0
# shellcheck source=tests/direct_here.sh
. "$top_srcdir/tests/direct_here.sh"
direct=$(direct_here)

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out"
    failed=$((failed + 1))
}

# plaquette RANKS WANTED_TEXT ARGUMENT...: must succeed, and print each line of WANTED_TEXT somewhere.
plaquette() {
    local ranks=$1 wanted=$2 line
    shift 2
    runs=$((runs + 1))
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 120 "$example" "$@" >"$work/out" 2>&1 ||
        { fail "exit status $? on $ranks ranks, ${SELVAGE_ROUTE:-auto}: $*"; return; }
    while read -r line; do
        grep -q -- "$line" "$work/out" || fail "no '$line' on $ranks ranks, ${SELVAGE_ROUTE:-auto}: $*"
    done <<<"$wanted"
}

# on_route ROUTE RANKS WANTED_TEXT ARGUMENT...: the same with one route forced for packets to other ranks.
on_route() {
    local -x SELVAGE_ROUTE=$1
    shift
    plaquette "$@"
}

# every_way FILE WANTED_TEXT: rank counts, grids and routes.
every_way() {
    local file=$1 wanted=$2 ranks route
    for ranks in 1 2 3 4 8 16; do
        plaquette "$ranks" "$wanted
halo *$((4 * ranks)) packets verified, .* 0 bad, 0 sent again" --lattice "$file"
    done
    plaquette 4 "$wanted
grid 2x1x2x1" --lattice "$file" --grid 2x1x2x1
    plaquette 8 "$wanted
grid 2x2x2x1" --lattice "$file" --grid 2x2x2x1
    on_route self 1 "$wanted
^routes *self 4$" --lattice "$file"
    for route in peer shared staged $direct; do
        on_route "$route" 2 "$wanted
^routes .*$route [28]$" --lattice "$file" --grid 2x1x1x1 --route "$route"
        on_route "$route" 4 "$wanted
^routes .*$route" --lattice "$file"
        on_route "$route" 16 "$wanted
^routes *$route 64$" --lattice "$file" --grid 2x2x2x2
    done
}

own=$work/random.l8888
plaquette 1 "wrote" --write "$own"
every_way "$own" "computed *serial *difference"
grep -q '^space-space plaquette' "$work/out" || fail "no table"

# Sizes that no grid divides, directions of one site, another seed, and the other byte order: the same numbers.
plaquette 1 "wrote" --write "$work/uneven" --extent 5x1x3x7 --seed 7
plaquette 6 "computed *serial" --lattice "$work/uneven" --grid 2x1x1x3
plaquette 3 "computed *serial" --lattice "$work/uneven"
sed -n '/plaquette\|trace/p' "$work/out" | awk '{ print $1, $(NF - 2) }' >"$work/native"
plaquette 1 "wrote" --write "$work/uneven" --extent 5x1x3x7 --seed 7 --other-byte-order
plaquette 2 "other byte order" --lattice "$work/uneven"
sed -n '/plaquette\|trace/p' "$work/out" | awk '{ print $1, $(NF - 2) }' | cmp -s - "$work/native" ||
    fail "the other byte order gives other numbers"

if [ -r "$published" ]; then
    values="computed *reference *difference
^space-space plaquette *1.779002 *1.779002
^space-time plaquette *1.782359 *1.782359
^link trace *-0.000646 *-0.000646"
    case $published in
    *lat.sample.l8888) ;;
    *) values="computed" ;; # somebody's own configuration: the example compares it itself
    esac
    if [ -z "${SANITIZER:-}" ]; then
        every_way "$published" "$values"
    else
        plaquette 4 "$values" --lattice "$published" # every way was gone with the lattice of its own
    fi
else
    echo "SKIP: no published configuration ($published)"
fi

echo "test_plaquette: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
