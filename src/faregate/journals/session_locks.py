"""The locks of owners in PostgreSQL: advisory locks of a session that a process keeps for nothing else.

The server gives the locks of a session back when its connection ends. That proves the death of a process only
if nothing else ends the connection. So a lock is trusted on a direct connection alone: one where the server
sees the very address that our socket has, and whose session the server named to us. A pooler or a proxy
has other connections, and may keep or close them as it likes.

A machine that is cut off sends nothing. The server notices after `_SILENCE` seconds, as it does for a
renewal. If the server restarts, all locks are free although no owner has died: the moment of its start is
part of an owner's id, and an owner of before is judged by its renewals. If the server ends one session, its
owner takes its lock in another at once, and so a lock must be free for `GRACE` seconds.
"""

import ipaddress
import logging
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Protocol

from faregate.errors import FaregateError
from faregate.journals.owner_locks import OwnerLock, name_owner, parse_owner
from faregate.logs import log

GRACE = 0.3
RETRY, RETRY_LATER, SOON = 0.1, 1.0, 10.0
"""Seconds between tries to take a lost lock again: for the first `SOON` seconds, and later."""
_KIND = "p"
_SILENCE = {"tcp_keepalives_idle": 2, "tcp_keepalives_interval": 1, "tcp_keepalives_count": 3}
_STARTED = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"
_WHO = (
    "SELECT pg_backend_pid(), host(inet_client_addr()), inet_client_port(), "
    f"current_setting('server_version_num')::int, {_STARTED}"
)
_KEY = "(classid::bigint << 32 | objid::bigint)"
_HELD = (
    "locktype = 'advisory' AND granted AND objsubid = 1 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class Session(Protocol):
    """A connection of its own to PostgreSQL, with autocommit. Its calls raise what its driver raises."""

    @property
    def backend_pid(self) -> int:
        """The process id that the server named when the connection began."""
        ...

    def fileno(self) -> int: ...

    def query(self, statement: str) -> Sequence[Sequence[Any]]: ...

    def close(self) -> None: ...


class _Untrusted(Exception):
    """A lock of this session would prove nothing."""


class SessionLock:
    """The lock of one owner, and the session that holds it. `_session` is None while it is lost."""

    def __init__(self, open_session: Callable[[], Session]) -> None:
        """Raises `_Untrusted`, and what `open_session` and its session raise."""
        self._open = open_session
        self._session: Session | None = None
        self._place, self._number = "", secrets.randbits(60)
        self._lost_at = 0.0
        self._is_released = False
        self._take()

    @property
    def owner(self) -> str:
        return name_owner(_KIND, self._place, self._number)

    def _take(self) -> None:
        session = self._open()
        try:
            place = _check(session)
            if self._place not in ("", place):
                self._number = secrets.randbits(60)  # the server has restarted: its owners are new ones
            _lock(session, self._number)
        except BaseException:
            _close(session)
            raise
        self._place, self._session = place, session
        if self._is_released:
            self.release()

    def keep(self, seconds: float) -> None:
        end, pause = time.monotonic() + seconds, threading.Event().wait
        while (seconds_left := end - time.monotonic()) > 0:
            if self._is_released:
                pause(seconds_left)
            elif self._session is None:
                try:
                    self._take()
                # All that a driver may raise: the renewals go on.
                except Exception:
                    is_new = time.monotonic() - self._lost_at < SOON
                    pause(min(RETRY if is_new else RETRY_LATER, seconds_left))
            elif not _stays_open(self._session, seconds_left):
                log("journal", logging.INFO, "a session that shows that this process lives was lost")
                _close(self._session)
                self._session, self._lost_at = None, time.monotonic()

    def release(self) -> None:
        self._is_released = True
        session, self._session = self._session, None
        if session is not None:
            _close(session)

    def abandon(self) -> None:
        """Let go of the connection without a word to the server, who would think that the parent has died.

        If the child kept it, the server would not notice when the parent dies.
        """
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                os.dup2(nowhere, session.fileno(), inheritable=False)
                os.close(nowhere)


class SessionLocks:
    """The locks of all owners in one database.

    `open_session` opens a connection; `query` executes a statement on any.
    """

    def __init__(
        self,
        open_session: Callable[[], Session],
        query: Callable[[str], Sequence[Sequence[Any]]],
    ) -> None:
        self._open = open_session
        self._query = query

    def take(self) -> OwnerLock | None:
        try:
            return SessionLock(self._open)
        except _Untrusted:
            return None
        # All that a driver may raise: no connection may be left, and a sale needs no lock.
        except Exception as error:
            reason = str(error) if isinstance(error, FaregateError) else type(error).__name__
            log("journal", logging.INFO, "no lock shows that this process lives: %s", reason)
            return None

    def judge(self, owners: Iterable[str]) -> Mapping[str, bool]:
        lives = self._look(owners)
        dead = [owner for owner, held in lives.items() if not held]
        if dead:
            time.sleep(GRACE)
            again = self._look(dead)
            # After a restart in between, nothing is known of those of before.
            lives = {owner: held or again[owner] for owner, held in lives.items() if held or owner in again}
        return lives

    def _look(self, owners: Iterable[str]) -> dict[str, bool]:
        rows = self._query(f"SELECT {_STARTED}, {_KEY} FROM (SELECT) AS once LEFT JOIN pg_locks ON {_HELD}")  # noqa: S608
        place, held = _name_place(rows[0][0]), {number for _, number in rows}
        numbers = {owner: parse_owner(owner, _KIND, place) for owner in owners}
        return {owner: number in held for owner, number in numbers.items() if number is not None}


def _check(session: Session) -> str:
    """Return the server's place in an owner's id. Raises `_Untrusted`."""
    [[pid, address, port, version, started]] = session.query(_WHO)
    if pid != session.backend_pid or not _is_direct(session.fileno(), address, port):
        raise _Untrusted
    limits = dict(_SILENCE) if address is not None else {}
    # What ends a session because it is idle would look like a death.
    wanted = {**limits, **({"idle_session_timeout": 0} if version >= 140_000 else {})}
    set_all = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in wanted.items())
    if wanted and list(session.query(f"SELECT {set_all}")[0]) != [str(value) for value in wanted.values()]:
        raise _Untrusted  # the server's system has no such limits
    return _name_place(started)


def _is_direct(descriptor: int, address: str | None, port: int | None) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as own:
        if own.family not in (socket.AF_INET, socket.AF_INET6):
            return address is None
        name = own.getsockname()
    return address is not None and (_normalize(name[0]), name[1]) == (_normalize(address), port)


def _normalize(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return getattr(parsed, "ipv4_mapped", None) or parsed


def _lock(session: Session, number: int) -> None:
    """Take the lock, and see that the server has it. Raises `_Untrusted`."""
    [[is_taken]] = session.query(f"SELECT pg_try_advisory_lock({number})")
    [[held]] = session.query(
        f"SELECT count(*) FROM pg_locks WHERE {_HELD} AND {_KEY} = {number} AND pid = pg_backend_pid()"  # noqa: S608
    )
    if not is_taken or held != 1:
        raise _Untrusted


def _stays_open(session: Session, seconds: float) -> bool:
    """Wait until the server sends something, or for so long."""
    try:
        if _is_readable(session.fileno(), seconds):
            session.query("SELECT 1")  # fails unless it was a notice, which it reads
            threading.Event().wait(min(RETRY, seconds))
    # All that a driver may raise: a session that cannot be used is lost.
    except Exception:
        return False
    return True


def _close(session: Session) -> None:
    with suppress(Exception):
        session.close()


def _is_readable(descriptor: int, seconds: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _name_place(started: int) -> str:
    return blake2b(str(started).encode(), digest_size=5).hexdigest()
