#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Sessions between processes: packets that an application's kernels send, epoch after epoch, in every style, by blocks
# and by warps, alone and mixed with eager epochs; everything that can go wrong, and who is told what. On whatever
# SELVAGE_DEVICE says; ranks need a GPU each there.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/session_driver
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$driver" ] || { echo "SKIP: $driver is not built"; exit 77; }
ranks_max=4 # each needs a GPU of its own
[ "${SELVAGE_DEVICE:-soft}" = soft ] || ranks_max=${TEST_GPUS:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')}
[ "$ranks_max" -gt 0 ] || { echo "SKIP: no GPU is seen"; exit 77; }
runs=0 failed=0

fail() {
    echo "FAIL: $*"
    cut -c 1-400 "$work/out" | sed 's/^/    /'
    failed=$((failed + 1))
}

# drive RANKS TIMEOUT ARGUMENT...: every check of the driver holds.
drive() {
    local got ranks=$1 timeout_s=$2
    shift 2
    [ "$ranks" -le "$ranks_max" ] || ranks=$ranks_max
    runs=$((runs + 1))
    SELVAGE_TIMEOUT_S=$timeout_s bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$driver" "$@" >"$work/out" 2>&1
    got=$?
    [ "$got" -eq 0 ] || fail "status $got: $ranks ranks, $*"
    grep -q '^session_driver: 0 checks failed$' "$work/out" || [ "$got" -ne 0 ] || fail "no end: $*"
}
quiet() { if grep -q '\] \(warn\|error\):' "$work/out"; then fail "the log is not empty: $*"; fi; }

steps=${BRIEF:+6} epochs=3000
[ -z "${BRIEF:-}" ] || epochs=300
export SELVAGE_KERNEL_PEER_MAX_BYTES=4M
number=0
for style in 0 1 2; do
    for how in 0 1 2 3 5 9 12; do
        # In ./check every second one: the first pass has the others of them.
        number=$((number + 1))
        case ${BRIEF:-}:$((number % 2)) in cases:0|yes:1) continue ;; esac
        drive $((1 + (style + how) % 4)) 60 play --seed $((style * 16 + how)) --style $style --how $how \
            --steps "${steps:-12}"
        quiet "style $style, how $how"
    done
done
for seed in 1 2 3; do
    drive $((seed + 1)) 60 play --seed $seed --mix 1 --steps "${steps:-30}" --how $((seed % 2 + 16 * (seed != 2)))
    quiet "eager, $seed"
    drive $((seed == 2 ? 4 : 2)) 60 play --seed $seed --mix 2 --steps "${steps:-12}" --style $((seed % 3))
    quiet "halves, $seed"
done
drive 2 60 play --bytes 1000000 --steps 3 --how 1 --style 2
drive 2 60 play --bytes 256 --steps 2 --epochs $epochs --how 0
if drive 1 60 list; then
    sed -n 's/^failure: //p' "$work/out" >"$work/failures"
    [ "$(wc -l <"$work/failures")" -ge 12 ] || fail "failures are missing"
    [ "$ranks_max" -ge 2 ] || : >"$work/failures"
    while read -r name; do
        drive 2 60 fail "$name" </dev/null
    done <"$work/failures"
fi
echo "$runs runs, $failed failed"
[ "$failed" -eq 0 ]
