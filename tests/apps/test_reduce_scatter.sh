#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The reduce-scatter example: the sum in shards beside what it should be, and a conjugate-gradient solve of second order
# whose bits are the same by every algorithm that adds in the order of ranks, in lines and in slots, registered or not.
[ "${TEST_GPUS:-4}" -ge 4 ] || { echo "SKIP: wants a GPU for each of 4 ranks, and there are $TEST_GPUS"; exit 77; }
name=reduce_scatter
. "$(dirname "$0")/../fixtures/application_runs.sh"
reduce_scatter() { application "$@"; }

reduce_scatter 4 0 "^order .*: right$" --n 15
for row in "0 gives  10  20  30  40   gets   18   expected   18" "1 gives   1   2   3   4   gets   36   expected   36" \
    "2 gives   5  10  15  20   gets   54   expected   54" "3 gives   2   4   6   8   gets   72   expected   72"; do
    grep -q "^rank  $row\$" "$work/out" || fail "not in the table: $row"
done
grep -q "^sum in shards: right$" "$work/out" || fail "no verdict on the sum"
[ "${BRIEF:-}" != yes ] || finish
grep '\^2 ' "$work/out" >"$work/table"
[ "$(wc -l <"$work/table")" -eq 2 ] || fail "not two grids"

# same ALGORITHM PROTOCOL: steps, residuals, errors and bits of the table above.
same() {
    SELVAGE_COLL_ALGO=$1 SELVAGE_COLL_PROTO=$2 reduce_scatter 4 0 "^order .*: right$" --n 15
    grep '\^2 ' "$work/out" | cmp -s - "$work/table" || fail "other figures by $1, $2"
}
alike same oneshot ll
alike same oneshot simple
alike same twoshot ll
alike same twoshot simple
alike same direct auto
SELVAGE_COLL_CHECKSUM=on same auto auto
SELVAGE_COLL_WORK_FIFO=always same auto auto

for ranks in 1 2 3; do
    reduce_scatter "$ranks" 0 "^order .*: right$" --n 15
    grep -q "^sum in shards: right$" "$work/out" || fail "no verdict on the sum"
done
for algo in ring pat; do
    SELVAGE_COLL_ALGO=$algo reduce_scatter 3 0 "^order .*: right$" --n 15
done

reduce_scatter 1 2 "^usage" --n 2
reduce_scatter 1 2 "no such option" --bogus
reduce_scatter 1 0 "^usage" --help
finish
