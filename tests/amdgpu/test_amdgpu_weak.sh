#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Pushes and pulls between two emulated AMD GPUs whose memory is weak (weak_exchange.h): WEAK_SEEDS schedules for each
# architecture (150) go well. Then every WEAK_STRIDE-th mutation of what they executed (12) is tried with up to
# WEAK_TRIES seeds (8), so that it is known that the runs can notice something. WEAK_TABLE=1 prints what each came to.
set -u
top_builddir=${top_builddir:-.}
[ -n "${HIP_CLANG:-}" ] || { echo "SKIP: this build has no compiler for AMD GPUs (Debian: clang-19, lld-19)"; exit 77; }
"$top_builddir/tests/amdgpu/coverage_table" || { [ $? -eq 77 ] && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
for arch in gfx942 gfx90a; do
    "$top_builddir/tests/amdgpu/weak_driver" "$top_builddir/lib/kernels" "$arch" 1 "${WEAK_SEEDS:-150}" \
        "${WEAK_STRIDE:-12}" "${WEAK_TRIES:-8}" >"$work/out" 2>&1 || failed=$((failed + 1))
    # Without the release of its last share a packet's bytes are in a cache while its word is there.
    [ "${WEAK_STRIDE:-12}" -gt 1 ] || grep -q "sv_push .*buffer_wbl2.* left out: noticed" "$work/out" ||
        { echo "FAIL: no write-back is missed on $arch"; failed=$((failed + 1)); }
    if [ -n "${WEAK_TABLE:-}" ] || [ "$failed" -gt 0 ]; then cat "$work/out"; else grep " mutations, " "$work/out"; fi
    grep "weak memory:" "$work/out"
done
echo "test_amdgpu_weak: emulated, never on a GPU: $failed failed"
[ "$failed" -eq 0 ]
