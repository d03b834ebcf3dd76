#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# selvage-trace on real runs: of four ranks one stands still, and is named, by every route and whichever it is; the same
# without anybody who stands still names nobody for so much. Blocks for which there is no room are counted. A timeline
# without stamps, a file that is none and wrong command lines are refused. The timeline is JSON that others can read, in
# which no two spans of a lane overlap in part.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/timeline_driver tool=$top_builddir/tools/selvage-trace
[ -x "$driver" ] && [ -x "$tool" ] || { echo "SKIP: $driver or $tool is not built"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }

# traced NAME EPOCHS VARIABLE=VALUE...
traced() {
    local name=$1 epochs=$2
    shift 2
    env SELVAGE_TRACE="$dir/$name.json" SELVAGE_TRACE_KERNELS=on "$@" "$top_srcdir/scripts/run-mpi" -n 4 -t 240 \
        "$driver" "$epochs" 3000 20 70000 2>"$dir/$name.err" || fail "$name: the run failed with $?"
}
first_line() { "$tool" "$dir/$1.json" | sed -n 1p; }

rank=0
for route in peer shared staged; do
    traced "$route" 6 SELVAGE_ROUTE=$route SELVAGE_FAULT=stop_ms=400,stop_epoch=3,rank=$rank
    said=$(first_line "$route")
    case $said in
        "Rank $rank is slow: ranks wait for its kernels to begin for "*"(in epoch 3 of "*) ;;
        *) fail "$route: rank $rank stood still, and the sentence is: $said" ;;
    esac
    "$tool" "$dir/$route.json" >"$dir/table"
    # Whoever waited did so while the rank stood still, and no longer than a crowded machine explains.
    longest=$(awk -v rank="$rank" '$1 == "not" && $2 == "begun" && $4 == rank { print int($8) }' "$dir/table")
    [ "${longest:-0}" -ge 200000 ] && [ "$longest" -le 60000000 ] ||
        fail "$route: the longest wait is ${longest:-none} us"
    grep -q '^Parts add up to wall time within [01]\.[0-9]* %\.$' "$dir/table" || fail "$route: parts do not add up"
    grep -q '^Clocks go in steps of [1-9][0-9]* ns' "$dir/table" || fail "$route: no resolution"
    grep -q ' 0 were lost .* 0 did not end, 0 were overwritten' "$dir/table" || fail "$route: something is lost"
    rank=$((rank + 1))
done

traced room 300 SELVAGE_TRACE_EVENTS=1024
"$tool" "$dir/room.json" | grep -q ' 704 were lost for want of room' || fail "what found no room is not counted"
grep -q 'rank 0 lost the stamps of 176 blocks' "$dir/room.err" || fail "what found no room is not logged"

traced off 2 SELVAGE_TRACE_KERNELS=off
if grep -q -E 'selvage-blocks|selvage_kernels' "$dir/off.json"; then fail "there are stamps that nobody wanted"; fi
if "$tool" "$dir/off.json" >"$dir/said" 2>&1; then fail "a timeline without stamps was taken"; fi
grep -q 'SELVAGE_TRACE_KERNELS=on' "$dir/said" || {
    cat "$dir/said" "$dir/off.err"
    fail "nothing says what a timeline without stamps lacks"
}

"$tool" "$dir/nothing.json" >"$dir/said" 2>&1
[ $? = 1 ] || fail "a file that is not there was taken"
head -n 20 "$dir/peer.json" >"$dir/cut.json"
"$tool" "$dir/cut.json" >"$dir/said" 2>&1
[ $? = 1 ] && grep -q 'not written to its end' "$dir/said" || fail "half a timeline was taken"
for wrong in "" "--top 0 $dir/peer.json" "$dir/peer.json $dir/peer.json" "--nonsense"; do
    # shellcheck disable=SC2086
    "$tool" $wrong >"$dir/said" 2>&1
    [ $? = 2 ] || fail "selvage-trace $wrong: no usage error"
done
"$tool" --help | grep -q '^usage: selvage-trace' || fail "--help says nothing"
"$tool" --version | grep -q '^selvage-trace [0-9]' || fail "--version says nothing"

if command -v "${PYTHON:-python3}" >/dev/null 2>&1; then
    "${PYTHON:-python3}" - "$dir/peer.json" <<'END' || fail "the timeline is not as viewers need it"
import collections, json, sys
events = json.load(open(sys.argv[1]))['traceEvents']
lanes = collections.defaultdict(list)
for event in events:
    if event.get('cat') in ('selvage-blocks', 'selvage-part'):
        lanes[event['pid'], event['tid']].append((event['ts'], event['ts'] + event['dur'], event['cat']))
assert len({pid for pid, _ in lanes}) == 4
for spans in lanes.values():
    outer = [s for s in spans if s[2] == 'selvage-blocks']
    for one, other in zip(outer, outer[1:]):
        assert one[1] <= other[0] + 0.0005, (one, other)
    for begin, end, category in spans:
        assert category == 'selvage-blocks' or any(b <= begin + 0.0005 and end <= e + 0.0005 for b, e, _ in outer)
END
fi
exit $failed
