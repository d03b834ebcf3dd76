#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# doc/mechanisms.md names what is, and so do the walks in doc/architecture.md: every row has its four cells, every file
# in "here" and "test" is in the tree, every function, type and variable is in the file named before it, and everything
# has a test. A misspelt name in a copy is noticed. Every function that any page names is in the sources.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no python3"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

cat >"$work/check.py" <<'END'
import os, re, sys

top, page = sys.argv[1:]
files = {}
for folder in ("lib", "include", "tests", "tools", "examples", "doc", "scripts", "fortran"):
    for path, _, names in os.walk(os.path.join(top, folder)):
        for name in names:
            files.setdefault(name, []).append(os.path.join(path, name))
texts, wrong, rows = {}, [], 0

def text_of(path):
    if path not in texts:
        with open(path, encoding="utf-8", errors="replace") as file:
            texts[path] = file.read()
    return texts[path]

config = text_of(os.path.join(top, "lib/base/base_config_table.h"))
headers = "".join(text_of(path) for name in files for path in files[name] if "/include/selvage/" in path)

def look(row, cell):
    current = None
    for token in re.findall(r"`([^`]+)`", cell):
        if re.fullmatch(r"[\w-]+\.(c|h|cc|sh|py)", token):
            current = files.get(token, [])
            if len(current) != 1:
                wrong.append(f"{row}: {len(current)} files are called {token}")
                current = None
            continue
        word = re.sub(r"\(\)$", "", token)
        if word.startswith("SELVAGE_"):
            known = re.search(r"X\(" + word[len("SELVAGE_"):] + r",", config)
        elif word.startswith("selvage_"):
            known = re.search(r"\b" + re.escape(word) + r"\b", headers)
        elif current:
            known = re.search(r"\b" + re.escape(word) + r"\b", text_of(current[0]))
        else:
            known = None
        if not known:
            where = os.path.basename(current[0]) if current else "no file"
            wrong.append(f"{row}: {token} is not in {where}")

with open(page, encoding="utf-8") as file:
    for line in file:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or cells[0] in ("technique", "---"):
            continue
        rows += 1
        row = cells[0][:60]
        if len(cells) != 4 or not all(cells):
            wrong.append(f"{row}: {len(cells)} cells, or an empty one")
            continue
        look(row, cells[2])
        look(row, cells[3])
        if "`test_" not in cells[3]:
            wrong.append(f"{row}: no test")
steps = 0
for line in text_of(os.path.join(top, "doc/architecture.md")).split("## Walks")[1].split("\n## ")[0].split("\n"):
    if line.startswith("| `"):
        steps += 1
        look("walk: " + line[:40], line)
# Every page: a function that it names is somewhere in the sources.
sources = "".join(text_of(path) for name in files for path in files[name]
                  if name.endswith((".c", ".h", ".cc", ".sh", ".f90", ".F90")))
words, named = set(re.findall(r"\w+", sources)), 0
for name in files:
    for path in files[name]:
        if not name.endswith(".md"):
            continue
        for word in sorted(set(re.findall(r"`(\w+)\(\)`", text_of(path)))):
            named += 1
            if word not in words:
                wrong.append(f"{name}: there is no {word}()")
if named < 100:
    wrong.append(f"the pages name {named} functions")
print("\n".join(wrong + [f"{rows} techniques, {steps} steps of walks, {len(wrong)} wrong"]))
sys.exit(1 if wrong or rows < 20 or steps < 10 else 0)
END

"$python" "$work/check.py" "$top_srcdir" "$top_srcdir/doc/mechanisms.md" || exit 1

# noticed FROM TO: with this change the page is wrong.
noticed() {
    sed "s/$1/$2/" "$top_srcdir/doc/mechanisms.md" >"$work/page.md"
    cmp -s "$work/page.md" "$top_srcdir/doc/mechanisms.md" && { echo "nothing to replace: $1"; exit 1; }
    if "$python" "$work/check.py" "$top_srcdir" "$work/page.md" >/dev/null; then
        echo "not noticed: $1 became $2"
        exit 1
    fi
}
noticed 'coll_fifo\.c' 'coll_fofi.c'
noticed 'sv_coll_fifo_put' 'sv_coll_fifo_pot'
noticed 'SELVAGE_WORK_FIFO_BYTES' 'SELVAGE_WORK_FIFO_BITES'
noticed '| `test_ring\.c` |' '| by hand |'
