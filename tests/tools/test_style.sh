#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Functions have their limit, static names are unique, and no retired word is used. The checker is shown what breaks
# each first.
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
mkdir -p "$dir/scripts" "$dir/doc"
printf 'behind; after; left behind\nhello; handshake\n' >"$dir/scripts/retired-words"
refuses() # PATH TEXT: a tree with that text in that file is refused, with the place
{
    local found
    printf '%s\n' "$2" >"$dir/$1"
    if found=$("$PYTHON" "$top_srcdir/scripts/check-style" "$dir"); then
        echo "a retired word was not refused in $1: $2"
        exit 1
    fi
    case $found in *"$1:1: "*" is retired: say "*) ;; *) echo "not named: $1:1: $found"; exit 1 ;; esac
    rm "$dir/$1"
}
refuses lib/comment.c '/* The event comes behind the copy. */'
refuses lib/name.h 'int sv_hello_head;'
refuses lib/upper.h 'enum { SV_HELLO };'
refuses doc/page.md 'Behind this, nothing comes.'
printf '/* Nothing is left behind; hellos is another word, and so is othello. */\n' >"$dir/lib/good.h"
"$PYTHON" "$top_srcdir/scripts/check-style" "$dir" || exit 1
exec "$PYTHON" "$top_srcdir/scripts/check-style" "$top_srcdir"
