#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Staged messages between nodes in fragments: each way to send and to receive them, calls that block between their
# beginning and their end, receives that are too short or are given up, and how long a message takes with them and
# without. The nodes are virtual ones, of a rank each.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$top_srcdir/tests/fixtures/unmodified.sh"
export SELVAGE_RANKS_PER_NODE=1 SELVAGE_REPORT=1 SELVAGE_DROPIN_SYNC=default
export SELVAGE_DROPIN_LONG_BYTES=64K SELVAGE_DROPIN_FRAGMENT_BYTES=16K

# With BRIEF=yes, where other tests have the route in its other mode, there is nothing to be seen here.
[ "${BRIEF:-}" != yes ] || exit 77
program 2 fragments-in-each-way '^ +0 +1 +MPI_Isend +fragments +[1-9]'
[ -n "${BRIEF:-}" ] || program 3 fragments-in-each-way '^ +1 +2 +MPI_Start +fragments +[1-9]'
program 2 fragments-in-each-way '^ +0 +1 +MPI_Isend +fragments +[1-9]' SELVAGE_DROPIN_SYNC=auto \
    SELVAGE_DROPIN_FRAGMENT_BYTES=1000
# none WHY: the last program has sent nothing in fragments
none() { ! grep -q ' fragments ' "$dir/out" || { cat "$dir/out"; echo "FAIL: fragments $1"; failed=1; }; }
# Where nothing is pinned, what is sent is staged as a whole.
program 2 fragments-in-each-way '^ +0 +1 +MPI_Isend +staged +[1-9]' SELVAGE_DROPIN_POOL_BYTES=0
none "of memory that is not pinned"
# Who has sent what is received by its handle is not known.
program 3 fragments-matched '^ +1 +0 +MPI_Send +staged +12 '
none "without an invitation"
# Senders of host memory are not invited.
program 2 fragments-of-host '^ +0 +1 +MPI_Send +staged +1 '
none "of a rank that has not asked"
# Of the twelve messages the six whose receiver pauses are under way in fragments when it blocks, and most others are.
program 2 fragments-and-blocked-calls '^ +0 +1 +MPI_Send +fragments +([6-9]|1[0-2]) '
[ -n "${BRIEF:-}" ] || program 4 fragments-and-blocked-calls '^ +0 +3 +MPI_Send +fragments +[1-9]'
program 3 fragments-in-turn '^ +1 +0 +MPI_Send +fragments +2 '
program 2 fragments-too-long '^ +0 +1 +MPI_Isend +fragments +24 '
program 2 fragments-freed '^ +0 +1 +MPI_Isend +fragments +2 '
# Off, and where threads may be blocked in MPI, nothing goes in fragments.
for setting in SELVAGE_DROPIN_LONG_BYTES=0 SELVAGE_DROPIN_FAST=off; do
    program 2 fragments-freed '^ +0 +1 +MPI_Isend +staged +2 ' "$setting"
done
# They are off where nobody has asked for them.
program 2 fragments-freed '^ +0 +1 +MPI_Isend +staged +2 ' --unset=SELVAGE_DROPIN_LONG_BYTES
none "by default"

# took SETTING: how long a message takes where a link of 2 GB/s is modelled in each direction
took() {
    program 2 fragments-timed 'takes [0-9]+ us' SELVAGE_SOFT_D2H_GBS=2 SELVAGE_SOFT_H2D_GBS=2 \
        SELVAGE_DROPIN_FRAGMENT_BYTES=auto "$1"
    us=$(sed -n 's/^a message of .* takes \([0-9]*\) us$/\1/p' "$dir/out")
}
if [ "$SELVAGE_DEVICE" = soft ]; then
    took SELVAGE_DROPIN_LONG_BYTES=0
    whole=${us:-0}
    took SELVAGE_DROPIN_LONG_BYTES=512K
    echo "a message of 8 MiB takes ${us:-0} us in fragments, and $whole us as a whole"
fi
exit "$failed"
