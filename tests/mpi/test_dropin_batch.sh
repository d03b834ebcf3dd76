#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Sends that the drop-in batches: their order among all others, before calls of each kind, and how they end. Messages
# that lie side by side in device memory: how many copies they take, and that each brings its own bytes and no others.
# Receives beside the program's work.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
export SELVAGE_DEVICE=${SELVAGE_DEVICE:-soft} SELVAGE_DROPIN_SYNC=default SELVAGE_REPORT=on

# batch WHAT [VARIABLE=VALUE...]: runs dropin_batch, whose output is then in $dir/out
batch() {
    local what=$1
    shift
    env "$@" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/dropin_batch" "$what" \
        >"$dir/out" 2>&1 ||
        { cat "$dir/out"; echo "FAIL: $what $*"; failed=1; }
}
says() {
    grep '^skipped: ' "$dir/out" || grep -Eq "$1" "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: no \"$1\""; failed=1; }
}
says_not() { ! grep -Eq "$1" "$dir/out" || { cat "$dir/out"; echo "FAIL: \"$1\""; failed=1; }; }

for what in order blocks errors fails ends; do
    batch "$what"
    says '^selvage-mpi: [1-9][0-9]* of the staged sends were batched, in [1-9][0-9]* batches$'
done
# Two ranks send 1000 each, in batches of 256 at most.
batch many
says '^selvage-mpi: 2000 of the staged sends were batched, in 8 batches$'
batch many SELVAGE_DROPIN_POOL_BYTES=0 # nothing is pinned
says_not batched
# Nothing is batched where another thread may be blocked in MPI, or where another policy holds.
batch threads
says_not batched
batch order SELVAGE_PROGRESS=thread
says_not batched
batch order SELVAGE_DROPIN_SYNC=auto
says_not batched
modes="on auto"
case ${BRIEF:-} in
cases) modes=auto ;;
yes) modes=on ;;
esac
# Beside messages from device to device.
for mode in $modes; do
    for what in order blocks ends; do
        batch "$what" SELVAGE_JOB=test SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
        says 'batched, in'
    done
done
# Persistent sends, for some of which the route has no room.
batch starts SELVAGE_JOB=test SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_MESSAGE_BUFFER_BYTES=0
says 'MPI_Start +fast '
says 'MPI_Start +staged '
# Where the route does not lead to the other rank, it breaks up no batch.
for setting in SELVAGE_ROUTE=staged SELVAGE_RANKS_PER_NODE=1; do
    batch unshared SELVAGE_JOB=test SELVAGE_DROPIN_FAST_BYTES=1024 $setting
    says '^selvage-mpi: 64 of the staged sends were batched, in 1 batches$'
done
# Copies of 64 messages are waited for once where they are sent, and a few times where they land.
batch lands SELVAGE_TRACE="$dir/lands"
"${PYTHON:-python3}" - "$dir/lands.calls" <<'END' || { echo "FAIL: the copies of 64 messages"; failed=1; }
import json, sys
copies = [(e['pid'], e['args']['bytes']) for e in json.load(open(sys.argv[1]))['traceEvents'] if e['name'] == 'copy']
assert (0, 64 * 520) in copies, copies
landed = [n for pid, n in copies if pid == 1 and n % 520 == 0]
assert sum(landed) == 64 * 520 and len(landed) <= 8, copies
END
# Receives come after work that still reads the memory, and do not wait for it in their calls.
order() { # WHAT [VARIABLE=VALUE...]
    local what=$1 status=0
    shift
    env "$@" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/dropin_order" "$what" \
        >"$dir/out" 2>&1 || status=$?
    case $status in 0|77) ;; *) cat "$dir/out"; echo "FAIL: dropin_order $what $*"; failed=1 ;; esac
}
order reads
order reads SELVAGE_DROPIN_POOL_BYTES=0 # nothing is pinned
order reads SELVAGE_JOB=test SELVAGE_DROPIN_FAST_BYTES=1024
order reads SELVAGE_JOB=test SELVAGE_DROPIN_FAST=on SELVAGE_DROPIN_FAST_BYTES=1024
order reads SELVAGE_DROPIN_SYNC=device
fragments="SELVAGE_JOB=test SELVAGE_RANKS_PER_NODE=1 SELVAGE_DROPIN_LONG_BYTES=64K SELVAGE_DROPIN_FRAGMENT_BYTES=16K"
# shellcheck disable=SC2086
for what in reads goes; do
    order "$what" $fragments
    [ "$SELVAGE_DEVICE" != soft ] || says '^ +0 +1 +MPI_I?[Ss]end +fragments +[1-9]'
done
order many
order returns
order ends
# rows DOWN UP WHAT [VARIABLE=VALUE...]: so many copies from device memory and at most so many to it, besides the two
# of each that each rank makes at its beginning; - for any number
rows() {
    local down=$1 up=$2 status=0 seen what
    read -ra what <<<"$3"
    shift 3
    env "$@" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/dropin_rows" "${what[@]}" \
        >"$dir/out" 2>&1 || status=$?
    [ "${what[0]},$status" = order,77 ] && return
    grep '^skipped: ' "$dir/out" && [ "$status" -eq 0 ] && return
    seen=$(sed -n 's/^selvage-mpi: memory was copied \(.*\) times from the device, \(.*\) times to it$/\1 \2/p' \
        "$dir/out")
    if [ "$status" -ne 0 ] || [ -z "$seen" ] || { [ "$down" != - ] && [ $((${seen% *} - 2)) -ne "$down" ]; } ||
        { [ "$up" != - ] && [ $((${seen#* } - 2)) -gt "$up" ]; }; then
        cat "$dir/out"
        echo "FAIL: ${what[*]} $*: copies \"$seen\", not $down and $up"
        failed=1
    fi
}
# Twice 64 messages of 520 bytes. The first of a row cannot know that it is one, and then a copy is for all.
rows 4 16 adjacent
rows 12 18 fields
rows 2 16 same
rows 4 128 parts
rows 8 16 overlaps
rows 36 36 short
rows 2 - order
rows 128 128 apart
rows 128 128 backwards
# Of 15000 bytes, 34 of which are one copy.
rows 6 40 long
# Two allocations are never one copy, though they lie side by side.
if [ "$SELVAGE_DEVICE" = soft ]; then
    rows 64 64 borders
    says '^63 neighbours$'
fi
rows - - truncated
rows - - kept
# A device that refuses such a copy gets a copy for each message. One that fails ends the program.
rows 132 137 refused
! "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/dropin_rows" broken >"$dir/out" 2>&1 ||
    { cat "$dir/out"; echo "FAIL: a device that fails"; failed=1; }
says_not '^dropin_rows: ' # what the launcher still prints of the reason is chance
rows - - threads
rows 128 128 adjacent SELVAGE_DROPIN_POOL_BYTES=0 # nothing is pinned
for sync in auto device; do
    rows - - adjacent SELVAGE_DROPIN_SYNC=$sync
done
seeds="1 2"
[ -z "${BRIEF:-}" ] || seeds=1
for seed in $seeds; do
    rows - - "random $seed"
    for mode in $modes; do
        rows - - "random $seed" SELVAGE_JOB=test SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024
    done
done
# Random messages, whose contents MPI's own calls say.
case ${BRIEF:-} in
cases) seeds=21 ;;
yes) seeds=22 ;;
*) seeds="21 22" ;;
esac
for seed in $seeds; do
    "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/dropin_messages" "$seed" 200 "" \
        >"$dir/out" 2>&1 || { cat "$dir/out"; echo "FAIL: dropin_messages, seed $seed"; failed=1; }
    says 'batched, in'
done
# From Fortran, whose calls may not pass by C's.
for program in mpifh usempi f08; do
    [ -x "$top_builddir/tests/mpi/dropin_$program" ] || continue
    "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/dropin_$program" "" "" "$dir" >"$dir/out" 2>&1 ||
        { cat "$dir/out"; echo "FAIL: dropin_$program"; failed=1; }
    says 'batched, in'
done
exit "$failed"
