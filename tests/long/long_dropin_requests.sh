#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The drop-in with 65,536 sends and as many receives of device memory open at the same time: a test of another request,
# and the call that completes them all, cost no more for each than with fifty.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$top_srcdir/tests/fixtures/unmodified.sh"
for sync in auto default; do
    program 2 most-open-requests '0 failed' SELVAGE_DROPIN_SYNC=$sync
    grep 'requests open each way' "$dir/out"
done
exit "$failed"
