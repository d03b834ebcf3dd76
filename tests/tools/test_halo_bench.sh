#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# selvage-halos with tiny cubes: every halo cell right on several grids of ranks, every row there, JSON that agrees with
# the table, the rival on the host measured, wrong command lines refused.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
halos=$top_builddir/tools/selvage-halos
[ -x "$halos" ] || { echo "SKIP: $halos is not built"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }
run() { bash "$top_srcdir/scripts/run-mpi" -t 240 -n "$@"; }

ranks_of_runs="1 2 4"
[ "${BRIEF:-}" != yes ] || ranks_of_runs=4
# Ranks that share a GPU have no way but wait.
[ "${SELVAGE_DEVICE:-soft}" = soft ] || [ "${TEST_GPUS:-4}" -ge 4 ] || ranks_of_runs="1 2"
for ranks in $ranks_of_runs; do
    run "$ranks" "$halos" --edges 6,9 --widths 1,3 --fields 1,2 --repetitions 2 --nccl no --json "$work/json" \
        >"$work/out" 2>"$work/err" || fail "status $? on $ranks ranks"
    grep -q 'every halo cell that was looked at was right' "$work/out" || fail "$ranks ranks: no verdict"
    if grep -q 'WRONG' "$work/out" || grep -q 'selvage\[' "$work/err"; then fail "$ranks ranks: wrong, or not quiet"; fi
    "${PYTHON:-python3}" -c 'import json, sys
rows = json.load(open(sys.argv[1]))
table = sum(any(" %s " % mode in line for mode in ("wait", "stream", "run", "graph")) for line in open(sys.argv[2]))
assert len(rows) == table == 2 * 2 * 2 * 8, (len(rows), table)
for row in rows:
    faces = 6 * row["edge"] ** 2 * row["width"] * row["fields"] * 8
    assert row["bad"] == 0 and row["seconds"] > 0 and faces <= row["bytes"] <= faces + 6 * 16 * row["fields"], row
    assert (row["host_seconds"] > 0) == (row["mode"] == "wait") and row["nccl_seconds"] == 0, row
' "$work/json" "$work/out" || fail "$ranks ranks: the rows"
done
# Two nodes of two ranks: the figure with ranks in order is the larger one, or the same.
SELVAGE_RANKS_PER_NODE=2 run 4 "$halos" --edges 6 --widths 1 --fields 1 --repeats 1 --nccl no --reorder \
    >"$work/out" 2>"$work/err" || fail "status $? with reorder"
sed -n 's/^face cells: .* blocks, \([0-9]*\) .* (\([0-9]*\) with.*/\1 \2/p' "$work/out" |
    awk '{ good = $1 > 0 && $1 <= $2 } END { exit !good }' || fail "what crosses nodes"
for arguments in '--edges 0' '--edges 8,x' '--widths 99' '--fields 17' '--repeats 0' '--seconds -1' more \
    --nothing; do
    # shellcheck disable=SC2086  # a list of words
    timeout -k 5 240 "$halos" $arguments >/dev/null 2>"$work/err"
    [ $? -eq 2 ] && grep -q '^usage' "$work/err" || fail "not refused: $arguments"
done
run 2 "$halos" --nothing >/dev/null 2>"$work/err"
[ $? -eq 2 ] && [ "$(grep -c '^usage' "$work/err")" -eq 1 ] || fail "not refused once under a launcher"
[ "$failed" = 0 ] || cat "$work/out" "$work/err"
exit "$failed"
