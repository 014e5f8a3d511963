"""All worlds of a server in one file, so that they are there again after a restart.

The file is written to a new one beside it that takes its place when it is whole, readable by its owner
only: it has payers' signatures and the keys of worlds in it. It is for one server at a time.
"""

import json
import logging
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import anyio
from anyio.to_thread import run_sync
from pydantic import ValidationError

from faregate.emulator.document import StateDocument, place_of
from faregate.emulator.emulator import Emulator
from faregate.emulator.goods import Part
from faregate.emulator.world import World
from faregate.emulator.worlds import Setup, Worlds
from faregate.errors import Misconfigured

EVERY: Final = 0.5
"""Seconds between two looks whether something has changed."""
_SHARE: Final = 10
"""A large state is written less often: at most this part of the time is spent on it."""
_log = logging.getLogger("faregate.emulator")


class WorldState(Part):
    name: str
    seed: str | None = None
    world: World | None = None
    state: StateDocument


class FileState(Part):
    version: Literal[1]
    worlds: tuple[WorldState, ...]


class StateFile:
    """Made for one server: `begin` before it, `keep` while it serves, `try_to_save` at its end."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        self._touched = False
        self._changing = 0

    def begin(self, worlds: Worlds) -> None:
        """Takes up what is in the file, or makes it. `Misconfigured` if it cannot; it is left alone then."""
        with suppress(FileNotFoundError):
            self._take_up(worlds, self._text())
        try:
            self.save(worlds)
        except OSError as error:
            raise Misconfigured(f"cannot write the state: {error}") from None

    def save(self, worlds: Worlds) -> None:
        """Writes everything now; `OSError` if it cannot."""
        handle, beside = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with open(handle, "w", encoding="ascii") as file:
                json.dump(_written(worlds), file, separators=(",", ":"))
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

    def _text(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Misconfigured(f"cannot read the state: {error}") from None

    def _take_up(self, worlds: Worlds, text: bytes) -> None:
        try:
            for one in _read(text).worlds:
                worlds.open(one.name, world=one.world, seed=one.seed).seed(one.state)
        except Misconfigured as error:
            raise Misconfigured(f"{self.path}: {error}. Move the file away to begin anew") from None


def _read(text: bytes) -> FileState:
    try:
        return FileState.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place, words = place_of(fault["loc"]) or "the file", fault["msg"].removeprefix("Value error, ")
        raise Misconfigured(f"this is no state of an emulator: {place}: {words}") from None


def _written(worlds: Worlds) -> dict[str, object]:
    found = [(name, worlds.setup(name), worlds.find(name)) for name in worlds.names]
    return {
        "version": 1,
        "worlds": [_world(name, setup, emulator) for name, setup, emulator in found if emulator],
    }


def _world(name: str, setup: Setup, emulator: Emulator) -> dict[str, object]:
    return {
        "name": name,
        "seed": setup.seed,
        "world": None if setup.world is None else setup.world.model_dump(mode="json"),
        "state": emulator.export(),
    }
