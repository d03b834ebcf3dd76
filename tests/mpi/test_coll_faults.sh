#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Ranks that are killed, or stopped for 5 s, at any moment in collectives of every kind between virtual nodes: on nodes
# of 1 and 2 ranks, pieces direct, in a chain, by trees and by MPI's own collectives, driven by the caller and by a
# thread, by both wires. A stopped rank within the deadline: all goes on, and every result is right. Else every rank
# that is left ends with an error that names a rank, and none hangs. How often that is the rank to blame is counted and
# printed: of ranks that wait for each other, the one whose deadline ends first names the one that it waits for, which
# may wait itself. Several jobs at a time, since most of them wait. COLL_FAULTS says how many faults (12); SEED is the
# number of the first one (1). With BRIEF the first pass of ./check has eight of them, and the others have four.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/coll_faults
[ -x "$driver" ] && [ -n "${MPIRUN:-}" ] || { echo "SKIP: $driver is not built, or there is no launcher"; exit 77; }
if [ -n "${TEST_GPUS:-}" ] && [ "$TEST_GPUS" -lt 4 ]; then echo "SKIP: four ranks need four GPUs"; exit 77; fi
keep= keeper=
case $("$MPIRUN" --version 2>/dev/null) in
*"Open MPI"*|*OpenRTE*) keep="--continuous --enable-recovery --mca orte_abort_on_non_zero_status 0" ;;
*HYDRA*)
    keeper=$top_srcdir/tests/fixtures/keep_rank.sh
    # UCX within MPICH reads long messages out of the sender's memory, and ends this process if the sender is gone.
    export UCX_TLS=${UCX_TLS:-^cma} ;;
*) echo "SKIP: whether this launcher lets ranks go on after one is killed is not known"; exit 77 ;;
esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
faults=${COLL_FAULTS:-12} first=${SEED:-1} at_once=${COLL_FAULTS_AT_ONCE:-4}
case ${BRIEF:-} in # the first four are those of the other passes of ./check
cases) faults=${COLL_FAULTS:-8} first=${SEED:-5} ;;
yes) faults=4 ;;
esac
wires=(mpi mpi)
case $("$top_builddir/tools/selvage-info" 2>/dev/null) in *"UCX yes"*) wires=(mpi ucx) ;; esac
ways=(auto chain mpi tree)

# judge OUT KIND RANK DEADLINE_S STATUS: prints what came of a job, in one word, or why it is not good.
judge() {
    local out=$1 kind=$2 rank=$3 deadline=$4 lines wanted=4
    [ "$kind" = stop ] || wanted=3
    lines=$(grep -cE '^rank [0-3]: SELVAGE_' "$out")
    if grep -E '^rank [0-3]: ' "$out" | grep -qv ', 0 wrong:'; then echo "wrong results"; return; fi
    [ "$lines" -eq "$wanted" ] || { echo "$lines ranks told their end, not $wanted"; return; }
    [ "$(grep -c '^rank [0-3] is through' "$out")" -eq "$wanted" ] || { echo "a communicator does not end"; return; }
    if [ "$kind" = stop ] && [ "$deadline" -gt 5 ]; then
        [ "$(grep -c '^rank [0-3]: SELVAGE_SUCCESS' "$out")" -eq 4 ] && { echo recovered; return; }
        echo "no success within the deadline"
        return
    fi
    # A stop may come when a rank has nothing more to do for others.
    if [ "$kind" = stop ] && [ "$(grep -c '^rank [0-3]: SELVAGE_SUCCESS' "$out")" -eq 4 ]; then
        echo recovered
        return
    fi
    [ "$(grep -cE '^rank [0-3]: SELVAGE_ERR_.*: .*ranks? [0-9]' "$out")" -eq "$wanted" ] ||
        { echo "an error names no rank"; return; }
    # The rank's own report begins with its number, and does not count.
    grep -E '^rank [0-3]: ' "$out" | grep -v "^rank $rank:" | sed 's/^rank [0-3]: //' |
        grep -qE "ranks? ([0-9]+, )*$rank([^0-9]|\$)" || { echo "error, of another rank"; return; }
    echo error
}

# one NUMBER: a job with one fault; its row says what came of it.
one() {
    local n=$1 kind rank deadline=2 after status outcome out=$work/out$1 seconds=60 folder=$work/ranks$1
    local -a program=("$driver")
    [ -z "$keeper" ] || program=(/bin/bash "$keeper" "$folder" 4 "$driver")
    kind=kill
    [ $((n % 2)) -eq 0 ] || kind=stop
    rank=$((n / 2 % 4))
    [ $((n % 4)) -ne 1 ] || deadline=60
    after=$((n * 37 % 1500))
    [ $deadline -eq 2 ] || seconds=7 # else it goes on until the error
    export SELVAGE_RANKS_PER_NODE=$((1 + n / 3 % 2)) SELVAGE_COLL_INTERNODE=${ways[(n / 2 + n / 8) % 4]}
    export SELVAGE_TIMEOUT_S=$deadline
    export SELVAGE_WIRE=${wires[n / 5 % 2]} SELVAGE_PROGRESS=inline SELVAGE_LOG=none RUN_MPI_FLAGS=$keep
    [ $((n / 4 % 2)) -eq 0 ] || SELVAGE_PROGRESS=thread
    # Where the machine is short of time, the deadline may pass before all is set up, or before the rank is killed,
    # which then tells its end as well: nothing was hurt yet.
    for _ in 1 2 3; do
        rm -rf "$folder"
        mkdir "$folder"
        RUN_MPI_SHARED=yes bash "$top_srcdir/scripts/run-mpi" -n 4 -t 120 "${program[@]}" $seconds "$n" "$kind" $rank \
            $after 5000 >"$out" 2>&1
        status=$?
        [ -z "$keeper" ] || cat "$folder"/rank.* >>"$out"
        if [ $kind = kill ] && grep -q "^rank $rank: SELVAGE_ERR_.*, 0 wrong: " "$out"; then continue; fi
        grep -q '^rank [0-3]: SELVAGE_ERR_TIMEOUT after 0 calls, 0 wrong: co[a-z]*_create: ' "$out" || break
    done
    rm -rf "$folder"
    outcome=$(judge "$out" "$kind" $rank $deadline)
    [ "$status" -ne 124 ] || outcome="hangs"
    echo "$kind $outcome" >"$work/row$n"
    case $outcome in
    recovered|error|"error, of another rank") ;;
    *)
        {
            echo "FAIL: fault $n: $outcome: $kind rank $rank after $after ms, deadline $deadline s," \
                "$SELVAGE_RANKS_PER_NODE a node, $SELVAGE_COLL_INTERNODE, $SELVAGE_WIRE, $SELVAGE_PROGRESS"
            grep -E '^rank |^\[|selvage' "$out" | head -n 12 | cut -c 1-250 | sed 's/^/    /'
        } >"$work/fail$n" ;;
    esac
    rm -f "$out"
}

for ((n = first; n < first + faults; n++)); do
    while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
    one $n &
done
wait
cat "$work"/fail* 2>/dev/null
failed=$(find "$work" -name 'fail*' | wc -l)
sort "$work"/row* | uniq -c | sed 's/^ */  /'
echo "test_coll_faults: $faults faults, $failed failed"
[ "$failed" -eq 0 ] && [ "$(find "$work" -name 'row*' | wc -l)" -eq "$faults" ]
