#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The heat bath: the same plaquettes and the same bits of every link on every grid of ranks, even and uneven, and by
# every route; the strong coupling series; a configuration that reads back with the plaquettes that were measured.
name=quenched
. "$(dirname "$0")/../fixtures/application_runs.sh"
reader=$top_builddir/examples/plaquette
unset SELVAGE_LATTICE
quenched() { application "$@"; }

# Plaquettes and hashes of the last run.
values() { awk '/^(cold|hot) / { print $1, $2, $5 }' "$work/out"; }

# same NAME GRID RANKS ARGUMENT...: the values of the first run of this name, to the last digit.
same() {
    local name=$1 grid=$2 ranks=$3
    shift 3
    quenched "$ranks" 0 "grid $grid" --grid "$grid" "$@"
    if [ ! -e "$work/$name" ]; then
        values >"$work/$name"
        [ -s "$work/$name" ] || fail "no values: $*"
    else
        values | cmp -s - "$work/$name" || fail "$grid: other values than 1x1x1x1, $(cat "$work/$name")"
    fi
}

even=(--extent 4x4x4x4 --sweeps 3 --thermalise 0 --relax 1)
same even 1x1x1x1 1 "${even[@]}"
[ "$(awk '{ print $3 }' "$work/even" | sort -u | wc -l)" -eq 2 ] || fail "two starts, but not two hashes"
same even 2x1x2x1 4 "${even[@]}"
[ "${BRIEF:-}" != yes ] || finish
alike same even 2x1x1x1 2 "${even[@]}"
alike same even 1x1x1x2 2 "${even[@]}"
alike same even 1x4x1x1 4 "${even[@]}"
alike same even 2x2x2x1 8 "${even[@]}"
alike same even 1x1x1x1 1 "${even[@]}" --device soft # where there is a GPU, the others ran on it
quenched 8 0 "grid" "${even[@]}" # the library's own choice
values | cmp -s - "$work/even" || fail "other values on 8 ranks"
for route in peer shared staged; do
    SELVAGE_ROUTE=$route alike same even 1x2x2x1 4 "${even[@]}"
done

# Blocks of 1 and 2 sites, in which every link is another rank's halo.
uneven=(--extent 6x4x2x6 --sweeps 2 --thermalise 0 --relax 1 --start hot)
same uneven 1x1x1x1 1 "${uneven[@]}"
alike same uneven 4x1x1x1 4 "${uneven[@]}"
alike same uneven 1x3x2x1 6 "${uneven[@]}"

# Another seed is another chain.
quenched 1 0 "nothing is compared" "${even[@]}" --seed 2
! values | grep -q -F -f <(awk '{ print $3 }' "$work/even") || fail "seed 2 has the hash of seed 1"

# Physics: what is known at strong coupling, and that cold and hot start meet.
strong=(--extent 4x4x4x4 --beta 0.5 --sweeps 60 --thermalise 10 --relax 1)
quenched 2 0 "cold and hot start differ by: .* standard deviations$" "${strong[@]}"
grep -q "^mean and known value differ by: .* standard deviations$" "$work/out" || fail "no comparison"
awk '/^mean / { if ($3 > 0 && $3 < 0.002 && $2 - 0.028935 < 0.003 && 0.028935 - $2 < 0.003) good = 1 }
     END { exit !good }' "$work/out" || fail "not the strong coupling series"

# Starts that have not met are told: hardly thermalised from either end, at weak coupling.
quenched 1 1 "cold and hot start differ by: .* WRONG$" --extent 4x4x4x4 --beta 100 --sweeps 32 --thermalise 10 --relax 0

# A configuration, written by 4 ranks and by 1, is one file; the reader's plaquettes are those in its .info.
quenched 4 0 "^cold" "${even[@]}" --grid 2x1x1x2 --start cold --save "$work/four"
quenched 1 0 "^cold" "${even[@]}" --start cold --save "$work/one"
cmp "$work/four" "$work/one" || fail "the configuration depends on the ranks"
runs=$((runs + 1))
"$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$reader" --lattice "$work/four" >"$work/out" 2>&1 ||
    fail "the reader refuses"
[ "$(grep -c 'reference\|plaquette \|trace ' "$work/out")" -ge 4 ] || fail "no table"
quenched 2 1 "^quenched: .*/no/where" "${even[@]}" --start cold --save "$work/no/where"

# What makes no sense.
quenched 2 2 "extent needs four even numbers" --extent 4x4x3x4
quenched 1 2 "extent needs four even numbers" --extent 4x4x4
quenched 1 2 "2^28 sites" --extent 256x256x256x256
quenched 1 2 "start is both, cold or hot" --start warm
quenched 1 2 "no such option: --bata" --bata 6
quenched 1 2 "beta cannot be -1" --beta -1
quenched 1 0 "usage: quenched" --help
quenched 3 1 "blocks" "${even[@]}" --grid 2x1x1x1
finish
