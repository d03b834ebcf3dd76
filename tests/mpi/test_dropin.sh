#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The drop-in: messages and collectives with random memory and datatypes beside MPI on host buffers.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0 routed=yes
# Where a plug-in brought a GPU's runtime but there is no GPU, that is asked about memory in every call, and takes long.
export SELVAGE_DEVICE=${SELVAGE_DEVICE:-soft}
# Ranks on one GPU run no kernels that wait for each other, so their collectives are staged.
[ "$SELVAGE_DEVICE" = soft ] || [ "${TEST_GPUS:-2}" -ge 2 ] || routed=''
export SELVAGE_DROPIN_SYNC=auto SELVAGE_DROPIN_SYNC_MS=50000 # tests forget to wait, and machines may be crowded
run() { # RANKS PROGRAM SEED CASES [fits or FOLDER]
    local cases=$4
    # With BRIEF a third of them; not where the report is to have every call.
    case ${BRIEF:+brief}:${SELVAGE_REPORT:-}:$cases in brief::*[0-9]) cases=$(((cases + 2) / 3)) ;; esac
    "$top_srcdir/scripts/run-mpi" -n "$1" -t 240 "$top_builddir/tests/mpi/$2" "$3" "$cases" "${5:-}" ||
        { echo "FAIL: $2, $1 ranks, seed $3"; failed=1; return 1; }
}
run 2 dropin_messages 1 200
run 3 dropin_messages 2 100
run 1 dropin_messages 3 50
run 2 dropin_collectives 1 150
run 4 dropin_collectives 2 100
run 2 dropin_windows 1 50
[ "${BRIEF:-}" = yes ] || run 3 dropin_windows 2 20 # the first pass has it, and the others have two ranks and four
run 4 dropin_windows 3 5
# With little memory that is pinned, and none: by pieces that end wherever they end.
SELVAGE_DROPIN_POOL_BYTES=64K run 2 dropin_messages 7 60
export SELVAGE_DROPIN_POOL_BYTES=0 SELVAGE_DROPIN_PIECE_BYTES=64
run 2 dropin_messages 5 100
run 3 dropin_collectives 5 50
run 2 dropin_windows 5 4
unset SELVAGE_DROPIN_POOL_BYTES SELVAGE_DROPIN_PIECE_BYTES
# These look into device memory from the host, and one has a kernel that waits for the host.
if [ "$SELVAGE_DEVICE" = soft ]; then
SELVAGE_TRACE=$dir/large run 2 dropin_large few ""
"${PYTHON:-python3}" - "$dir/large.calls" <<'END' || { echo "FAIL: more was copied than two columns"; failed=1; }
import json, sys
copies = [e['args']['bytes'] for e in json.load(open(sys.argv[1]))['traceEvents'] if e['name'] == 'copy']
assert copies.count(2 * 512 * 8) == 8, copies # two ranks, two calls, down and up
END
# Work that does not end is not waited for, but for a while, and that is said; work that was forgotten is.
seen=$(SELVAGE_DROPIN_SYNC_MS=100 run 2 dropin_waits "" "" 2>&1) || { echo "$seen"; failed=1; }
grep -q 'still at work after 100 ms' <<<"$seen" || { echo "FAIL: nobody said that a wait was given up"; failed=1; }
fi
seen=$(SELVAGE_REPORT=on run 2 dropin_files 1 60 "$dir" 2>&1) || { echo "$seen"; failed=1; }
for call in read_all write_all read_at_all write_at_all read_ordered write_ordered; do
    grep -Eq " MPI_File_${call}_begin +staged |^skipped: " <<<"$seen" ||
        { echo "FAIL: the report has no $call"; failed=1; }
done
! grep 'open at MPI_Finalize' <<<"$seen" || { echo "FAIL: a call that MPI refused, or has ended, is kept"; failed=1; }
grep -E '^(skipped|dropin_files): ' <<<"$seen"
# The fast route, as selvage-run would have it.
export SELVAGE_JOB=test SELVAGE_DROPIN_FAST=on SELVAGE_DROPIN_FAST_BYTES=96
seen=$(SELVAGE_REPORT=on SELVAGE_TRACE=$dir/trace run 2 dropin_messages 4 200 2>&1) || { echo "$seen"; failed=1; }
for call in 'Send +fast' 'Isend +fast' 'Isend +staged' 'Sendrecv +fast' 'Sendrecv_replace +staged'; do
    grep -Eq "^ +[01] +[01] +MPI_$call " <<<"$seen" || { echo "FAIL: the report has no MPI_$call"; failed=1; }
done
"${PYTHON:-python3}" - "$dir/trace.calls" <<'END' || { echo "FAIL: the timeline"; failed=1; }
import json, sys
events = json.load(open(sys.argv[1]))['traceEvents']
begun = {e['id']: e for e in events if e['ph'] == 'b'}
ended = {e['id']: e for e in events if e['ph'] == 'e'}
assert begun.keys() == ended.keys()
assert all(begun[i]['ts'] <= ended[i]['ts'] and begun[i]['name'] == ended[i]['name'] for i in begun)
seen = {(e['name'], e['args']['route'], e['pid']) for e in begun.values()}
assert {(name, route, rank) for name in ('MPI_Send', 'MPI_Isend', 'MPI_Irecv') for route in ('fast', 'staged')
        for rank in (0, 1)} <= seen, seen
assert all(e['args']['bytes'] > 0 and e['args']['peer'] < 2 for e in begun.values() if e['name'] == 'MPI_Irecv')
assert {'copy', 'wait for the device'} <= {e['name'] for e in events if e['ph'] == 'X'}
END
run 3 dropin_messages 13 100
run 1 dropin_messages 6 50
SELVAGE_DROPIN_FAST_BYTES=700 run 2 dropin_messages 7 100 fits
seen=$(SELVAGE_REPORT=on run 2 dropin_collectives 3 50 2>&1) || failed=1
for call in Allreduce Reduce Bcast Allgather Alltoall Reduce_scatter_block \
    Gather Gatherv Scatter Scatterv Allgatherv Alltoallv; do
    [ -z "$routed" ] || grep -q "MPI_$call .* fast " <<<"$seen" ||
        { echo "FAIL: MPI_$call did not take the fast route"; failed=1; }
done
grep -v staged <<<"$seen"
# As it is unless somebody says otherwise: what would wait for another rank is staged.
unset SELVAGE_DROPIN_FAST
seen=$(SELVAGE_REPORT=on run 2 dropin_messages 14 200 fits 2>&1) || { echo "$seen"; failed=1; }
for call in 'Send +fast' 'Isend +fast' 'Isend +staged' 'Ssend +staged' 'Sendrecv +fast' 'Bsend +staged'; do
    grep -Eq "^ +[01] +[01] +MPI_$call " <<<"$seen" || { echo "FAIL: the report has no MPI_$call"; failed=1; }
done
run 3 dropin_messages 15 100
SELVAGE_DROPIN_SLOT_BYTES=4K run 2 dropin_messages 16 100 fits
seen=$(SELVAGE_REPORT=on run 2 dropin_collectives 4 50 2>&1) || failed=1
[ -z "$routed" ] || grep -q "MPI_Allreduce .* fast " <<<"$seen" ||
    { echo "FAIL: MPI_Allreduce did not take the fast route"; failed=1; }
unset SELVAGE_JOB SELVAGE_DROPIN_FAST_BYTES
export MALLOC_PERTURB_=85 # what is freed too early is seen
for program in mpifh usempi f08; do
    [ ! -x "$top_builddir/tests/mpi/dropin_$program" ] || run 2 "dropin_$program" "" "" "$dir"
done
unset MALLOC_PERTURB_
# An MPI that ends persistent requests that it is only asked about.
ending=$top_builddir/tests/fixtures/.libs/ending_status.so modes='auto on'
case $("$MPIRUN" --version 2>/dev/null) in
*"Open MPI"*|*OpenRTE*|*PRRTE*) preload="-x LD_PRELOAD=" ;;
*) preload="-genv LD_PRELOAD " ;;
esac
case ${SANITIZER:-} in
*thread*) modes= ;; # that wants to be loaded first
*) . "$top_srcdir/tests/fixtures/preload.sh" ;;
esac
case ${BRIEF:-} in # each of the passes of ./check has one
cases) modes=${modes:+auto} ;;
yes) modes=${modes:+on} ;;
esac
export SELVAGE_JOB=test SELVAGE_DROPIN_FAST_BYTES=96
for mode in $modes; do
    seen=$(RUN_MPI_FLAGS="${RUN_MPI_FLAGS:-} $preload$ending" SELVAGE_DROPIN_FAST=$mode \
        run 2 dropin_messages 17 200 fits 2>&1) || { echo "$seen"; failed=1; }
    grep -q 'persistent messages were ended' <<<"$seen" || { echo "$seen"; echo "FAIL: none was ended"; failed=1; }
done
exit "$failed"
