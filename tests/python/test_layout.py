# SPDX-License-Identifier: BSD-3-Clause
"""Structs, statuses and other numbers that the package repeats are those of the headers, as a C compiler has them."""
import ctypes
import os
import shlex
import subprocess

import pytest

from selvage import _collective, _errors, _exchange, _halo, _mpi, _structs

STRUCTS = {
    "comm_params": _structs.CommParams, "device_info": _structs.DeviceInfo,
    "exchange_params": _structs.ExchangeParams, "box": _structs.Box, "grid_params": _structs.GridParams,
    "grid_info": _structs.GridInfo, "field": _structs.FieldStruct, "halo_params": _structs.HaloParams,
    "halo_info": _structs.HaloInfo, "stats": _structs.Stats,
}
TYPE_NAMES = {"float8_e4m3fn": "FLOAT8_E4M3"}


def numbers():
    """Every number of the package, by its C expression."""
    yield "SELVAGE_DIMS_MAX", _structs.DIMS_MAX
    yield "MPI_PROC_NULL", _mpi.proc_null()
    yield "MPI_THREAD_MULTIPLE", _mpi._THREAD_MULTIPLE
    for name, struct in STRUCTS.items():
        yield f"sizeof(selvage_{name}_t)", ctypes.sizeof(struct)
        for member, _ in struct._fields_:
            yield f"offsetof(selvage_{name}_t, {member})", getattr(struct, member).offset
            yield f"sizeof(((selvage_{name}_t *)0)->{member})", getattr(struct, member).size
    for route, number in _exchange.ROUTES.items():
        yield f"SELVAGE_ROUTE_{(route or 'default').upper()}", number
    for policy, number in _exchange.CHECKSUMS.items():
        yield f"SELVAGE_CHECKSUM_{(policy or 'default').upper()}", number
    for shape, number in _halo._SHAPES.items():
        yield f"SELVAGE_HALO_{shape.upper()}", number
    for kind, number in _halo._NUMBERS.items():
        yield f"SELVAGE_NUMBER_{kind.upper()}", number
    for kind, number in _collective._TYPES.items():
        yield f"SELVAGE_{TYPE_NAMES.get(kind, kind).upper()}", number
    for op, number in _collective._OPS.items():
        yield f"SELVAGE_OP_{op.upper()}", number


def test_numbers(comm, tmp_path):
    if "MPI_CPPFLAGS" not in os.environ or comm.rank > 0:
        pytest.skip("the suite of the tree runs this, on rank 0")
    listed = list(numbers())
    source = tmp_path / "numbers.c"
    shown = "".join(f'    printf("%lld %s\\n", (long long)({text}), "{text}");\n' for text, _ in listed)
    statuses = "#define SHOW(name, number, text) printf(\"%d ERR\\n\", number);\nSELVAGE_STATUS_TABLE(SHOW)\n"
    source.write_text(f"#include <selvage.h>\n#include <stdio.h>\nint main(void)\n{{\n{shown}{statuses}return 0;\n}}\n")
    program = tmp_path / "numbers"
    top = os.environ["top_srcdir"]
    subprocess.run([*shlex.split(os.environ["CC"]), f"-I{top}/include", *shlex.split(os.environ["MPI_CPPFLAGS"]),
                    str(source), "-o", str(program)], check=True)
    lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.split(" ", 1) for line in lines]
    assert [(text, number) for text, number in listed] == [(text, int(number)) for number, text in found
                                                            if text != "ERR"]
    assert {int(number) for number, text in found if text == "ERR" and int(number) < 0} == set(_errors.ERRORS)
