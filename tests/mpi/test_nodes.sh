#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Between nodes that are real to MPI and UCX: two on a slowed link, by MPI's wire and by UCX's. Smoke, messages,
# collectives, and the figures of both wires side by side, which are printed and not judged. A link of UCX's is cut.
# NODES_LONG=yes (make check-long): four nodes as well, and more sizes.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
. "$top_srcdir/tests/fixtures/nodes.sh"
case $("${MPIRUN:-false}" --version 2>&1) in
*"Open MPI"*|*OpenRTE*) ;;
*) [ "${NODES_LONG:-}" = yes ] || { echo "SKIP: with MPICH in check-long only"; exit 77; } ;;
esac
if [ "$(id -u)" -ne 0 ] || ! command -v ip tc unshare >/dev/null; then
    echo "SKIP: nodes need root, ip, tc and unshare"
    exit 77
fi
unset SELVAGE_MPI_KIND
nodes_up 2 2 1000 || { cat "$nodes_dir/why"; echo "SKIP: no network namespaces here"; exit 77; }
failed=0 out=$nodes_dir/out
nodes_run 1 hostname >"$out" 2>&1
[ "$(sort "$out" | tr '\n' ' ')" = "n0 n1 " ] || { cat "$out"; echo "SKIP: no jobs on such nodes here"; exit 77; }
export SELVAGE_DEVICE=${SELVAGE_DEVICE:-soft}
# A program that libtool wrapped is started directly, with the library's folder.
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
built() { local real=$top_builddir/${1%/*}/.libs/${1##*/}; [ -x "$real" ] || real=$top_builddir/$1; echo "$real"; }
# on_wire WIRE WHAT PER_NODE PROGRAM [ARGUMENT...]: DEVICES are UCX's, net0 unless they are told
on_wire() {
    local wire=$1 what=$2 per_node=$3 program
    program=$(built "$4")
    shift 4
    SELVAGE_WIRE=$wire UCX_TLS=tcp,self,posix,sysv UCX_NET_DEVICES=${DEVICES:-net0} NODES_ENV="LD_LIBRARY_PATH \
SELVAGE_DEVICE SELVAGE_WIRE UCX_TLS UCX_NET_DEVICES" nodes_run "$per_node" "$program" "$@" >"$out" 2>&1 &&
        return
    cat "$out"
    echo "FAIL: $what by $wire"
    failed=1
}
wires=mpi
case $("$(built tools/selvage-info)" 2>/dev/null) in
*"UCX yes"*) wires="mpi ucx" ;;
*) echo "this build has no UCX: its wire is left out" ;;
esac
for wire in $wires; do
    on_wire "$wire" smoke 1 tools/selvage-smoke --sizes 8,64K,1M --wire-gbs 0.125
    grep -E '^ *[0-9].* staged ' "$out" | sed "s/^/$wire: /"
    on_wire "$wire" messages 1 tests/mpi/message_mpi 5 8
    on_wire "$wire" collectives 2 tests/mpi/coll_mpi any 5 3 37
done
# lose_link HOW DEVICES: UCX goes by these, MPI by net0; net1 is cut. Both ranks are to name the other.
lose_link() {
    local run going=$nodes_dir/going-$1
    UCX_TLS=tcp,self UCX_NET_DEVICES=$2 NODES_ENV="LD_LIBRARY_PATH UCX_TLS UCX_NET_DEVICES" \
        NODES_KEEP=yes nodes_run 1 "$(built tests/mpi/test_wire_ucx)" cut "$going" >"$out" 2>&1 &
    run=$!
    while [ ! -e "$going" ] && kill -0 "$run" 2>/dev/null; do sleep 0.05; done
    sleep 0.3
    nodes_cut 1 1 "$1"
    wait "$run"
    grep 'told after' "$out" | sed "s/^/cut ($1, $2): /"
    [ "$(grep -c '^test_wire_ucx cut: .* 0 failed' "$out")" -eq 2 ] && return
    cat "$out"
    echo "FAIL: a link that was cut ($1, $2)"
    failed=1
}
# Two rails against one, the best of three runs each: UCX is to spread long messages over both without being told.
rails() {
    local turn devices best=()
    for turn in 1 2 3; do
        for devices in net0 net0,net1; do
            SELVAGE_WIRE=ucx UCX_TLS=tcp,self UCX_NET_DEVICES=$devices NODES_ENV="LD_LIBRARY_PATH \
SELVAGE_DEVICE SELVAGE_WIRE UCX_TLS UCX_NET_DEVICES" nodes_run 1 "$(built tools/selvage-bench)" exchange \
                --patterns shift --routes staged --modes wait --checksums on --nccl no --sizes 4M >"$out" 2>&1
            grep '^shift' "$out" | sed "s/^/$devices: /" | cut -c1-80
            best+=("$devices $(awk '$1 == "shift" { print $8 }' "$out")")
        done
    done
    printf '%s\n' "${best[@]}" | awk '
        !($1 in us) || $2 < us[$1] { us[$1] = $2 }
        END {
            factor = us["net0,net1"] > 0 ? us["net0"] / us["net0,net1"] : 0
            printf "two rails: %.2f times one (%s us, %s us)\n", factor, us["net0,net1"], us["net0"]
            exit factor < 1.2
        }' && return
    echo "FAIL: two rails are hardly better than one"
    failed=1
}
if [ "$wires" != mpi ]; then
    lose_link unplugged net1
fi
[ "$failed" -eq 0 ] || exit 1
if [ "${NODES_LONG:-}" = yes ]; then
    for wire in $wires; do
        on_wire "$wire" exchange 1 tools/selvage-bench exchange --patterns shift --routes staged --modes wait \
            --checksums on --nccl no --sizes 8,4K,32K,256K,1M,4M,16M
        grep '^shift' "$out" | sed "s/^/$wire: /"
    done
    nodes_down
    nodes_up 2 2 1000 || exit 1
    out=$nodes_dir/out
    if [ "$wires" != mpi ]; then
        rails
        DEVICES=net0,net1 on_wire ucx "smoke on two rails" 1 tools/selvage-smoke --sizes 8,64K,1M,8M --suite
        DEVICES=net0,net1 on_wire ucx "messages on two rails" 2 tests/mpi/message_mpi 5 8
        lose_link own net0,net1
    fi
    nodes_down
    nodes_up 4 1 || exit 1
    out=$nodes_dir/out
    for wire in $wires; do
        on_wire "$wire" "smoke on four nodes" 2 tools/selvage-smoke --sizes 8,64K,1M --suite
    done
fi
exit "$failed"
