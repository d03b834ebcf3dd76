# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# For test scripts: prints "direct" if packets may go direct here. On the software device they always may; with a GPU
# the MPI has to say that it takes its memory. Needs top_srcdir and top_builddir.

direct_here() {
    if bash "$top_srcdir/scripts/run-mpi" -n 2 -t 60 "$top_builddir/tools/selvage-smoke" --quick --sizes 8 \
        --packets 1 --routes direct 2>&1 | grep -q 'this MPI does not say that it takes'; then
        echo "SKIP: the route direct, because this MPI does not take the device's memory" >&2
    else
        echo direct
    fi
}
