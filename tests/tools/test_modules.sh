#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The rules of the modules hold; and the checker does find offences: a tree with one of each is shown to it first.
set -u
[ -n "${PYTHON:-}" ] || { echo "no python3"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/lib/base" "$dir/lib/wire" "$dir/lib/pipeline" "$dir/tools" "$dir/fortran"
touch "$dir/configure.ac" "$dir/Makefile.am" "$dir/demo" "$dir/check"
spdx='/* SPDX-License-Identifier: BSD-3-Clause */'
printf '%s\n#include "wire/wire.h"\n' "$spdx" >"$dir/lib/base/base_bad.c"
printf '%s\nint a = MPI_Barrier(x);\n' "$spdx" >"$dir/lib/wire/wire_bad.c"
printf '%s\nint a = PMPI_Barrier(x); /* PMPI_Wait(y) */\nchar *h = getenv("HOME");\n' "$spdx" >"$dir/lib/pipeline/bad.c"
printf '#include "base/base_log.h"\n' >"$dir/tools/bad.c"
printf '%s\n#include "wire/wire.h"\n' "$spdx" >"$dir/fortran/worse.c"
printf 'module bad\nend module\n' >"$dir/fortran/bad.F90"

printf '# base\n\n`gone.c`\n' >"$dir/lib/base/README.md"
mkdir -p "$dir/lib/device/hip" "$dir/lib/kernels"
printf 'KERNEL_IMAGES(lost)\n' >"$dir/lib/device/hip/hip_images.c"
printf '%s\n' "$spdx" >"$dir/lib/kernels/kernel_new.cc"
printf '# SPDX-License-Identifier: BSD-3-Clause\na_SOURCES = tools/two.c tools/one.c\n' >"$dir/tools/tools.am"

if found=$("$PYTHON" "$top_srcdir/scripts/check-modules" "$dir"); then
    echo "offences were not found: $found"
    exit 1
fi
for wanted in 'base_bad.c:2: module base includes' 'wire_bad.c:2: MPI_Barrier must be called as' \
    'pipeline/bad.c:2: PMPI_Barrier is called outside' 'pipeline/bad.c:3: the environment' \
    'tools/bad.c:1: no SPDX' 'tools/bad.c:1: base/base_log.h is internal' 'tools/bad.c: has the name of' \
    'fortran/worse.c:2: wire/wire.h is internal' 'fortran/bad.F90:1: no SPDX' \
    'lib/base/README.md: no gone.c' 'lib/wire/README.md: a module has a page' \
    'tools/tools.am: lists are a file a line' 'kernel new is not listed' 'kernel lost is listed, and has'; do
    case $found in
    *"$wanted"*) ;;
    *) echo "not found: $wanted"; echo "$found"; exit 1 ;;
    esac
done
case $found in *PMPI_Wait*) echo "a comment was taken for a call"; exit 1 ;; esac

exec "$PYTHON" "$top_srcdir/scripts/check-modules" "$top_srcdir" "$top_builddir"
