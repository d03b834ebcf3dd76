#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Ranks that stand still. One that is stopped for 4 s, by a signal or by a fault, comes back and everything goes on with
# the right data. One that never sends, commits or waits ends in an error on every rank, within the deadline, and the
# report says which packet, which peer, which phase, and when the peer was last alive. SIGUSR1 shows the state.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/fault_driver
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$driver" ] || { echo "SKIP: $driver is not built"; exit 77; }
runs=0 failed=0 stopped_ms=4000

fail() {
    echo "FAIL: $*"
    cat "$work/out" "$work/err" | grep -v '^ *-[0-9]' | head -n 60 | cut -c 1-400 | sed 's/^/    /'
    failed=$((failed + 1))
}

launch() { # RANKS ARGUMENT...
    local ranks=$1
    shift
    bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$driver" "$@" >"$work/out" 2>"$work/err"
}

# drive RANKS WANTED_STATUS ARGUMENT...
drive() {
    local ranks=$1 status=$2 got
    shift 2
    runs=$((runs + 1))
    launch "$ranks" "$@"
    got=$?
    [ "$got" -eq "$status" ] || fail "status $got on $ranks ranks, wanted $status: $*"
}

# has TEXT WHERE WHAT: fails unless the extended regular expression is there.
has() { grep -qE -- "$1" "$work/$2" || fail "$3: no '$1'"; }
quiet() { if grep -qE '\] (error|warn):' "$work/err"; then fail "the log is not empty: $1"; fi; }

# The rank that was not stopped waited about as long as the other stood still.
longest_ms() { sed -n 's/^rank 0: longest wait \([0-9]*\)\.\([0-9]*\) s$/\1\2/p' "$work/out"; }
has_waited() { local longest; longest=$(longest_ms) && [ "${longest:-0}" -ge $((stopped_ms - 500)) ]; }
waited_through() { has_waited || fail "$1: rank 0 waited $(longest_ms) ms only"; }

pid_of() { sed -n "s/^rank $1 pid \([0-9]*\) is exchanging\$/\1/p" "$work/out"; }

# wait_for_ranks JOB: until both ranks have said that they are exchanging; fails if the job ends before.
wait_for_ranks() {
    while kill -0 "$1" 2>/dev/null; do
        if [ -n "$(pid_of 0)" ] && [ -n "$(pid_of 1)" ]; then return 0; fi
        sleep 0.1
    done
    if [ -n "$(pid_of 0)" ] && [ -n "$(pid_of 1)" ]; then return 0; fi
    fail "the ranks never began"
    return 1
}

# signalled ACTION ROUTE: runs ACTION while two ranks exchange for about 3 s. Where this script stood still for as long,
# the ranks have ended before: then once more.
signalled() {
    local job got
    runs=$((runs + 1))
    : >"$work/out"
    launch 2 --route "$2" --epochs 150 --pause-ms 20 &
    job=$!
    wait_for_ranks $job && "$1"
    wait $job
    got=$?
    [ "$got" -eq 0 ] || fail "status $got: $1 on route $2"
    has 'total: .* silent wrong elements 0, errors 0' out "$1"
}

routes="peer staged"
[ "${BRIEF:-}" != yes ] || routes=staged # the first pass has both
stop_and_continue() {
    local pid
    pid=$(pid_of 1)
    kill -STOP "$pid"
    sleep $((stopped_ms / 1000))
    kill -CONT "$pid"
}
for route in $routes; do
    for _ in 1 2 3; do
        SELVAGE_RETRY_TIMEOUT_MS=300 SELVAGE_TIMEOUT_S=30 signalled stop_and_continue $route
        ! has_waited || break
    done
    waited_through "stopped by a signal, $route"
    quiet "stopped by a signal, $route"
done

SELVAGE_FAULT=stop_ms=$stopped_ms,stop_epoch=3,rank=1 SELVAGE_TIMEOUT_S=30 drive 2 0 --route shared
waited_through "stopped by a fault"
quiet "stopped by a fault"

ask_state() { kill -USR1 "$(pid_of 0)" "$(pid_of 1)"; }
for _ in 1 2 3; do
    SELVAGE_FLIGHT_FILE=$work/flight signalled ask_state staged
    if [ -e "$work/flight.0" ] && [ -e "$work/flight.1" ]; then break; fi
done
quiet "SIGUSR1"
for rank in 0 1; do
    head -n 1 "$work/flight.$rank" | grep -q "flight recorder, rank $rank, SIGUSR1" || fail "no file of rank $rank"
    grep -q "rank $rank .* packet .* peer $((1 - rank)) epoch" "$work/flight.$rank" || fail "no packets recorded: $rank"
done
for _ in 1 2 3; do
    signalled ask_state peer
    [ "$(grep -c 'flight recorder, rank [01], SIGUSR1' "$work/err")" -lt 2 ] || break
done
for rank in 0 1; do has "flight recorder, rank $rank, SIGUSR1" err "recorder on standard error"; done

# error_everywhere RANKS WHAT
error_everywhere() {
    for ((rank = 0; rank < $1; rank++)); do
        [ "$2" = commit ] && [ $rank -eq 1 ] && continue
        has "^rank $rank: $2 of epoch [0-9]*: SELVAGE_ERR_(TIMEOUT|PEER): ." out "rank $rank, $3"
    done
}

for route in $routes; do
    # The silent rank has the same deadline, for its own sends. Where its error comes first, the others have another one
    # to tell than that of their own deadline, which is the one to look at: then once more.
    for _ in 1 2 3 4 5; do
        rm -f "$work"/flight*
        SELVAGE_FLIGHT_FILE=$work/flight SELVAGE_FAULT=never=3,rank=1 SELVAGE_TIMEOUT_S=5 \
            drive 3 0 --route $route --packets 2 --expect error
        for rank in 0 2; do
            grep -q "^rank $rank: wait of .*: SELVAGE_ERR_TIMEOUT: .*; [24] of 4 receives" "$work/out" || continue 2
        done
        break
    done
    error_everywhere 3 wait "never sends, $route"
    when='last polled'
    [ $route = peer ] || when='(last polled|was last heard)'
    has "receive [0-9]+ \(tag 10[01], 600 bytes\) from rank 1, route $route, .*: phase 3, waits for its arrival for" \
        err "report, $route"
    has "waits for its arrival for [0-9.]+ s; rank 1 $when [0-9.]+ s ago" err "report, $route"
    has 'ERR_TIMEOUT: epoch 3 of exchange [0-9a-f]+ made no progress for 5 s; [24] of 4 receives' out "text, $route"
    grep -q 'flight recorder, rank 0, SELVAGE_ERR' "$work/flight.0" || fail "no recorder after the deadline: $route"
done

SELVAGE_TIMEOUT_S=5 drive 3 0 --route staged --expect error --never-commit 1
error_everywhere 3 commit "never commits"
# A rank that leaves may still acknowledge what the others send first; then they miss its word in the agreement.
has 'commit: rank 1 has not answered for 5 s: it did not commit|no word from rank 1 for 5 s .* did not call it' err \
    "who did not commit"
SELVAGE_TIMEOUT_S=5 drive 3 0 --route peer --expect error --never-wait 1
error_everywhere 3 wait "never waits"
has 'rank 1 last polled [1-9][0-9.]* s ago' err "who did not wait"

echo "test_stall: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
