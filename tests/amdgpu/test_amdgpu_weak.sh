#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Pushes and pulls, messages and collectives between emulated AMD GPUs whose memory is weak, by each set of kernels that
# does that: WEAK_SEEDS schedules for each set and architecture (40, with BRIEF 12; half as many of collectives in slots
# or lines, with BRIEF a quarter) go well. Then every WEAK_STRIDE-th mutation of what they executed (40; with BRIEF 80,
# and 240 for sets of much code) is tried with up to WEAK_TRIES seeds (8), so that it is known that the runs can notice
# something. WEAK_TABLE=1 prints what each came to. WEAK_SETS names the sets (all; of an architecture that the build is
# not for there are a few), and those of WEAK_MUTATED are mutated (all but collectives in slots or lines, which take
# long).
set -u
top_builddir=${top_builddir:-.}
[ -n "${HIP_CLANG:-}" ] || { echo "SKIP: this build has no compiler for AMD GPUs (Debian: clang-19, lld-19)"; exit 77; }
"$top_builddir/tests/amdgpu/coverage_table" || { [ $? -eq 77 ] && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 schedules=0
read -ra sets <<<"${WEAK_SETS:-push gather run run_pieces replay replay_pieces digest digests coll_small coll_ll coll}"
mutated=${WEAK_MUTATED-push gather run run_pieces replay replay_pieces digest digests coll_small}
for arch in gfx942 gfx90a; do
    for set in "${sets[@]}"; do
        # For an architecture that the build is not for there are the kernels of these.
        case " ${HIP_ARCHS:-gfx942 gfx90a} " in
        *" $arch "*) ;;
        *) case $set in push|run|replay|digest|digests) ;; *) continue ;; esac ;;
        esac
        mutations=() seeds=${WEAK_SEEDS:-${BRIEF:+12}}
        seeds=${seeds:-40}
        share=1
        case $set in coll|coll_ll) [ -n "${BRIEF:-}" ] && share=4 || share=2 ;; esac
        seeds=$(((seeds + share - 1) / share))
        case $set in
        gather|*_pieces|digest*|coll*) stride=${WEAK_STRIDE:-${BRIEF:+240}} ;;
        *) stride=${WEAK_STRIDE:-${BRIEF:+80}} ;;
        esac
        stride=${stride:-40}
        case " $mutated " in *" $set "*) mutations=("$stride" "${WEAK_TRIES:-8}") ;; esac
        "$top_builddir/tests/amdgpu/weak_driver" "$top_builddir/lib/kernels" "$arch" "$set" 1 "$seeds" \
            "${mutations[@]}" >"$work/out" 2>&1 || { echo "FAIL: $set on $arch"; failed=$((failed + 1)); }
        # Without the release of its last share a packet's bytes are in a cache while its word is there.
        [ "$set" != push ] || [ "$stride" -gt 1 ] || [ "${#mutations[@]}" -eq 0 ] ||
            grep -q "sv_push .*buffer_wbl2.* left out: noticed" "$work/out" ||
            { echo "FAIL: no write-back is missed on $arch"; failed=$((failed + 1)); }
        wanted=" mutations, "
        { [ -n "${WEAK_TABLE:-}" ] || [ "$failed" -gt 0 ]; } && wanted=""
        grep -- "$wanted" "$work/out"
        grep "weak memory:" "$work/out"
        ran=$(sed -n 's/.* weak memory: \([0-9]*\) seeds .*/\1/p' "$work/out")
        schedules=$((schedules + ${ran:-0}))
    done
done
echo "test_amdgpu_weak: emulated, never on a GPU: $schedules schedules without a mutation, $failed failed"
[ "$failed" -eq 0 ]
