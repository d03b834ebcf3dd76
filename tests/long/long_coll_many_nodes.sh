#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Collectives on 33 and 64 nodes of one rank as well: see test_coll_many_nodes.c.
set -u
program=${top_builddir:-.}/tests/ranks/test_coll_many_nodes
[ -x "$program" ] || { echo "SKIP: $program is not built"; exit 77; }
exec timeout "${COLL_MANY_SECONDS:-1200}" "$program" all
