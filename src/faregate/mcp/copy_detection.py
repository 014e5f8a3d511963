"""Recognise the result of a paid tool in an answer that something in front of the handlers made.

A middleware, an extension, or a subclass that overrides `call_tool`, may keep results under a key that lacks
the tool's name. A result has no headers to be marked in, so an answer is compared with what this process sold
lately (`checkout.copy_detection`). What the handler of a request returned is its own, also if another tool
sells the same.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any, cast

from mcp.server import Server
from pydantic import BaseModel
from pydantic_core import to_json

from faregate.checkout.copy_detection import RESULTS
from faregate.core.withholding import is_harmless_error
from faregate.mcp.requests import METHOD
from faregate.mcp.results import Result, dump_result, find_status
from faregate.mcp.tools import AnyServer, get_low_level, get_manager

_CONTENT = ("text", "data", "blob")
"""What holds the content of a block: of a text, of an image or a sound, of a file."""

_returned: ContextVar[list[Any] | None] = ContextVar("faregate MCP handlers", default=None)
"""What the handlers of the current request have returned."""

COPIED = (
    "Something in front of the handlers of this server answered with the result of a paid tool, which it has "
    "kept. Put caches into the tools, below @paid, or the method and the name of the tool into their keys."
)

STALE = "it is an error with the content of an earlier result, as from a cache that answers for failed work"

Handle = Callable[..., Awaitable[Any]]


def watch_handlers(server: AnyServer) -> None:
    """Have the handlers of a server tell what they return: of an `MCPServer`, each tool by itself."""
    low_level: Any = get_low_level(server)
    find_handler = low_level.get_request_handler
    manager: Any = None if isinstance(server, Server) else get_manager(server)

    @wraps(find_handler)
    def get_request_handler(method: str) -> Any:
        entry = find_handler(method)
        # The handler of an MCPServer's tools has extensions around it, and may be a method of a subclass.
        if entry is None or _returned.get() is None or (manager is not None and method == METHOD):
            return entry
        return replace(entry, handler=_watch(entry.handler))

    low_level.get_request_handler = get_request_handler
    if manager is not None:
        manager.call_tool = _watch(manager.call_tool)


def _watch(handle: Handle) -> Handle:
    @wraps(handle)
    async def watched(*args: Any, **kwargs: Any) -> Any:
        result = await handle(*args, **kwargs)
        returned = _returned.get()
        if returned is not None:
            returned.append(result)
        return result

    return watched


@contextmanager
def watching() -> Generator[list[Any]]:
    """Collect what the handlers of the current request return."""
    returned: list[Any] = []
    token = _returned.set(returned)
    try:
        yield returned
    finally:
        _returned.reset(token)


def record_results(results: Iterable[Any]) -> None:
    """Remember a result, as it is sold and as a paid tool returned it; but not an error."""
    for result in map(_read_result, results):
        for body in () if is_harmless_error(find_status(result)) else _list_bodies(result):
            RESULTS.add(body)


def is_copy(answer: Any, returned: Sequence[Any]) -> bool:
    """Whether an unpaid answer has the content of a result, and nothing that its handlers `returned` has.

    If not, the answer is remembered as a free one: a cache may keep it, and a paid tool may return the same.
    """
    bodies = _list_bodies(_read_result(answer))
    if any(map(RESULTS.is_copy, bodies)) and not _is_own(returned):
        return True
    for body in bodies:
        RESULTS.add_free(body)
    return False


def is_stale(result: Result) -> bool:
    """Whether the error of a paid tool has the content of an earlier result, also if a cache answered."""
    return is_harmless_error(find_status(result)) and any(map(RESULTS.is_copy, _list_bodies(result)))


def _is_own(returned: Sequence[Any]) -> bool:
    """Whether a handler of this request returned the content of a result itself."""
    return any(RESULTS.is_copy(body) for result in returned for body in _list_bodies(_read_result(result)))


def _read_result(handled: Any) -> Result:
    """What a handler returned, or something in front of it: a result, but a tool may give any value."""
    if isinstance(handled, str):
        return {"text": handled}
    return dump_result(handled) if isinstance(handled, BaseModel | Mapping) else {}


def _list_bodies(result: Result) -> tuple[bytes, ...]:
    """The content of a result, whatever kind of result it stands in, and its structured content."""
    texts = _list_content({**result, "structuredContent": None, "_meta": None})
    content = "\n".join(texts).encode(errors="replace")
    structured = result.get("structuredContent")
    # The SDK writes what JSON has no form for, too.
    return (content,) if structured is None else (content, to_json(structured, serialize_unknown=True))


def _list_content(value: Any) -> Iterator[str]:
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        for name, member in cast(Mapping[str, Any], value).items():
            if name in _CONTENT and isinstance(member, str):
                yield member
            else:
                yield from _list_content(member)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from _list_content(item)
