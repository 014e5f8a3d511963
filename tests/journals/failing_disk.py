"""A thread whose disk fails: the kernel refuses its syncs, or its locks, and only its, as a broken disk
would, or one of another machine.

By a filter of system calls (seccomp) that the thread puts on itself, and cannot take off again.
"""

import ctypes
import fcntl
import platform
import threading
from collections.abc import Callable
from typing import Any

_SYNCS = {"x86_64": (74, 75), "aarch64": (82, 83)}
_FCNTL = {"x86_64": 72, "aarch64": 25}
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_CALL, _COMMAND = 0, 24  # where a filter finds the call, and its second argument
_ALLOWED, _REFUSED = 0x7FFF0000, 0x00050005  # with "input/output error"


class _Step(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jump", ctypes.c_uint8),
        ("otherwise", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.POINTER(_Step)))


def with_failing_disk(act: Callable[[], Any]) -> threading.Thread:
    """A thread that does `act`. All that it did not start can still sync."""

    calls = _SYNCS[platform.machine()]
    tests = [_Step(_IF_EQUAL, len(calls) - place, 0, number) for place, number in enumerate(calls)]
    return _refused([_Step(_LOAD, 0, 0, _CALL), *tests], act)


def without_locks(act: Callable[[], Any]) -> threading.Thread:
    """A thread that does `act`, and can lock no file."""
    is_fcntl = [_Step(_LOAD, 0, 0, _CALL), _Step(_IF_EQUAL, 0, 2, _FCNTL[platform.machine()])]
    return _refused([*is_fcntl, _Step(_LOAD, 0, 0, _COMMAND), _Step(_IF_EQUAL, 1, 0, fcntl.F_SETLK)], act)


def _refused(tests: list[_Step], act: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        _filter([*tests, _Step(_RETURN, 0, 0, _ALLOWED), _Step(_RETURN, 0, 0, _REFUSED)])
        act()

    return threading.Thread(target=run)


def _filter(steps: list[_Step]) -> None:
    program = _Program(len(steps), (_Step * len(steps))(*steps))
    control = ctypes.CDLL(None, use_errno=True).prctl
    assert control(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    assert control(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()
