#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Two and four nodes on one machine, both wires, with figures: see test_nodes.sh.
exec env NODES_LONG=yes bash "${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/mpi/test_nodes.sh"
