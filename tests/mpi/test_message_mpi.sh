#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Messages between processes, by the public calls: random datatypes against MPI's own messages of host copies, every
# call and its status; on one node and across virtual nodes.
set -eu
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/message_mpi
cases=30
[ -z "${BRIEF:-}" ] || cases=12
messages() {
    bash "$top_srcdir/scripts/run-mpi" -n "$1" -t 240 "$program" "$2" "${MESSAGE_CASES:-$cases}"
}
messages 1 1
SELVAGE_EARLY_WAIT_US=1000 messages 3 2
SELVAGE_RANKS_PER_NODE=1 SELVAGE_SEGMENT_BYTES=4096 SELVAGE_MESSAGE_EAGER_BYTES=1K messages 2 3
bash "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$program" finalize
[ "${BRIEF:-}" = yes ] || SELVAGE_CHECKSUM=off SELVAGE_MESSAGE_EAGER_BYTES=0 messages 3 4
