#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# selvage-bench with tiny packets: every pattern, route, policy and mode has its row, JSON, CSV and the plot can be read
# by others and agree, floors pass as written and fail when raised, packets hurt without checks are seen, and wrong
# command lines are refused. How fast anything is decides nothing.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
bench=$top_builddir/tools/selvage-bench
python=${PYTHON:-python3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$bench" ] || { echo "SKIP: $bench is not built"; exit 77; }
runs=0 failed=0

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out" "$work/err"
    failed=$((failed + 1))
}

# bench RANKS WANTED_STATUS WANTED_TEXT ARGUMENT...
bench() {
    local ranks=$1 status=$2 text=$3 got
    shift 3
    runs=$((runs + 1))
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$bench" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$status" ] || { fail "status $got on $ranks ranks, wanted $status: $*"; return 1; }
    cat "$work/out" "$work/err" | grep -q -- "$text" || { fail "no '$text' on $ranks ranks: $*"; return 1; }
}

# wrong ARGUMENT...: refused without a launcher as well.
wrong() {
    runs=$((runs + 1))
    timeout -k 5 240 "$bench" "$@" >"$work/out" 2>"$work/err"
    [ $? = 2 ] && grep -q "^usage: " "$work/err" || fail "not refused: $*"
}

finish() {
    echo "test_bench: $runs runs, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

# files EXPRESSION: JSON, CSV and plot of the last run agree, and the Python expression over the rows is true.
files() {
    "$python" -c 'import csv, json, sys, time
import xml.etree.ElementTree as tree
folder = sys.argv[1]
run = json.load(open(folder + "/json"))
rows = run["rows"]
waited = [row for row in rows if row["mode"] == "wait"]
streamed = [row for row in rows if row["mode"] == "stream"]
available = [row for row in rows if row["available"]]
cells = list(csv.DictReader(open(folder + "/csv")))
assert len(cells) == len(rows), "rows of the CSV"
for row, cell in zip(rows, cells):
    assert (row["pattern"], row["route"], str(row["size"])) == (cell["pattern"], cell["route"], cell["bytes"]), "order"
    assert (cell["checksum"] == "on") == row["checksum"] and cell["mode"] == row["mode"], "policy"
    assert row["available"] == (cell["median_s"] != ""), "cells of what is not available"
    for name in ("median_s", "p99_s", "gbs", "bound_s", "share_of_bound", "naive_s", "times_naive", "nccl_s",
                 "nccl_tuned_s", "cost_s", "cost_share"):
        assert (cell[name] == "") == (row.get(name) is None), name
for row in available:
    assert 0 < row["median_s"] <= row["p99_s"] and row["bad_packets"] == 0, "times"
    assert 0 < row["median_low_s"] <= row["median_s"] <= row["median_high_s"] <= 1.001 * row["p99_s"], "interval"
noisy = sum(row["median_high_s"] - row["median_low_s"] > 0.1 * row["median_s"] for row in available)
marked = sum(" ~" in line and "~:" not in line for line in open(folder + "/out"))
assert marked == noisy, ("rows marked as noisy", marked, noisy)
for row in available:
    assert abs(row["gbs"] * row["median_s"] * 1e9 / (row["size"] * row["packets"]) - 1) < 1e-3, "GB/s"
    assert row["packets_checked"] == run["ranks"] * row["packets"], "packets checked"
    if row["checksum"] and not all(other["checksum"] for other in rows):
        off, = [other for other in available if not other["checksum"] and all(
            other[name] == row[name] for name in ("pattern", "route", "size", "mode"))]
        both = row["median_s"] + off["median_s"]
        assert abs(row["cost_s"] - row["median_s"] + off["median_s"]) < 1e-5 * both, "cost of checksums"
picture = tree.parse(folder + "/plot.svg").getroot()
assert picture.tag == "{http://www.w3.org/2000/svg}svg", "kind of the plot"
lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
assert len(lines) >= len({
    (row["pattern"], row["route"], row["checksum"], row["mode"]) for row in available}), "lines of the plot"
texts = [text.text for text in picture.findall("{http://www.w3.org/2000/svg}text")]
panels = len({(row["pattern"], row["mode"]) for row in rows})
assert texts.count("size of a packet") == texts.count("GB/s sent by each rank") >= panels, "titles of the axes"
caption = (run["machine"], run["version"], time.strftime("%Y-%m"))
assert any(all(part in text for part in caption) for text in texts), texts
samples = [path for path in picture.findall("{http://www.w3.org/2000/svg}path") if path.get("class") == "sample"]
assert len(samples) >= len({row["route"] for row in rows}) + 4 + 3, "line samples of the legend"
assert eval(sys.argv[2]), sys.argv[2]' "$work" "$1" || fail "files: $1"
}

outputs=(--json "$work/json" --csv "$work/csv" --plot "$work/plot.svg")
short=(exchange --repetitions 2)
# Only on the software device is any MPI sure to take device pointers.
bench 1 0 " 0 bad" "${short[@]}" --patterns shift --routes self --sizes 8 "${outputs[@]}"
aware=no
if grep -q '"device": "soft"' "$work/json"; then aware=yes; fi
bench 2 0 " 0 bad" "${short[@]}" --patterns all --routes self,peer,shared,staged --sizes 8 --aware-mpi $aware \
    --write-floors "$work/floors" "${outputs[@]}" &&
    files 'len(available) == len(rows) and len(waited) == 4 * 4 * 2 and run["ranks"] == 2 and all(
        row["naive_s"] and (row["aware_s"] or run["device"] != "soft")
        for row in waited if row["route"] != "self") and all(
        row["bound_s"] for row in waited if row["route"] != "peer") and {
        (row["pattern"], row["route"]) for row in streamed} >= {
        (pattern, route) for pattern in ("shift", "ring", "3d", "4d") for route in ("self", "peer")}'
# Routes that need the host have no row of the stream, and are not asked for one, which would be an error on the log.
if grep -q SELVAGE_ERR "$work/err"; then fail "errors on the log of a run in which nothing failed"; fi
# Commit accepts direct on the software device, whatever the MPI.
if [ $aware = yes ]; then
    bench 2 0 " 0 bad" "${short[@]}" --patterns shift,3d --routes direct --sizes 100 "${outputs[@]}" &&
        files '{row["route"] for row in rows} == {"direct"} and len(waited) == 4 and all(
            row["available"] and row["bound_s"] for row in waited)'
fi
bench 1 0 "no rank has a neighbour" "${short[@]}" --patterns ring,4d --routes self,peer,shared,staged --sizes 100 \
    "${outputs[@]}" && files '{row["route"] for row in available} == {"self", "staged"} and len(waited) == 16'
bench 3 0 " 0 bad" "${short[@]}" --patterns shift,3d --routes peer,staged --checksums on --sizes 1K --modes wait \
    "${outputs[@]}" && files 'len(available) == len(rows) == 4 and {row["packets"] for row in rows} == {1, 6}'
bench 2 0 " 0 bad" "${short[@]}" --patterns ring --routes peer --sizes 8 --modes stream "${outputs[@]}" &&
    files 'len(streamed) == len(rows) == 2'
bench 2 0 " 0 bad" "${short[@]}" --patterns ring --routes peer,staged --checksums on --sizes 8 --modes wait,graph \
    "${outputs[@]}" && files '[(row["route"], row["mode"]) for row in rows] == [
        ("peer", "wait"), ("peer", "graph"), ("staged", "wait")]'

narrow=("${short[@]}" --modes wait --patterns ring --routes staged --sizes 8)
if [ "${BRIEF:-}" != yes ]; then
    # Floors of another machine stay; raised ones fail, and so does a file that is none.
    "$python" - "$work/floors" <<'END' || fail "the floors cannot be read"
import json, sys
floors = json.load(open(sys.argv[1]))
(machine, mine), = floors.items()
assert len([key for key in mine if not key.endswith("/stream")]) == 32 and "ring/peer/on/8/stream" in mine, mine
assert all(value > 0 for value in mine.values()), mine
json.dump({"another machine": {"ring/peer/on/8": 1e9}, machine: {key: 1e-9 for key in mine}}, open(sys.argv[1], "w"))
json.dump({machine: {"ring/staged/on/8": 1e9}}, open(sys.argv[1] + ".raised", "w"))
END
    bench 2 0 "2 compared, 0 below" "${narrow[@]}" --floors "$work/floors"
    bench 2 1 "below its floor: ring/staged/on/8" "${narrow[@]}" --floors "$work/floors.raised"
    bench 2 0 " 0 bad" "${narrow[@]}" --write-floors "$work/floors"
    "$python" -c 'import json, sys; assert len(json.load(open(sys.argv[1]))) == 2' "$work/floors" ||
        fail "the floors of another machine are gone"
    echo '{"machine": [1]}' >"$work/none"
    bench 2 1 "not a file of floors" "${narrow[@]}" --floors "$work/none"
    bench 2 1 "No such file" "${narrow[@]}" --floors "$work/missing"
fi

# What reaches the application wrong without checks is seen by the tool's own eye. The record, which a flipped bit may
# hit as well, is small beside these packets.
SELVAGE_FAULT=flip=1.0,attempts=255 bench 2 1 "WRONG PACKETS" "${narrow[@]}" --checksums off --sizes 16K
SELVAGE_FAULT=flip=1.0 bench 2 0 " 0 bad" "${narrow[@]}" --checksums on

# The smaller tables. A policy cannot be told from its time here; each has its row, and what it moved was right.
# table EXPRESSION: the expression over the rows of the last run's JSON is true.
table() {
    "$python" -c 'import json, sys
run = json.load(open(sys.argv[1]))
rows = run["rows"]
assert eval(sys.argv[2]), rows' "$work/json" "$1" || fail "table: $1"
}
bench 4 0 "immediate" policies --repetitions 3 --sizes 64K --json "$work/json" &&
    table '[row["what"] for row in rows] == ["staged only", "peer only", "deferred", "immediate", "measured"] and all(
        row["available"] and 0 < row["median_s"] <= row["p99_s"] and row["bad_packets"] == 0 and
        row["packets_checked"] == (16 if "only" in row["what"] else 32) and
        (row["d2h_gbs"] > 0) == (row["what"] != "peer only") for row in rows)'
bench 2 0 "policies: n/a" policies --repetitions 3 --sizes 64K
SELVAGE_FAULT=flip=1.0,attempts=255 SELVAGE_CHECKSUM=off bench 4 1 "WRONG PACKETS" policies --repetitions 3 --sizes 64K
bench 2 0 "under 30 us" host --repetitions 3 --sizes 8,64K --poll-interval 0 --json "$work/json" &&
    table 'len(rows) == 4 and all(row["available"] and row["polls"] >= 1 and
        0 < row["start_s"] < row["inside_s"] <= row["elapsed_s"] for row in rows)'
bench 2 0 "exchange: first epoch" create --repetitions 3 --sizes 64K --json "$work/json" &&
    table 'len(rows) == 8 and sum(row["available"] for row in rows) >= 5 and all(
        (row["first_s"] > 0 and row["later_s"] > 0) == row["available"] for row in rows)'
for ranks in 1 2; do
    bench $ranks 0 "messages compared with what was sent, 0 bad" messages --repetitions 3 --sizes 8,16K \
        --json "$work/json" &&
        { "$python" -c 'import json, sys
run = json.load(open(sys.argv[1]))
rows, blocks = run["rows"], run["blocks"]
assert [row["size"] for row in rows] == [8, 16384]
assert all(row["available"] and all(value > 0 for name, value in row.items() if name.endswith("_s")) for row in rows)
assert blocks["size"] == 16384 and blocks["typed_s"] > 0 and blocks["copies_s"] > 0
' "$work/json" || fail "messages: JSON"; }
done
bench 1 0 "no rank has a neighbour" host --repetitions 3 --sizes 8

case $("$bench" --version 2>&1) in
selvage-bench\ [0-9]*) ;;
*) fail "no version" ;;
esac
if [ "$aware" = yes ]; then bench 2 0 "through this MPI: right" probe; fi
[ "${BRIEF:-}" != yes ] || finish
for words in "" word "exchange probe" "exchange --sizes 0" "exchange --sizes 4Q" "exchange --routes magic" \
    "exchange --modes sleep" "exchange --nccl-tuned 0" "host --poll-interval x" "host --csv $work/csv" \
    "policies --floors $work/floors" \
    "exchange --patterns 5d" "exchange --checksums maybe" "exchange --repetitions 0" "exchange --seconds -1" \
    "exchange --aware-mpi perhaps" "exchange --nccl-channels x" "exchange --json" "--fast exchange"; do
    # shellcheck disable=SC2086  # words of a command line
    wrong $words
done
bench 2 2 "^usage: " exchange --sizes 4Q
[ "$(grep -c "^usage: " "$work/err")" -eq 1 ] || fail "more than one rank explains"
bench 2 2 "cannot be opened" exchange --csv "$work/no/such/folder"
finish
