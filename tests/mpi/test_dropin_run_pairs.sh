#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The same programs as in test_dropin_run.sh: calls to neighbours, collective calls that do not block, and persistent
# ones, which become messages from device to device.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$top_srcdir/tests/fixtures/unmodified.sh"
ranks=3
[ "$SELVAGE_DEVICE" = soft ] || [ "${TEST_GPUS:-3}" -ge 3 ] || ranks=2
# Where ranks share a GPU, collectives of the route are not to be had, and all of these calls are staged.
fast=yes
[ "$SELVAGE_DEVICE" = soft ] || [ "${TEST_GPUS:-3}" -ge 2 ] || fast=no

# takes MODE LEAST CALL...: rank 0 has made so many of each by the route. Open MPI 4 has persistent calls as MPIX_
takes() {
    local mode=$1 least=$2 call made
    shift 2
    [ "$fast" = yes ] && [ "$mode" != off ] && ! is_left_out || return
    for call; do
        made=$(sed -nE "s/^ +0 +all +MPIX?_$call +fast +([0-9]+) .*/\\1/p" "$dir/out")
        [ "${made:-0}" -ge "$least" ] ||
            { cat "$dir/out"; echo "FAIL: MPI_$call: ${made:-0} times by the route, $mode"; failed=1; }
    done
}

# stages CALL...: rank 0 has made none of them by the route
stages() {
    local call
    for call; do
        ! grep -Eq "^ +0 +all +MPIX?_$call +fast " "$dir/out" ||
            { cat "$dir/out"; echo "FAIL: MPI_$call by the route"; failed=1; }
    done
}

neighbors='Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw
    Ineighbor_allgather Ineighbor_allgatherv Ineighbor_alltoall Ineighbor_alltoallv Ineighbor_alltoallw'
others='Ialltoall Ialltoallv Ialltoallw Iallgather Iallgatherv Igather Igatherv Iscatter Iscatterv Ibcast'
reductions='Iallreduce Ireduce Ireduce_scatter Ireduce_scatter_block'
lasting='Neighbor_allgather_init Neighbor_allgatherv_init Neighbor_alltoall_init Neighbor_alltoallv_init
    Neighbor_alltoallw_init Allgather_init Allgatherv_init Alltoall_init Alltoallv_init Alltoallw_init Allreduce_init
    Reduce_scatter_init Reduce_scatter_block_init'
# Of an MPI that has none of them the programs do nothing.
[ "$(nm -D "$top_builddir/.libs/libselvage-mpi.so" | grep -cE ' T MPIX?_Allreduce_init$')" -gt 0 ] || lasting=
for mode in $modes $off; do
    # In a ring of two the same rank is on both sides.
    for n in 2 "$ranks"; do
        program "$n" neighbors-of-each-kind ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST="$mode" \
            SELVAGE_DROPIN_FAST_BYTES=1024
        # shellcheck disable=SC2086 # several arguments
        takes "$mode" 1 $neighbors
    done
    # Their communicators' ranks meet in calls on all ranks only.
    for what in neighbors-and-barriers neighbors-apart; do
        program "$ranks" "$what" ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024
        case $what in
        neighbors-apart) grep -q '^ *1 .* MPI_Ineighbor_alltoall *fast ' "$dir/out" || [ "$mode" = off ] ||
            { cat "$dir/out"; echo "FAIL: MPI_Ineighbor_alltoall, $what, $mode"; failed=1; } ;;
        *) takes "$mode" 1 Neighbor_alltoallw Ineighbor_alltoallv ;;
        esac
    done
    program "$ranks" calls-that-do-not-block ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST="$mode" \
        SELVAGE_DROPIN_FAST_BYTES=1024
    # shellcheck disable=SC2086 # several arguments
    takes "$mode" 1 Alltoallw $others $reductions
    # Persistent ones agree in the calls that make them, and start in other orders on each rank.
    for n in 2 "$ranks"; do
        program "$n" channels-persistent ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST="$mode" \
            SELVAGE_DROPIN_FAST_BYTES=1024
        # shellcheck disable=SC2086 # several arguments
        takes "$mode" 5 $lasting
    done
    for what in channels-persistent-freed channels-persistent-refused persistent-calls-of-threads; do
        program "$ranks" "$what" ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024
        [ "$mode" != auto ] || [ -z "$lasting" ] || case $what in
        channels-persistent-freed) takes auto 50 Allreduce_init Allgather_init ;;
        channels-persistent-refused) takes auto 3 Allreduce_init ;;
        persistent-calls-of-threads) takes auto 20 Allreduce_init Alltoallv_init ;;
        esac
    done
    # With no other calls on a communicator its ranks never agree, and these are staged.
    program "$ranks" calls-that-do-not-block-alone ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST="$mode" \
        SELVAGE_DROPIN_FAST_BYTES=1024
    # shellcheck disable=SC2086 # several arguments
    stages $others $reductions
    program "$ranks" refused-neighbors-on-rank-0 ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST="$mode" \
        SELVAGE_DROPIN_FAST_BYTES=1024
    takes "$mode" 10 Neighbor_alltoallw Ineighbor_alltoallw
    for what in channels-and-a-rank-ahead channels-and-a-refused-call channels-freed channels-at-finalize \
        channels-interleaved channels-reduced channels-reduced-refused channels-reduced-at-finalize \
        channels-reduced-apart channels-reduced-after-work channels-reduced-many reductions-begun-of-each-type; do
        # Open MPI's own call is wrong there.
        [ "$what" != channels-interleaved ] || { [ "$fast" = yes ] && [ "$mode" != off ]; } || continue
        program "$ranks" "$what" ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024
        case $what in
        channels-freed) takes "$mode" 20 Ialltoall ;;
        channels-interleaved) takes "$mode" 4 Ialltoall ;;
        channels-and-a-refused-call) takes "$mode" 2 Neighbor_alltoallv ;;
        channels-reduced) takes "$mode" 40 Iallreduce ;;
        channels-reduced-apart) takes "$mode" 5 Iallreduce Ireduce_scatter_block Ibcast ;;
        channels-reduced-after-work) takes "$mode" 4 Iallreduce ;;
        channels-reduced-many) takes "$mode" 50 Iallreduce ;;
        channels-reduced-refused) takes "$mode" 5 Iallreduce ;;
        channels-reduced-at-finalize) takes "$mode" 1 Iallreduce Ibcast ;;
        reductions-begun-of-each-type) takes "$mode" 100 Iallreduce Ireduce Ireduce_scatter Ireduce_scatter_block ;;
        esac
    done
done
# Some ranks make a communicator with neighbours in C, and others in Fortran.
for language in mpifh usempi f08; do
    [ -x "$top_builddir/tests/mpi/dropin_$language" ] || continue
    MPIRUN="$dir/mpirun" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/dropin_$language" "" "" \
        "$dir" >"$dir/out" 2>&1 && grep -q 'dropin_fortran: right' "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: $language"; failed=1; }
done
# One rank has them off: then all have, from MPI_Init on.
# shellcheck disable=SC2016 # for the script that is written
printf '#!/bin/bash\n%s\n[ "$rank" -ne 1 ] || export SELVAGE_DROPIN_PAIRS=off\nexec %q "$@"\n' \
    'rank=${OMPI_COMM_WORLD_RANK:-${MPI_LOCALRANKID:-$PMI_RANK}}' "$top_builddir/tests/mpi/dropin_unmodified" \
    >"$dir/one-off"
chmod +x "$dir/one-off"
env SELVAGE_REPORT=1 SELVAGE_DROPIN_FAST_BYTES=1024 MPIRUN="$dir/mpirun" "$top_srcdir/scripts/run-mpi" -n 2 -t 240 \
    "$dir/one-off" neighbors-and-barriers >"$dir/out" 2>&1 && grep -Eq ' 0 failed' "$dir/out" ||
    { cat "$dir/out"; echo "FAIL: neighbors-and-barriers, off on one rank"; failed=1; }
stages Neighbor_alltoallw Ineighbor_alltoallv
# And all of them.
program "$ranks" neighbors-of-each-kind ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_PAIRS=off \
    SELVAGE_DROPIN_FAST_BYTES=1024
# shellcheck disable=SC2086 # several arguments
stages $neighbors
program "$ranks" calls-that-do-not-block ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_PAIRS=off \
    SELVAGE_DROPIN_FAST_BYTES=1024
# shellcheck disable=SC2086 # several arguments
stages Alltoallw $others $reductions
program "$ranks" channels-persistent ' 0 failed' SELVAGE_REPORT=1 SELVAGE_DROPIN_PAIRS=off \
    SELVAGE_DROPIN_FAST_BYTES=1024
# shellcheck disable=SC2086 # several arguments
stages $lasting
# Slots that are too short or too few, memory that is not pinned, and nodes of two ranks each.
program "$ranks" neighbors-of-each-kind ' 0 failed' SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_MESSAGE_BUFFER_BYTES=0 \
    SELVAGE_DROPIN_SLOT_BYTES=4K
for what in calls-that-do-not-block channels-reduced-many channels-persistent; do
    program "$ranks" "$what" ' 0 failed' SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_DROPIN_POOL_BYTES=0
done
if [ "$SELVAGE_DEVICE" = soft ]; then
    for mode in $modes; do
        program 4 neighbors-of-each-kind ' 0 failed' SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024 \
            SELVAGE_RANKS_PER_NODE=2
        program 4 calls-that-do-not-block ' 0 failed' SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024 \
            SELVAGE_RANKS_PER_NODE=2
        program 4 channels-persistent ' 0 failed' SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024 \
            SELVAGE_RANKS_PER_NODE=2
        program 5 channels-reduced ' 0 failed' SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024
    done
fi
# Messages that come damaged are mended, or the call fails that completes theirs.
if [ "$fast" = yes ]; then
    for mode in $modes; do
        program 2 damaged-neighbors ' 0 were not$' SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=96 \
            SELVAGE_FAULT=flip=1,seed=3 SELVAGE_RETRY_MAX=50
        program 2 channels-reduced-damaged ' 0 were not$' SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024 \
            SELVAGE_FAULT=flip=1,seed=3 SELVAGE_RETRY_MAX=50
        [ -z "$lasting" ] || program 2 channels-persistent-damaged ' 0 were not$' SELVAGE_DROPIN_FAST="$mode" \
            SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_FAULT=flip=1,seed=3 SELVAGE_RETRY_MAX=50
        [ "$mode" = on ] || continue # else copies that nobody asks for twice are few
        for packet in 4 9; do # of a call that blocks, and of one that does not
            program 2 damaged-neighbors '^rank 0: 1 of 12 calls failed' SELVAGE_DROPIN_FAST=on \
                SELVAGE_DROPIN_FAST_BYTES=96 SELVAGE_FAULT=flip=1,only="$packet",attempts=255 SELVAGE_RETRY_MAX=1
            # What a rank has not got as it was sent, it does not reduce.
            program 2 channels-reduced-damaged '^rank 0: 1 of 8 calls failed' SELVAGE_DROPIN_FAST=on \
                SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_FAULT=flip=1,only="$packet",attempts=255 SELVAGE_RETRY_MAX=1
        done
        [ -z "$lasting" ] || program 2 channels-persistent-damaged '^rank 0: 1 of 8 starts failed' \
            SELVAGE_DROPIN_FAST=on SELVAGE_DROPIN_FAST_BYTES=1024 SELVAGE_FAULT=flip=1,only=9,attempts=255 \
            SELVAGE_RETRY_MAX=1
    done
fi
exit "$failed"
