#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Manual pages of the interface. Each exported function has one, with its prototype, a description, its parameters and
# its errors; what is missing from a header's comment is noticed. Neither groff nor mandoc, where they are here, has a
# warning about any page, those of the tools too; every page that another one names is there. The pages of the build are
# those that the headers give.
set -u
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
top_builddir=$(cd "${top_builddir:-.}" && pwd)
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no python3"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }

"$python" "$top_srcdir/scripts/make-man" "$top_srcdir" "$dir/man" || exit 1

"$python" - "$top_srcdir/lib/selvage.map" "$dir/man" <<'END' || failed=1
import os, re, sys
table, folder = sys.argv[1:]
failures = []
pages = {name: open(os.path.join(folder, name), encoding='utf-8').read() for name in os.listdir(folder)}
functions = re.findall(r'^    (selvage_\w+);$', open(table, encoding='utf-8').read(), re.M)
if len(functions) < 100:
    failures.append('the exported functions were not found')
for name in functions:
    page = pages.get(name + '.3')
    if page is None:
        failures.append(name + ' has no page')
        continue
    sections = dict(re.findall(r'^\.SH ([^\n]*)\n(.*?)(?=^\.SH |\Z)', page, re.M | re.S))
    if not re.match(name + r' \\- \w.{3}', sections.get('NAME', '')):
        failures.append(name + ': no line for its name')
    code = ' '.join(re.findall(r'^\.B "(.*)"$', sections.get('SYNOPSIS', ''), re.M))
    given = re.search(r'^(.*?)%s\((.*)\);$' % name, code)
    if not given:
        failures.append(name + ': no prototype')
        continue
    for title in ('DESCRIPTION', 'PARAMETERS', 'RETURN VALUE', 'ERRORS'):
        if len(sections.get(title, '')) < 5:
            failures.append('%s: nothing under %s' % (name, title))
    if given.group(1) == 'selvage_status_t ' and '\n.B SELVAGE_ERR_' not in sections.get('ERRORS', ''):
        failures.append(name + ': no error')
    wanted = [] if given.group(2) == 'void' else re.findall(r'(\w+)(?:,|$)', given.group(2))
    described = re.findall(r'^\.I (\w+)\n\S', sections.get('PARAMETERS', ''), re.M)
    if described != wanted:
        failures.append('%s: parameters %s, described are %s' % (name, wanted, described))
links = 0
for where, page in pages.items():  # names of pages lead somewhere
    for name, section in re.findall(r'\b(selvage_[\w.]+?)(?:\\fR)? ?\(([37])\)', page):
        links += 1
        if '%s.%s' % (name, section) not in pages:
            failures.append('%s: no page %s(%s)' % (where, name, section))
if links < 500:
    failures.append('only %d links were found' % links)
for failure in failures:
    print('FAIL: ' + failure)
sys.exit(bool(failures))
END

pages=("$dir"/man/*.[37] "$top_srcdir"/doc/*.1)
missing=
if command -v groff >/dev/null 2>&1; then
    groff -man -ww -z "${pages[@]}" >"$dir/groff" 2>&1
    [ ! -s "$dir/groff" ] || { cat "$dir/groff"; fail "groff warns"; }
    printf '.TH A 1\n.SH NAME\n.no-such-request\n' >"$dir/wrong.1"
    groff -man -ww -z "$dir/wrong.1" 2>&1 | grep -q . || fail "groff does not warn of a wrong page"
else
    missing="$missing groff"
fi
if command -v mandoc >/dev/null 2>&1; then # a date would have to be kept up to date
    mandoc -T lint -W warning "${pages[@]}" | grep -v 'missing date' >"$dir/mandoc"
    [ ! -s "$dir/mandoc" ] || { cat "$dir/mandoc"; fail "mandoc warns"; }
else
    missing="$missing mandoc"
fi

# A comment without its errors, and one without a parameter: in a copy.
mkdir -p "$dir/top/lib/base" "$dir/top/doc" "$dir/top/include" "$dir/top/scripts"
cp -r "$top_srcdir/include/selvage" "$dir/top/include/"
cp "$top_srcdir/lib/base/base_config_table.h" "$dir/top/lib/base/"
cp "$top_srcdir/doc/reference.md" "$top_srcdir/doc/selvage.7.in" "$dir/top/doc/"
cp "$top_srcdir/scripts/make-config-doc" "$dir/top/scripts/"
cp "$top_srcdir/VERSION" "$dir/top/"
chmod -R u+w "$dir/top"
"$python" "$top_srcdir/scripts/make-man" "$dir/top" "$dir/again" || fail "a copy of the headers"
sed -i 's/ \* @return ERR_ARGUMENT, ERR_STATE (the plan has a table)//; s/ \* @param\[in\] offset .*//' \
    "$dir"/top/include/selvage/{pack,grid}.h
if "$python" "$top_srcdir/scripts/make-man" "$dir/top" "$dir/again" 2>"$dir/said"; then fail "gaps were not noticed"; fi
for gap in "pack_set_table: no error" "grid_neighbour: nothing about offset"; do
    grep -q "^selvage_$gap" "$dir/said" || fail "not named: $gap"
done

# All pages for people are installed.
for page in "$top_srcdir"/doc/*.md; do
    grep -qxE " +doc/${page##*/}( \\\\)?" "$top_srcdir/doc/docs.am" || fail "doc/docs.am does not install ${page##*/}"
done

for built in "$top_builddir/doc/man" "$top_srcdir/doc/man"; do
    [ -s "$built/pages" ] || continue
    diff -r "$dir/man" "$built" >"$dir/diff" || { head -20 "$dir/diff"; fail "$built is out of date"; }
    break
done
echo "$(wc -l <"$dir/man/pages") pages${missing:+; not here:$missing}"
exit "$failed"
