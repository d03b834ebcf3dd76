#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# selvage-bench coll with tiny sizes: every call, type and operation has its row and is right, JSON, CSV and the plot
# agree, floors pass as written and fail when raised, a sweep writes a tuning file that the library follows, the FIFO of
# work is waited for, a call that does nothing is found wrong, and wrong command lines are refused. How fast anything is
# decides nothing.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
bench=$top_builddir/tools/selvage-bench
python=${PYTHON:-python3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$bench" ] || { echo "SKIP: $bench is not built"; exit 77; }
[ "${TEST_GPUS:-4}" -ge 4 ] || { echo "SKIP: wants a GPU for each of 4 ranks, and there are $TEST_GPUS"; exit 77; }
runs=0 failed=0

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out" "$work/err" | head -n 60
    failed=$((failed + 1))
}

# coll RANKS WANTED_STATUS WANTED_TEXT ARGUMENT...
coll() {
    local ranks=$1 status=$2 text=$3 got
    shift 3
    runs=$((runs + 1))
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$bench" coll "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$status" ] || { fail "status $got on $ranks ranks, wanted $status: $*"; return 1; }
    cat "$work/out" "$work/err" | grep -q -- "$text" || { fail "no '$text' on $ranks ranks: $*"; return 1; }
}

# wrong ARGUMENT...: refused without a launcher as well.
wrong() {
    runs=$((runs + 1))
    timeout -k 5 240 "$bench" coll "$@" >"$work/out" 2>"$work/err"
    [ $? = 2 ] && grep -q "^usage: " "$work/err" || fail "not refused: $*"
}

# rows EXPRESSION: true over the rows of the last run's JSON.
rows() {
    "$python" -c 'import json, sys
run = json.load(open(sys.argv[1]))
rows = run["rows"]
n = run["ranks"]
if not eval(sys.argv[2]):
    sys.exit("\n".join(map(str, rows[:40])))' "$work/json" "$1" || fail "rows: $1"
}

# files: JSON, CSV and plot of the last run agree, and the figures with each other.
files() {
    "$python" - "$work" <<'END' || fail "files"
import csv, json, sys
import xml.etree.ElementTree as tree
folder = sys.argv[1]
run = json.load(open(folder + "/json"))
cells = list(csv.DictReader(open(folder + "/csv")))
n = run["ranks"]
factors = {"all_reduce": 2 * (n - 1) / n, "reduce_scatter": (n - 1) / n, "all_gather": (n - 1) / n,
           "all_to_all": (n - 1) / n}
assert len(cells) == len(run["rows"]) > 0, "rows of the CSV"
for row, cell in zip(run["rows"], cells):
    assert (row["call"], str(row["size"]), row["algo"]) == (cell["call"], cell["bytes"], cell["algo"]), "order"
    assert row["available"] and row["wrong"] == 0 and 0 < row["median_s"] <= row["p99_s"], row
    assert abs(row["algbw_gbs"] * row["median_s"] * 1e9 - row["size"]) <= 1e-3 * row["size"], "size by time"
    assert abs(row["busbw_gbs"] - row["algbw_gbs"] * factors.get(row["call"], 1)) <= 1e-3 * row["busbw_gbs"], "bus"
    for name in ("median_s", "algbw_gbs", "nccl_s", "nccl_tuned_s", "cost_s", "host_p50_s"):
        assert (cell[name] == "") == (row.get(name) is None if name == "cost_s" else not row.get(name)), name
    if row["checksum"]:
        off, = [other for other in run["rows"] if not other["checksum"] and all(
            other[name] == row[name] for name in ("call", "size", "in_place", "registered"))]
        assert abs(row["cost_s"] - row["median_s"] + off["median_s"]) <= 1e-5 * (row["median_s"] + off["median_s"])
picture = tree.parse(folder + "/plot.svg").getroot()
assert picture.findall("{http://www.w3.org/2000/svg}polyline"), "lines of the plot"
texts = [text.text for text in picture.findall("{http://www.w3.org/2000/svg}text")]
assert "size" in texts and "GB/s (bus bandwidth)" in texts and any(run["machine"] in text for text in texts), texts
assert [path for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("class") == "sample"], "samples"
END
}

outputs=(--json "$work/json" --csv "$work/csv" --plot "$work/plot.svg")
short=(--repetitions 2 --runs 1)
calls='{"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "sendrecv", "barrier"}'
coll 2 0 " 0 bad" "${short[@]}" --max 4K --factor 16 --checksum both --host --write-floors "$work/floors" \
    "${outputs[@]}"
if grep -q "n/a: coll_create" "$work/out"; then
    echo "SKIP: ranks of this machine cannot have collectives"
    exit 77
fi
files &&
    rows "{row['call'] for row in rows} == $calls and len(rows) == (5 * 2 + 2) * 3 * 4 + 4 and all(
        row['algo'] != 'auto' and row['proto'] != 'auto' and row['channels'] > 0 and row['host_p50_s'] > 0
        for row in rows) and {row['size'] for row in rows} == {0, 8, 128, 2048}"
coll 3 0 " 0 bad" "${short[@]}" --checksum on --type all --op all --min 100 --max 100 --place out --root 2 \
    --json "$work/json" &&
    rows "len(rows) == (3 * 12 * 6 + 4 * 12 + 1) * 2 and len({row['type'] for row in rows}) == 13 and all(
        row['available'] and row['wrong'] == 0 and row['size'] <= 100 for row in rows)"
coll 2 0 "replayed by graphs of 20" "${short[@]}" --graph --call all_reduce,sendrecv --min 1K --max 1K --place out \
    --register off --checksum on --json "$work/json" &&
    rows "len(rows) == 2 and all(row['available'] and row['wrong'] == 0 for row in rows)"
coll 1 0 " 0 bad" "${short[@]}" --checksum on --max 128 --register off --json "$work/json" &&
    rows "n == 1 and all(row['available'] and row['wrong'] == 0 for row in rows)"

if [ "${BRIEF:-}" != yes ]; then
    narrow=("${short[@]}" --call all_reduce --min 128 --max 128 --place out --register on --checksum off)
    "$python" - "$work/floors" <<'END' || fail "the floors cannot be read"
import json, sys
(machine, mine), = json.load(open(sys.argv[1])).items()
key = "all_reduce/float32/sum/out/registered/off/128"
assert len(mine) == 144 and all(value > 0 for value in mine.values()), mine
json.dump({machine: {key: 1e-9}}, open(sys.argv[1], "w"))
json.dump({machine: {key: 1e9}}, open(sys.argv[1] + ".raised", "w"))
END
    coll 2 0 "1 compared, 0 below" "${narrow[@]}" --floors "$work/floors"
    coll 2 1 "below its floor: all_reduce/" "${narrow[@]}" --floors "$work/floors.raised"
fi

# What is not there is no row of figures; of what is there, the winners are in the file, which the library follows.
# shellcheck disable=SC2054
swept=("${short[@]}" --call all_reduce,all_gather --max 128 --factor 16 --checksum on)
coll 2 0 "^fastest" "${swept[@]}" --sweep "$work/tuned" --json "$work/json" &&
    rows "{(row['algo'], row['proto']) for row in rows if row['call'] == 'all_gather' and row['available']} >= {
        (algo, proto) for algo in ('oneshot', 'ring', 'pat') for proto in ('ll', 'simple')} | {
        ('direct_one', 'simple')} and not any(row['available'] for row in rows
        if row['call'] == 'all_reduce' and row['algo'] == 'pat') and not any(row.get('wrong') for row in rows)"
grep -v '^#' "$work/tuned" >"$work/lines"
[ "$(cut -d ' ' -f 1 "$work/lines" | sort -u | tr '\n' ' ')" = "all_gather all_reduce " ] || fail "lines of the sweep"
SELVAGE_COLL_TUNE=$work/tuned coll 2 0 " 0 bad" "${swept[@]}" --place out --register on --json "$work/json" &&
    rows "all((row['algo'], row['proto']) == next((words[3], words[4])
        for words in map(str.split, open('$work/lines')) if words[0] == row['call'] and row['size'] <= int(words[2]))
        for row in rows)"

coll 2 0 " 0$" --fifo --fifo-calls 2000 --fifo-bytes 16K --json "$work/json" &&
    rows "len(rows) == 6 and [row['fifo_bytes'] for row in rows[:3]] == [16384] * 3 and all(
        row['wrong'] == 0 and row['calls'] >= 2000 and row['launches'] * row['group'] == row['calls']
        for row in rows) and rows[0]['fifo_waits'] == 0 < rows[2]['fifo_waits']"

# A library between this one and the tool, in which a broadcast is nothing. Sanitizers want to be the first.
cat >"$work/nothing.c" <<'END'
int selvage_coll_broadcast(void);
int selvage_coll_broadcast(void)
{
    return 0;
}
END
if [ -z "${SANITIZER:-}" ] && [ -e "$top_builddir/.libs/libselvage.so" ] &&
    ${CC:-cc} -shared -fPIC -o "$work/nothing.so" "$work/nothing.c"; then
    LD_PRELOAD=$work/nothing.so coll 2 1 "WRONG ELEMENTS" "${short[@]}" --call broadcast --max 8 --register off
fi

[ "${BRIEF:-}" = yes ] || for words in "word" "--call magic" "--type float33" "--op xor" "--min 0" "--max 4Q" \
    "--factor 1" "--place up" \
    "--register maybe" "--checksum perhaps" "--channels 65" "--runs 0" "--repetitions 0" "--seconds -1" \
    "--min 64 --max 8" "--fifo --csv $work/csv" "--fifo --sweep $work/tuned" "--nccl-tuned 0" "--json"; do
    # shellcheck disable=SC2086  # words of a command line
    wrong $words
done
coll 2 2 "no such rank" --root 2
[ "$(grep -c "^usage: " "$work/err")" -eq 1 ] || fail "more than one rank explains"
coll 2 2 "cannot be opened" --csv "$work/no/such/folder"
echo "test_bench_coll: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
