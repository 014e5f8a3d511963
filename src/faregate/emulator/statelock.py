"""The lock of a state file: one server at a time. The system lets go of it however its process ends."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from weakref import finalize

if sys.platform == "win32":
    import msvcrt

    def _hold(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _hold(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class StateLock:
    """A file beside the state, there while it is held. The state itself is replaced at each writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._let_go: finalize[..., StateLock] | None = None

    def take(self) -> bool:
        """False if another has it; `OSError` if it cannot be known."""
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _hold(handle)
            except (BlockingIOError, PermissionError):
                os.close(handle)
                return False
            if self._is_there(handle):
                self._let_go = finalize(self, _remove, self._path, handle)
                return True
            os.close(handle)

    def release(self) -> None:
        if self._let_go is not None:
            self._let_go()

    def _is_there(self, handle: int) -> bool:
        """Who had it before may have removed the file since it was opened."""
        try:
            return os.path.samestat(os.fstat(handle), self._path.stat())
        except FileNotFoundError:
            return False


def _remove(path: Path, handle: int) -> None:
    with suppress(OSError):
        path.unlink()
    os.close(handle)
