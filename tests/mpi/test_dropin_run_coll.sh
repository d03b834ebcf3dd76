#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The same programs as in test_dropin_run.sh: collective calls, errors, types, and ranks that stand still.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$top_srcdir/tests/fixtures/unmodified.sh"
# Selvage's collectives add up what they have types for, and keep no rank that MPI refuses a call.
# On a GPU that ranks share, their kernels take turns, and the route may find it busy and leave sums to MPI.
ranks=3 summed=fast
[ "$SELVAGE_DEVICE" = soft ] || [ "${TEST_GPUS:-3}" -ge 3 ] || ranks=2
# Ranks on one GPU run no kernels that wait for each other: these sums are staged.
[ "$SELVAGE_DEVICE" = soft ] || [ "${TEST_GPUS:-3}" -ge 2 ] || summed=staged
for mode in $modes; do
    program "$ranks" sums-of-each-type "^ +0 +all +MPI_Reduce_scatter +$summed +9 " \
        SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
    [ "$summed" != fast ] || grep -Eq '^ +0 +all +MPI_Allreduce +fast +15 ' "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: not 15 sums by the route, $mode"; failed=1; }
    program "$ranks" reductions-of-each-type '^calls: MPI_Allreduce [1-9][0-9]{2}$' \
        SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
    for call in Allreduce Reduce Reduce_scatter_block Reduce_scatter; do # of all there are
        calls=$(sed -n "s/^calls: MPI_$call //p" "$dir/out")
        [ "$summed" != fast ] || is_left_out || grep -Eq "^ +0 +all +MPI_$call +fast +$calls " "$dir/out" ||
            { cat "$dir/out"; echo "FAIL: not $calls MPI_$call of each type by the route, $mode"; failed=1; }
    done
    program "$ranks" sums-of-some-ranks ' 0 failed' \
        SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
    for call in Allreduce Reduce Reduce_scatter_block Reduce_scatter Allgather Alltoall Bcast; do
        most=$(sed -nE "s/^ +0 +all +MPI_$call +fast +([0-9]+) .*/\\1/p" "$dir/out")
        wanted=36
        case $call in *_scatter*|Alltoall) wanted=38 ;; esac # with MPI_IN_PLACE, too
        [ "$summed" != fast ] || [ "${most:-0}" -ge "$wanted" ] ||
            { cat "$dir/out"; echo "FAIL: MPI_$call of some ranks: ${most:-0} times by the route, $mode"; failed=1; }
    done
    program 2 sums-of-several-threads ' 0 failed' \
        SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
    program 2 refused-collective-on-rank-0 ' 0 failed' \
        SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
done
# What is not set on some ranks has the same value there, and is not the same for calls: then everything is staged.
for setting in SELVAGE_DROPIN_FAST_BYTES=64K SELVAGE_CHECKSUM=retry; do
    # shellcheck disable=SC2016 # for the script that is written
    printf '#!/bin/bash\n%s\n[ "$rank" -ne 1 ] || export %s\nexec %q "$@"\n' \
        'rank=${OMPI_COMM_WORLD_RANK:-${MPI_LOCALRANKID:-$PMI_RANK}}' "$setting" \
        "$top_builddir/tests/mpi/dropin_unmodified" >"$dir/one-set"
    chmod +x "$dir/one-set"
    env SELVAGE_REPORT=1 MPIRUN="$dir/mpirun" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$dir/one-set" \
        sums-of-each-type >"$dir/out" 2>&1 && grep -q ' 0 failed' "$dir/out" &&
        grep -q 'SELVAGE_CHECKSUM is not set alike on every rank' "$dir/out" && ! grep -q 'MPI_.* fast ' "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: sums-of-each-type, $setting on one rank"; failed=1; }
done
# More lists of ranks than there can be collective communicators: what has none is staged, and right.
if [ "$summed" = fast ] && [ "$SELVAGE_DEVICE" = soft ]; then
    program 4 sums-of-some-ranks ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST_BYTES=1024
    for pattern in 'are staged: .* communicators of collectives are alive' '^ +0 +all +MPI_Reduce +fast +[1-9]' \
        '^ +0 +all +MPI_Reduce +staged +[1-9]'; do
        grep -Eq "$pattern" "$dir/out" || { cat "$dir/out"; echo "FAIL: no \"$pattern\", four ranks"; failed=1; }
    done
fi
# Ranks of a communicator need not wait for others that have no device memory, and all of the job may come later.
if [ "$summed" = fast ] && { [ "$SELVAGE_DEVICE" = soft ] || [ "${TEST_GPUS:-3}" -ge 3 ]; }; then
    program 3 sums-beside-writer ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST_BYTES=1024
    for call in Allreduce Reduce Reduce_scatter_block Reduce_scatter Allgather Alltoall Bcast; do
        grep -Eq "^ +0 +all +MPI_$call +fast +4 " "$dir/out" ||
            { cat "$dir/out"; echo "FAIL: MPI_$call of all ranks but one is not by the route"; failed=1; }
    done
    program 3 one-rank-of-some-lacks-collectives '^ +0 +all +MPI_Reduce +staged +20 ' \
        SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST_BYTES=1024
    grep -Eq '^ +0 +all +MPI_Allgather +fast ' "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: all ranks of the job do not open what some could not"; failed=1; }
fi
if [ "$SELVAGE_DEVICE" = soft ]; then
    program 4 sums-by-parts '^ +0 +all +MPI_Reduce +fast +14 ' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST_BYTES=1024
fi
# Blocks of gathers, scatters and their kin go from device to device, and are as MPI's own calls bring them.
for mode in $modes $off; do
    for ranks_of in "2 blocks-of-each-kind" "$ranks blocks-of-each-kind" "$ranks blocks-and-threads"; do
        # shellcheck disable=SC2086 # two arguments
        program $ranks_of ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
        [ "$summed" = fast ] && [ "$mode" != off ] || continue
        # With threads only calls on MPI_COMM_WORLD take the route, and chance may leave one of the six without any.
        [ "${ranks_of#* }" != blocks-and-threads ] || continue
        for call in Gather Gatherv Scatter Scatterv Allgatherv Alltoallv; do
            grep -Eq "^ +0 +all +MPI_$call +fast +[1-9]" "$dir/out" ||
                { cat "$dir/out"; echo "FAIL: MPI_$call did not take the route, $mode, $ranks_of"; failed=1; }
        done
    done
    program "$ranks" refused-blocks-on-rank-0 ' 0 failed' SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
done
# Slots that are too short or too few: what finds no room is staged within the same call.
program "$ranks" blocks-of-each-kind ' 0 failed' SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_MESSAGE_BUFFER_BYTES=0 \
    SELVAGE_DROPIN_SLOT_BYTES=4K
# What MPI refuses ends as it does without the drop-in, and handlers are called as often.
"$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/dropin_unmodified" \
    refused-as-without-the-drop-in >"$dir/plain" 2>&1 ||
    { cat "$dir/plain"; echo "FAIL: errors without the drop-in"; failed=1; }
grep -E '^(refused|skipped): ' "$dir/plain" | sort >"$dir/wanted"
for mode in $modes $off; do
    program 2 refused-as-without-the-drop-in '0 failed' SELVAGE_DROPIN_FAST=$mode
    grep -E '^(refused|skipped): ' "$dir/out" | sort | diff "$dir/wanted" - || { echo "FAIL: errors, $mode"; failed=1; }
done
grep -q '^skipped: ' "$dir/wanted" ||
    [ "$(grep -c 'class 0,' "$dir/wanted")" -lt "$(grep -c 'class [1-9]' "$dir/wanted")" ] ||
    { echo "FAIL: MPI refuses next to nothing"; failed=1; }
# A thread of a rank may be in a collective call that its other ranks come to when the route is open.
for mode in $modes; do
    program 2 route-opens-in-collective '0 failed' SELVAGE_DROPIN_FAST=$mode \
        SELVAGE_DROPIN_FAST_BYTES=1024
done
# Requests, of whose messages some come damaged: each is verified, mended, and right.
program 2 requests-of-each-kind ' 0 were not$' SELVAGE_DROPIN_FAST=on SELVAGE_REPORT=1 \
    SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_FAULT=flip=0.3,seed=3 SELVAGE_RETRY_MAX=50
is_left_out ||
    awk '/received +verified +damaged/ {n = 2; next} n-- > 0 {damaged += $4; bad += $2 == 0 || $2 != $3 || $6 > 0}
        END {exit bad > 0 || damaged == 0}' "$dir/out" ||
    { cat "$dir/out"; echo "FAIL: not all requests were verified"; failed=1; }
# A receive that is too short for an announcement keeps no sender, and one that is too short for a message says so.
for mode in $modes $off; do
    program 2 recv-too-short '0 failed' SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
done
program 2 recv-ended-past-the-drop-in '0 failed' SELVAGE_DROPIN_FAST_BYTES=1024
case $("$MPIRUN" --version 2>&1) in # MPICH's own MPI_Finalize keeps such a sender waiting
*"Open MPI"*|*OpenRTE*) for mode in auto off; do
        program 2 freed-recvs-at-finalize '0 failed' SELVAGE_DROPIN_FAST=$mode
    done ;;
esac
program 2 send-beside-waiting-kernel '^ +0 +1 +MPI_Isend +staged +1 ' SELVAGE_REPORT=1 \
    SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_DROPIN_SYNC_MS=50
program 2 send-beside-waiting-kernel '0 failed' SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_DROPIN_SYNC=default
program 3 columns-of-one-field '0 failed'
program 2 blocks-with-a-hole '0 failed' SELVAGE_DROPIN_FAST=off
# Device memory that only the types name: in each of these calls it is staged.
program 2 memory-named-by-types '0 failed' SELVAGE_DROPIN_FAST=off SELVAGE_TRACE="$dir/moved"
staged=$(grep -c '"MPI_Pack",.*"ph":"b"' "$dir/moved.calls") # more than go into one message
[ "$staged" -eq 10002 ] || { echo "FAIL: $staged calls of MPI_Pack are in the timeline"; failed=1; }
"${PYTHON:-python3}" -m json.tool "$dir/moved.calls" >"$dir/out" || { echo "FAIL: the timeline"; failed=1; }
for call in Bcast Ibcast Gather Alltoallw Unpack Pack_external Unpack_external; do
    [ "$(grep -c "\"MPI_$call\".*\"ph\":\"b\".*\"pid\":[01].*\"bytes\":[1-9]" "$dir/moved.calls")" -eq 2 ] ||
        { grep "MPI_$call" "$dir/moved.calls"; echo "FAIL: MPI_$call was not staged on both ranks"; failed=1; }
done
# Without a deadline a call waits for a rank that stands still, as MPI's own does; with one it fails, or it is right.
program 2 stopped-rank '0 failed' SELVAGE_TIMEOUT_S=5 SELVAGE_DROPIN_FAST_BYTES=4096
grep 'calls failed' "$dir/out" # some, if the rank was stopped within one
program 2 stopped-rank '^rank 0: 0 calls failed' SELVAGE_DROPIN_FAST_BYTES=4096
program 2 many-open-requests '0 failed'
grep 'requests open:' "$dir/out"
# Not every MPI can do so everywhere: Open MPI not without a network.
if "$top_srcdir/scripts/run-mpi" -n 2 -t 30 "$top_builddir/tests/mpi/dropin_unmodified" spawned-job \
    >"$dir/out" 2>&1; then
    program 2 spawned-job '0 failed'
else
    echo "this MPI does not spawn here: left out"
fi
program 2 progress-thread '0 failed' SELVAGE_PROGRESS=thread
program 1 cost-of-untouched-call 'cost of an untouched call: -?[0-9.]+ ns'
grep cost "$dir/out"

# example RANKS PROGRAM [ARGUMENT...]: a program that checks itself
example() {
    local ranks=$1 name=$2
    shift 2
    [ -x "$top_builddir/examples/dropin/$name" ] || return
    MPIRUN="$dir/mpirun" "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$top_builddir/examples/dropin/$name" "$@" \
        >"$dir/out" 2>&1 && grep -q ': right$' "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: $name $* on $ranks ranks"; failed=1; }
}
alike example 2 jacobi --n 60 --steps 40
alike example 2 jacobi --n 60 --steps 40 --by-hand
alike example 2 jacobi --n 60 --steps 40 --host-sum
alike example 2 window --most 4194304
alike example 2 window --most 4194304 --by-hand
SELVAGE_CHECKSUM=on SELVAGE_DROPIN_FAST=on SELVAGE_DROPIN_FAST_BYTES=96 SELVAGE_REPORT=1 \
    example 2 jacobi --n 60 --steps 40
# Its rows are long enough for the route, its sums are not. What it calls is what the report names, by any route.
for pattern in 'MPI_Sendrecv .* fast ' 'MPI_Allreduce .* staged '; do
    grep -q "$pattern" "$dir/out" || { cat "$dir/out"; echo "FAIL: no \"$pattern\" in the report"; failed=1; }
done
# By itself it takes the route for each row that is long enough, after a few steps in which the ranks find each other.
SELVAGE_REPORT=1 example 2 jacobi --n 1100 --steps 200
for pair in '0 +1' '1 +0'; do
    by_route=$(sed -nE "s/^ +$pair +MPI_Sendrecv +fast +([0-9]+) .*/\\1/p" "$dir/out")
    [ "${by_route:-0}" -ge 100 ] ||
        { cat "$dir/out"; echo "FAIL: ${by_route:-0} of 200 rows took the route"; failed=1; }
done
# What comes damaged is asked for again, also of a rank whose send is complete: a greeting, or a row.
for mode in $modes; do
    SELVAGE_FAULT=flip=1,rank=0 SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=96 \
        example 2 jacobi --n 60 --steps 40
    grep -Eq 'asked for again|taken once more' "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: nothing was damaged, fast $mode"; failed=1; }
done

# What the report says of packets. says WHAT PATTERN; says_not
says() { grep -Eq "$2" "$dir/out" || { cat "$dir/out"; echo "FAIL: the report, $1: no \"$2\""; failed=1; }; }
says_not() { ! grep -Eq "$2" "$dir/out" || { cat "$dir/out"; echo "FAIL: the report, $1: \"$2\""; failed=1; }; }
row='^ +0 +([1-9][0-9]*) +\1' # all that was received is verified
fast_jacobi() { # [VARIABLE=VALUE...]
    export SELVAGE_DROPIN_FAST_BYTES=96 "$@"
    example 2 jacobi --n 60 --steps 40
    unset SELVAGE_DROPIN_FAST_BYTES "${@%%=*}"
}
for mode in $modes; do
    fast_jacobi SELVAGE_DROPIN_FAST=$mode SELVAGE_REPORT=1
    says "$mode" "$row +0 +0 +0 +[1-9][0-9]*$"
    says_not "$mode" 'were damaged|never open'
done
fast_jacobi SELVAGE_DROPIN_FAST=on SELVAGE_REPORT=1 SELVAGE_CHECKSUM=off
says unchecked '^ +0 +[1-9][0-9]* +0 +0 +0 +0 +[1-9][0-9]*$'
fast_jacobi SELVAGE_DROPIN_FAST=on SELVAGE_REPORT=1 SELVAGE_FAULT=flip=1
says mended "$row +\\1 +\\1 +0 +[1-9][0-9]*$"
says mended '^selvage-mpi: ([1-9][0-9]*) arrivals on the fast route were damaged: \1 messages were mended, 0 were not$'
fast_jacobi SELVAGE_DROPIN_FAST=on SELVAGE_FAULT=flip=1
says 'not asked for' '^selvage-mpi: ([1-9][0-9]*) arrivals on the fast route were damaged: \1 messages were mended'
says_not 'not asked for' 'messages of the fast route'
fast_jacobi SELVAGE_DROPIN_FAST=on
says_not 'not asked for' 'selvage-mpi'
fast_jacobi SELVAGE_DROPIN_FAST=off SELVAGE_REPORT=1
says off '^selvage-mpi: the fast route was never open: nothing went by it, and nothing was verified by Selvage$'
# The first message after the greetings, of which there are three, for good.
case $SELVAGE_DEVICE in
soft) program 2 damaged-for-good '^1 of 3 calls failed' SELVAGE_DROPIN_FAST=on SELVAGE_DROPIN_FAST_BYTES=96 \
    SELVAGE_REPORT=1 \
        SELVAGE_FAULT=flip=1,only=4,attempts=255 SELVAGE_RETRY_MAX=1
    says failed '^ +0 +2 +2 +2 +1 +1 +8192$'
    says failed '^selvage-mpi: 4 arrivals on the fast route were damaged: 0 messages were mended, 2 were not$'
    # ... as a part of a collective call, which fails on the rank that gets it, once.
    program 2 damaged-blocks '^rank 0: 1 of 4 calls failed' SELVAGE_DROPIN_FAST=on SELVAGE_DROPIN_FAST_BYTES=96 \
        SELVAGE_REPORT=1 SELVAGE_FAULT=flip=1,only=4,attempts=255 SELVAGE_RETRY_MAX=1
    says failed '^rank 1: 0 of 4 calls failed'
    says failed '^ +0 +3 +3 +2 +1 +1 +12288$'
    for mode in $modes; do
        program 2 damaged-blocks '^rank 0: 0 of 4 calls failed' SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=96 \
            SELVAGE_REPORT=1 SELVAGE_FAULT=flip=1,seed=3 SELVAGE_RETRY_MAX=50
        says mended '^selvage-mpi: ([1-9][0-9]*) arrivals on the fast route were damaged: \1 messages were mended'
    done ;;
esac
example 2 jacobi_fortran

# What the flags preload comes after it, and the flags after those are left alone.
case $("$MPIRUN" --version 2>&1) in
*"Open MPI"*|*OpenRTE*) flags=(-x "LD_PRELOAD=$dir/own.so" -x LD_LIBRARY_PATH) ;;
*) flags=(-genv LD_PRELOAD "$dir/own.so" -genv OTHER 1) ;;
esac
# shellcheck disable=SC2016 # for the shell that is started
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_LIBRARY_PATH='' timeout -k 5 240 "$dir/mpirun" \
    "${flags[@]}" -n 1 sh -c 'echo "preloaded $LD_PRELOAD"' >"$dir/out" 2>/dev/null
grep -q "^preloaded .*libselvage-mpi.so:$dir/own.so\$" "$dir/out" ||
    { cat "$dir/out"; echo "FAIL: a library of the flags"; failed=1; }

# Without it nothing waits for the device.
"$top_srcdir/scripts/run-mpi" -n 2 -t 30 "$top_builddir/tests/mpi/dropin_unmodified" device-writes-late \
    >"$dir/out" 2>&1 &&
    { echo "FAIL: the program is right without the drop-in as well"; failed=1; }
exit "$failed"
