"""State that a paid view changes beside its response: withheld until its result is released.

Middleware outside stores sessions, sets cookies and reads the request after the view. Unless the result is
released, it finds all of that as it was when the view was let in.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.messages.storage.base import BaseStorage
from django.contrib.sessions.backends.signed_cookies import SessionStore as SignedCookies
from django.http import HttpRequest
from django.utils import timezone, translation

from faregate.checkout.snapshot import Snapshot
from faregate.logs import log

# Attributes that Django sets while it serves a request. They are not restored: a body is read only once.
_KEPT = ("_body", "_files", "_post", "_read_started", "_stream", "_upload_handlers", "resolver_match")


class ViewState:
    """The state of a request at the moment its view is let in.

    From then on nothing is written to the store of its session. `restore` puts everything back;
    `release` performs what the view asked of the store.
    """

    def __init__(self, request: HttpRequest) -> None:
        self.released = False
        self._language, self._zone = translation.get_language(), timezone.get_current_timezone()
        self._attributes = vars(request)
        session: Any = getattr(request, "session", None)
        self._snapshot = Snapshot()
        self._snapshot.take(session, into_records=True)
        for storage in _find_storages(getattr(request, "_messages", None)):
            self._snapshot.take(vars(storage), into_records=True)
        self._snapshot.take(request.META, is_own=True)
        self._snapshot.take(self._attributes)
        # Signed cookies keep their data in the session itself, which is restored.
        is_stored = session is not None and not isinstance(session, SignedCookies)
        self._session = _DeferredWrites(session) if is_stored else None

    def restore(self) -> None:
        """Put back what the request held; a body that was read stays read."""
        kept = {name: self._attributes[name] for name in _KEPT if name in self._attributes}
        self._snapshot.restore()
        self._attributes.update(kept)

    def restore_locale(self) -> None:
        """Put back language and time zone: they are the thread's, and a view may activate others."""
        _activate(self._language, self._zone)

    def release(self) -> None:
        """Perform the recorded writes. A store that fails is logged."""
        self.released = True
        if self._session is not None:
            with self._session.suspend_recording() as writes:
                for write in writes:
                    self._session.perform(write)

    async def arelease(self) -> None:
        """`release`, awaiting."""
        self.released = True
        if self._session is not None:
            with self._session.suspend_recording() as writes:
                for write in writes:
                    await self._session.aperform(write)


def _find_storages(messages: Any) -> Iterator[BaseStorage]:
    """The storage of a request's messages, and those that it falls back to."""
    if isinstance(messages, BaseStorage):
        yield messages
        for inner in getattr(messages, "storages", ()):
            yield from _find_storages(inner)


@dataclass(frozen=True)
class _Write:
    """One call that writes to the store, and the session as it was then."""

    name: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    state: dict[str, Any]


class _DeferredWrites:
    """Records the writes of a session, for every backend: all of them write by these calls."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._attributes: dict[str, Any] = vars(session)
        self._writes: list[_Write] = []
        self._recorders: dict[str, Callable[..., Any]] = {}
        for name in ("save", "delete"):
            self._defer(name)

    def _defer(self, name: str) -> None:
        session = self._session

        def record(*args: Any, **named: Any) -> Any:
            if self._is_new(name, args, named):
                return session.create()  # gives it a key, and asks us again
            if name == "save" and hasattr(session, "_get_session"):
                session._get_session(no_load=_is_created(args, named))  # noqa: SLF001, as every backend does
            return self._note(name, args, named)

        async def arecord(*args: Any, **named: Any) -> Any:
            if self._is_new(name, args, named):
                return await session.acreate()
            if name == "save" and hasattr(session, "_aget_session"):
                await session._aget_session(no_load=_is_created(args, named))  # noqa: SLF001
            return self._note(name, args, named)

        for recorder, method in ((record, name), (arecord, f"a{name}")):
            if hasattr(session, method):
                self._recorders[method] = recorder
                setattr(session, method, recorder)

    def _is_new(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """A plain `save` of a session without a key makes one, in every backend."""
        return name == "save" and not (args or named) and self._session.session_key is None

    def _note(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if name == "delete" and not (args or named):
            args = (self._session.session_key,)
        self._writes.append(_Write(name, args, named, self._state()))

    def _state(self) -> dict[str, Any]:
        return {name: value for name, value in self._attributes.items() if name not in self._recorders}

    def _set(self, state: dict[str, Any]) -> None:
        """Without our recorders: the session's own methods act again."""
        self._attributes.clear()
        self._attributes.update(state)

    @contextmanager
    def suspend_recording(self) -> Generator[list[_Write]]:
        """Let the session write again; afterwards it is as the view left it.

        The payer has paid: an error of the store is logged, and the payer still gets the result.
        """
        final = self._state()
        try:
            yield self._writes
        except Exception as error:
            log("sale", logging.ERROR, "a paid view's session could not be stored", error=error)
        finally:
            self._set(final)

    def perform(self, write: _Write) -> None:
        """Make a call that was recorded, with the session as it was then."""
        self._set(write.state)
        getattr(self._session, write.name)(*write.args, **write.named)

    async def aperform(self, write: _Write) -> None:
        """`perform`, awaiting."""
        self._set(write.state)
        called = getattr(self._session, f"a{write.name}", None)
        await (called or sync_to_async(getattr(self._session, write.name)))(*write.args, **write.named)


def _is_created(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """The `must_create` of a call of `save`."""
    return bool(named.get("must_create", args[0] if args else False))


def _activate(language: str | None, zone: Any) -> None:
    if timezone.get_current_timezone() != zone:
        timezone.activate(zone)
    if translation.get_language() == language:
        return
    if language is None:
        translation.deactivate_all()
    else:
        translation.activate(language)
