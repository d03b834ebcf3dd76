#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Functions stay short. The checker is shown a function that is too long first.
set -u
[ -n "${PYTHON:-}" ] || { echo "no python3"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/lib"
{ printf 'int f(void)\n{\n'; for _ in {1..61}; do echo '    ;'; done; echo '}'; } >"$dir/lib/long.c"
if "$PYTHON" "$top_srcdir/scripts/check-style" "$dir" >/dev/null; then
    echo "a function of 61 lines was not refused"
    exit 1
fi
exec "$PYTHON" "$top_srcdir/scripts/check-style" "$top_srcdir"
