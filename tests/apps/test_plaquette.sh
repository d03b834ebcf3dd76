#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The lattice example on 1, 2, 3, 4, 8 and 16 ranks and on every route: on lattices it writes itself, against its serial
# computation, and on the published configuration (SELVAGE_LATTICE, or ../shared/data beside the sources), against the
# published values. Where that file is not there, its part is skipped.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
example=$top_builddir/examples/plaquette
published=${SELVAGE_LATTICE:-$top_srcdir/../shared/data/lattice/lat.sample.l8888}
unset SELVAGE_LATTICE # the library's variables reach the program; each run names its file
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$example" ] || { echo "SKIP: $example is not built"; exit 77; }
runs=0 failed=0
# shellcheck source=tests/fixtures/direct_here.sh
. "$top_srcdir/tests/fixtures/direct_here.sh"
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
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$example" "$@" >"$work/out" 2>&1 ||
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

# Each rank count, each grid and each route by each number of ranks with one of two files at least; starting ranks costs
# more than what they compute.

most=8 all=16
[ "${BRIEF:-}" != yes ] || most=4 all= # without it the larger grids as well

# one_half FILE WANTED_TEXT: the largest grid and the smallest by every route, and ranks that no grid pleases.
one_half() {
    local file=$1 wanted=$2 ranks route
    on_route self 1 "$wanted
^routes *self 4$
halo *4 packets verified, .* 0 bad, 0 sent again" --lattice "$file"
    for ranks in 3 $most; do
        plaquette "$ranks" "$wanted
halo *$((4 * ranks)) packets verified, .* 0 bad, 0 sent again" --lattice "$file"
    done
    for route in peer shared staged $direct; do
        on_route "$route" 2 "$wanted
^routes .*$route [28]$" --lattice "$file" --grid 2x1x1x1 --route "$route"
        case ${BRIEF:-}:$route in yes:*|cases:peer|cases:shared) continue ;; esac
        on_route "$route" 16 "$wanted
^routes *$route 64$
halo *64 packets verified, .* 0 bad, 0 sent again" --lattice "$file" --grid 2x2x2x2
    done
}

# other_half FILE WANTED_TEXT: what is left to the library to choose, 4 ranks by every route, and two grids.
other_half() {
    local file=$1 wanted=$2 ranks route
    for ranks in 1 2 $all; do
        plaquette "$ranks" "$wanted
halo *$((4 * ranks)) packets verified, .* 0 bad, 0 sent again" --lattice "$file"
    done
    for route in peer shared staged $direct; do
        on_route "$route" 4 "$wanted
^routes .*$route
halo *16 packets verified, .* 0 bad, 0 sent again" --lattice "$file"
    done
    plaquette 4 "$wanted
grid 2x1x2x1" --lattice "$file" --grid 2x1x2x1
    plaquette 8 "$wanted
grid 2x2x2x1" --lattice "$file" --grid 2x2x2x1
}

own=$work/random.l8888 own_text="computed *serial *difference"
plaquette 1 "wrote" --write "$own"
one_half "$own" "$own_text"
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
    other_half "$published" "$values"
else
    echo "SKIP: no published configuration ($published)"
    other_half "$own" "$own_text"
fi

echo "test_plaquette: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
