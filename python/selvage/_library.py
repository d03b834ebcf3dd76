# SPDX-License-Identifier: BSD-3-Clause
"""The C library, and the types of its calls.

It is the copy in this package if the package's build made one, else the one that the build was told of or found, else
what the dynamic loader finds under its name. Who imports mpi4py.MPI first has loaded an MPI already, and the library
finds that by its name. Each thread has an error detail of its own in the library, and calls run without the
interpreter's lock.
"""
from __future__ import annotations

import ctypes as c
import importlib
import os
import pathlib

from . import _structs as s

NAME = "libselvage.so.0"  # VERSION and LIBVERSION of the sources make it; another number is another interface


def _path() -> str:
    carried = pathlib.Path(__file__).parent / "lib" / NAME
    if carried.exists():
        if any(carried.parent.glob("selvage-device-*.so")):  # where the library looks for plug-ins of GPUs
            os.environ.setdefault("SELVAGE_DEVICE_PATH", str(carried.parent))
        return str(carried)
    try:
        return importlib.import_module("selvage._found").LIBRARY
    except ImportError:
        return NAME


def _open() -> c.CDLL:
    path = _path()
    try:
        return c.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"{path} cannot be loaded ({error}). Build the package again with SELVAGE_PREFIX=<where Selvage is "
            "installed>, or name the library's folder in LD_LIBRARY_PATH") from error


def _declare(lib: c.CDLL) -> None:
    p, out, size, i, text = c.c_void_p, c.POINTER(c.c_void_p), c.c_size_t, c.c_int, c.c_char_p
    index = c.POINTER(c.c_uint32)
    calls = {  # all others return a status, which is an int
        "status_name": (text, [i]), "error_detail": (text, []), "version_build": (text, []),
        "version": (text, [p, p, p]), "comm_rank": (i, [p]), "comm_size": (i, [p]), "comm_node_size": (i, [p]),
        "comm_wire": (text, [p]), "comm_device": (p, [p]), "comm_destroy": (None, [p]), "device_name": (text, [p]),
        "device_close": (None, [p]), "device_free": (None, [p, p]), "stream_destroy": (None, [p, p]),
        "exchange_destroy": (None, [p]), "exchange_epoch": (c.c_uint64, [p]), "route_name": (text, [i]),
        "grid_destroy": (None, [p]), "halo_destroy": (None, [p]), "coll_destroy": (None, [p]),
        "mpi_check": (i, []), "comm_create": (i, [p, c.POINTER(s.CommParams), out]),
        "comm_stats": (i, [p, c.POINTER(s.Stats)]), "progress": (i, [p]),
        "buffer_register": (i, [p, p, size, out]), "buffer_unregister": (i, [p]),
        "device_open": (i, [text, out]), "device_open_local": (i, [text, out]), "device_open_at": (i, [text, p, out]),
        "device_describe": (i, [p, c.POINTER(s.DeviceInfo)]), "device_malloc": (i, [p, size, out]),
        "device_copy": (i, [p, p, p, size, i, p]), "device_synchronize": (i, [p]),
        "stream_create": (i, [p, out]), "stream_synchronize": (i, [p, p]),
        "exchange_create": (i, [p, c.POINTER(s.ExchangeParams), out]),
        "exchange_add_send": (i, [p, p, size, i, i, index]), "exchange_add_recv": (i, [p, p, size, i, i, index]),
        "exchange_add_send_type": (i, [p, p, size, p, i, i, index]),
        "exchange_add_recv_type": (i, [p, p, size, p, i, i, index]),
        "exchange_add_send_indexed": (i, [p, p, size, p, size, i, i, index]),
        "exchange_add_recv_indexed": (i, [p, p, size, p, size, i, i, index]),
        "exchange_add_graph": (i, [p, p, p, p, p, p, p, p, i]),
        "exchange_set_bytes": (i, [p, p, c.c_uint32, p, c.c_uint32]), "exchange_commit": (i, [p]),
        "exchange_send_route": (i, [p, c.c_uint32, c.POINTER(i)]),
        "grid_create": (i, [p, c.POINTER(s.GridParams), out]),
        "grid_create_cart": (i, [p, p, c.POINTER(s.GridParams), out]),
        "grid_describe": (i, [p, c.POINTER(s.GridInfo)]), "grid_neighbour": (i, [p, s.Ints, c.POINTER(i)]),
        "grid_block": (i, [p, i, s.Longs, s.Longs]), "grid_interior": (i, [p, s.Ints, s.Ints, c.POINTER(s.Box)]),
        "halo_create": (i, [p, c.POINTER(s.HaloParams), c.POINTER(s.FieldStruct), i, out]),
        "halo_rebind": (i, [p, out]), "halo_describe": (i, [p, c.POINTER(s.HaloInfo)]),
        "halo_exchange": (i, [p, p]), "coll_create": (i, [p, p, out]), "coll_error": (i, [p]),
        "coll_all_reduce": (i, [p, p, p, size, i, i, p]), "coll_reduce_scatter": (i, [p, p, p, size, i, i, p]),
        "coll_all_gather": (i, [p, p, p, size, i, p]), "coll_broadcast": (i, [p, p, p, size, i, i, p]),
        "coll_reduce": (i, [p, p, p, size, i, i, i, p]), "coll_all_to_all": (i, [p, p, p, size, i, p]),
        "coll_barrier": (i, [p, p]),
    }
    for kind in ("exchange", "halo"):
        for verb in ("start", "test", "wait", "enqueue_wait", "run"):
            calls[f"{kind}_{verb}"] = (i, [p, p])
    for name, (result, arguments) in calls.items():
        function = getattr(lib, "selvage_" + name)
        function.restype, function.argtypes = result, arguments


library = _open()
_declare(library)


def version() -> str:
    """Version of the library that is loaded ("0.2.0"). Local."""
    return library.selvage_version(None, None, None).decode()


def build() -> str:
    """How that library was built: its MPI, its plug-ins for GPUs. For people. Local."""
    return library.selvage_version_build().decode()
