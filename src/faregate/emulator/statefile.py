"""All worlds of a server in one file, so that they are there again after a restart.

The file is written to a new one beside it that takes its place when it is whole, readable by its owner
only: it has payers' signatures and the keys of worlds in it. It is for one server at a time, which a
lock beside it sees to (`statelock.py`).
"""

import glob
import logging
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.to_thread import run_sync

from faregate.emulator.savedworlds import take_up, written
from faregate.emulator.statelock import StateLock
from faregate.emulator.tenants import Worlds
from faregate.errors import ConfigurationError

EVERY: Final = 0.5
"""Seconds between two looks whether something has changed."""
_SHARE: Final = 10
"""A large state is written less often: at most this part of the time is spent on it."""
_NEW: Final = ".faregate-new"
_log = logging.getLogger("faregate.emulator")


class StateFile:
    """Made for one server: `begin` before it, `keep` while it serves, `end` after it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        self._lock = StateLock(self.path.with_name(f".{self.path.name}.lock"))
        self._touched = False
        self._changing = 0

    def begin(self, worlds: Worlds) -> None:
        """Takes up what is in the file, or makes it.

        `ConfigurationError` if it cannot; it is left alone then.
        """
        self._alone()
        with ExitStack() as in_vain:
            in_vain.callback(self._lock.release)
            self._take_up(worlds)
            try:
                self._tidy()
                self.save(worlds)
            except OSError as error:
                raise ConfigurationError(f"cannot write the state: {error}") from None
            in_vain.pop_all()

    def end(self, worlds: Worlds) -> None:
        """Saves for the last time; another server may begin with the file."""
        self.try_to_save(worlds)
        self._lock.release()

    def save(self, worlds: Worlds) -> None:
        """Writes everything now; `OSError` if it cannot."""
        handle, beside = tempfile.mkstemp(_NEW, f".{self.path.name}.", self.path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.writelines(written(worlds))
                file.flush()
                os.fsync(handle)
            os.replace(beside, self.path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise

    async def keep(self, worlds: Worlds) -> None:
        """Writes what has changed, within a second, for ever. A fault is logged, and tried again."""
        pause = EVERY
        while True:
            await anyio.sleep(pause)
            if self._touched or self._changing:
                self._touched = False
                pause = max(EVERY, _SHARE * await run_sync(self.try_to_save, worlds))

    @contextmanager
    def changing(self) -> Generator[None]:
        """Something may change in this block, at any time."""
        self._changing += 1
        try:
            yield
        finally:
            self._changing -= 1
            self._touched = True

    def try_to_save(self, worlds: Worlds) -> float:
        """Saves, or logs why it cannot; gives the seconds it took."""
        began = time.monotonic()
        try:
            self.save(worlds)
        except OSError as error:
            self._touched = True
            _log.error("cannot write the state: %s", error)
        return time.monotonic() - began

    def _alone(self) -> None:
        try:
            free = self._lock.take()
        except OSError as error:
            raise ConfigurationError(f"cannot write the state: {error}") from None
        if not free:
            raise ConfigurationError(
                f"{self.path}: another emulator keeps its state here. Stop it, or give this one its own file"
            )

    def _tidy(self) -> None:
        """What a server left behind that was killed while it wrote."""
        for left in self.path.parent.glob(f".{glob.escape(self.path.name)}.*{_NEW}"):
            left.unlink(missing_ok=True)

    def _take_up(self, worlds: Worlds) -> None:
        try:
            take_up(worlds, self.path.read_bytes())
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigurationError(f"cannot read the state: {error}") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.path}: {error}. Move the file away to begin anew") from None
