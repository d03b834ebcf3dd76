#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Faults below Selvage: a library in place of MPI's own names hurts one message after the other, of each kind that
# Selvage sends: payload, records, control words, set-up and commit, messages, collectives between nodes, the drop-in's
# announcements. Each pass must end in time, in right data or in an error that names a rank; none silent, none hanging,
# no crash. BELOW_LONG=yes (make check-long): each message of each class; else every few.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
. "$top_srcdir/tests/fixtures/preload.sh"
[ -n "${MPIRUN:-}" ] || { echo "SKIP: no launcher"; exit 77; }
driver=$top_builddir/tests/mpi/below_driver below=$top_builddir/tests/fixtures/.libs/below_mpi.so
[ -x "$driver" ] && [ -e "$below" ] || { echo "SKIP: $driver is not built"; exit 77; }
case $("$MPIRUN" --version 2>/dev/null) in
*"Open MPI"*|*OpenRTE*|*PRRTE*) preload="-x LD_PRELOAD=" family=openmpi ;;
*) preload="-genv LD_PRELOAD " family=other ;;
esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
long=${BELOW_LONG:-no} failed=0 jobs=0
damage=flip,many,lanes32,lanes64,cut others=swap,drop,double,delay
export SELVAGE_TIMEOUT_S=${SELVAGE_TIMEOUT_S:-3} SELVAGE_RETRY_TIMEOUT_MS=100
export SELVAGE_SEGMENT_BYTES=8192 SELVAGE_LOG=none
export SELVAGE_DEVICE="${SELVAGE_DEVICE:-soft}"
: >"$work/rows"

# sweep WHAT ROUTE CLASSES KINDS STRIDE [VARIABLE=VALUE...]: STRIDE is for the short form
sweep() {
    local what=$1 route=$2 classes=$3 kinds=$4 stride=$5 how=turns limit_s=90 time_s=0.6 status
    shift 5
    # long_below_mpi.sh hits every message.
    case ${BRIEF:-} in
    cases) stride=$((stride * 3)) time_s=0.3 ;;
    yes) stride=$((stride * 6)) time_s=0.2 ;;
    esac
    [ "$long" = no ] || { stride=1; how=each; limit_s=900; time_s=800; }
    jobs=$((jobs + 1))
    env "$@" RUN_MPI_FLAGS="$preload$below" bash "$top_srcdir/scripts/run-mpi" -n 2 -t "$limit_s" "$driver" "$what" \
        "$route" "$classes" "$kinds" "$how" "$stride" "$time_s" >"$work/out" 2>&1
    status=$?
    grep -E "^$what $route: " "$work/out" >>"$work/rows"
    [ "$status" -ne 0 ] || return 0
    failed=$((failed + 1))
    echo "FAIL: status $status: $what $route $classes $kinds, every $stride, $*"
    grep -E 'NOT GOOD|HANGS|^rank |signal|left behind' "$work/out" | head -n 20 | cut -c 1-300
}

# One job per fault: a program that knows nothing of it. Its own check says whether the data are right.
# MPICH's launcher takes a rank's exit status of 1 for the signal of that number; Intel's says how it ends the others.
launchers='Hangup \(signal 1\)|KILLED BY SIGNAL: 9 '
# shellcheck disable=SC2016 # for the script that is written
printf '#!/bin/bash\nif [ "$1" = --version ]; then exec %q --version; fi\nexec %q %q "$@"\n' "$MPIRUN" \
    "$top_builddir/tools/selvage-run" "$MPIRUN" >"$work/mpirun"
chmod +x "$work/mpirun"
drop_in() { # KIND NTH RANK
    local status hit outcome="detected 1, recovered 0, ended with an error 1, not good 0"
    jobs=$((jobs + 1))
    BELOW_MPI="kind=$1,class=letter,nth=$2,rank=$3,seed=$2" BELOW_MPI_TELL=1 RUN_MPI_FLAGS="$preload$below" \
        SELVAGE_LOG=error SELVAGE_DROPIN_FAST=on SELVAGE_DROPIN_FAST_BYTES=256 MPIRUN="$work/mpirun" \
        "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/examples/dropin/jacobi" --n 60 --steps 6 \
        >"$work/out" 2>&1
    status=$?
    hit=$(grep -c '^below: .* of letter' "$work/out")
    if [ "$hit" -eq 0 ]; then
        echo "FAIL: no announcement was hit: $*"
        failed=$((failed + 1))
    elif [ "$status" -eq 0 ] && grep -q ': right$' "$work/out"; then
        outcome="detected 0, recovered 1, ended with an error 0, not good 0"
    elif [ "$status" -eq 124 ] || ! grep -Eq 'selvage.*rank [0-9]' "$work/out" ||
        grep -vE "$launchers" "$work/out" | grep -Eqi 'signal:? *[0-9]|wrong$'; then
        outcome="detected 0, recovered 0, ended with an error 0, not good 1"
        failed=$((failed + 1))
        echo "FAIL: status $status: drop-in, $1 of letter $2 of rank $3"
        grep -vE '^-|^$' "$work/out" | head -n 12 | cut -c 1-300
    fi
    echo "drop-in: letter: $1: injected $hit, $outcome" >>"$work/rows"
}

begins=control.hello,control.ack,setup,reduction,control.agree
for route in staged peer shared; do
    sweep exchange $route $begins,control.verdict,data $damage,$others 3
done
# A lost verdict is asked for before a deadline that is shorter than the time to ask for a packet, too.
sweep exchange staged control.verdict drop 1 SELVAGE_TIMEOUT_S=12 SELVAGE_RETRY_TIMEOUT_MS=15000
if ! grep -q ': control.verdict: drop: .*recovered [1-9].*ended with an error 0' "$work/out"; then
    echo "FAIL: a lost verdict was not asked for in time"
    failed=$((failed + 1))
fi
sweep messages default $begins,mail $damage,$others 5 SELVAGE_RANKS_PER_NODE=1
sweep messages default mail $damage,$others 5
sweep collectives default setup,control $damage,$others 5 SELVAGE_RANKS_PER_NODE=1
sweep collectives default reduction flip,many,delay 2 SELVAGE_RANKS_PER_NODE=1 SELVAGE_COLL_INTERNODE=mpi
sweep collectives default setup many,cut 2 SELVAGE_RANKS_PER_NODE=1 SELVAGE_COLL_INTERNODE=tree
sweep grids default setup $damage,$others 1 SELVAGE_RANKS_PER_NODE=1
if [ -x "$top_builddir/examples/dropin/jacobi" ] && [ -r "$top_builddir/.libs/libselvage-mpi.so" ]; then
    kinds="many cut drop double" letters=2
    [ "$long" = no ] || { kinds="flip many lanes32 lanes64 cut drop double swap delay" letters="1 2 3 4 5 6 7"; }
    for kind in $kinds; do for nth in $letters; do drop_in "$kind" "$nth" 1; done; done
fi

echo "what route: what was hit: how ($family)"
awk -F': ' '!/total/ && !/: nothing: / {
        key = $1 ": " $2 ": " $3
        if (!(key in known)) order[++n] = key
        known[key] = 1
        m = split($4, part, ", ")
        for (i = 1; i <= m; i++) { k = split(part[i], word, " "); sum[key, i] += word[k]; all[i] += word[k] }
    }
    function tell(name, a, b, c, d, e) {
        printf "%s: injected %d, detected %d, recovered %d, ended with an error %d, not good %d\n", name, a, b, c, d, e
    }
    END {
        for (j = 1; j <= n; j++)
            tell(order[j], sum[order[j], 1], sum[order[j], 2], sum[order[j], 3], sum[order[j], 4], sum[order[j], 5])
        tell("total", all[1], all[2], all[3], all[4], all[5])
    }' "$work/rows"
echo "test_below_mpi: $jobs jobs, $failed failed"
[ "$failed" -eq 0 ]
