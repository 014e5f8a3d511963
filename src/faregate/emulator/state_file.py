"""Keep the state of all tenants of a server in a file, so that it survives a restart.

The state is written to a temporary file which then replaces the file. It is readable by its owner only,
because it contains payers' signatures and keys. A lock file beside it ensures that one server uses it at a
time.
"""

import glob
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal
from weakref import finalize

import anyio
from anyio.to_thread import run_sync
from pydantic import ValidationError

from faregate.emulator.emulator import Emulator
from faregate.emulator.persistence.schema import StateDocument
from faregate.emulator.tenants import TenantConfig, Tenants
from faregate.errors import ConfigurationError
from faregate.rules.account import Account, FrozenModel, describe_error

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class StateLock:
    """A lock file beside the state. The state file itself cannot be locked: each write replaces it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._finalizer: finalize[..., StateLock] | None = None

    def take(self) -> bool:
        """Acquire the lock; False if another process has it, `OSError` if it cannot be known."""
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _lock(handle)
            except (BlockingIOError, PermissionError):
                os.close(handle)
                return False
            if self._is_current(handle):
                # finalize runs at interpreter exit as well, so that the lock file does not stay behind.
                self._finalizer = finalize(self, _remove, self._path, handle)
                return True
            os.close(handle)

    def release(self) -> None:
        if self._finalizer is not None:
            self._finalizer()

    def _is_current(self, handle: int) -> bool:
        """Whether the file is still there: its last owner may have removed it after it was opened."""
        try:
            return os.path.samestat(os.fstat(handle), self._path.stat())
        except FileNotFoundError:
            return False


# Unlinked while it is still locked: a process that has it open by then sees that it is no longer the file.
def _remove(path: Path, handle: int) -> None:
    with suppress(OSError):
        path.unlink()
    os.close(handle)


class SavedTenant(FrozenModel):
    name: str
    seed: str | None = None
    account: Account | None = None
    state: StateDocument


class SavedState(FrozenModel):
    version: Literal[1]
    tenants: tuple[SavedTenant, ...]


def dump_tenants(tenants: Tenants) -> Iterator[str]:
    """Yield all tenants as JSON text, in pieces."""
    yield '{"version":1,"tenants":['
    for number, name in enumerate(tenants.names):
        emulator = tenants.find(name)
        if emulator is not None:
            yield "," if number else ""
            yield from _dump_tenant(name, tenants.get_config(name), emulator)
    yield "]}"


def load_tenants(tenants: Tenants, text: bytes) -> None:
    """Create the tenants in this text; `ConfigurationError` says what is wrong with it."""
    try:
        saved = SavedState.model_validate_json(text)
    except ValidationError as error:
        fault = describe_error(error, "the file")
        raise ConfigurationError(f"this is no state of an emulator: {fault}") from None
    for tenant in saved.tenants:
        tenants.get_or_create(tenant.name, account=tenant.account, seed=tenant.seed).load_state(tenant.state)


def _dump_tenant(name: str, setup: TenantConfig, emulator: Emulator) -> Iterator[str]:
    account = "null" if setup.account is None else setup.account.model_dump_json()
    yield f'{{"name":{json.dumps(name)},"seed":{json.dumps(setup.seed)},"account":{account},"state":'
    yield from emulator.iter_export()
    yield "}"


CHECK_SECONDS: Final = 0.5
"""Seconds between two looks whether something has changed."""
_MAX_WRITE_SHARE: Final = 10
"""A large state is written less often: at most this part of the time is spent on it."""
_TEMPORARY: Final = ".faregate-new"
_log = logging.getLogger("faregate.emulator")


class StateFile:
    """The state file of one server: `begin` before it serves, `keep` meanwhile, `end` after it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        self._lock = StateLock(self.path.with_name(f".{self.path.name}.lock"))
        self._touched = False
        self._changing = 0

    def begin(self, tenants: Tenants) -> None:
        """Load the file, or create it; `ConfigurationError` if that fails, and then the file is unchanged."""
        self._acquire_lock()
        with ExitStack() as in_vain:
            in_vain.callback(self._lock.release)
            self._load(tenants)
            try:
                self._remove_leftovers()
                self.save(tenants)
            except OSError as error:
                raise ConfigurationError(f"cannot write the state: {error}") from None
            in_vain.pop_all()

    def end(self, tenants: Tenants) -> None:
        """Save once more and release the lock."""
        self.try_to_save(tenants)
        self._lock.release()

    def save(self, tenants: Tenants) -> None:
        """Write everything now; `OSError` if it cannot."""
        handle, beside = tempfile.mkstemp(_TEMPORARY, f".{self.path.name}.", self.path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.writelines(dump_tenants(tenants))
                file.flush()
                # Without fsync a power failure could leave an empty file under the new name.
                os.fsync(handle)
            os.replace(beside, self.path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise

    async def keep(self, tenants: Tenants) -> None:
        """Write changes within a second, for ever. Errors are logged and the write is tried again."""
        pause = CHECK_SECONDS
        while True:
            await anyio.sleep(pause)
            if self._touched or self._changing:
                # Before the state is saved: what changes meanwhile is saved the next time.
                self._touched = False
                pause = max(CHECK_SECONDS, _MAX_WRITE_SHARE * await run_sync(self.try_to_save, tenants))

    @contextmanager
    def changing(self) -> Generator[None]:
        """Mark the state as changing while the block runs."""
        self._changing += 1
        try:
            yield
        finally:
            self._changing -= 1
            self._touched = True

    def try_to_save(self, tenants: Tenants) -> float:
        """Save, or log why it failed; return the seconds it took."""
        began = time.monotonic()
        try:
            self.save(tenants)
        except OSError as error:
            self._touched = True
            _log.error("cannot write the state: %s", error)
        return time.monotonic() - began

    def _acquire_lock(self) -> None:
        try:
            free = self._lock.take()
        except OSError as error:
            raise ConfigurationError(f"cannot write the state: {error}") from None
        if not free:
            raise ConfigurationError(
                f"{self.path}: another emulator keeps its state here. Stop it, or give this one its own file"
            )

    def _remove_leftovers(self) -> None:
        """Remove temporary files of a server that was killed while it wrote."""
        for leftover in self.path.parent.glob(f".{glob.escape(self.path.name)}.*{_TEMPORARY}"):
            leftover.unlink(missing_ok=True)

    def _load(self, tenants: Tenants) -> None:
        try:
            load_tenants(tenants, self.path.read_bytes())
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigurationError(f"cannot read the state: {error}") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.path}: {error}. Move the file away to start again") from None
