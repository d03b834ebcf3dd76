#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# doc/mechanisms.md names what is, and so do the walks in doc/architecture.md: every row has its four cells, every file
# in "here" and "test" is in the tree, every function, type and variable is in the file named before it, and everything
# has a test. The functions of a walk are defined there, and the walk of MPI_Sendrecv is no longer than it may be. A
# misspelt name in a copy is noticed. Every function that any page names is in the sources.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no python3"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

cat >"$work/check.py" <<'END'
import os, re, sys

top, page, walks = sys.argv[1:]
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
# A walk: a paragraph, and the table after it. Its functions are defined in the file of their row.
FILES_MOST, FUNCTIONS_MOST = 14, 45  # of a message that is lent: who follows it reads no more
steps, walk, before, passed = 0, "", "", {}
for line in text_of(walks).split("## Walks")[1].split("\n## ")[0].split("\n"):
    if line.startswith("| `"):
        steps += 1
        look("walk: " + line[:40], line)
        name = line.split("`")[1]
        for function in re.findall(r"`(\w+)\(\)`", line):
            passed.setdefault(walk, []).append((name, function))
            text = text_of(files[name][0]) if name in files else ""
            if not re.search(r"^ *[\w#][^;=\n]*\b" + function + r"\([^;]*?(\)\s*\n\s*{|\\$)", text, re.M):
                wrong.append(f"walk: {function}() is not defined in {name}")
    elif line and not line.startswith("|") and not before:
        walk = line
    before = line
lent = [steps_of for start, steps_of in passed.items() if start.startswith("`MPI_Sendrecv()`")]
if len(lent) != 1:
    wrong.append("the walk of MPI_Sendrecv() is not there")
elif len({name for name, _ in lent[0]}) > FILES_MOST or len(lent[0]) > FUNCTIONS_MOST:
    wrong.append(f"the walk of MPI_Sendrecv() passes {len({name for name, _ in lent[0]})} files and {len(lent[0])} "
                 f"functions; at most {FILES_MOST} and {FUNCTIONS_MOST}")
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

mechanisms=$top_srcdir/doc/mechanisms.md walks=$top_srcdir/doc/architecture.md
"$python" "$work/check.py" "$top_srcdir" "$mechanisms" "$walks" || exit 1

# noticed FROM TO [PAGE]: with this change the page is wrong.
noticed() {
    local changed=${3:-$mechanisms} copy=$work/page.md
    sed "s/$1/$2/" "$changed" >"$copy"
    cmp -s "$copy" "$changed" && { echo "nothing to replace: $1"; exit 1; }
    set -- "$1" "$2" "$copy" "$walks"
    [ "$changed" = "$mechanisms" ] || set -- "$1" "$2" "$mechanisms" "$copy"
    if "$python" "$work/check.py" "$top_srcdir" "$3" "$4" >/dev/null; then
        echo "not noticed: $1 became $2"
        exit 1
    fi
}
noticed 'coll_fifo\.c' 'coll_fofi.c'
noticed 'sv_coll_fifo_put' 'sv_coll_fifo_pot'
noticed 'SELVAGE_WORK_FIFO_BYTES' 'SELVAGE_WORK_FIFO_BITES'
noticed '| `test_ring\.c` |' '| by hand |'
noticed '^| `message_lend\.c` |.*' '&\n| `message_bytes.c` | `sv_message_place()` |' "$walks"
noticed '`sv_message_arrive()`' '&, `take_deferred()`' "$walks"
noticed '`sv_message_arrive()`' '`sv_message_arrived()`' "$walks"
noticed '`sv_message_arrive()`' '`sv_message_matched()`' "$walks" # which is called there, and defined elsewhere
