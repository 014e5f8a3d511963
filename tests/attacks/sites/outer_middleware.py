"""ASGI middleware that stands around a paywall, and tells or stores what handlers wrote in the scope."""

import json
import secrets
from collections.abc import Iterator, MutableMapping
from http.cookies import SimpleCookie
from typing import Any


class LazyMapping(MutableMapping[str, Any]):
    """A mapping that is no dict: its data and its flag are attributes, as in lazy sessions."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self.modified = False

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.modified = True
        self._data[key] = value

    def __delitem__(self, key: str) -> None:
        self.modified = True
        del self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)


class SlottedMapping(LazyMapping):
    """The same without a `__dict__` of its own."""

    __slots__ = ("_data", "modified")


class Telling:
    """Tells the payer what is in the scope: `x-state`, `x-basket`, and `x-messages` as flash messages are."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["messages"] = []
        scope["basket"] = LazyMapping({"things": ["before"]})

        async def tell(message: Any) -> None:
            if message["type"] == "http.response.start":
                told = {
                    "x-state": state,
                    "x-basket": dict(scope["basket"]),
                    "x-modified": scope["basket"].modified,
                }
                headers = [(name.encode(), _as_text(value)) for name, value in told.items()]
                message = {**message, "headers": [*message.get("headers", ()), *headers]}
            await send(message)

        await self.app(scope, receive, tell)


def _as_text(value: Any) -> bytes:
    return json.dumps(value, default=str).encode()


class StoredSession:
    """Sessions in a store: a lazy mapping, written when the response begins, or `late` when it has ended."""

    def __init__(self, app: Any, store: dict[str, dict[str, Any]], *, late: bool = False) -> None:
        self.app = app
        self.store = store
        self.late = late

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        cookies = SimpleCookie(dict(scope["headers"]).get(b"cookie", b"").decode())
        known = cookies["sid"].value if "sid" in cookies else ""
        sid = known if known in self.store else secrets.token_hex(8)
        session = scope["session"] = LazyMapping(json.loads(json.dumps(self.store.get(sid, {}))))

        async def saving(message: Any) -> None:
            if message["type"] == "http.response.start" and (session.modified or self.late):
                self.save(sid, session)
                cookie = (b"set-cookie", f"sid={sid}".encode())
                message = {**message, "headers": [*message.get("headers", ()), cookie]}
            await send(message)

        try:
            await self.app(scope, receive, saving)
        finally:
            if self.late:
                self.save(sid, session)

    def save(self, sid: str, session: LazyMapping) -> None:
        self.store[sid] = dict(session)
