#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The Wilson-Dirac example: free quarks against sums over momenta, also where a random gauge transformation makes every
# link a matrix; a random configuration against the dense matrix of wilson_dense.py; the published configuration
# (SELVAGE_LATTICE, or ../shared/data beside the sources; skipped where it is not) against itself on one rank. Each on
# several grids of ranks, with blocks of even and of odd sizes, down to one site.
name=wilson
. "$(dirname "$0")/../fixtures/application_runs.sh"
published=${SELVAGE_LATTICE:-$top_srcdir/../shared/data/lattice/lat.sample.l8888}
unset SELVAGE_LATTICE # the library's variables reach the program; each run names its file
wilson() { application "$@"; }

# correlator OUTPUT: t and C(t).
correlator() { awk '/pion correlator/ { on = 1; next } on { print $1, $2 }' "$1"; }

# equal FILE FILE: as many numbers in both, each within 1e-10 of the other, relatively.
equal() {
    paste -d ' ' "$1" "$2" | awk '
        { d = $2 / $4 - 1; if (NF != 4 || $1 != $3 || !(d < 1e-10 && d > -1e-10)) bad++ }
        END { exit NR == 0 || bad > 0 }'
}

# same WANTED_FILE RANKS GRID ARGUMENT...: the correlator is the one in the file.
same() {
    local wanted=$1 ranks=$2 grid=$3
    shift 3
    wilson "$ranks" 0 "grid $grid," --grid "$grid" "$@"
    correlator "$work/out" >"$work/here"
    equal "$work/here" "$wanted" || fail "another correlator than in $wanted on grid $grid: $*"
}

# Free quarks. The example itself compares, and fails if it must.
sums="sum over momenta"
wilson 4 0 "$sums" --extent 2x4x6x8 --sources 3 --gauge-transform 7
by_way() { [ "$2" -gt "$(own_gpus)" ] || wilson "${@:2}" --way "$1"; } # WAY RANKS ...
by_way kernel 2 0 "$sums" --extent 4x4x4x4 --sources 1 --gauge-transform 7 --hops 14
[ "$(own_gpus)" -lt 2 ] || [ "$(grep -cE '^(host|enqueued|run|run, in graphs of 10|kernel) ' "$work/out")" -eq 5 ] ||
    fail "not five ways"
[ "${BRIEF:-}" != yes ] || finish
alike wilson 1 0 "$sums" --extent 4x4x4x4
alike wilson 2 0 "$sums" --extent 4x4x4x4 --sources 4 --kappa 0.124
alike wilson 8 0 "grid 2x2x2x1" --extent 4x4x4x4 --sources 1 --grid 2x2x2x1 --gauge-transform 8
# 2, 2, 1 and 1 sites along x.
alike wilson 4 0 "grid 4x1x1x1" --extent 6x2x4x2 --sources 3 --grid 4x1x1x1 --gauge-transform 9
alike wilson 6 0 "grid 1x3x1x2" --extent 4x4x2x6 --sources 3 --grid 1x3x1x2 --gauge-transform 10
alike by_way kernel 4 0 "grid 4x1x1x1" --extent 6x2x4x2 --sources 3 --grid 4x1x1x1 --gauge-transform 9
alike by_way kernel 6 0 "grid 1x3x1x2" --extent 4x4x2x6 --sources 3 --grid 1x3x1x2 --gauge-transform 10
alike by_way enqueued 2 0 "$sums" --extent 4x4x4x4 --sources 1 --gauge-transform 7
alike by_way run 2 0 "$sums" --extent 4x4x4x4 --sources 1 --gauge-transform 7
SELVAGE_ROUTE=staged wilson 2 2 "kernels cannot wait" --extent 4x4x4x4 --way kernel
wilson 1 2 "no such way" --extent 4x4x4x4 --way sideways
for route in peer shared staged; do
    SELVAGE_ROUTE=$route alike wilson 4 0 "$sums" --extent 4x4x4x4 --sources 1 --grid 1x1x2x2 --gauge-transform 11
done
SELVAGE_SOFT_MODE=inline wilson 2 0 "$sums" --extent 4x4x4x4 --sources 1 --gauge-transform 11
SELVAGE_PROGRESS=thread wilson 2 0 "$sums" --extent 4x4x4x4 --sources 1 --gauge-transform 12

# A random configuration and the inverse of the whole matrix.
random=$work/random
"$top_srcdir/scripts/run-mpi" -n 1 -t 240 "$top_builddir/examples/plaquette" --write "$random" --extent 2x2x2x4 \
    --seed 5 >"$work/out" 2>&1 || fail "no configuration"
"${PYTHON:-python3}" "$top_srcdir/tests/fixtures/wilson_dense.py" "$random" 0.13 >"$work/dense" ||
    fail "no dense matrix"
same "$work/dense" 1 1x1x1x1 --lattice "$random" --kappa 0.13
alike same "$work/dense" 2 2x1x1x1 --lattice "$random" --kappa 0.13
alike same "$work/dense" 4 1x2x2x1 --lattice "$random" --kappa 0.13
alike same "$work/dense" 4 1x1x1x4 --lattice "$random" --kappa 0.13 --gauge-transform 13
awk 'NR == 2 { $2 = sprintf("%.15e", $2 * (1 + 3e-10)) } 1' "$work/dense" >"$work/other"
equal "$work/other" "$work/dense" && fail "a difference of 3e-10 is not seen"

if [ -r "$published" ]; then
    arguments=(--lattice "$published" --kappa 0.13 --sources 1)
    wilson 1 0 "1.779002154, in time 1.782359288; recorded 1.779002, 1.782359" "${arguments[@]}"
    correlator "$work/out" >"$work/alone"
    same "$work/alone" 8 2x1x2x2 "${arguments[@]}"
    same "$work/alone" 2 1x1x1x2 "${arguments[@]}"
    same "$work/alone" 3 3x1x1x1 "${arguments[@]}" # 3, 3 and 2 sites along x
    same "$work/alone" 4 2x1x2x1 "${arguments[@]}"
else
    echo "SKIP: no published configuration ($published)"
fi

wilson 1 1 "an extent is odd" --extent 4x3x4x4
wilson 1 1 "no-such-file" --lattice "$work/no-such-file"
wilson 2 2 "^usage" --sources 13
wilson 2 2 "^usage" --kappa
wilson 1 0 "^usage" --help
finish
