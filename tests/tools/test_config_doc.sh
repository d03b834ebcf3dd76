#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The pages say what is: the table of variables is the one of the code (and a page that is out of date is noticed),
# every SELVAGE_ name on any page exists, every fault is explained, and every link between pages leads to a
# file, and to a heading in it if it names one.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no python3"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
make_doc=$top_srcdir/scripts/make-config-doc
failed=0

"$python" "$make_doc" --check "$top_srcdir" || failed=1

# One default changed in a copy: the check must see it, and writing must mend it.
mkdir -p "$dir/doc" "$dir/lib/base"
sed 's/^\(| `SELVAGE_RETRY_MAX` | `\)[0-9]*/\1777/' "$top_srcdir/doc/configuration.md" >"$dir/doc/configuration.md"
cp "$top_srcdir/lib/base/base_config_table.h" "$dir/lib/base/"
chmod -R u+w "$dir"
if "$python" "$make_doc" --check "$dir" >/dev/null; then echo "a page out of date was not noticed"; failed=1; fi
"$python" "$make_doc" "$dir" && cmp "$dir/doc/configuration.md" "$top_srcdir/doc/configuration.md" || failed=1

pages=("$top_srcdir"/{README,CONTRIBUTING,SECURITY}.md "$top_srcdir"/NEWS "$top_srcdir"/doc/*.md
    "$top_srcdir"/doc/*.1 "$top_srcdir"/lib/*/README.md "$top_srcdir/python/README.md")

# Names: variables of the table, names of the public headers, variables of scripts; and one that is misspelt on purpose.
{
    echo SELVAGE_CHEKSUM
    sed -n 's/^ *X(\([A-Z0-9_]*\), .*/SELVAGE_\1/p' "$top_srcdir/lib/base/base_config_table.h"
    grep -ohE 'SELVAGE_[A-Z0-9_]*[A-Z0-9]' "$top_srcdir"/include/selvage/*.h "$top_srcdir"/scripts/run-mpi \
        "$top_srcdir/python/setup.py"
    sed -n 's/^ *X(\([A-Z_]*\), -\{0,1\}[0-9]*, .*/SELVAGE_\1/p' "$top_srcdir/include/selvage/status.h"
} | sort -u >"$dir/known"
sed -i '/^SELVAGE_STATUS_TABLE$/d' "$dir/known"
count=0
for name in $(sed 's/SELVAGE_[A-Z0-9_]*\*//g' "${pages[@]}" | grep -oE 'SELVAGE_[A-Z0-9_]*[A-Z0-9]' | sort -u); do
    count=$((count + 1))
    grep -qx "$name" "$dir/known" || { echo "the pages name $name, which nothing knows"; failed=1; }
done
[ "$count" -gt 20 ] || { echo "only $count names were found on the pages"; failed=1; }

# Every word of SELVAGE_FAULT is explained.
faults=$(sed -n 's/^ *{"\([a-z_]*\)", VALUE_.*/\1/p; s/^ *PROBABILITY("\([a-z_]*\)".*/\1/p' \
    "$top_srcdir/lib/base/base_fault.c")
[ "$(echo "$faults" | wc -w)" -gt 10 ] || { echo "the words of SELVAGE_FAULT were not found in the code"; failed=1; }
for word in $faults; do
    grep -q "^| .*\`$word=" "$top_srcdir/doc/testing.md" || { echo "testing.md does not explain $word="; failed=1; }
done

# headings PAGE: as the part of a link after # has them.
headings() {
    awk '/^```/ { code = !code } /^#+ / && !code' "$1" | sed -E 's/^#+ +//' | tr '[:upper:]' '[:lower:]' |
        sed -E 's/[^a-z0-9_ -]//g; s/ /-/g'
}
links=0
for page in "${pages[@]}"; do
    for link in $(grep -oE '\]\([^): ]+\)' "$page" | sed 's/^](//; s/)$//'); do
        links=$((links + 1))
        file=$(dirname "$page")/${link%%#*}
        case $link in '#'*) file=$page ;; esac
        [ -e "$file" ] || { echo "${page##*/}: no file $link"; failed=1; continue; }
        case $link in
        *'#'*) headings "$file" | grep -qxF -- "${link#*#}" || { echo "${page##*/}: no place $link"; failed=1; } ;;
        esac
    done
done
[ "$links" -gt 10 ] || { echo "only $links links were found"; failed=1; }

echo "$count names, $links links"
exit "$failed"
