#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Datatypes taken apart, beside what this MPI makes of them. One rank: nothing is sent.
set -eu
bash "${top_srcdir:-.}/scripts/run-mpi" -n 1 -t 240 "${top_builddir:-.}/tests/mpi/test_datatype"
