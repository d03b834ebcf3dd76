#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# One build for the binary interface of MPI 5, run under every MPI at hand that has it. ABI_MPI is the prefix of the MPI
# that it is built with (its bin/ has mpicc_abi; else that of PATH), ABI_MPIS a list of prefixes that it runs with (else
# that one alone). Where there is neither, pip fetches MPICH 5 and Intel's MPI, which are Python wheels; skipped without
# a network. Each MPI's own count is printed.
set -u
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
[ -x "$top_srcdir/configure" ] || { echo "SKIP: no configure beside the sources"; exit 77; }
tests="tests/tools/test_mpi_abi.sh tests/apps/test_heat2d.sh"
for name in wire_mpi datatype datatype_exchange message_mpi halo_mpi coll_mpi session grid_cart graph_mpi \
    exchange_graph cxx memory_kinds timeline dropin dropin_batch dropin_begin dropin_types; do
    tests="$tests tests/mpi/test_$name.sh"
done

# fetch WHEEL: prints the prefix. Without what the wheel depends on: Intel's names a libfabric that has no wheel, and
# runs with the system's.
fetch() {
    local prefix=$dir/${1%%=*}
    timeout 300 "${PYTHON:-python3}" -m venv "$prefix" >"$dir/pip.out" 2>&1 &&
        timeout 600 "$prefix/bin/pip" install --quiet --no-deps --only-binary :all: "$1" >>"$dir/pip.out" 2>&1 ||
        { tail -n 2 "$dir/pip.out" >&2; return 1; }
    echo "$prefix"
}

wrapper=${ABI_MPI:+$ABI_MPI/bin/mpicc_abi}
wrapper=${wrapper:-$(command -v mpicc_abi)}
if [ ! -x "$wrapper" ]; then
    prefix=$(fetch mpich==5.0.2) || { echo "SKIP: no mpicc_abi, and no wheel of MPICH 5"; exit 77; }
    wrapper=$prefix/bin/mpicc_abi
    intel=$(fetch impi-rt==2021.19.0) || echo "SKIP: no wheel of Intel's MPI"
    ABI_MPIS="$prefix ${intel:-}"
fi
prefix=$(cd "$(dirname "$wrapper")/.." && pwd)
export BRIEF=${BRIEF:-cases}
unset MPICC MPIRUN MPI_CPPFLAGS MPI_LIBS SELVAGE_MPI_KIND top_builddir MAKEFLAGS MFLAGS
mkdir "$dir/build" && cd "$dir/build" || exit 1
"$top_srcdir/configure" --with-mpi-abi --with-mpi="$wrapper" --with-cuda=no --with-hip=no --disable-static \
    CC="${CC:-cc}" CXX="${CXX:-c++}" CFLAGS="${CFLAGS:--O1}" CXXFLAGS="${CXXFLAGS:--O1}" >configure.out 2>&1 ||
    { tail -n 20 configure.out; exit 1; }
make -j"$(nproc)" >make.out 2>&1 && make -j"$(nproc)" check TESTS= >>make.out 2>&1 || { tail -n 20 make.out; exit 1; }
for mpi in ${ABI_MPIS:-$prefix}; do
    launcher=$mpi/bin/mpiexec.hydra
    [ -x "$launcher" ] || launcher=$mpi/bin/mpiexec
    # One word for all of the tests, as make has it.
    LD_LIBRARY_PATH=$mpi/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} make -k check-TESTS check_PROGRAMS= \
        check_LTLIBRARIES= MPIRUN="$launcher" TESTS="$(echo $tests)" >run.out 2>&1 ||
        { failed=1; for log in tests/*/*.log; do grep -H '^FAIL' "$log"; done; }
    echo "== $("$launcher" --version | grep -iE 'version' | head -n 1 | tr -s ' ')"
    grep -E '^(FAIL|ERROR|SKIP|# (TOTAL|PASS|FAIL|SKIP))' run.out
done
exit "$failed"
