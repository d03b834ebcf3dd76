#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs that know nothing of the drop-in, started by selvage-run: what it reports, warns of and bears.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$top_srcdir/tests/fixtures/unmodified.sh"
pools="256M 8M 0"
case ${BRIEF:-} in
cases) pools=0 ;;
yes) pools=8M ;;
esac
program 2 support-query 'cuda 1 rocm 1'
program 2 open-requests-at-finalize '[1-9] requests with device memory were open at MPI_Finalize'
program 2 split-calls-at-finalize ' [12] split collective calls on files with device memory were open at MPI_Finalize'
program 2 split-calls-at-finalize '0 failed'
program 2 device-writes-late '0 failed'
# ... and where nobody says which device.
case $SELVAGE_DEVICE in
soft) program 2 device-writes-late '0 failed' -u SELVAGE_DEVICE
    program 2 several-gpus '^[1-9] GPUs' -u SELVAGE_DEVICE ;;
esac
# With device, work of a stream that is in order with no other is waited for, and with default it is not.
program 2 device-writes-late '0 failed' SELVAGE_DROPIN_SYNC=device
case $SELVAGE_DEVICE in
soft) ! env SELVAGE_DROPIN_SYNC=default MPIRUN="$dir/mpirun" "$top_srcdir/scripts/run-mpi" -n 2 -t 60 \
    "$top_builddir/tests/mpi/dropin_unmodified" device-writes-late >"$dir/out" 2>&1 ||
    { cat "$dir/out"; echo "FAIL: what device waits for was complete without it"; failed=1; } ;;
*)  # Each rank sees one GPU, which is GPU 0 to it. On machines with one there is nothing to see.
    if [ "${TEST_GPUS:-1}" -ge 2 ]; then
        # shellcheck disable=SC2016 # for the shell of each rank
        env MPIRUN="$dir/mpirun" SELVAGE_REPORT=1 "$top_srcdir/scripts/run-mpi" -n 2 -t 240 bash -c '
            rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-$PMI_RANK}}
            export CUDA_VISIBLE_DEVICES=$rank HIP_VISIBLE_DEVICES=$rank
            exec "$0" no-collective-calls' "$top_builddir/tests/mpi/dropin_unmodified" >"$dir/out" 2>&1 &&
            grep -Eq '^ +0 +1 +MPI_[A-Za-z]+ +fast +[1-9]' "$dir/out" ||
            { cat "$dir/out"; echo "FAIL: ranks that see one GPU each"; failed=1; }
    fi ;;
esac
# A GPU may well be done by then.
case $SELVAGE_DEVICE in
soft) program 2 device-writes-late 'MPI_Sendrecv: the device was still writing 4096 bytes' SELVAGE_DROPIN_SYNC=check ;;
esac
program 2 device-writes-late '^ +0 +1 +MPI_Sendrecv +staged +1 +4096' SELVAGE_REPORT=1
! grep -q 'no call had device memory' "$dir/out" || { cat "$dir/out"; echo "FAIL: a call had it"; failed=1; }
# A job of several programs: each of them.
env -u SELVAGE_MPI_KIND OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 240 "$dir/mpirun" -n 1 \
    "$top_builddir/tests/mpi/dropin_unmodified" device-writes-late : \
    -n 1 "$top_builddir/tests/mpi/dropin_unmodified" device-writes-late >"$dir/out" 2>&1 &&
    [ "$(grep -c ' 0 failed' "$dir/out")" -eq 2 ] || { cat "$dir/out"; echo "FAIL: two programs in a job"; failed=1; }
program 2 thread-per-tag '0 failed'
program 2 several-gpus '^[1-9] GPUs'
# The software device has default streams of its own for each that opens it, GPUs one for all.
[ "$SELVAGE_DEVICE" = soft ] || program 2 several-gpus '^[1-9] GPUs' SELVAGE_DROPIN_SYNC=default
# row BYTES PATTERN [VARIABLE=VALUE...]: windows of 32 messages, each compared, and what the report says of them
row() {
    local bytes=$1 pattern=$2
    shift 2
    env SELVAGE_DROPIN_SYNC=default SELVAGE_REPORT=1 "$@" MPIRUN="$dir/mpirun" \
        "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tools/selvage-bench-mpi" --benchmarks bandwidth \
        --ways device --min "$bytes" --max "$bytes" --window 32 --iterations 400 --seconds 60 --repetitions 1 \
        --nccl no \
        >"$dir/out" 2>&1 &&
        grep -q ', 0 wrong' "$dir/out" &&
        grep -Eq "$pattern" "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: a row of sends, no \"$pattern\", $*"; failed=1; }
}
# Once one went to host memory, all but one in 64 to that rank are staged. Those to device memory came before.
env SELVAGE_DROPIN_SYNC=default SELVAGE_REPORT=1 MPIRUN="$dir/mpirun" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 \
    "$top_builddir/tools/selvage-bench-mpi" --benchmarks latency --ways device,mixed --min 32K --max 32K \
    --iterations 400 --seconds 60 --repetitions 1 --nccl no >"$dir/out" 2>&1 && grep -q ', 0 wrong' "$dir/out" &&
    awk '$1 == 0 && $2 == 1 && $3 == "MPI_Send" { count[$4] += $5 }
        END { exit !(count["fast"] > 100 && count["staged"] > 100) }' "$dir/out" ||
    { cat "$dir/out"; echo "FAIL: messages to host memory"; failed=1; }
# In a long row of sends short messages take the route, unless a length is set; by itself each is staged. So are those
# of up to 32 KiB that lie side by side.
row 40K '^ +0 +1 +MPI_Isend +fast '
row 40K '^ +0 +1 +MPI_Isend +staged ' SELVAGE_DROPIN_FAST_BYTES=64K
! grep -Eq '^ +0 +1 +MPI_Isend +fast ' "$dir/out" || { cat "$dir/out"; echo "FAIL: a row, and a length"; failed=1; }
row 16K '^ +0 +1 +MPI_Isend +staged '
! grep -Eq '^ +0 +1 +MPI_Isend +fast ' "$dir/out" || { cat "$dir/out"; echo "FAIL: a row, side by side"; failed=1; }
row 16K '^ +0 +1 +MPI_Isend +fast ' SELVAGE_DROPIN_FAST_BYTES=8K
# On a GPU that processes share it takes longer messages, because kernels wait for the turn of their process.
row 40K '^ +0 +1 +MPI_Isend +staged ' SELVAGE_GPU_SHARED=on
! grep -Eq '^ +0 +1 +MPI_Isend +fast ' "$dir/out" || { cat "$dir/out"; echo "FAIL: a row, and a shared GPU"; failed=1; }
# A report with nothing in it says why.
env SELVAGE_REPORT=1 MPIRUN="$dir/mpirun" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 \
    "$top_builddir/tools/selvage-bench-mpi" --benchmarks latency --ways host --min 8 --max 8 --iterations 4 \
    --repetitions 1 --nccl no >"$dir/out" 2>&1 && grep -q '^selvage-mpi: no call had device memory$' "$dir/out" &&
    ! grep -q 'messages of device memory' "$dir/out" ||
    { cat "$dir/out"; echo "FAIL: a report of no device memory does not say so"; failed=1; }
# alone BENCHMARK BYTES ROUTE [VARIABLE=VALUE...]: messages one by one take this route; where that is staging, no other
alone() {
    local benchmark=$1 bytes=$2 route=$3
    shift 3
    env SELVAGE_DROPIN_SYNC=default SELVAGE_REPORT=1 "$@" MPIRUN="$dir/mpirun" \
        "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tools/selvage-bench-mpi" --benchmarks "$benchmark" \
        --ways device --min "$bytes" --max "$bytes" --iterations 40 --seconds 60 --repetitions 1 --nccl no \
        >"$dir/out" 2>&1 &&
        grep -q ', 0 wrong' "$dir/out" &&
        grep -Eq "^ +0 +1 +MPI_Send +$route +[1-9]" "$dir/out" &&
        { [ "$route" = fast ] || ! grep -Eq "^ +0 +1 +MPI_Send +fast " "$dir/out"; } ||
        { cat "$dir/out"; echo "FAIL: $benchmark, messages of $bytes one by one, not $route, $*"; failed=1; }
}
alike alone latency 16K fast
alike alone vector 16K staged
alike alone vector 128K fast
alike alone latency 256K fast SELVAGE_GPU_SHARED=off
alike alone latency 256K staged SELVAGE_GPU_SHARED=on
alike alone latency 1M fast SELVAGE_GPU_SHARED=on
alike alone latency 256K fast SELVAGE_GPU_SHARED=on SELVAGE_DROPIN_FAST_BYTES=64K
# Where no rank is to wait for another's host: what slots and buffers have room for goes fast, the rest is staged.
program 2 sends-fill-slots '^ +0 +1 +MPI_Isend +fast ' SELVAGE_REPORT=1
! grep -Eq '^ +0 +1 +MPI_Isend +staged ' "$dir/out" || { cat "$dir/out"; echo "FAIL: buffers were not used"; failed=1; }
program 2 sends-fill-slots '^ +0 +1 +MPI_Isend +fast ' SELVAGE_REPORT=1 SELVAGE_MESSAGE_BUFFER_BYTES=0
grep -Eq '^ +0 +1 +MPI_Isend +staged ' "$dir/out" || { cat "$dir/out"; echo "FAIL: no message was staged"; failed=1; }
program 2 first-message-by-request '^ +0 +1 +MPI_Sendrecv +fast ' SELVAGE_REPORT=1
# The route opens between two ranks, whatever the program calls and the others do, and soon: 60 messages each way.
program 4 no-collective-calls '^ +0 +1 +MPI_Isend +fast +[2-6][0-9] ' SELVAGE_REPORT=1
grep -Eq '^ +1 +0 +MPI_Sendrecv +fast +[2-6][0-9] ' "$dir/out" || { cat "$dir/out"; echo "FAIL: staged"; failed=1; }
case $SELVAGE_DEVICE in # a program that has no device yet is not to pay for one
soft) program 2 first-message-by-request '^ +0 +1 +MPI_Sendrecv +staged ' -u SELVAGE_DEVICE \
    SELVAGE_DEVICE_PATH="$dir" SELVAGE_REPORT=1 DROPIN_ROUTE_LIMIT_S=2 ;;
esac
program 4 sends-fill-slots '0 failed' SELVAGE_DROPIN_FAST_BYTES=96
program 2 sends-fill-slots '0 failed' SELVAGE_DROPIN_FAST=off
# What an announcement must be expected in, and ranks of which only some have threads.
for what in probe-announced recv-announced-into-any-memory; do
    program 2 $what '^ +0 +1 +MPI_Send +fast ' SELVAGE_REPORT=1
done
program 2 ranks-without-threads '0 failed'
# Long lists of requests of host memory.
program 2 long-request-lists '0 failed'
# ... and what such calls bear: error handlers and other threads that begin and end requests meanwhile.
program 2 calls-in-error-handler '0 failed' SELVAGE_DROPIN_FAST_BYTES=1024
program 2 requests-of-other-thread '0 failed' SELVAGE_DROPIN_FAST=off
# What is said of requests, and what is left of those that are refused or given up.
program 2 requests-of-each-kind '^ +0 +1 +MPI_Rsend +fast +5 ' SELVAGE_REPORT=1
program 2 requests-of-each-kind '0 failed' SELVAGE_DROPIN_FAST=on
program 2 requests-of-each-kind '0 failed' SELVAGE_DROPIN_FAST=off
# Receives of device memory that are too short, also where Open MPI writes past the end of those that it gets.
for mode in $modes $off; do
    program 2 recv-too-short-among-others '0 failed' SELVAGE_DROPIN_FAST=$mode RUN_MPI_SINGLE_COPY=cma
done
for mode in $modes; do
    program 2 persistent-recvs-of-threads '0 failed' SELVAGE_DROPIN_FAST=$mode
    program 2 persistent-sends '^ +0 +1 +MPI_Start +fast +7[0-9] ' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST=$mode
done
program 2 persistent-sends '0 failed' SELVAGE_DROPIN_FAST=off
# What opening the route must not do, and what must not prevent it.
for what in attributes-untouched refused-on-one-rank; do
    program 2 $what '^ +0 +1 +MPI_Sendrecv +fast +[12] ' SELVAGE_REPORT=1 \
        SELVAGE_DROPIN_FAST_BYTES=1024
done
program 2 one-rank-lacks-collectives '^ +0 +1 +MPI_Sendrecv +fast +[12] ' SELVAGE_REPORT=1 \
    SELVAGE_DROPIN_FAST_BYTES=1024
grep -Eq '^ +0 +all +MPI_Allreduce +staged +1 ' "$dir/out" || { cat "$dir/out"; echo "FAIL: not staged"; failed=1; }
for mode in $modes $off; do
    program 2 attribute-deleted-at-finalize '0 failed' SELVAGE_DROPIN_FAST=$mode \
        SELVAGE_DROPIN_FAST_BYTES=1024
done
# Nothing of MPI's that the drop-in makes is left at the end.
for mode in $modes; do
    program 2 no-mpi-objects-left '^ +0 +1 +MPI_Isend +fast +[1-9]' SELVAGE_REPORT=1 \
        SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_FAST_BYTES=1024
done
# However many messages are outstanding, memory is pinned up to the bound, and no more once there is enough of it.
for bytes in $pools; do
    program 2 pinned-memory-bounded 'memory was pinned [1-9][0-9]* times' SELVAGE_DROPIN_FAST=off \
        SELVAGE_DROPIN_POOL_BYTES=$bytes
done
# Sends that nobody waits for, and threads that call MPI in turn, by each route.
for mode in $modes $off; do
    program 2 freed-sends ' 0 failed' SELVAGE_DROPIN_FAST=$mode SELVAGE_REPORT=1
    [ "$mode" != auto ] || grep -Eq '^ +0 +1 +MPI_Isend +fast +[1-9]' "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: no freed send took the route"; failed=1; }
    program 2 buffered-sends ' 0 failed' SELVAGE_DROPIN_FAST=$mode
    program 2 threads-in-turn '^thread level ' SELVAGE_DROPIN_FAST=$mode SELVAGE_DROPIN_SYNC=default
done
# What was used once is given back: pinned memory, and with it what is not pinned; mappings of a neighbour's memory.
alike program 2 idle-memory-given-back ' 0 failed' SELVAGE_DROPIN_FAST=off SELVAGE_IDLE_S=0.2
alike program 2 idle-memory-given-back ' 0 failed' SELVAGE_DROPIN_FAST=off SELVAGE_IDLE_S=0.2 \
    SELVAGE_DROPIN_SYNC=default SELVAGE_DROPIN_POOL_BYTES=16M
program 2 idle-memory-given-back ' 0 failed' SELVAGE_DROPIN_FAST=auto SELVAGE_IDLE_S=0.2 SELVAGE_DROPIN_SYNC=default
exit $failed
