"""The locks of owners in a file beside a SQLite file: one byte range each, so nothing is left to clean up.

POSIX record locks belong to a process. A child does not inherit them when it is forked, and another program
that replaces the process does not keep them. But they are gone when the process closes *any* descriptor of
the file: so one descriptor per file is used for everything, and closed when no lock is left.

A free lock proves a death only on the kernel where it was taken, and in the same file. Both are part of the
owner's id. The number of a file that is open is not given to another one, so a file that was removed and
created again is known as another.
"""

import os
import secrets
import threading
import weakref
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from faregate.journals.owner_locks import name_owner, parse_owner

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
"""Windows has none."""
SUFFIX = "-owners"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_KIND = "f"


class _LockFile:
    """The one descriptor of a file that this process has, and the locks that it holds there."""

    def __init__(self, descriptor: int, place: str) -> None:
        self.descriptor = descriptor
        self.place = place
        self.held: set[int] = set()


_files: dict[tuple[int, int], _LockFile] = {}
_using = threading.Lock()
"""Held whenever a file is opened, used or closed."""


class FileLock:
    """The lock of one owner: the byte `_number` of the file."""

    def __init__(self, locks: "FileLocks", file: _LockFile, number: int) -> None:
        self._locks = locks
        self._finalizers: list[weakref.finalize[..., FileLock]] = []
        self._hold(file, number)

    def _hold(self, file: _LockFile, number: int) -> None:
        self._file, self._number = file, number
        self.owner = name_owner(_KIND, file.place, number)
        # Not with `_using`: a collection of garbage may run while this very thread has it.
        self._finalizers.append(weakref.finalize(self, _unlock, file, number))

    def keep(self, seconds: float) -> None:
        threading.Event().wait(seconds)
        if self._locks.relock(self._file, self._number):
            return
        # The file was removed. The old lock is kept as well: the file may be put back.
        if (new := self._locks.take_number()) is not None:
            self._hold(*new)

    def release(self) -> None:
        for finalizer in self._finalizers:
            finalizer()

    def abandon(self) -> None:
        for finalizer in self._finalizers:
            finalizer.detach()


class FileLocks:
    """The locks of the owners in the journal at `database`. Opens nothing until it is used."""

    def __init__(self, database: str | os.PathLike[str]) -> None:
        self._database = Path(database).absolute()
        self.path = self._database.with_name(self._database.name + SUFFIX)

    def take(self) -> FileLock | None:
        taken = self.take_number()
        return None if taken is None else FileLock(self, *taken)

    def take_number(self) -> tuple[_LockFile, int] | None:
        """Lock a byte that no process has had."""
        if fcntl is None or _get_boot_id() is None:
            return None
        number = secrets.randbits(60)
        with _using:
            try:
                file = _open(self.path, os.O_CREAT, self._database.stat().st_mode & 0o666)
                _lock(file, number)
            except OSError:
                return None  # a folder that cannot be written, or a file system without locks
            file.held.add(number)
        return file, number

    def relock(self, file: _LockFile, number: int) -> bool:
        """Lock it again, should this process have closed a descriptor of the file. False if it is another."""
        with _using:
            try:
                if _open(self.path, 0) is not file:
                    return False
            except FileNotFoundError:
                return False
            except OSError:
                return True
            with suppress(OSError):  # another process looks at it at this moment
                if number in file.held:
                    _lock(file, number)
            return True

    def judge(self, owners: Iterable[str]) -> Mapping[str, bool]:
        if fcntl is None or _get_boot_id() is None:
            return {}
        with self._look() as file:
            numbers = (
                {} if file is None else {owner: parse_owner(owner, _KIND, file.place) for owner in owners}
            )
            lives = {
                owner: number in file.held or _is_locked(file, number)
                for owner, number in numbers.items()
                if file is not None and number is not None
            }
        return {owner: answer for owner, answer in lives.items() if answer is not None}

    @contextmanager
    def _look(self) -> Generator[_LockFile | None]:
        with _using:
            try:
                file = _open(self.path, 0)
            except OSError:
                yield None
                return
            yield file
            _close_unused()


def _open(path: Path, flags: int, mode: int = 0) -> _LockFile:
    """Call it with `_using`."""
    _close_unused()
    try:
        if (file := _files.get(_identify(os.stat(path)))) is not None:
            return file
    except FileNotFoundError:
        pass
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, mode)
    status = os.fstat(descriptor)
    place = f"{_get_boot_id()} {status.st_dev} {status.st_ino}"
    file = _LockFile(descriptor, blake2b(place.encode(), digest_size=5).hexdigest())
    # If it is there by now, the name changed meanwhile: the new descriptor stays open, as to close it would
    # drop the locks of the other.
    return _files.setdefault(_identify(status), file)


def _identify(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _close_unused() -> None:
    for identity in [identity for identity, file in _files.items() if not file.held]:
        os.close(_files.pop(identity).descriptor)


def _lock(file: _LockFile, number: int) -> None:
    fcntl.lockf(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)


def _unlock(file: _LockFile, number: int) -> None:
    if number in file.held:
        fcntl.lockf(file.descriptor, fcntl.LOCK_UN, 1, number)
        file.held.discard(number)  # last: it may be closed from now on


def _is_locked(file: _LockFile, number: int) -> bool | None:
    """Whether another process has it; None if that is unknown."""
    try:
        fcntl.lockf(file.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, number)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        return None
    fcntl.lockf(file.descriptor, fcntl.LOCK_UN, 1, number)
    return False


@cache
def _get_boot_id() -> str | None:
    """Tell kernels apart, on one machine and on others. None where there is no such id."""
    try:
        return Path(_BOOT_ID).read_text().strip() or None
    except OSError:
        return None


def _after_fork() -> None:
    """The locks are the parent's. The descriptors are used on."""
    global _using
    _using = threading.Lock()
    for file in _files.values():
        file.held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
