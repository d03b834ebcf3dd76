#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The cavity example: on 1 to 4 ranks, in every grid of blocks, it comes to the same flow bit for bit, and that flow is
# the published one as well as 32 x 32 cells allow. A halo without its corners is neither, and is seen as wrong.
name=cavity
. "$(dirname "$0")/../fixtures/application_runs.sh"

# cavity RANKS WANTED_STATUS WANTED_TEXT ARGUMENT...: sets `hash` to what is printed.
cavity() {
    application "$@"
    hash=$(sed -n 's/^hash of .* //p' "$work/out")
}

# same RANKS ARGUMENT...: a few hundred steps, which is not steady yet, end as they did on one rank.
same() {
    cavity "$1" 1 "^NOT steady" "${@:2}" --passes 2
    [ "$hash" = "$alone" ] || fail "the flow is $hash on $1 ranks, and $alone on one: ${*:2}"
}

cavity 1 0 "^steady" --cells 32 --picture "$work/flow.png"
steady=$hash
[ -n "$steady" ] || fail "no hash"
[ "$(head -c 4 "$work/flow.png" | tail -c 3)" = PNG ] || fail "no picture"
if [ "${BRIEF:-}" != yes ]; then
    for ranks in 2 3 4; do
        cavity "$ranks" 0 "^steady" --cells 32
        [ "$hash" = "$steady" ] || fail "the steady flow is $hash on $ranks ranks, and $steady on one"
    done
    cavity 4 1 "WRONG" --cells 32 --blocks 2x2 --faces
    [ "$hash" != "$steady" ] || fail "without corners the flow is the same"
fi

cavity 1 1 "^NOT steady" --cells 33 --passes 2
alone=$hash
same 4 --cells 33 --blocks 2x2
[ "${BRIEF:-}" != yes ] || finish
alike same 2 --cells 33 --blocks 2x1
alike same 3 --cells 33 --blocks 1x3
for blocks in 4x1 1x4; do alike same 4 --cells 33 --blocks "$blocks"; done
alike same 6 --cells 33 --blocks 3x2
for route in peer shared staged; do SELVAGE_ROUTE=$route alike same 4 --cells 33; done
SELVAGE_PROGRESS=thread alike same 2 --cells 33

cavity 1 1 "unstable" --re 1000 --cells 16
cavity 2 2 "^usage" --re 400
cavity 2 2 "^usage" --cells 15
cavity 2 2 "^usage" --blocks 2,1
cavity 2 1 "blocks" --blocks 3x1
cavity 1 0 "^usage" --help
finish
