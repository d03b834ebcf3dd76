#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# selvage-bench mpi with tiny sizes, under selvage-run where there is one: every benchmark has its rows in every way,
# all data is right, JSON, CSV and the table agree, a rival has a column, a changed byte is found, and wrong command
# lines are refused. How fast anything is decides nothing.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
bench=$top_builddir/tools/selvage-bench
python=${PYTHON:-python3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$bench" ] || { echo "SKIP: $bench is not built"; exit 77; }
[ -n "${MPIRUN:-}" ] || { echo "SKIP: no launcher"; exit 77; }
export SELVAGE_DEVICE=${SELVAGE_DEVICE:-soft}
runs=0 failed=0

# run-mpi takes its launcher from MPIRUN: here, one that selvage-run starts. Sanitizers want to be loaded first.
plain=$MPIRUN
if [ -x "$top_builddir/tools/selvage-run" ] && [ -z "${SANITIZER:-}" ]; then
    # shellcheck disable=SC2016 # for the script that is written
    printf '#!/bin/bash\nif [ "$1" = --version ]; then exec %q --version; fi\nexec %q %q "$@"\n' "$plain" \
        "$top_builddir/tools/selvage-run" "$plain" >"$work/mpirun"
    chmod +x "$work/mpirun"
    export MPIRUN=$work/mpirun
elif [ "$SELVAGE_DEVICE" != soft ]; then
    echo "SKIP: GPU memory needs the drop-in"
    exit 77
fi

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out" "$work/err" | head -n 80
    failed=$((failed + 1))
}

# mpi RANKS WANTED_STATUS WANTED_TEXT ARGUMENT...
mpi() {
    local ranks=$1 status=$2 text=$3 got
    shift 3
    runs=$((runs + 1))
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$bench" mpi "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$status" ] || { fail "status $got on $ranks ranks, wanted $status: $*"; return 1; }
    cat "$work/out" "$work/err" | grep -q -- "$text" || { fail "no '$text' on $ranks ranks: $*"; return 1; }
}

# wrong ARGUMENT...: refused without a launcher as well.
wrong() {
    runs=$((runs + 1))
    timeout -k 5 240 "$bench" mpi "$@" >"$work/out" 2>"$work/err"
    [ $? = 2 ] && grep -q "^usage: " "$work/err" || fail "not refused: $*"
}

# rows EXPRESSION: JSON, CSV and the table of the last run agree, and the Python expression over the rows is true.
rows() {
    "$python" - "$work" "$1" <<'END' || fail "rows: $1"
import csv, json, sys
folder, expression = sys.argv[1:]
run = json.load(open(folder + "/json"))
rows = run["rows"]
measured = [row for row in rows if row["measured"]]
cells = list(csv.DictReader(open(folder + "/csv")))
assert len(cells) == len(rows) > 0, "rows of the CSV"
for row, cell in zip(rows, cells):
    assert all(str(row[name]) == cell[name] for name in ("benchmark", "unit", "bytes", "way")), "order"
    assert row["measured"] == (cell["value"] != ""), "what was not measured"
    if row["measured"]:
        assert float(cell["value"]) == row["value"] > 0 and float(cell["seconds"]) == row["seconds"] > 0, "figures"
        assert (cell["verdict"] == "wrong") == row["wrong"] and int(cell["iterations"]) == row["iterations"] > 0, cell
shown, benchmark = {}, None
for line in open(folder + "/out"):
    words = line.split()
    if len(words) == 2 and words[0].endswith(",") and words[1] in ("us", "GB/s", "million/s"):
        benchmark = words[0][:-1]
    elif words and words[0] == "bytes":
        ways = words[1:]
    elif benchmark and words and words[0].isdigit() and len(words) == len(ways) + 1:
        shown.update({(benchmark, int(words[0]), way): word for way, word in zip(ways, words[1:])})
    else:
        benchmark = None
assert len(shown) == len(rows), "cells of the table"
for row in rows:
    word = shown[row["benchmark"], row["bytes"], row["way"]]
    if not row["measured"] or row["wrong"]:
        assert word == ("WRONG" if row["measured"] else "-"), row
    else:
        assert abs(float(word.lstrip("~")) - row["value"]) <= 0.006 + 1e-4 * row["value"], (row, word)
names = {row["benchmark"] for row in rows}
for cliff in run["cliffs"]:
    assert cliff["benchmark"] in names and cliff["from"] in ("hand", "neighbours"), cliff
assert eval(expression), [list(row.values()) for row in rows[:40]]
END
}

# A run that ends before MPI_Init needs no launcher either.
alone() {
    runs=$((runs + 1))
    timeout -k 5 240 "$bench" mpi "${@:2}" >"$work/out" 2>"$work/err"
    [ $? = 1 ] && grep -q "$1" "$work/err" || fail "no '$1': ${*:2}"
}

short=(--iterations 4 --repetitions 1 --seconds 0.001 --window 4 --nccl no)
outputs=(--json "$work/json" --csv "$work/csv")
rival="MPIRUN=$(printf %q "$plain") $(printf '%q ' "$top_srcdir/scripts/run-mpi" -n 2 -t 240)"
itself="$rival $(printf %q "$bench") mpi {} --ways host"
# The program is appended to a rival without {}. It gives device pointers to an MPI that knows host memory only.
[ "$SELVAGE_DEVICE" = soft ] || rival=$itself
# A launcher that remembers that it wants ssh starts nothing within a job where there is none.
if ! "$top_srcdir/scripts/run-mpi" -n 1 -t 240 env -i PATH="$PATH" HOME="${HOME:-/}" OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$plain" -n 1 true >/dev/null 2>&1; then
    echo "no job within a job here: the rival is left out"
    exit "$((failed > 0 ? 1 : 77))"
fi
mpi 2 0 ", 0 wrong" "${short[@]}" --min 8 --max 512 --factor 64 --ways host,device,hand,each,mixed,hand_mixed \
    --rival "$rival" \
    "${outputs[@]}" &&
    rows 'len(names) == 28 and len(rows) == (27 * 2 + 1) * 7 and not any(row["wrong"] for row in measured) and {
        (row["benchmark"], row["way"]) for row in rows if not row["measured"]} == {("barrier", "hand")} | {
        (name, way) for way in ("mixed", "hand_mixed") for name in names - {
            "latency", "persistent", "vector", "bandwidth", "bidirectional", "rate", "put", "get"}} | {
        (name, "each") for name in names - {"bandwidth", "bidirectional", "rate"}}'
mpi 2 1 ", 2 wrong" "${short[@]}" --min 64 --max 64 --benchmarks alltoall,gather --ways host,device \
    --corrupt alltoall --rival "$itself" "${outputs[@]}" &&
    rows '[(row["benchmark"], row["way"]) for row in rows if row["wrong"]] == [
        ("alltoall", "host"), ("alltoall", "device")] and len(measured) == 6'
# An odd number of ranks, of which one has no pair, and parts of a sum that differ.
[ "${BRIEF:-}" = yes ] || [ "${TEST_GPUS:-3}" -lt 3 ] ||
    { mpi 3 0 ", 0 wrong" "${short[@]}" --min 64 --max 64 --benchmarks rate,reduce_scatter,reduce_scatter_block \
        --ways device,hand "${outputs[@]}" &&
        rows 'len(rows) == 6 and [row["benchmark"] for row in measured] == ["rate"] * 2 + ["reduce_scatter"] * 2'; }

alone "rival: no results" --ways host --rival false
alone "cannot be opened" --ways host --csv "$work/no/such/folder"
[ "${BRIEF:-}" = yes ] || for words in "word" "--benchmarks magic" "--ways rival" "--ways hosts" "--min 0" "--max 4Q" \
    "--max 2G" "--min 64 --max 8" "--factor 1" "--window 0" "--window 1000" "--iterations 0" "--repetitions x" \
    "--seconds -1" "--memory 1K" "--corrupt everything" "--json"; do
    # shellcheck disable=SC2086  # words of a command line
    wrong $words
done
mpi 2 2 "^usage: " --max 4Q
[ "$(grep -c "^usage: " "$work/err")" -eq 1 ] || fail "more than one rank explains"
case $("$bench" mpi --version 2>&1) in
selvage-bench-mpi\ [0-9]*) ;;
*) fail "no version" ;;
esac
echo "test_bench_mpi: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
