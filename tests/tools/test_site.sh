#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The documentation becomes a site whose links all lead somewhere, with tags that are closed in order, rows of tables as
# long as their heads, and no mark of Markdown or roff left in the text. In a copy of the tree with faults each is
# named.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "SKIP: no python3"; exit 77; }
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }

"$python" "$top_srcdir/scripts/make-site" --no-doxygen "$top_srcdir" "$dir/site" >"$dir/log" || fail "links"
cat "$dir/log"
cat >"$dir/read.py" <<'END'
import glob, re, sys
count = 0
for path in glob.glob(sys.argv[1] + '/**/*.html', recursive=True):
    text = open(path, encoding='utf-8').read()
    words = re.sub(r'<(pre|code)>.*?</\1>', '', text, flags=re.S)
    for mark in re.findall(r'.{0,40}(?:\*\*|\]\(|`|\\f[BIR]|\\\().{0,40}', words):
        print('%s: a mark is left: %s' % (path, mark))
    for table in re.findall(r'<table>.*?</table>', text, flags=re.S):
        rows = [len(re.findall('<t[hd]>', row)) for row in table.split('<tr>')[1:]]
        count += 1
        if len(set(rows)) > 1:
            print('%s: rows of %s cells: %s' % (path, sorted(set(rows)), table[:120]))
assert count > 50, count
END
"$python" "$dir/read.py" "$dir/site" >"$dir/marks" || fail "no tables were read"
[ ! -s "$dir/marks" ] || { head -n 20 "$dir/marks"; fail "marks and tables"; }
grep -q '<a href="../man/selvage_exchange_start.3.html"><code>selvage_exchange_start()</code></a>' \
    "$dir/site/doc/reference.html" || fail "the reference does not lead to manual pages"
grep -q '<h2 id="get-and-build">' "$dir/site/index.html" || fail "headings have no anchors"

mkdir "$dir/tree"
(cd "$top_srcdir" && tar -cf - ./*.md NEWS LICENSE CITATION.cff VERSION doc include lib/base lib/*/README.md \
    python/README.md scripts) | tar -xf - -C "$dir/tree"
chmod -R u+w "$dir/tree"
printf '\n%s\n' 'See [one](nowhere.md), [two](guide.md#no-such-heading) and [three](#four).' >>"$dir/tree/doc/memory.md"
printf '\n## Halos\n\n[*five](guide.md)*\n' >>"$dir/tree/doc/trouble.md"
sed -i 's/<h%d id="%s">%s<.h%d>/<h%d id="%s">%s<!-- %d -->/' "$dir/tree/scripts/site/markdown.py"
"$python" "$dir/tree/scripts/make-site" --no-doxygen "$dir/tree" "$dir/broken" >"$dir/log" 2>&1 &&
    fail "nothing is wrong with a broken site"
for wanted in 'doc/memory.html: a link to nowhere.html, which is not there' \
    'doc/memory.html: a link to guide.html#no-such-heading, where there is no such heading' \
    'doc/memory.html: a link to #four, where there is no such heading' 'doc/trouble.html: <h2> is not closed'; do
    grep -qF "$wanted" "$dir/log" || fail "not found: $wanted"
done
[ "$failed" -eq 0 ] || tail -n 5 "$dir/log"
exit "$failed"
