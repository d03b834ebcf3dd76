#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The heat example: second order on three grids, the decay of the difference equations to rounding, and the same bits in
# every cell however the cube is cut, by every route, and inside a kernel; uneven blocks, a picture, weak scaling, what
# is refused.
name=heat3d
. "$(dirname "$0")/../fixtures/application_runs.sh"
heat3d() { application "$@"; }

# same RANKS ARGUMENT...: every figure of the tables is the one of a single rank, bits and all.
same() {
    heat3d "$1" 0 "^order 2.0.*: right$" --n 6 "${@:2}"
    grep '\^3 ' "$work/out" | cmp -s - "$work/alone" || fail "other figures than on one rank: $*"
}

in_kernel() { [ "$1" -gt "$(own_gpus)" ] || same "$@" --in-kernel; }

heat3d 1 0 "^order 2.0.*: right$" --n 6
grep '\^3 ' "$work/out" >"$work/alone"
[ "$(wc -l <"$work/alone")" -eq 3 ] || fail "not three grids"
same 4 --dims 1x2x2
in_kernel 2
[ "${BRIEF:-}" != yes ] || finish
alike same 2
alike same 3 --dims 3x1x1
alike same 4 --dims 4x1x1 # 1 or 2 cells along x
alike same 8 --dims 2x2x2
in_kernel 1
in_kernel 4 --dims 4x1x1
in_kernel 6 --dims 3x2x1
for route in peer shared staged; do SELVAGE_ROUTE=$route alike same 4; done
SELVAGE_PROGRESS=thread same 2
SELVAGE_SOFT_MODE=inline same 2

heat3d 2 0 "right$" --n 6 --picture "$work/slice.png"
[ "$(head -c 4 "$work/slice.png" | tail -c 3)" = PNG ] || fail "no picture"
heat3d 4 0 "^with overlap .* %$" --weak 8 --steps 23 --repeats 3
grep -q "^decay after .*: right$" "$work/out" || fail "weak scaling does not compare its answer"

[ "$(own_gpus)" -lt 4 ] || grep -q "^the same in graphs of 10 " "$work/out" || fail "no steps by graphs"
[ "$(own_gpus)" -lt 4 ] || grep -q "^inside one kernel " "$work/out" || fail "no steps inside a kernel"
SELVAGE_ROUTE=staged heat3d 2 0 "^with overlap .* %$" --weak 8 --steps 3 --repeats 3
! grep -q "^inside one kernel " "$work/out" || fail "a kernel exchanges by messages"
SELVAGE_ROUTE=staged heat3d 2 1 "it needs a GPU for each rank" --n 6 --in-kernel
heat3d 2 2 "^usage" --n 3
heat3d 2 2 "^usage" --weak
heat3d 2 2 "not 2 blocks" --dims 3x1x1
heat3d 1 1 "no/where" --n 4 --picture "$work/no/where.png"
heat3d 1 0 "^usage" --help
finish
