#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# How the drop-in begins: an unknown variable is a warning, said once, unless SELVAGE_UNKNOWN is set; and a program of
# another MPI than the one it was built for is ended with a line that names both. The library says the same.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
. "$top_srcdir/tests/fixtures/preload.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
dropin=$top_builddir/.libs/libselvage-mpi.so

# expect WHAT STATUS PATTERN COMMAND...: its exit status (good or bad; never a signal) and its output
expect() {
    local what=$1 wanted=$2 pattern=$3 status=good
    shift 3
    timeout 240 "$@" >"$dir/out" 2>&1 || { [ $? -lt 124 ] && status=bad || status=killed; }
    if [ "$status" != "$wanted" ] || ! grep -Eq "$pattern" "$dir/out"; then
        echo "FAIL: $what: $status, wanted $wanted and $pattern"
        cat "$dir/out"
        failed=1
    fi
}

# build NAME COMPILER FLAG...: tests/mpi/other_mpi.c as this program
build() {
    local name=$1
    shift
    "$@" "$top_srcdir/tests/mpi/other_mpi.c" -o "$dir/$name" || { echo "other_mpi.c does not compile"; exit 1; }
}
libraries=$top_builddir/.libs
run=(env -u SELVAGE_MPI_KIND LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" SELVAGE_DEVICE=soft
    OMPI_MCA_btl=self OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)

# shellcheck disable=SC2086  # flags are lists of words
{
    build plain ${CC:-cc} ${MPI_CPPFLAGS:-} -Wl,--no-as-needed ${MPI_LIBS:-}
    build library ${CC:-cc} -DWITH_SELVAGE ${MPI_CPPFLAGS:-} -I"$top_srcdir/include" -Wl,--no-as-needed -L"$libraries" \
        -lselvage ${MPI_LIBS:-}
}
expect "an unknown variable" good 'unknown variable SELVAGE_ROUTS; did you mean SELVAGE_ROUTE' \
    "${run[@]}" SELVAGE_ROUTS=shared LD_PRELOAD="$dropin" "$dir/plain"
[ "$(grep -c 'unknown variable' "$dir/out")" = 1 ] || { echo "FAIL: said more than once"; cat "$dir/out"; failed=1; }
expect "an unknown variable, to be refused" killed 'SELVAGE_UNKNOWN=warn continues' \
    "${run[@]}" SELVAGE_ROUTS=shared SELVAGE_UNKNOWN=error LD_PRELOAD="$dropin" "$dir/plain"
expect "an unknown variable in a program of Selvage's" good 'refused: unknown variable SELVAGE_ROUTS' \
    "${run[@]}" SELVAGE_ROUTS=shared "$dir/library"

# A persistent receive, also of an MPI that ends what it is only asked about.
# shellcheck disable=SC2086  # flags are lists of words
build persistent ${CC:-cc} -DPERSISTENT ${MPI_CPPFLAGS:-} -Wl,--no-as-needed ${MPI_LIBS:-}
ending=$top_builddir/tests/fixtures/.libs/ending_status.so
expect "a persistent receive" good 'persistent: right' \
    "${run[@]}" SELVAGE_JOB=test LD_PRELOAD="$dropin" "$dir/persistent"
expect "a persistent receive where asking ends it" good 'persistent: right' \
    "${run[@]}" SELVAGE_JOB=test LD_PRELOAD="$ending:$dropin" "$dir/persistent"

# The others of the MPIs that have a wrapper with their name, if they are here.
case ${SELVAGE_MPI_KIND:-} in
openmpi) others='mpicc.mpich mpicc_abi' ;;
mpich) others='mpicc.openmpi mpicc_abi' ;;
abi) others='mpicc.mpich mpicc.openmpi' ;;
*) others= ;;
esac
for other in $others; do
    command -v "$other" >/dev/null 2>&1 || continue
    case $SELVAGE_MPI_KIND in
    openmpi) ours='Open MPI [0-9.]+' ;;
    mpich) ours='MPICH [0-9.]+[^,]*' ;;
    *) ours='the MPI ABI [0-9.]+' ;;
    esac
    case $other in
    mpicc.mpich) theirs='MPICH [0-9.]+$|MPICH [0-9.]+:' ;;
    mpicc.openmpi) theirs='Open MPI v?[0-9.]+' ;;
    *) theirs='.* by the MPI ABI [0-9.]+' ;;
    esac
    both="built for $ours, and the program runs with ($theirs)"
    build other "$other"
    # The library needs its own MPI as well, which is not what the program is linked with.
    build other_library "$other" -DWITH_SELVAGE -I"$top_srcdir/include" -Wl,--no-as-needed \
        -Wl,--allow-shlib-undefined -L"$libraries" -lselvage
    # Two MPIs may bring libraries of the same name that do not go together, and then nothing begins.
    if "${run[@]}" LD_PRELOAD="$dropin" "$dir/other" 2>&1 | grep -q 'symbol lookup error'; then
        echo "NOTE: this MPI and that of $other cannot be loaded into one process"
        continue
    fi
    expect "the other MPI alone" good '^1 ranks' "${run[@]}" "$dir/other"
    expect "the drop-in with the other MPI" bad "selvage-mpi: .*$both" "${run[@]}" LD_PRELOAD="$dropin" "$dir/other"
    expect "the library with the other MPI" good "refused: .*$both" "${run[@]}" "$dir/other_library"
done
exit "$failed"
