#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The AMD plug-in with its kernels executed: the machine code for each architecture of the build, in the interpreter of
# tests/amdgpu, under the stand-in for HIP's runtime. The tests' own programs compare what they always compare: packed
# boxes, batches, every route of exchanges, layouts, halos, messages, collectives by every algorithm and protocol that
# AMD GPUs take, damage, a lattice. All of it says that it is emulated. At the end a table says which share of the code
# has run; no instruction in it may be unknown to the interpreter. In every second run accesses to memory are complete
# as late as the code's waits allow. AMDGPU_CASES and AMDGPU_STRIDE make it longer, and AMDGPU_COVERAGE, which names a
# folder, keeps what has run.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
[ -n "${HIP_SOVERSION:-}" ] || { echo "SKIP: this build has no HIP headers (Debian: libamdhip64-dev)"; exit 77; }
plugins=$(cd "$top_builddir" && pwd)/.libs
standin=$(cd "$top_builddir" && pwd)/tests/fixtures/hip_standin/.libs
table=$top_builddir/tests/amdgpu/coverage_table
if ! [ -e "$plugins/selvage-device-amd.so" ] || ! [ -e "$standin/libamdhip64.so.$HIP_SOVERSION" ]; then
    echo "SKIP: the plug-in or the stand-in is not built shared"
    exit 77
fi
"$table" || { [ $? -eq 77 ] && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
if [ -z "${AMDGPU_COVERAGE:-}" ]; then
    AMDGPU_COVERAGE=$work/coverage
    mkdir "$AMDGPU_COVERAGE" || exit 1
fi
export AMDGPU_COVERAGE
export LD_LIBRARY_PATH=$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export SELVAGE_DEVICE=amd SELVAGE_DEVICE_PATH=$plugins HIP_STANDIN_EMULATE=1 HIP_STANDIN_PAGEABLE=1
export HIP_STANDIN_DEVICES=8 # one for each rank: those that share one have no kernels that wait
cases=${AMDGPU_CASES:-${BRIEF:+2}} stride=${AMDGPU_STRIDE:-${BRIEF:+31}}
cases=${cases:-6} stride=${stride:-13}
runs=0 failed=0 seed=0 skipped=0

fail() {
    echo "FAIL: $*"
    tail -n 30 "$work/out" | sed 's/^/    /'
    failed=$((failed + 1))
}

# emulate RANKS WANTED_TEXT PROGRAM ARGUMENT...: one run, which says so and after which nothing of HIP is alive.
emulate() {
    local ranks=$1 text=$2
    shift 2
    runs=$((runs + 1))
    AMDGPU_SEED=$runs AMDGPU_LATE=$((runs % 2)) \
        "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$@" >"$work/out" 2>&1 ||
        fail "status $?: $arch, $ranks ranks: $*"
    [ "$(grep -c "kernels ran on an emulated $arch\$" "$work/out")" -eq "$ranks" ] || fail "it does not say what ran"
    grep -q -- "$text" "$work/out" || fail "no '$text': $arch, $ranks ranks: $*"
    [ "$(grep -c 'hip stand-in: .* calls, .*alive none, 0 misuses' "$work/out")" -eq "$ranks" ] ||
        fail "something is alive or was misused: $arch, $ranks ranks: $*"
}

# some ...: the same; with BRIEF each such run is made with the code for one of two architectures only.
read -ra archs <<<"${HIP_ARCHS:-gfx942 gfx90a}"
some() {
    turn=$((turn + 1))
    [ -n "${BRIEF:-}" ] && [ ${#archs[@]} -eq 2 ] && [ $((turn % 2)) -eq "$skipped" ] || emulate "$@"
}

collectives() { # RANKS ORDER
    seed=$((seed + 1))
    some "$1" "checks, 0 failed" "$top_builddir/tests/mpi/coll_mpi" "$2" "$cases" "$seed" "$stride"
}

SELVAGE_DEVICE=soft "$top_srcdir/scripts/run-mpi" -n 2 -t 60 "$top_builddir/examples/plaquette" \
    --write "$work/lattice" --extent 4x4x4x4 >"$work/out" 2>&1 || fail "no lattice"
right="every packet was right"
smoke=$top_builddir/tools/selvage-smoke
for arch in "${archs[@]}"; do
    export HIP_STANDIN_ARCH=$arch
    turn=0 skipped=$((1 - skipped))
    emulate 2 "emulated $arch\$" "$top_builddir/tools/selvage-info"
    emulate 2 "$right" "$smoke" --sizes 0,13,4K,100001 --epochs 2 --json "$work/json"
    grep -q "device amd (emulated $arch)," "$work/out" || fail "the table does not say emulated"
    [ "$(grep -o '"route": *"[a-z]*"' "$work/json" | sort -u | wc -l)" -eq 4 ] || fail "not all routes on $arch"
    HIP_STANDIN_DEVICES=1 some 2 "$right" "$smoke" --quick --sizes 4K
    SELVAGE_FAULT=flip=1.0 some 3 "$right" "$smoke" --quick --sizes 4K,40000
    some 1 "checks, 0 failed" "$top_builddir/tests/unit/test_pack"
    some 1 "checks, 0 failed" "$top_builddir/tests/unit/test_pack_table"
    some 1 "checks, 0 failed" "$top_builddir/tests/ranks/test_exchange_layout"
    some 3 "checks, 0 failed" "$top_builddir/tests/mpi/halo_mpi"
    SELVAGE_PROGRESS=thread some 2 "checks, 0 failed" "$top_builddir/tests/mpi/halo_mpi"
    some 2 "checks, 0 failed" "$top_builddir/tests/mpi/message_mpi" 5 20
    for route in peer staged; do
        SELVAGE_ROUTE=$route \
            some 2 "0 bad, 0 sent again" "$top_builddir/examples/plaquette" --lattice "$work/lattice"
    done
    for ranks in 1 2 4; do collectives "$ranks" any; done
    for algo in oneshot twoshot direct; do SELVAGE_COLL_ALGO=$algo collectives 3 ranks; done
    for algo in ring pat; do SELVAGE_COLL_ALGO=$algo collectives 4 any; done
    for proto in ll simple; do SELVAGE_COLL_PROTO=$proto collectives 2 any; done
    SELVAGE_COLL_CHECKSUM=on collectives 3 any
    SELVAGE_COLL_CHANNELS_MIN=4 SELVAGE_COLL_ARENA_BYTES=2M collectives 2 any
    "$table" "$AMDGPU_COVERAGE" "$arch" "$top_builddir"/lib/kernels/kernel_*."$arch.co" >"$work/out" ||
        fail "the code for $arch has instructions that the interpreter does not know"
    cat "$work/out"
done
emulate 1 "checks, 0 failed" "$top_builddir/tests/unit/test_batch" alone

od -A n -t u8 -N 24 "$AMDGPU_COVERAGE/counts" | tr -s ' \n' ' ' >"$work/counts"
read -r launches waves instructions <"$work/counts"
echo "test_amdgpu: emulated, never on a GPU: $launches launches, $waves waves, $instructions instructions of waves"
[ "$launches" -gt 1000 ] || fail "so few launches: were they emulated?"
echo "test_amdgpu: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
