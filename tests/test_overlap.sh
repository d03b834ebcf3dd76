#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The overlap benchmark runs, moves right data, and prints both ratios. On a shared machine times jump, so the targets
# are printed and not judged; a ratio that says "no overlap at all" in three tries is a failure, because copies on
# modelled links take no CPU time. In sequence the exchange takes 2.05, and exchange and interior 2.0.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
top_builddir=${top_builddir:-.}
overlap=$top_builddir/tools/selvage-overlap
json=$(mktemp) || exit 1
trap 'rm -f "$json"' EXIT
[ -x "$overlap" ] || { echo "SKIP: $overlap is not built"; exit 77; }
run() { "$top_srcdir/scripts/run-mpi" -t 120 -n "$@"; }

overlapped=no
for try in 1 2 3; do
    run 2 "$overlap" --repeats 3 --json "$json" || exit 1
    if "${PYTHON:-python3}" -c 'import json, sys
figures = json.load(open(sys.argv[1]))
assert figures["bad_packets"] == 0 and figures["sequence_ratio"] > 1
sys.exit(figures["exchange_ratio"] > 1.7 or figures["step_ratio"] > 1.7)' "$json"; then
        overlapped=yes
        break
    fi
    echo "try $try: nothing is overlapped"
done

failed=0
[ "$overlapped" = yes ] || failed=1
run 3 "$overlap" >/dev/null 2>&1
[ $? -eq 2 ] || { echo "FAIL: 3 ranks are not refused"; failed=1; }
run 2 "$overlap" --packets 0 >/dev/null 2>&1
[ $? -eq 2 ] || { echo "FAIL: 0 packets are not refused"; failed=1; }
exit "$failed"
