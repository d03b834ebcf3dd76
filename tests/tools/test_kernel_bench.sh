#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# selvage-kernels on little memory: every kernel has its lines, every result is right, wrong command lines are refused.
# How fast anything is decides nothing.
set -u
bench=${top_builddir:-.}/tools/selvage-kernels
[ -x "$bench" ] || { echo "SKIP: $bench is not built"; exit 77; }
failed=0

fail() { echo "FAIL: $*"; failed=1; }

out=$("$bench" --memory 1M --seconds 0.001 --blocks 1,3 2>&1) || fail "status $?"
for row in 'read-only sum  *contiguous:2' 'device copy  *contiguous:2' 'checksum  *contiguous:2' \
    'verify  *contiguous:2' 'copy  *contiguous:2' \
    'copy and checksum  *contiguous:2' 'pack, checksum .* 8-byte elements:12' \
    'gather, checksum  *6 faces of .*:4' 'scatter, verify  *6 faces of .*:4' \
    'bound: read faces  *6 faces of .*:4' 'bound: fill stream  *6 faces of .*:4' 'bound: gather  *6 faces of .*:4' \
    'bound: read stream  *6 faces of .*:4' 'bound: fill faces  *6 faces of .*:4' 'bound: scatter  *6 faces of .*:4' \
    'unpack, verify .* 24-byte elements:12' 'unpack, unchecked  *1 column, 4-byte elements:2'; do
    count=$(grep -cE "^${row%:*}  *[0-9.]+  *[0-9.]+  *[0-9.]+  *[0-9.]+( |$)" <<<"$out")
    [ "$count" = "${row##*:}" ] || fail "$count lines of ${row%:*}"
done
grep -q WRONG <<<"$out" && fail "a wrong result"
count=$(grep -cE '^(gather|scatter), (checksum|verify|unchecked) .*( +[0-9.]+ %){2}$' <<<"$out")
[ "$count" = 16 ] || fail "$count lines with a share of the rival and one of the bound"
for arguments in '--memory 1000' '--bytes 0' '--blocks 0' '--seconds x' '--memory' '--other 1'; do
    # shellcheck disable=SC2086  # a list of words
    "$bench" $arguments >/dev/null 2>&1
    [ $? = 2 ] || fail "not refused: $arguments"
done
[ "$failed" = 0 ] || printf '%s\n' "$out"
exit "$failed"
