#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The timeline of real runs, read back. Modelled links make the legs long beside what a busy machine adds: once the way
# down is the slow one, once the way up. Then a packet is held for a second, on every route, and must be alone in that.
# That the check can fail is shown by a timeline that lacks an event and by one whose legs are in sequence.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/timeline_driver
[ -x "$driver" ] || { echo "SKIP: $driver is not built"; exit 77; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
sizes=(1500001 20 400000 0 70000 1000000)
small_sizes=(30000 20 50001 0 7000 100000)
epochs=2
failed=0
fail() { echo "FAIL: $*"; failed=1; }

# traced NAME VARIABLE=VALUE...: a run of two ranks; its timeline is $scratch/NAME.json. Nothing may be on the log.
traced() {
    local name=$1
    shift
    env "$@" SELVAGE_TRACE="$scratch/$name.json" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$driver" "$epochs" \
        "${sizes[@]}" 2>"$scratch/$name.err" || fail "$name: the run failed with $?"
    if grep -i -E 'selvage|timeline' "$scratch/$name.err"; then fail "$name: the log is not empty"; fi
}
read_back() { # NAME OPTION...
    local name=$1
    shift
    "${PYTHON:-python3}" "$top_srcdir/tests/fixtures/timeline_check.py" \
        "$scratch/$name.json" 2 "$epochs" "${#sizes[@]}" "$@"
}

# A machine that stops a rank for long may spoil a try, but not three.
shown() { # NAME OPTION VARIABLE=VALUE...
    local name=$1 option=$2
    shift 2
    for _ in 1 2 3; do
        traced "$name" "$@"
        if read_back "$name" "$option"; then return; fi
    done
    fail "$name"
}

staged=(SELVAGE_ROUTE=staged SELVAGE_SEGMENT_BYTES=256K)
shown down order "${staged[@]}" SELVAGE_SOFT_D2H_GBS=0.02 SELVAGE_SOFT_H2D_GBS=0.1
shown up order "${staged[@]}" SELVAGE_SOFT_D2H_GBS=0.05 SELVAGE_SOFT_H2D_GBS=0.02

hold=delay=1,delay_ms=1000,only=0,rank=0
wide_sizes=("${sizes[@]}")
sizes=("${small_sizes[@]}")
for route in staged shared peer; do
    shown "$route" held=0:0:1.0 SELVAGE_ROUTE=$route SELVAGE_FAULT=$hold SELVAGE_RETRY_TIMEOUT_MS=60000
done
sizes=("${wide_sizes[@]}")

# The checks themselves.
sed '/"name":"phase receive".*"pid":1/d' "$scratch/down.json" >"$scratch/lacks.json"
if read_back lacks >/dev/null; then fail "a missing phase is not seen"; fi
sed '/"name":"verify".*"packet":2,/d' "$scratch/down.json" >"$scratch/lacks.json"
if read_back lacks >/dev/null; then fail "a missing packet is not seen"; fi
if read_back staged held=1:0:1.0 >/dev/null; then fail "a packet that was not held passes for one"; fi
"${PYTHON:-python3}" -c 'import json, sys
timeline = json.load(open(sys.argv[1]))
for event in timeline["traceEvents"]:
    if event["name"] in ("send", "host to device"):
        event["ts"] += 10e6
json.dump(timeline, open(sys.argv[2], "w"))' "$scratch/down.json" "$scratch/lacks.json" ||
    fail "no timeline in sequence"
if read_back lacks order >/dev/null; then fail "legs in sequence pass for overlapped ones"; fi
exit "$failed"
