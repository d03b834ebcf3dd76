#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# valgrind finds no leak and no invalid access in an exchange's life, from create to destroy; and it would find one.
# MPI is linked but never initialised here, so what is found is Selvage's.
set -u
top_builddir=${top_builddir:-.}
program=$top_builddir/tests/ranks/leak_driver
[ -z "${SANITIZER:-}" ] || { echo "SKIP: a sanitizer and valgrind exclude each other"; exit 77; }
command -v valgrind >/dev/null || { echo "SKIP: no valgrind"; exit 77; }
[ -x "$program" ] || { echo "SKIP: $program is not built"; exit 77; }
check() { # ARGUMENT...
    timeout -k 5 240 "$top_builddir/libtool" --mode=execute valgrind -q --fair-sched=yes --leak-check=full \
        --errors-for-leak-kinds=definite,indirect,possible --error-exitcode=9 "$program" "$@" 2>&1
}
failed=0
text=$(check)
status=$?
echo "$text"
if [ "$status" -ne 0 ]; then echo "FAIL: status $status"; failed=1; fi
text=$(check leak)
status=$?
if [ "$status" -ne 9 ] || ! grep -q 'definitely lost' <<<"$text"; then
    echo "$text"
    echo "FAIL: a leak on purpose ended with status $status"
    failed=1
fi
exit "$failed"
