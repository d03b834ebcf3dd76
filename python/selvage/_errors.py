# SPDX-License-Identifier: BSD-3-Clause
"""Errors: one exception for each status of the library, with the detail that the library has of it."""
from __future__ import annotations

from typing import NoReturn

from . import _library


class Error(RuntimeError):
    """A call of the library failed.

    ``status`` is the number of selvage/status.h, ``name`` its name ("SELVAGE_ERR_MISMATCH"), and ``detail`` what the
    library says of this failure: the argument, or the packet, the peer and the native error.
    """

    status = -14

    def __init__(self, detail: str, status: int | None = None) -> None:
        if status is not None:
            self.status = status
        self.name = _library.library.selvage_status_name(self.status).decode()
        self.detail = detail
        super().__init__(f"{self.name}: {detail}")


class ArgumentError(Error, ValueError):
    """An argument was refused; the detail names it."""

    status = -1


class StateError(Error):
    """The call is not allowed in the object's present state."""

    status = -2


class OutOfMemoryError(Error, MemoryError):
    """Memory could not be allocated."""

    status = -3


class ConfigError(Error, ValueError):
    """A SELVAGE_ variable was refused."""

    status = -4


class MpiError(Error):
    """An MPI call failed."""

    status = -5


class DeviceError(Error):
    """A device call failed."""

    status = -6


class OperatingSystemError(Error):
    """An operating system call failed."""

    status = -7


class MismatchError(Error):
    """Ranks do not agree on what is exchanged; the detail names the rank."""

    status = -8


class DeadlineError(Error, TimeoutError):
    """The deadline passed without progress."""

    status = -9


class ChecksumError(Error):
    """A packet did not verify and could not be recovered."""

    status = -10


class PeerError(Error):
    """Another rank reported a failure."""

    status = -11


class UnsupportedError(Error, NotImplementedError):
    """Not possible with this device, MPI or build."""

    status = -12


class LimitError(Error):
    """A limit of the MPI or of Selvage was reached."""

    status = -13


class InternalError(Error):
    """Selvage broke one of its own rules; please report it."""

    status = -14


class AbortedError(Error):
    """The operation was aborted."""

    status = -15


class TruncatedError(Error):
    """A message was longer than its receive."""

    status = -16


ERRORS = {kind.status: kind for kind in Error.__subclasses__()}


def fail(status: int) -> NoReturn:
    """Raises what the library has just returned. The detail is this thread's."""
    detail = _library.library.selvage_error_detail().decode(errors="replace")
    raise ERRORS.get(status, Error)(detail, status)


def check(status: int) -> None:
    """Raises the status of a call that failed."""
    if status < 0:
        fail(status)
