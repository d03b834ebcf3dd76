#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/mpi/test_dropin_random.sh with a hundred seeds.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
RANDOM_SEEDS=$(seq -s ' ' 1000 1099) RANDOM_STEPS=200 BRIEF='' exec "$top_srcdir/tests/mpi/test_dropin_random.sh"
