#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Packets hurt after their digest, more than 10,000 on every route (2,500 with sanitizers, 1,000 with BRIEF):
# flipped bits, swaps, replays of the last epoch, cut tails, losses, delays, doubles. All must be detected and
# recovered, and no element may be wrong after a wait. With checks off the same flips must reach the application: the
# proof that the faults are real and the comparison works.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/fault_driver
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$driver" ] || { echo "SKIP: $driver is not built"; exit 77; }
wanted=10000 epochs=40 runs=0 failed=0
[ -z "${SANITIZER:-}${BRIEF:-}" ] || wanted=2500 epochs=10
[ -z "${BRIEF:-}" ] || wanted=1000 epochs=4

fail() {
    echo "FAIL: $*"
    tail -n 40 "$work/out" | sed 's/^/    /'
    cat "$work/err" "$work"/log.* 2>/dev/null | grep -v '^ *-[0-9]' | head -n 20 | cut -c 1-400 | sed 's/^/    /'
    failed=$((failed + 1))
}

# drive WANTED_STATUS ARGUMENT...: on two ranks, where both neighbours are the same rank. Adds to "$work/counts".
drive() {
    local status=$1 got strange
    shift
    runs=$((runs + 1))
    rm -f "$work"/log.*
    FAULT_DRIVER_LOG=$work/log SELVAGE_TIMEOUT_S=${SELVAGE_TIMEOUT_S:-40} SELVAGE_SEGMENT_BYTES=8192 \
        SELVAGE_KERNEL_COPY_MAX_BYTES=4096 SELVAGE_DIRECT_MESSAGE_BYTES=16384 \
        bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$driver" --route "$route" --seed "$seed" "$@" \
        >"$work/out" 2>"$work/err"
    got=$?
    if [ "$got" -ne "$status" ]; then fail "status $got, wanted $status: $route $*"; fi
    if [ "$(ls "$work"/log.* | wc -l)" -ne "$ranks" ]; then fail "not a log of each rank: $route $*"; fi
    if grep -hq '\] error:' "$work/err" "$work"/log.*; then fail "an error on the log: $route $*"; fi
    if strange=$(grep -h '\] warn:' "$work/err" "$work"/log.* | grep -v ' warn: recovery: '); then
        fail "a strange warning: $route $*: $strange"
    fi
    grep -E "^($route|total): " "$work/out"
    sed -n 's/^total: //p' "$work/out" >>"$work/counts"
}

# count WORDS: the sum of the numbers after WORDS over the route's runs.
count() { grep -oE "$1 [0-9]+" "$work/counts" | awk '{ sum += $NF } END { print sum + 0 }'; }

# shellcheck source=tests/fixtures/direct_here.sh
. "$top_srcdir/tests/fixtures/direct_here.sh"
direct=$(direct_here)

ranks=2 seed=1
sizes=(--packets 20 --bytes 601,6000,20000)
for route in self peer shared staged $direct; do
    : >"$work/counts"
    # Damage is asked for at once. Only what does not come depends on the timeout, and a rank that does not get to run
    # for a while must not pass for that: what it sends again takes the place of damage that nobody has looked at.
    SELVAGE_RETRY_TIMEOUT_MS=10000 drive 0 "${sizes[@]}" --epochs $epochs --each flip,swap,truncate
    SELVAGE_RETRY_TIMEOUT_MS=5 drive 0 "${sizes[@]}" --epochs $epochs --each replay,drop,delay,duplicate
    injected=$(count injected) recovered=$(count recovered) silent=$(count 'silent wrong elements')
    echo "$route: injected $injected, recovered $recovered, silent wrong elements $silent"
    [ "$injected" -ge "$wanted" ] || fail "only $injected faults on route $route"
    [ "$recovered" -eq "$injected" ] || fail "$recovered of $injected recovered on route $route"
    [ "$silent" -eq 0 ] || fail "$silent silent wrong elements on route $route"
done

# All kinds at once, three ranks, every attempt but the last ones hurt again and again.
mixed=flip=0.08,swap=0.08,replay=0.08,truncate=0.08,drop=0.08,delay=0.08,duplicate=0.08,delay_ms=8,attempts=3,epochs=15
ranks=3
for route in peer staged $direct; do
    SELVAGE_RETRY_TIMEOUT_MS=5 SELVAGE_FAULT=$mixed,seed=7 drive 0 "${sizes[@]}" --epochs 15
done
route=peer
SELVAGE_RETRY_TIMEOUT_MS=5 SELVAGE_FAULT=$mixed,seed=8 drive 0 "${sizes[@]}" --epochs 15 --registered 1
route=staged
SELVAGE_RETRY_TIMEOUT_MS=5 SELVAGE_FAULT=$mixed,seed=9 SELVAGE_RANKS_PER_NODE=1 drive 0 "${sizes[@]}" --epochs 15

# Controls: without checks wrong data are delivered; a policy that does not retry returns the error on every rank.
ranks=2
for route in self peer shared staged $direct; do
    SELVAGE_CHECKSUM=off SELVAGE_FAULT=flip=0.5 drive 0 "${sizes[@]}" --epochs 5 --expect wrong
done
route=staged
SELVAGE_CHECKSUM=off SELVAGE_FAULT=flip=0.5 drive 1 "${sizes[@]}" --epochs 5 --expect retry
SELVAGE_LOG=none SELVAGE_CHECKSUM=report SELVAGE_FAULT=flip=1,epochs=1 drive 0 --packets 1 --expect report
grep -qE 'rank 0: (start|wait) of epoch 1: SELVAGE_ERR_CHECKSUM: .*salt .*expected digest .*found' "$work/out" ||
    fail "no full report of a packet that did not verify"
grep -q 'rank 1: wait of epoch 1: SELVAGE_ERR_CHECKSUM' "$work/out" || fail "the other rank was not told"

echo "test_faults: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
