#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The UCX wire alone: by TCP and by shared memory, with threads; a rank that goes. Then the library on it, each rank on
# a node of its own: exchanges, those of neighbours only, halos, messages, collectives and damaged packets. Ranks that
# are told to use different wires are refused.
set -u
top_srcdir=${top_srcdir:-.}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0 program=$top_builddir/tests/mpi/test_wire_ucx
# succeeds WHAT RANKS PROGRAM [ARGUMENT...]
succeeds() {
    local what=$1 ranks=$2
    shift 2
    bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$@" >"$dir/out" 2>&1 && return
    cat "$dir/out"
    echo "FAIL: $what"
    failed=1
}
succeeds "one rank" 1 "$program"
if grep '^SKIP' "$dir/out"; then exit 77; fi
# By what UCX has that tells of processes that go: on one node TCP. It is not told to take TCP, since an MPICH over UCX
# would as well, and its MPI_Finalize may hang then.
succeeds "two ranks" 2 "$program"
succeeds "five ranks" 5 "$program"
succeeds "the wire with threads" 2 "$program" multiple
# UCX says on its own log that shared memory does not tell of processes that go.
UCX_TLS=posix,sysv,cma,self UCX_LOG_LEVEL=fatal succeeds "the wire by shared memory" 2 "$program"
# The launcher is not to end the others.
case $("$MPIRUN" --version 2>&1) in
*"Open MPI"*|*OpenRTE*) keep="--continuous --enable-recovery --mca orte_abort_on_non_zero_status 0" ;;
*) keep=-disable-auto-cleanup ;;
esac
RUN_MPI_FLAGS=$keep bash "$top_srcdir/scripts/run-mpi" -n 3 -t 240 "$program" gone >"$dir/out" 2>&1
[ "$(grep -c '^test_wire_ucx gone: .* 0 failed' "$dir/out")" -eq 2 ] ||
    { cat "$dir/out"; echo "FAIL: a rank that has gone was not named to both others"; failed=1; }
grep 'told after' "$dir/out"
# Shared memory alone tells of no process that goes; the wire's own connections do.
UCX_TLS=posix,sysv,cma,self UCX_LOG_LEVEL=fatal RUN_MPI_FLAGS=$keep bash "$top_srcdir/scripts/run-mpi" -n 3 -t 240 \
    "$program" gone >"$dir/out" 2>&1
[ "$(grep -c '^test_wire_ucx gone: .* 0 failed' "$dir/out")" -eq 2 ] ||
    { cat "$dir/out"; echo "FAIL: a rank that has gone, by shared memory, was not named to both others"; failed=1; }
grep 'told after' "$dir/out"
succeeds "a rank that is stopped" 2 "$program" stopped "${STOPPED_S:-3}"

export SELVAGE_WIRE=ucx SELVAGE_RANKS_PER_NODE=1 SELVAGE_DEVICE=${SELVAGE_DEVICE:-soft}
succeeds "smoke" 2 "$top_builddir/tools/selvage-smoke" --sizes 4K,1M
succeeds "halos" 4 "$top_builddir/tests/mpi/halo_mpi"
succeeds "exchanges that neighbours commit" 4 "$top_builddir/tests/mpi/neighbors_mpi" mismatch
messages=$top_builddir/tests/mpi/message_mpi
SELVAGE_SEGMENT_BYTES=4096 SELVAGE_MESSAGE_EAGER_BYTES=1K succeeds "messages" 2 "$messages" 3 12
succeeds "messages open at the end" 2 "$messages" finalize
SELVAGE_RANKS_PER_NODE=2 succeeds "collectives" 4 "$top_builddir/tests/mpi/coll_mpi" any 10 1 29
SELVAGE_SEGMENT_BYTES=8192 succeeds "damaged packets" 2 "$top_builddir/tests/mpi/fault_driver" --route staged --seed 1 \
    --packets 20 --bytes 601,6000,20000 --epochs 5 --each flip,swap,truncate
# That the library is on UCX shows where UCX reaches nobody. MPICH may be on UCX itself.
case $keep in -disable*) ;; *)
    if UCX_TLS=self SELVAGE_TIMEOUT_S=5 bash "$top_srcdir/scripts/run-mpi" -n 2 -t 240 \
        "$top_builddir/tests/mpi/halo_mpi" >"$dir/out" 2>&1 || ! grep -q 'UCX does not reach it' "$dir/out"; then
        cat "$dir/out"
        echo "FAIL: packets went past UCX"
        failed=1
    fi ;;
esac
# Each rank reads a variable of its own.
cat >"$dir/differ" <<'END'
#!/bin/bash
[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" -ne 1 ] || export SELVAGE_WIRE=mpi
exec "$@"
END
chmod +x "$dir/differ"
if bash "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$dir/differ" "$top_builddir/tests/mpi/halo_mpi" >"$dir/out" 2>&1 ||
    ! grep -q 'SELVAGE_WIRE is not the same on all ranks' "$dir/out"; then
    cat "$dir/out"
    echo "FAIL: ranks with different wires"
    failed=1
fi
exit "$failed"
