"""The values the house speaks in: frozen, without I/O. Headers are pairs, money is int."""

from dataclasses import dataclass, replace

Header = tuple[str, str]
Headers = tuple[Header, ...]
"""Name and value pairs in order; names in any case, values as latin-1 text. Never folded into a dict."""

BILLABLE = frozenset((*range(200, 300), 301, 302, 303, 307, 308))
"""Statuses of the seller's handler that count as work done (DESIGN section 4)."""


def header_values(headers: Headers, name: str) -> list[str]:
    """All values of the header `name` (given in lower case), in order."""
    return [value for key, value in headers if key.lower() == name]


@dataclass(frozen=True, slots=True)
class Response:
    """A whole HTTP response: what a payer may be given."""

    status: int
    headers: Headers = ()
    body: bytes = b""

    def plus(self, *headers: Header) -> "Response":
        return replace(self, headers=(*self.headers, *headers))

    def first(self, name: str) -> str | None:
        """The only value of header `name` (lower case); None if absent or ambiguous."""
        values = header_values(self.headers, name)
        return values[0] if len(values) == 1 else None


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One call to the service; `path` starts with `/` and carries the query."""

    method: str
    path: str
    headers: Headers = ()
    body: bytes | None = None
