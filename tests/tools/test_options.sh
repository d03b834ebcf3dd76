#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Command lines of all installed tools: each has a manual page and says what it is by --help, -h and --version. Each
# option that the help names is in the manual page, and the other way round. A wrong option is answered by the usage
# and, in the last line, by the reason. Words that mean one thing are the same in all tools: those of other tools'
# former words are in none.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
tools=$top_builddir/tools
[ -x "$tools/selvage-info" ] || { echo "SKIP: the tools are not built"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
version=$(cat "$top_srcdir/VERSION")
tried=0 failed=0
fail() { echo "FAIL: $*"; failed=$((failed + 1)); }

# words FILE: the long options that a text names, one a line.
words() { sed 's/\\-/-/g' "$1" | grep -oE -- '(^|[^-a-z0-9])--[a-z][a-z0-9-]*' | grep -oE -- '--.*' | sort -u; }

# check PAGE NAME COMMAND...: a tool, or one of its commands. The NAME is how it speaks of itself.
check() {
    local page=$top_srcdir/doc/$1.1 name=$2 status word
    shift 2
    tried=$((tried + 1))
    [ -r "$page" ] || { fail "$name has no manual page"; return; }
    "$@" --help >"$work/help" 2>&1 </dev/null || fail "$*: --help"
    grep -q '^usage: ' "$work/help" || fail "$*: --help without a usage"
    "$@" -h >"$work/h" 2>&1 </dev/null && cmp -s "$work/h" "$work/help" || fail "$*: -h is not --help"
    [ "$("$@" --version 2>&1 </dev/null)" = "$name $version" ] || fail "$*: --version"
    "$@" --no-such-thing >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ "$status" -eq 2 ] && [ ! -s "$work/out" ] || fail "$*: status $status for a wrong option"
    grep -q '^usage: ' "$work/err" || fail "$*: a wrong option without a usage"
    tail -n 1 "$work/err" | grep -qE "^$name: unknown .*option '--no-such-thing'\$" ||
        fail "$*: the last line does not name the wrong option"
    words "$work/help" >"$work/said"
    words "$page" >"$work/written"
    for word in $(cat "$work/said"); do
        grep -qx -- "$word" "$work/written" || fail "$name: $word is not in ${page##*/}"
    done
    cat "$work/said" >>"$work/all.$1"
}

for tool in halos info kernels overlap smoke trace; do check selvage-$tool selvage-$tool "$tools/selvage-$tool"; done
check selvage-bench selvage-bench "$tools/selvage-bench"
check selvage-bench selvage-bench "$tools/selvage-bench" coll
check selvage-bench-mpi selvage-bench-mpi "$tools/selvage-bench-mpi"
[ ! -x "$tools/selvage-run" ] || check selvage-run selvage-run "$tools/selvage-run"
built=$(cd "$tools" && for tool in selvage-*; do [ ! -d "$tool" ] && [ -x "$tool" ] && echo "$tool"; done | wc -l)
[ "$built" -le "$tried" ] || fail "$built tools are there, and $tried were tried"

# What a page names, its tool knows.
for all in "$work"/all.*; do
    page=$top_srcdir/doc/${all##*all.}.1
    sed -n '/^\.SH OPTIONS/,/^\.SH [^O]/p' "$page" | grep -E '^\.(B|BI|BR|RB) ' >"$work/heads"
    for word in $(words "$work/heads"); do
        grep -qx -- "$word" "$all" || fail "${page##*/} has $word, which the tool does not"
    done
done
# One word for one thing: lists are in the plural, and repetitions are not repeats.
cat "$work"/all.* >"$work/all"
for word in --repeats --route --size --bytes --checksum --type --op --algo --proto --call --mode --pattern --channel; do
    ! grep -qx -- "$word" "$work/all" || fail "$word has another name elsewhere"
done
echo "test_options: $tried command lines, $failed failures"
[ "$failed" -eq 0 ]
