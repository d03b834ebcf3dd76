#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# One stencil in three spellings gives one field, whatever the number of ranks and the route.
name=spellings
. "$(dirname "$0")/../fixtures/application_runs.sh"
field() { sed -n 's/.*: MPI \([0-9a-f]*\), .*/\1/p' "$work/out"; }

application 1 0 ": the same" --n 13 --steps 9
wanted=$(field)
[ -n "$wanted" ] || fail "no digest"
# same RANKS: as one rank alone.
same() {
    application "$1" 0 ": the same" --n 13 --steps 9
    [ "$(field)" = "$wanted" ] || fail "$1 ranks: another field than on one"
}
same 2
same 3
SELVAGE_RANKS_PER_NODE=1 SELVAGE_SEGMENT_BYTES=4096 SELVAGE_MESSAGE_EAGER_BYTES=256 same 2
application 2 2 "usage" --n 0

finish
