#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# selvage-smoke from 1 rank on: every route, odd and empty sizes, the JSON it writes, wrong command lines, and damage
# that it must see: repaired with verification on, shown with verification off.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
smoke=$top_builddir/tools/selvage-smoke
python=${PYTHON:-python3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$smoke" ] || { echo "SKIP: $smoke is not built"; exit 77; }
runs=0 failed=0

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out" "$work/err"
    failed=$((failed + 1))
}

# smoke RANKS WANTED_STATUS WANTED_TEXT ARGUMENT...: WANTED_STATUS may be "bad", any failure but the time limit.
smoke() {
    local ranks=$1 status=$2 text=$3 got
    shift 3
    runs=$((runs + 1))
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$smoke" "$@" >"$work/out" 2>"$work/err"
    got=$?
    if [ "$status" = bad ] && [ "$got" -ne 0 ] && [ "$got" -ne 124 ]; then got=bad; fi
    [ "$got" = "$status" ] || { fail "status $got on $ranks ranks, wanted $status: $*"; return 1; }
    cat "$work/out" "$work/err" | grep -q -- "$text" || { fail "no '$text' on $ranks ranks: $*"; return 1; }
}

# alone WANTED_STATUS WANTED_TEXT ARGUMENT...: without a launcher.
alone() {
    local status=$1 text=$2
    shift 2
    runs=$((runs + 1))
    timeout -k 5 240 "$smoke" "$@" >"$work/out" 2>"$work/err"
    [ $? = "$status" ] && cat "$work/out" "$work/err" | grep -q -- "$text" || fail "not $status and '$text': $*"
}

# The software device has no links, so the table says nothing of its legs; GPUs have.
shares() {
    local shown
    shown=$(grep -cE ' [0-9]+ % of (d2d|d2h|h2d|msg|peer) ' "$work/out")
    if grep -q ', device soft' "$work/out"; then [ "$shown" -eq 0 ]; else [ "$shown" -gt 0 ]; fi ||
        fail "$shown rows with a share of the slowest leg"
}

finish() {
    echo "test_smoke: $runs runs, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

# json RANKS EXPRESSION: what the last run wrote must parse, and the Python expression over it be true.
json() {
    "$python" -c 'import json, sys
run = json.load(open(sys.argv[1]))
rows = [row for row in run["rows"] if row["available"]]
absent = [row["route"] for row in run["rows"] if not row["available"]]
routes = sorted({row["route"] for row in rows})
assert run["ranks"] == int(sys.argv[2]), "ranks"
assert run["ok"] == (run["totals"]["bad_packets"] == 0), "ok"
assert sum(row["packets_checked"] for row in rows) == run["totals"]["packets_checked"], "sum of packets"
assert all(row["packets_checked"] == run["ranks"] * row["packets"] * (row["epochs"] + 1) for row in rows
           if row["route"] in ("self", "staged")), "packets per row"
assert all(1 <= len(row["legs"]) <= 3 and row["slowest_leg"] in [leg["name"] for leg in row["legs"]]
           for row in rows), "legs"
assert eval(sys.argv[3]), sys.argv[3]' "$work/json" "$@" || fail "JSON: $2"
}

right="every packet was right"
odd=(--sizes "0,1,13,4K,100001" --epochs 2 --json "$work/json")
all="1 2 3 4"
[ "${BRIEF:-}" != yes ] || all="1 4"
for ranks in $all; do
    smoke "$ranks" 0 "$right" "${odd[@]}" || continue
    shares
    if [ "$ranks" -eq 1 ]; then
        json 1 'routes == ["self", "staged"] and absent == ["peer", "shared"]'
    else
        json "$ranks" 'routes == ["peer", "self", "shared", "staged"] and len(rows) == 20'
    fi
    json "$ranks" 'all(row["bad_packets"] == 0 for row in rows) and run["totals"]["resends"] >= 0'
    json "$ranks" 'run["device"] != "soft" or all(row["verdict"] == "right" for row in rows)'
done

smoke 2 0 "$right" --quick --sizes 4097 --packets 7 --no-checksum --json "$work/json" --memory
json 2 'run["checksum_off"] and run["memory"]["max"]["resident_peak_bytes"] > 0 and run["wire_gbs"] != 0'
grep -q 'memory per rank' "$work/out" || fail "no memory printed"
smoke 2 0 "$right" --quick --sizes 64K --routes staged --wire-gbs 10 --json -
cp "$work/out" "$work/json"
json 2 'routes == ["staged"] and rows[0]["share_of_wire"] > 0 and run["wire_source"] == "command line"'
SELVAGE_RANKS_PER_NODE=2 smoke 3 0 "$right" --quick --sizes 100 --json "$work/json"
json 3 'len(rows) == 4'
SELVAGE_RANKS_PER_NODE=1 smoke 2 0 "n/a: no rank has a neighbour on its node" --quick --sizes 100 --json "$work/json"
json 2 'routes == ["self", "staged"]'

# Every collective; across virtual nodes, too. They refuse ranks that share a GPU, of which there may be TEST_GPUS.
many=$((${TEST_GPUS:-3} < 3 ? TEST_GPUS : 3))
for ranks in 1 "$many"; do
    smoke "$ranks" 0 "$right, and every result" --quick --sizes 100 --suite --json "$work/json"
    json "$ranks" 'len(run["collectives"]) == 8 and run["collectives"][0]["call"] == "all_reduce" and all(
        call["bad_results"] == 0 and call["results"] >= run["ranks"] for call in run["collectives"])'
    [ "$(grep -c " OK$" "$work/out")" -eq 8 ] || fail "not a line for each collective"
done
SELVAGE_RANKS_PER_NODE=2 smoke "$many" 0 "$right, and every result" --quick --sizes 100 --routes self --suite

# shellcheck source=tests/fixtures/direct_here.sh
. "$top_srcdir/tests/fixtures/direct_here.sh"
direct=$(direct_here)
if [ "$direct" ]; then
    smoke 2 0 "$right" --sizes 0,1,13,4K,100001,3M --epochs 2 --routes direct --json "$work/json"
    json 2 'routes == ["direct"] and len(rows) == 6 and run["totals"]["resends"] == 0'
    SELVAGE_RANKS_PER_NODE=1 smoke 3 0 "$right" --quick --sizes 4097 --routes direct,staged --json "$work/json"
    json 3 'routes == ["direct", "staged"] and len(rows) == 2'
fi

# Damage after the digest: mended under verification, where nearly every packet is sent again and so those of every
# route, and visible to this program without.
routes=self,peer,shared,staged${direct:+,$direct}
several="len(rows) == $(wc -w <<<"${routes//,/ }")"
SELVAGE_FAULT=flip=1.0 smoke 2 0 "$right" --quick --sizes 4K --routes "$routes" --json "$work/json" &&
    json 2 "$several"' and all(run["totals"]["resends"] > 0.9 * run["totals"][name] > 0
        for name in ("packets_checked", "bad_digests", "faults_injected"))'
SELVAGE_FAULT=flip=1.0,attempts=255 SELVAGE_CHECKSUM=off smoke 2 bad "from rank .* has bit .* flipped" --quick \
    --sizes 4K --routes "$routes" --json "$work/json" &&
    json 2 "$several"' and not run["ok"] and all(row["verdict"] == "broken" for row in rows)'
SELVAGE_FAULT=flip=1.0,attempts=255 smoke 2 bad "SELVAGE_ERR_CHECKSUM" --quick --sizes 4K --routes staged

[ "${BRIEF:-}" != yes ] || finish
for wrong in "--sizes 4Q" "--sizes 4K,," "--routes direkt" "--packets 0" "--epochs x" "--wire-gbs -1" --json --fast \
    word; do
    # shellcheck disable=SC2086  # an option and its value
    alone 2 "^usage: " $wrong
done
smoke 2 2 "^usage: " --sizes 4Q
[ "$(grep -c "^usage: " "$work/err")" -eq 1 ] || fail "more than one rank explains"
smoke 2 2 "cannot be opened" --json "$work/no/such/folder"
alone 0 "^usage: " --help
smoke 2 0 "^selvage-smoke [0-9]" --version
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "the version is printed by every rank"
SELVAGE_TIMEOUT_S=soon smoke 2 bad "SELVAGE_ERR_CONFIG" --quick
finish
