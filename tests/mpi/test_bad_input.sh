#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Wrong settings and wrong use over MPI: a clear error that names what is wrong, the same decision on every rank, and an
# end without a hang, also when the application forgets to clean up.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
program=$top_builddir/tests/mpi/bad_input
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$program" ] || { echo "SKIP: $program is not built"; exit 77; }
runs=0 failed=0

fail() {
    echo "FAIL: $*"
    cat "$work/out" "$work/err" | sed 's/^/    /'
    failed=$((failed + 1))
}

# bad RANKS MODE TEXT...: runs to the end on every rank, and every TEXT is on standard output once per rank.
bad() {
    local ranks=$1 mode=$2 got text
    shift 2
    runs=$((runs + 1))
    bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$program" "$mode" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" -eq 0 ] || fail "status $got: $mode"
    for text in "$@" 'rank [0-9]* ends'; do
        [ "$(grep -cE -- "$text" "$work/out")" -eq "$ranks" ] || fail "not $ranks times '$text': $mode"
    done
}

# logged TEXT COUNT [ALLOWED]: so many warnings like this, and no other line of the log but one like ALLOWED.
logged() {
    [ "$(grep -cE -- "\] warn: .*$1" "$work/err")" -eq "$2" ] || fail "not $2 warnings like '$1'"
    if grep '\] \(warn\|error\):' "$work/err" | grep -qvE -- "$1${3:+|$3}"; then
        fail "something else on the log than '$1'"
    fi
}

# refused NAME VALUE WORDS: ERR_CONFIG on both ranks, with the variable's name, the value and what is wanted.
refused() {
    local name=$1
    export "$name=$2"
    bad 2 create "comm_create: SELVAGE_ERR_CONFIG: .*$name.*$3"
    unset "$name"
}

bad 2 create 'comm_create: SELVAGE_SUCCESS$'
logged nothing 0

refused SELVAGE_ROUTTE peer 'did you mean SELVAGE_ROUTE\?'
refused SELVAGE_TIMEOUT 5 'did you mean SELVAGE_TIMEOUT_S\?'
refused SELVAGE_ROUTE pear '"pear".*auto\|self\|peer\|shared\|staged'
refused SELVAGE_TIMEOUT_S soon '"soon".*number'
refused SELVAGE_RETRY_MAX -1 '"-1".*0\.\.100'
refused SELVAGE_RETRY_MAX '' '""'
refused SELVAGE_SEGMENT_BYTES 4Q '"4Q"'
refused SELVAGE_SEGMENT_BYTES 1K '"1K".*4096'
refused SELVAGE_FLIGHT_SIGNAL maybe '"maybe"'
refused SELVAGE_FAULT flip=2 'flip is "2"; wanted a probability'
refused SELVAGE_FAULT flipp=0.1 '"flipp"'
refused SELVAGE_DEVICE abacus '"abacus"'
SELVAGE_UNKNOWN=warn SELVAGE_ROUTTE=peer bad 2 create 'comm_create: SELVAGE_SUCCESS$'
logged 'unknown variable SELVAGE_ROUTTE; did you mean SELVAGE_ROUTE\?' 2
SELVAGE_UNKNOWN=ignore SELVAGE_ROUTTE=peer bad 2 create 'comm_create: SELVAGE_SUCCESS$'
logged nothing 0

bad 2 before-and-after 'before MPI_Init: SELVAGE_ERR_STATE: MPI is not initialised' \
    'after MPI_Finalize: SELVAGE_ERR_STATE: MPI is not initialised, or finalised'
bad 3 one-rank-differs 'comm_create: SELVAGE_ERR_MISMATCH: .*same SELVAGE_ settings.*: SELVAGE_ROUTE is ' \
    'SELVAGE_ROUTE is (auto here and staged on rank 1|staged here and auto on rank 0)'
bad 3 segments-differ 'SELVAGE_SEGMENT_BYTES is ([0-9]*[KMG]? here and 8K on rank 1|8K here and [0-9]*[KMG]? on rank 0)'

# Plug-ins that are not there are looked for first.
SELVAGE_DEVICE=auto SELVAGE_DEVICE_PATH=/nonexistent bad 2 detail 'detail after device_open: ""$' \
    'detail after comm_create: ""$'
bad 2 threads 'another thread: SELVAGE_ERR_STATE: .*MPI_THREAD_SERIALIZED' 'progress: SELVAGE_SUCCESS$'
bad 2 threads-serialized 'another thread: SELVAGE_SUCCESS$' 'progress: SELVAGE_SUCCESS$'
bad 3 one-rank-wrong 'comm_create: SELVAGE_ERR_CONFIG: .*(SELVAGE_RETRY_MAX is "many"|failed on rank 1)'

forgotten='(a communicator of 2 ranks was not destroyed before MPI_Finalize|MPI_Finalize: 1 exchanges and 0 registered)'
bad 2 leave-comm 'comm_create: SELVAGE_SUCCESS$'
logged "$forgotten" 2
bad 2 leave-idle 'wait: SELVAGE_SUCCESS$'
logged "$forgotten" 4
# Who starts late may hear first that the other has left.
bad 2 leave-running 'make_exchange: SELVAGE_SUCCESS$'
logged "$forgotten" 4 'SELVAGE_ERR_PEER: rank [01] gave up the exchange in its epoch 1'
bad 2 leave-exchange 'wait: SELVAGE_SUCCESS$'
logged 'selvage_comm_destroy: 1 exchanges and 0 registered buffers were not destroyed' 2

echo "test_bad_input: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
