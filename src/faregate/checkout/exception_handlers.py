"""Watch the handlers of exceptions of a Starlette application, which answer in place of a paid handler.

Starlette looks them up before a price is asked for, so the handlers themselves are wrapped, once each: those
of its `ExceptionMiddleware`, which the scope names, and that of its `ServerErrorMiddleware`.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, cast

from faregate.checkout.wrapped_callables import is_async
from faregate.logs import log

_HANDLERS = "starlette.exception_handlers"

NoteAnswer = Callable[[int], Any]
"""Takes the status with which an exception was answered; gives what is answered instead, or None."""
Begin = Callable[[Mapping[str, Any], Exception], NoteAnswer | None]
"""Takes the scope of a request and its exception, before that is answered: the handler may itself be sold."""


class WatchedScope(dict[str, Any]):
    """The scope of a request whose payment is asked for before Starlette names its handlers."""

    def __init__(self, scope: Mapping[str, Any], begin: Begin) -> None:
        super().__init__(scope)
        self._begin = begin

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        if name == _HANDLERS:
            watch_handlers(self, self._begin)


def watch_handlers(scope: Mapping[str, Any], begin: Begin) -> None:
    """Have `begin` called whenever one of the handlers that this scope names is to answer an exception."""
    for handlers in scope.get(_HANDLERS, ()):
        for kind, handler in handlers.items():
            if getattr(handler, _WATCHED, None) is not True:
                handlers[kind] = _watch(handler, begin)
    watch_outermost(scope, begin)


def watch_outermost(scope: Mapping[str, Any], begin: Begin) -> None:
    """Have `begin` called before the application of this scope answers what nothing inside of it has."""
    outermost: Any = getattr(scope.get("app"), "middleware_stack", None)
    handler = getattr(outermost, "handler", None)
    if callable(handler) and getattr(handler, _WATCHED, None) is not True:
        outermost.handler = _watch(handler, begin)


_WATCHED = "faregate_watched"


def _watch(handler: Any, begin: Begin) -> Any:
    def noted(note: NoteAnswer | None, response: Any) -> Any:
        if note is None or response is None:  # a websocket has none
            return response
        other = note(getattr(response, "status_code", 200))
        return response if other is None else other

    async def answer_async(connection: Any, error: Exception) -> Any:
        note = begin(connection.scope, error)
        return noted(note, await handler(connection, error))

    def answer(connection: Any, error: Exception) -> Any:
        note = begin(connection.scope, error)
        return noted(note, handler(connection, error))

    watched: Any = wraps(handler)(answer_async if is_async(handler) else answer)
    setattr(watched, _WATCHED, True)
    return watched


def remove_result(error: BaseException) -> None:
    """Remove the result from FastAPI's error that it does not fit its `response_model`; log it instead.

    The error holds what the handler returned, and what answers it may show that to a client: a page of
    `debug`, a handler or middleware that answers with the text of each exception.
    """
    # Not imported: an application that raises it has FastAPI.
    kind = getattr(sys.modules.get("fastapi.exceptions"), "ResponseValidationError", None)
    waiting, seen = [error], set[int]()
    while kind is not None and waiting:
        linked = waiting.pop()
        if id(linked) in seen:
            continue
        seen.add(id(linked))
        waiting += [other for other in (linked.__cause__, linked.__context__) if other is not None]
        if isinstance(linked, BaseExceptionGroup):  # of a response in chunks
            waiting += cast("BaseExceptionGroup[BaseException]", linked).exceptions
        elif isinstance(linked, kind):
            _remove(linked)


def _remove(error: Any) -> None:
    if error.errors() != _REMOVED:
        log("sale", logging.ERROR, "a paid handler returned what does not fit its response_model: %s", error)
        # FastAPI has no public way to change them.
        error.body, error._errors = None, _REMOVED  # noqa: SLF001


_REMOVED = [{"type": "response_model", "loc": ("response",), "msg": "see the log of faregate.sale"}]
