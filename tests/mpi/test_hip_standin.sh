#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The AMD plug-in on a machine without a GPU, against the stand-in for HIP's runtime (hip_standin.h): the exchange
# by every route in two processes and on both kinds of GPU, the lattice example, every call of HIP failed in turn, and
# no GPU at all. After every run nothing of HIP may be alive and nothing may have been misused, whatever failed.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
[ -n "${HIP_SOVERSION:-}" ] || { echo "SKIP: this build has no HIP headers (Debian: libamdhip64-dev)"; exit 77; }
plugins=$(cd "$top_builddir" && pwd)/.libs
plugin=$plugins/selvage-device-amd.so
standin=$(cd "$top_builddir" && pwd)/tests/fixtures/hip_standin/.libs
runtime=$standin/libamdhip64.so.$HIP_SOVERSION
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
if ! [ -e "$plugin" ] || ! [ -e "$runtime" ]; then
    echo "SKIP: the plug-in or the stand-in is not built shared"
    exit 77
fi
export LD_LIBRARY_PATH=$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
runs=0 failed=0

fail() {
    echo "FAIL: $*"
    tail -n 30 "$work/out" | sed 's/^/    /'
    failed=$((failed + 1))
}

# all_given_back RANKS WHAT: as many lines of the stand-in, each with nothing alive and no misuse.
all_given_back() {
    local lines
    sed -n 's/^hip stand-in: .* calls, failed \(hip[A-Za-z]*\),.*/\1/p' "$work/out" >>"$work/was_failed"
    lines=$(grep -c 'hip stand-in: .* calls, .*alive none, 0 misuses' "$work/out")
    [ "$lines" -eq "$1" ] || fail "$2: something is alive or was misused"
}

# The two have the same calls, and only the plug-in needs them.
calls() { # OPTION FILE
    # shellcheck disable=SC2086  # nm may have options
    ${NM:-nm} -D "$1" "$2" | sed -n 's/.* \(hip[A-Z][A-Za-z0-9]*\)\(@.*\)\{0,1\}$/\1/p' | sort -u
}
calls --undefined-only "$plugin" >"$work/needed"
calls --defined-only "$runtime" >"$work/given"
diff "$work/needed" "$work/given" >"$work/out" || fail "calls that the plug-in makes (<) and the stand-in has (>)"
[ -s "$work/needed" ] || fail "the plug-in makes no calls"

# mpi RANKS WANTED_STATUS WANTED_TEXT PROGRAM ARGUMENT...: WANTED_STATUS may be "any" but the time limit.
mpi() {
    local ranks=$1 status=$2 text=$3 got
    shift 3
    runs=$((runs + 1))
    SELVAGE_DEVICE=amd SELVAGE_DEVICE_PATH=$plugins "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$@" \
        >"$work/out" 2>&1
    got=$?
    if [ "$status" = any ] && [ "$got" -ne 124 ] && [ "$got" -lt 128 ]; then got=any; fi
    [ "$got" = "$status" ] || fail "status $got, wanted $status: $*"
    grep -q -- "$text" "$work/out" || fail "no '$text': $*"
}

smoke=$top_builddir/tools/selvage-smoke
export HIP_STANDIN_DEVICES=3 # one for each rank: those that share one get no kernels that wait
right="every packet was right"
for arch in ${HIP_ARCHS:-gfx90a gfx942}; do
    export HIP_STANDIN_ARCH=$arch
    mpi 2 0 "$right" "$smoke" --sizes 0,13,4K,100001 --epochs 2 --json "$work/json"
    all_given_back 2 "smoke on $arch"
    routes=$(grep -o '"route": *"[a-z]*"' "$work/json" | sort -u | wc -l)
    [ "$routes" -eq 4 ] || fail "$routes routes on $arch, wanted 4"
    grep -q '"device": *"amd"' "$work/json" || fail "not the AMD device"
done
unset HIP_STANDIN_ARCH
mpi 3 0 "$right" "$smoke" --quick --sizes 64K
all_given_back 3 "smoke on 3 ranks"
HIP_STANDIN_DEVICES=1 mpi 2 0 "$right" "$smoke" --quick --sizes 4K
all_given_back 2 "smoke on a shared GPU"
mpi 3 0 "^     0    yes    yes     no\$" "$top_builddir/tools/selvage-info"
grep -q 'is shared by' "$work/out" && fail "a GPU is shared"
HIP_STANDIN_DEVICES=1 mpi 2 0 'GPU 0000:01:00.0 of .* is shared by 2 ranks (0, 1)' "$top_builddir/tools/selvage-info"
for route in peer shared staged; do
    SELVAGE_FAULT=flip=1.0 mpi 2 0 "$right" "$smoke" --quick --sizes 4K --routes "$route"
    all_given_back 2 "smoke with damage by route $route"
    SELVAGE_ROUTE=$route mpi 2 0 "." "$top_builddir/examples/plaquette" --write "$work/lattice" --extent 4x4x4x4
    SELVAGE_ROUTE=$route mpi 2 0 "0 bad, 0 sent again" "$top_builddir/examples/plaquette" --lattice "$work/lattice"
    all_given_back 2 "plaquette by route $route"
done

mpi 2 0 "checks, 0 failed" "$top_builddir/tests/mpi/message_mpi" 5 20
all_given_back 2 "messages"

# The MPI says nothing of AMD GPUs, so nothing goes direct, unless the user insists; the stand-in's memory bears it.
mpi 2 0 "n/a: route direct was asked for, .* does not say" "$smoke" --quick --sizes 4K --routes direct
SELVAGE_DIRECT=force mpi 2 0 "$right" "$smoke" --quick --sizes 0,13,100001 --routes direct --json "$work/json"
grep -q '"route": *"direct", "available": *true' "$work/json" || fail "not direct, though forced"
all_given_back 2 "smoke by route direct"

# Another GPU's code only, or no GPU: an error, or soft where any device will do.
HIP_STANDIN_DEVICES=0 mpi 1 any "the driver shows no GPU" "$smoke" --quick
if SELVAGE_DEVICE=auto SELVAGE_DEVICE_PATH=$plugins HIP_STANDIN_DEVICES=0 "$top_srcdir/scripts/run-mpi" -n 1 \
    "$smoke" --quick --json "$work/json" >"$work/out" 2>&1; then
    grep -q '"device": *"soft"' "$work/json" || fail "no soft where there is no GPU"
else
    fail "no GPU, and soft was not taken"
fi

# ranges_heard PATTERN WHAT: what rocTX heard in the last run; "" for nothing.
ranges_heard() {
    local line
    line=$(grep 'roctx stand-in:' "$work/out")
    case $1:$line in
    :|?*:?*) echo "$line" | grep -q -- "$1" || fail "ranges $2: heard '$line'" ;;
    *) fail "ranges $2: heard '$line'" ;;
    esac
}
balanced="roctx stand-in: \([1-9][0-9]*\) begun, \1 ended, 0 wrong: selvage_exchange_start selvage_exchange_wait\$"
alone=("$smoke" --quick --sizes 4K)
mpi 1 0 "$right" "${alone[@]}"
ranges_heard "" "without a profiler"
ROCPROF_MARKER_API_TRACE=1 mpi 1 0 "$right" "${alone[@]}"
ranges_heard "$balanced" "where rocprofv3 asks"
ROCPROF_MARKER_API_TRACE=0 mpi 1 0 "$right" "${alone[@]}"
ranges_heard "" "where rocprofv3 asks for others"
SELVAGE_RANGES=on mpi 1 0 "$right" "${alone[@]}"
ranges_heard "$balanced" "on"
LD_PRELOAD=$standin/libroctx64.so.4 mpi 1 0 "$right" "${alone[@]}"
ranges_heard "$balanced" "with the library there already"
LD_PRELOAD=$standin/libroctx64.so.4 SELVAGE_RANGES=off mpi 1 0 "$right" "${alone[@]}"
ranges_heard "" "off"

# Between processes: memory is exported and opened. Where that fails packets take another route.
for call in hipIpcOpenMemHandle hipIpcGetMemHandle hipIpcCloseMemHandle; do
    HIP_STANDIN_FAIL=$call:1 SELVAGE_TIMEOUT_S=20 mpi 2 any "failed $call" "$smoke" --quick --sizes 64K --routes peer
    all_given_back 2 "$call failed"
done

driver=$top_builddir/tests/mpi/hip_driver
# drive MODE [NAME=VALUE...]: 0 right, 3 an error that says something.
drive() {
    local mode=$1 got
    shift
    runs=$((runs + 1))
    env HIP_STANDIN_DEVICES=2 "$@" timeout -k 5 240 "$driver" "$mode" "$plugins" "$runtime" >"$work/out" 2>&1
    got=$?
    [ "$got" -eq 0 ] || [ "$got" -eq 3 ] || fail "status $got: $mode $*"
    all_given_back 1 "$mode $*"
    return "$got"
}

# Memory for flags is uncached, or fine-grained where the runtime does not know that.
for old in 0 1; do
    drive device HIP_STANDIN_COUNTS=1 HIP_STANDIN_OLD=$old || fail "memory for flags, old=$old"
    grep -q "count hipExtMallocWithFlags $((old + 1))\$" "$work/out" || fail "wanted $((old + 1)) tries, old=$old"
done

grep -q "hip stand-in: at most 512 threads in a block" "$work/out" || fail "no kernel got the lanes that it asked for"
for capture in own other; do
    drive device HIP_STANDIN_CAPTURE=$capture || fail "while streams are captured: $capture"
done
for numbers in same none; do
    drive device HIP_STANDIN_NUMBERS=$numbers || fail "numbers of allocations: $numbers"
done
for gpu in -2 1; do
    drive device HIP_STANDIN_UNREGISTERED=$gpu || fail "host memory is said to be of GPU $gpu"
done

# Calls whose failing cannot pass unnoticed.
serious=(hipMalloc hipExtMallocWithFlags hipHostMalloc hipStreamCreateWithPriority hipEventCreateWithFlags
    hipEventRecord hipEventQuery hipStreamQuery hipStreamWaitEvent hipMemcpyAsync hipMemsetAsync hipModuleLaunchKernel)

# Up to so many calls of each name, the first and the last among them (every one in the mode "device", with BRIEF eight
# of each); polls are as many as time allows.
numbers() { # COUNT
    awk -v count="$1" -v most="$most" 'BEGIN {
        if (count < most) most = count
        for (i = 0; i < most; i++) print 1 + (most > 1 ? int(i * (count - 1) / (most - 1)) : 0) }'
}
for mode in device peer shared staged; do
    most=${HIP_STANDIN_MOST:-$([ -n "${BRIEF:-}" ] && echo 2 || echo 4)}
    [ "$mode" != device ] || most=${BRIEF:+8}
    most=${most:-1000}
    drive "$mode" HIP_STANDIN_COUNTS=1 || fail "$mode: an error without a failed call"
    sed -n 's/^hip stand-in: count \([A-Za-z]*\) \([0-9]*\)$/\1 \2/p' "$work/out" >"$work/counts"
    [ -s "$work/counts" ] || fail "$mode: no calls were counted"
    while read -r call count; do
        case $call in hipGetDevice|hipSetDevice|hipEventQuery|hipStreamQuery) [ "$count" -le 40 ] || count=40 ;; esac
        for number in $(numbers "$count"); do echo "$mode $call $number"; done
    done <"$work/counts" >>"$work/sweep"
done

# sweep: each line of standard input is a mode, a call and which one of that name fails.
sweep() {
    local mode call number got
    while read -r mode call number; do
        drive "$mode" "HIP_STANDIN_FAIL=$call:$number"
        got=$?
        grep -q "failed $call," "$work/out" || continue # fewer polls than in the run before
        case " ${serious[*]} " in
        *" $call "*)
            [ "$got" -eq 3 ] || grep -q "another route was taken" "$work/out" ||
                fail "$mode: $call $number failed, and nobody was told"
            ;;
        esac
    done
}

# Each run is a process that mostly waits for its own threads, so as many sweeps as there are cores, each in a folder of
# its own, take turns at the lines.
cores=$(nproc)
for ((part = 0; part < cores; part++)); do
    mkdir "$work/$part" || exit 1
    (
        work=$work/$part runs=0 failed=0
        awk -v part="$part" -v cores="$cores" 'NR % cores == part' "$work/../sweep" >"$work/sweep"
        sweep <"$work/sweep"
        echo "$runs $failed" >"$work/sum"
    ) &
done
wait
for ((part = 0; part < cores; part++)); do
    if read -r more_runs more_failed <"$work/$part/sum"; then
        runs=$((runs + more_runs)) failed=$((failed + more_failed))
    else
        fail "a sweep has ended early"
    fi
    cat "$work/$part/was_failed" >>"$work/was_failed"
done

# Every call has been failed at least once, but those that tell about errors.
grep -v -e hipGetErrorName -e hipGetErrorString -e hipGetLastError "$work/needed" >"$work/fallible"
sort -u "$work/was_failed" | diff "$work/fallible" - >"$work/out" || fail "calls that never failed (<)"

echo "test_hip_standin: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
