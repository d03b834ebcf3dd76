#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs that were built with the last release run with this library, as doc/stability.md promises: abidiff finds
# nothing between the release's interface (tests/fixtures/selvage-VERSION.abi, by scripts/abi-dump) and the tree's but
# calls that were added, and structs with a struct_size that grew at their end. What the release exports, the library
# of this build exports, by the same soname; and if calls were added, LIBVERSION says so. Then the test looks at itself:
# five trees with one break each are found out.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
for tool in abidw abidiff "${PYTHON:-python3}"; do
    command -v "$tool" >/dev/null 2>&1 || { echo "SKIP: no $tool (Debian: abigail-tools)"; exit 77; }
done
[ "$(uname -m)" = x86_64 ] || { echo "SKIP: the release's interface is that of x86-64"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }

releases=("$top_srcdir"/tests/fixtures/selvage-*.abi)
[ ${#releases[@]} -eq 1 ] || { echo "FAIL: ${#releases[@]} releases, not one: ${releases[*]}"; exit 1; }
release=${releases[0]}
echo "the last release: $(basename "$release" .abi)"
released=$(basename "$release" .abi | sed 's/^selvage-//') version=$(cat "$top_srcdir/VERSION")
[ "$(printf '%s\n' "$released" "$version" | sort -V | tail -n 1)" = "$version" ] || fail "VERSION is older than that"

# What may grow: a struct whose first member is its size, which callers set, and the library reads no further.
for name in $(cat "$top_srcdir"/include/selvage/*.h | tr '\n' ' ' |
    grep -oE 'typedef struct selvage_[a-z0-9_]+ \{ *size_t struct_size;' | sed 's/^typedef struct //; s/ .*//'); do
    printf '[suppress_type]\n  type_kind = struct\n  name_regexp = ^%s$\n  has_data_member_inserted_at = end\n' "$name"
done >"$dir/may_grow"
growing=$(grep -c '^\[' "$dir/may_grow")
[ "$growing" -gt 5 ] || fail "only $growing structs have a struct_size"

# compare TREE OPTION...: abidiff of the release and a tree, its words in $dir/diff.
compare() {
    "$top_srcdir/scripts/abi-dump" "$1" >"$dir/now.abi" || { echo "FAIL: no interface could be read off $1"; exit 1; }
    abidiff --suppressions "$dir/may_grow" "${@:2}" "$release" "$dir/now.abi" >"$dir/diff" 2>&1
}

compare "$top_srcdir" --no-added-syms || { cat "$dir/diff"; fail "programs of the last release may break"; }
read -r current revision age < <(tr : ' ' <"$top_srcdir/LIBVERSION")
read -r old_current old_revision old_age < <(sed -n 's/^<!-- LIBVERSION \(.*\) -->$/\1/p' "$release" | tr : ' ')
[ $((old_current - old_age)) -eq $((current - age)) ] || fail "LIBVERSION gives another soname than the release has"
if compare "$top_srcdir"; then
    [ "$current:$age" = "$old_current:$old_age" ] && [ "$revision" -ge "$old_revision" ] ||
        fail "LIBVERSION counts calls that were not added"
elif [ "$failed" -eq 0 ]; then
    [ "$current" -gt "$old_current" ] && [ "$age" -gt "$old_age" ] ||
        fail "calls were added, but LIBVERSION is $current:$revision:$age after $old_current:$old_revision:$old_age"
fi

# The library of this build, whatever it was compiled with.
sed -n "s/^ *<elf-symbol name='\(selvage_[a-z0-9_]*\)'.*/\1/p" "$dir/now.abi" | sort >"$dir/exported"
sed -n 's/^ *\(selvage_[a-z0-9_]*\);$/\1/p' "$top_srcdir/lib/selvage.map" | sort | diff - "$dir/exported" ||
    fail "the map and scripts/abi-dump differ"
library=$top_builddir/.libs/libselvage.so
if [ -e "$library" ]; then
    # shellcheck disable=SC2086  # it may have options
    ${NM:-nm} -D --defined-only "$library" | sed 's/.* //; s/@.*//' | sort -u >"$dir/built"
    sed -n "s/^ *<elf-symbol name='\(selvage_[a-z0-9_]*\)'.*/\1/p" "$release" | sort |
        comm -23 - "$dir/built" >"$dir/missing"
    [ ! -s "$dir/missing" ] || { cat "$dir/missing"; fail "the library exports these no more"; }
    soname=$(sed -n "s/^<abi-corpus .* soname='\([^']*\)'.*/\1/p" "$release")
    readelf -d "$library" | grep -F SONAME | grep -qF "[$soname]" || fail "the library's soname is not $soname"
fi

# refused WHAT FILE PATTERN REPLACEMENT: a tree with that line changed is not taken for the same interface.
refused() {
    rm -rf "$dir/tree" && mkdir -p "$dir/tree/lib" && cp -r "$top_srcdir/include" "$dir/tree/include" &&
        cp "$top_srcdir/lib/selvage.map" "$dir/tree/lib/" && cp "$top_srcdir/LIBVERSION" "$dir/tree/" || exit 1
    sed -i "s/$3/$4/" "$dir/tree/$2"
    if cmp -s "$dir/tree/$2" "$top_srcdir/$2"; then
        fail "$1: nothing was changed in $2"
    elif compare "$dir/tree" --no-added-syms; then
        fail "$1: not found"
    elif ! grep -qE "$5" "$dir/diff"; then
        cat "$dir/diff"
        fail "$1: found, but not named"
    fi
}
refused "a parameter of another type" include/selvage/exchange.h \
    '\(selvage_exchange_add_send(.*\) size_t bytes' '\1 int bytes' 'parameter 3 of type'
refused "a member before others" include/selvage/exchange.h \
    '^    selvage_route_t route; ' '    int inserted; selvage_route_t route; ' "'int inserted'"
refused "another number for a word" include/selvage/exchange.h \
    'SELVAGE_CHECKSUM_ABORT = 3' 'SELVAGE_CHECKSUM_ABORT = 4' SELVAGE_CHECKSUM_ABORT
refused "a struct without a size that grows" include/selvage/message.h \
    '^} selvage_message_status_t;' '    int more; } selvage_message_status_t;' "'int more'"
refused "a call that is gone" lib/selvage.map '^    selvage_halo_rebind;' '' '1 Removed'
[ "$failed" -ne 0 ] || echo "$(wc -l <"$dir/exported") calls, $growing structs that may grow; five breaks found"
exit "$failed"
