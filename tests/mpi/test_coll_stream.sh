#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Collectives between virtual nodes in a stream, without and with a progress thread, by both wires. A rank that is
# stopped for 2 s comes back, and all goes on. One that is stopped, or makes no call, for longer than the deadline is an
# error by name on every rank, and no rank hangs. Wire and device calls that fail: nothing is wrong in silence. All of
# it once more where MPI's own collectives do the step between nodes.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/coll_stream
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$driver" ] || { echo "SKIP: $driver is not built"; exit 77; }
runs=0 failed=0 status=0
export SELVAGE_RANKS_PER_NODE=2 SELVAGE_PROGRESS=thread

fail() {
    echo "FAIL: $*"
    cat "$work/out" "$work/err" | grep -v '^ *-[0-9]' | head -n 40 | cut -c 1-300 | sed 's/^/    /'
    failed=$((failed + 1))
}
if [ -n "${TEST_GPUS:-}" ] && [ "$TEST_GPUS" -lt 4 ]; then echo "SKIP: four ranks need four GPUs"; exit 77; fi

launch() {
    bash "$top_srcdir/scripts/run-mpi" -n 4 -t 120 "$driver" "$@" >"$work/out" 2>"$work/err"
    status=$?
}
# ended TIMES TEXT WHAT: the job has ended well; so many ranks say that, by an extended regular expression, and none
# that anything was wrong
ended() {
    runs=$((runs + 1))
    [ $status -eq 0 ] || fail "$3: exit status $status"
    [ "$(grep -cE -- "^rank [0-3]: $2" "$work/out")" -eq "$1" ] || fail "$3: not $1 times '$2'"
    if grep -E '^rank [0-3]: ' "$work/out" | grep -qv ', 0 wrong'; then fail "$3: wrong results"; fi
}
pid_of() { sed -n "s/^rank $1 pid \([0-9]*\) is reducing\$/\1/p" "$work/out"; }
# stopped SECONDS ARGUMENT...: rank 1 is stopped for so long, soon after it has begun.
stopped() {
    local seconds=$1 job pid=
    shift
    : >"$work/out" # or the last job might seem to be this one
    launch "$@" &
    job=$!
    while pid=$(pid_of 1) && [ -z "$pid" ] && kill -0 "$job" 2>/dev/null; do sleep 0.1; done
    sleep 0.5
    [ -n "$pid" ] && kill -STOP "$pid" && sleep "$seconds" && kill -CONT "$pid"
    wait "$job"
    status=$?
}

SELVAGE_PROGRESS=inline launch 0.5
ended 4 SELVAGE_SUCCESS inline
for wire in mpi ucx; do
    SELVAGE_WIRE=$wire launch 0.5
    if [ $wire = ucx ] && grep -q 'built without UCX\|no UCX' "$work/err"; then continue; fi
    ended 4 SELVAGE_SUCCESS "$wire"
done
stops_and_faults() {
    SELVAGE_TIMEOUT_S=30 stopped 2 3
    ended 4 SELVAGE_SUCCESS "stopped for 2 s, $1"
    # Nothing before the stop is to meet the deadline where a process stands still for seconds, on a crowded machine.
    # Wherever rank 1 is stopped, the others meet the deadline in a call: between batches nobody waits for it in MPI.
    SELVAGE_TIMEOUT_S=5 stopped 8 60 -1
    ended 4 'SELVAGE_ERR_.*: .*rank [0-3]' "stopped for 8 s, with a deadline of 5 s, $1"
    # Of ranks that wait for each other too, the one whose deadline ends first names the one that it waits for. Where
    # that is none who waits for rank 3, once more. Rank 3 comes when all is over. It may hear of that by a kernel of
    # rank 2 first, which knows only that its host has ended it.
    for _ in 1 2 3; do
        SELVAGE_TIMEOUT_S=5 launch 60 3 11
        ended 4 'SELVAGE_ERR_(TIMEOUT|ABORTED) .*rank [0-3]' "rank 3 makes no call, $1"
        [ "$(grep -c '^rank [0-2]: SELVAGE_ERR_TIMEOUT' "$work/out")" -eq 3 ] || fail "not late on ranks 0 to 2, $1"
        ! grep -q '^rank [0-2]: .*no word from rank 3 for 5 s' "$work/out" || break
    done
    grep -q '^rank [0-2]: .*no word from rank 3 for 5 s' "$work/out" || fail "nobody names rank 3, which makes no call"
    for fault in wire=200 wire=900+ device=300 device=1000+; do
        SELVAGE_TIMEOUT_S=2 SELVAGE_FAULT=$fault,rank=2 launch 0.5
        if grep -E '^rank [0-3]: ' "$work/out" | grep -qv ', 0 wrong'; then fail "$fault: wrong results, $1"; fi
        [ $status -ne 124 ] || fail "$fault: no end, $1"
        # What a rank said before it called MPI_Abort, the launcher may drop.
        if [ $status -eq 0 ]; then ended 4 '.*' "$fault, $1"; else runs=$((runs + 1)); fi
    done
}
[ "${BRIEF:-}" = cases ] || stops_and_faults "messages between nodes" # the other passes of ./check have them
export SELVAGE_COLL_INTERNODE=mpi
for wire in mpi ucx; do
    SELVAGE_WIRE=$wire launch 0.5
    if [ $wire = ucx ] && grep -q 'built without UCX\|no UCX' "$work/err"; then continue; fi
    ended 4 SELVAGE_SUCCESS "MPI's collectives, $wire"
done
[ "${BRIEF:-}" = yes ] || stops_and_faults "MPI's collectives"
echo "test_coll_stream: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
