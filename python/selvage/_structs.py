# SPDX-License-Identifier: BSD-3-Clause
"""Structs of the C headers. tests/python/test_layout.py holds every member against the compiler's offsets."""
from __future__ import annotations

import ctypes as c

DIMS_MAX = 4

Ints = c.c_int * DIMS_MAX
Longs = c.c_int64 * DIMS_MAX


class Sized(c.Structure):
    """A struct that begins with its size, which the constructor fills in."""

    def __init__(self, **members: object) -> None:
        super().__init__(**members)
        self.struct_size = c.sizeof(self)


class CommParams(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("device", c.c_void_p), ("timeout_s", c.c_double),
                ("message_slot_bytes", c.c_size_t), ("device_later", c.c_int)]


class DeviceInfo(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("index", c.c_int), ("count", c.c_int), ("bus_id", c.c_char * 32),
                ("model", c.c_char * 96)]


class ExchangeParams(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("route", c.c_int), ("checksum", c.c_int), ("rebindable", c.c_int),
                ("varying", c.c_int), ("scope", c.c_int), ("reserved", c.c_int)]


class Box(c.Structure):
    _fields_ = [("first", Longs), ("end", Longs)]


class GridParams(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("ndims", c.c_int), ("global_extent", Longs), ("periodic", Ints),
                ("blocks", Ints), ("split", c.POINTER(c.c_int64) * DIMS_MAX), ("ranks", c.POINTER(c.c_int)),
                ("reorder", c.c_int), ("width", Ints)]


class GridInfo(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("ndims", c.c_int), ("global_extent", Longs), ("periodic", Ints),
                ("blocks", Ints), ("coords", Ints), ("local_extent", Longs), ("local_first", Longs),
                ("surface_cells", c.c_int64), ("surface_cells_between_nodes", c.c_int64),
                ("surface_cells_in_rank_order", c.c_int64)]


class FieldStruct(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("data", c.c_void_p), ("element_bytes", c.c_size_t), ("width_lo", Ints),
                ("width_hi", Ints), ("order", c.c_int), ("stagger", Ints), ("array_extent", Longs), ("first", Longs),
                ("has_first", c.c_int), ("stride_bytes", c.c_ssize_t * DIMS_MAX), ("components", c.c_int),
                ("component_stride_bytes", c.c_ssize_t), ("parity", c.c_int), ("packed_dim", c.c_int),
                ("number", c.c_int)]


class HaloParams(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("shape", c.c_int), ("ndirections", c.c_int),
                ("directions", c.POINTER(c.c_int)), ("reverse", c.c_int), ("route", c.c_int), ("checksum", c.c_int)]


class HaloInfo(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("packets", c.c_int), ("bytes_sent", c.c_size_t),
                ("bytes_contiguous", c.c_size_t), ("bytes_received", c.c_size_t)]


class Stats(Sized):
    _fields_ = [("struct_size", c.c_size_t)] + [
        (name, c.c_uint64) for name in (
            "epochs", "packets_sent", "packets_received", "bytes_sent", "bytes_received")
    ] + [("packets_by_route", c.c_uint64 * 8)] + [
        (name, c.c_uint64) for name in (
            "resends", "bad_digests", "bad_records", "stale_discarded", "swapped_named", "asked_again",
            "control_damaged", "faults_injected", "deadlines", "pinned_bytes", "device_bytes", "messages_sent",
            "messages_received", "message_bytes_sent", "message_bytes_received", "messages_verified",
            "messages_damaged", "messages_repeated", "messages_failed", "messages_mended", "message_requests_most",
            "message_buffers_most", "progress_queued_most")
    ]
