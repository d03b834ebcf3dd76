#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Functions have their limit, and static names are unique. The checker is shown what breaks each first.
set -u
[ -n "${PYTHON:-}" ] || { echo "no python3"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/lib"
{ printf 'int f(void)\n{\n'; for _ in {1..81}; do echo '    ;'; done; echo '}'; } >"$dir/lib/long.c"
if "$PYTHON" "$top_srcdir/scripts/check-style" "$dir" >/dev/null; then
    echo "a function of 81 lines was not refused"
    exit 1
fi
for name in one two; do
    printf 'static int same_name(int a)\n{\n    return a;\n}\n' >"$dir/lib/$name.c"
done
rm "$dir/lib/long.c"
if "$PYTHON" "$top_srcdir/scripts/check-style" "$dir" >/dev/null; then
    echo "a static name that two files share was not refused"
    exit 1
fi
rm "$dir/lib/two.c"
"$PYTHON" "$top_srcdir/scripts/check-style" "$dir" || exit 1
exec "$PYTHON" "$top_srcdir/scripts/check-style" "$top_srcdir"
