#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Four lists must be one: what the shared library exports, what lib/selvage.map names, what the public headers declare,
# and what doc/reference.md explains, which has every public type as well. Also: the library needs no C++ runtime and no
# GPU library, and its version is that of the VERSION file.
set -u
failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

sed -n 's/^ *\(selvage_[a-z0-9_]*\);$/\1/p' "$top_srcdir/lib/selvage.map" | sort >"$dir/map"

# Prototypes only: comments and preprocessor lines go, then everything that is a name, an opening bracket and ends in ;
cat "$top_srcdir"/include/selvage/*.h "$top_srcdir"/include/selvage.h | "${PYTHON:-python3}" -c '
import re, sys
text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", sys.stdin.read(), flags=re.S)
text = re.sub(r"^\s*#(?:[^\\\n]|\\\n|\\.)*", "", text, flags=re.M)
text = re.sub(r"typedef[^;{]*;", "", text)
inline = set(re.findall(r"SELVAGE_DEVICE_FN [^({;]*\b(selvage_\w+)\(", text)) # of kernels, and their calls there
print("\n".join(sorted(set(re.findall(r"\b(selvage_\w+)\s*\([^;{]*\)\s*;", text)) - inline)))' | sort >"$dir/headers"

if ! diff "$dir/map" "$dir/headers" >"$dir/diff"; then
    echo "lib/selvage.map (<) and the prototypes in include/ (>) differ:"
    cat "$dir/diff"
    failed=1
fi
[ -s "$dir/headers" ] || { echo "no prototypes found"; failed=1; }

# The page has each at the beginning of a row, under the name of the header that declares it.
for header in "$top_srcdir"/include/selvage/*.h; do
    {
        grep '^[a-z]' "$header" | grep -oE '\bselvage_[a-z0-9_]+\(' | tr -d '(' | sort -u |
            comm -12 - "$dir/map" | sed 's/$/()/'
        sed -n 's/^static inline .*\b\(selvage_[a-z_]*_init\)(void)$/\1()/p' "$header"
        sed -n 's/^SELVAGE_DEVICE_FN .*\b\(selvage_[a-z0-9_]*\)(.*/\1()/p' "$header"
        sed -n 's/^} \(selvage_[a-z0-9_]*_t\);$/\1/p; s/^typedef void (\*\(selvage_[a-z0-9_]*_t\)).*/\1/p
                s/^typedef [a-z0-9_ ]* \(selvage_[a-z0-9_]*_t\);$/\1/p' "$header"
    } | sed "s/^/$(basename "$header") /"
done | sort -u >"$dir/public"
awk '/^## / { header = $2 } match($0, /^\| `selvage_[a-z0-9_]*(\(\))?`/) {
        print header, substr($0, 4, RLENGTH - 4) }' "$top_srcdir/doc/reference.md" | sort >"$dir/explained"
if ! diff "$dir/public" "$dir/explained" >"$dir/diff"; then
    echo "what include/selvage/ declares (<) and what doc/reference.md explains (>) differ:"
    cat "$dir/diff"
    failed=1
fi

library=$top_builddir/.libs/libselvage.so
if [ ! -e "$library" ]; then
    echo "no shared library in this build: headers and map compared only"
    exit "$failed"
fi
# shellcheck disable=SC2086  # it may have options
${NM:-nm} -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$dir/library"
if ! diff "$dir/map" "$dir/library" >"$dir/diff"; then
    echo "lib/selvage.map (<) and what $library exports (>) differ:"
    cat "$dir/diff"
    failed=1
fi

if [ -z "${SANITIZER:-}" ]; then
    readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$dir/needed"
    if grep -Ei 'stdc\+\+|cuda|nvrtc|hip|rocm|hsa' "$dir/needed"; then
        echo "the library must not need these"
        failed=1
    fi
    [ -s "$dir/needed" ] || { echo "readelf shows nothing that the library needs"; failed=1; }
fi

version=$(cat "$top_srcdir/VERSION")
header=$(sed -n 's/^#define SELVAGE_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$top_srcdir/include/selvage/version.h" |
    paste -sd.)
[ "$version" = "$header" ] || { echo "VERSION says $version, version.h $header"; failed=1; }
strings=$(grep -c -aF "$version" "$library")
[ "$strings" -gt 0 ] || { echo "the library does not contain its version $version"; failed=1; }

[ "$failed" -ne 0 ] || echo "$(wc -l <"$dir/map") exported names agree"
exit "$failed"
