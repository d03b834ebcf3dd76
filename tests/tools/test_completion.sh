#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Completion of command lines: the files are what the tools say of themselves, each option of each help text is offered
# after that tool (also below a launcher), words of an option and values of a variable are, and zsh reads its file.
set -u
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
top_builddir=$(cd "${top_builddir:-.}" && pwd)
python=${PYTHON:-python3} tools=$top_builddir/tools
[ -x "$tools/selvage-run" ] || { echo "SKIP: not all tools are built"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0 tried=0
fail() { echo "FAIL: $*"; failed=1; }

for shell in bash zsh; do
    file=$top_srcdir/completions/selvage
    [ "$shell" = bash ] || file=$top_srcdir/completions/_selvage
    "$python" "$top_srcdir/scripts/make-completion" "$tools" "$shell" >"$dir/$shell" || exit 1
    diff -u "$file" "$dir/$shell" ||
        fail "out of date: scripts/make-completion $tools $shell >completions/${file##*/}"
done

# shellcheck source=/dev/null
. "$top_srcdir/completions/selvage"
# complete_words WORD...: what is offered for the last one, a line each.
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    tried=$((tried + 1))
    _selvage 2>/dev/null
    printf '%s\n' "${COMPREPLY[@]}" >"$dir/offered"
}
offers() { grep -qxF -- "$1" "$dir/offered" || fail "${COMP_WORDS[*]}: no $1"; }

for line in "selvage-bench" "selvage-bench coll" selvage-bench-mpi selvage-halos selvage-info selvage-kernels \
    selvage-overlap selvage-run selvage-smoke selvage-trace; do
    # shellcheck disable=SC2086  # a command and its command
    "$tools"/$line --help 2>&1 </dev/null | grep -oE -- '(^| )--[a-z][a-z0-9-]*' | tr -d ' ' | sort -u >"$dir/options"
    [ -s "$dir/options" ] || fail "$line says no options"
    # shellcheck disable=SC2086
    for before in "" "mpirun -n 4" "srun /usr/bin/"; do
        if [ "${before%/}" = "$before" ]; then complete_words $before $line --; else complete_words $before$line --; fi
        while read -r option; do offers "$option"; done <"$dir/options"
    done
done
complete_words selvage-smoke --routes pe; offers peer
complete_words selvage-smoke --routes self,sh; offers self,shared
complete_words selvage-bench coll --ops ""; offers premul
complete_words selvage-bench ""; offers exchange; offers coll
complete_words mpirun -x SELVAGE_RO; offers SELVAGE_ROUTE=
complete_words mpirun -x SELVAGE_ROUTE = st; offers staged
complete_words mpirun -x SELVAGE_ROUTE =; offers direct
"$tools/selvage-info" --settings | grep -oE '^SELVAGE_[A-Z0-9_]+' >"$dir/variables"
complete_words selvage-run SELVAGE_
while read -r variable; do offers "$variable="; done <"$dir/variables"

if command -v zsh >/dev/null 2>&1; then
    zsh -n "$top_srcdir/completions/_selvage" || fail "zsh does not read its file"
    here=
else
    here="; zsh is not here"
fi
echo "$tried command lines$here"
exit "$failed"
