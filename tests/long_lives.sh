#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Nothing grows with the number of objects that have lived: tests/long_lives.
set -u
top_builddir=${top_builddir:-.}
[ -z "${SANITIZER:-}" ] || { echo "sanitizers keep what was freed"; exit 77; }
exec env -u SELVAGE_MPI_KIND "$top_builddir/tests/long_lives" "$@"
