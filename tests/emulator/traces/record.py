"""Calls and answers as text that can be compared: ids, hashes and challenges are numbered as they come."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import zip_longest
from typing import Any, Final

import httpx

from faregate.emulator import TEST_KEY
from tests.emulator.seller import ROOT

Pairs = Sequence[tuple[str, str]]
_PROOF: Final = "payment-signature"
_UNNAMED: Final = ("content-length", "date", "faregate-emulator", "server")
"""Headers of the connection, and the emulator's own: the contract does not name them."""
_ENCODED: Final = ("payment-required", "payment-response")
_NUMBERED: Final = re.compile(
    r"(?P<id>\b(?P<prefix>[a-z]{3})_[0-9a-f]{32}\b)|(?P<hash>0x[0-9a-f]{64}\b)|(?P<challenge>\b[0-9a-f]{64}\b)"
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call and its answer, with the names of what differs between two services."""

    call: tuple[str, ...]
    answer: tuple[str, ...]


_NO_CALL: Final = Exchange(("no call",), ())
_MOST_SHOWN: Final = 40


@dataclass
class Recorder:
    """Calls a service, and keeps what was asked and answered."""

    http: httpx.Client
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    _names: dict[str, str] = field(default_factory=dict[str, str])
    _counts: dict[str, int] = field(default_factory=dict[str, int])

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        proof: str | None = None,
        key: str | None = TEST_KEY,
        headers: Pairs = (),
        content: bytes | None = None,
    ) -> httpx.Response:
        """Make a call below `ROOT`, and record it."""
        sent = self._build_headers(key, proof, headers, has_body=body is not None or content is not None)
        given = content if content is not None else None if body is None else json.dumps(body).encode()
        response = self.http.request(method, ROOT + path, headers=sent, content=given)
        self.exchanges.append(Exchange(self._show_call(method, path, sent, given), self.show(response)))
        return response

    def send(self, path: str, body: object, proof: str) -> httpx.Response:
        """Make a POST that is not recorded: for callers at once."""
        sent = self._build_headers(TEST_KEY, proof, (), has_body=True)
        return self.http.post(ROOT + path, headers=sent, content=json.dumps(body).encode())

    def note(self, title: str, *answers: tuple[str, ...]) -> None:
        """Record what calls at once were answered."""
        self.exchanges.append(Exchange((title,), tuple(line for one in answers for line in one)))

    def show(self, response: httpx.Response) -> tuple[str, ...]:
        """Return status, headers and body as lines of text."""
        headers = sorted((name, value) for name, value in response.headers.items() if name not in _UNNAMED)
        body, lines = response.text, [str(response.status_code)]
        for name, value in headers:
            if name in _ENCODED:
                lines += [f"{name}:", *_format(base64.b64decode(value).decode())]
                body = body.replace(value, f"<{name}>")
            else:
                lines.append(f"{name}: {value}")
        return tuple(map(self._normalise, [*lines, *_format(body)]))

    def _build_headers(self, key: str | None, proof: str | None, more: Pairs, *, has_body: bool) -> Pairs:
        given = [] if key is None else [("authorization", f"Bearer {key}")]
        given += [] if proof is None else [(_PROOF, proof)]
        given += [("content-type", "application/json")] if has_body else []
        return [*given, *more]

    def _show_call(self, method: str, path: str, headers: Pairs, content: bytes | None) -> tuple[str, ...]:
        shown = [f"{name}: {self._name_proof(value) if name == _PROOF else value}" for name, value in headers]
        body = [] if content is None else [content.decode(errors="backslashreplace")]
        lines = [f"{method} {path}", *(one for one in shown if not one.startswith("content-type"))]
        return tuple(_shorten(self._normalise(line)) for line in [*lines, *body])

    def _name_proof(self, proof: str) -> str:
        return self._number(proof, "proof") if len(proof) > 200 else proof

    def _normalise(self, text: str) -> str:
        return _NUMBERED.sub(lambda found: self._number(found[0], found["prefix"] or found.lastgroup), text)

    def _number(self, given: str, kind: str | None) -> str:
        """Return the name of this value: the same one each time, such as `txn#2`."""
        if given not in self._names:
            self._counts[str(kind)] = self._counts.get(str(kind), 0) + 1
            self._names[given] = f"{kind}#{self._counts[str(kind)]}"
        return self._names[given]


def compare(expected: Recorder, found: Recorder, names: tuple[str, str]) -> str:
    """Return each call that two services were asked or answered differently; empty if there is none."""
    pairs = zip_longest(expected.exchanges, found.exchanges, fillvalue=_NO_CALL)
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    shown = ["\n".join(_show_difference(first, second, names)) for first, second in differing[:_MOST_SHOWN]]
    if len(differing) > _MOST_SHOWN:
        shown.append(f"and {len(differing) - _MOST_SHOWN} calls more")
    return "\n\n".join(shown)


def _show_difference(expected: Exchange, found: Exchange, names: tuple[str, str]) -> Iterator[str]:
    if expected.call == found.call:
        yield from expected.call
    else:
        yield from unified_diff(expected.call, found.call, *names, n=9, lineterm="")
    yield from unified_diff(expected.answer, found.answer, *names, n=3, lineterm="")


def _format(body: str) -> list[str]:
    try:
        value: Any = json.loads(body)
    except ValueError:
        return body.splitlines()
    return json.dumps(value, indent=1).splitlines()


def _shorten(line: str) -> str:
    return line if len(line) <= 500 else f"{line[:400]}... ({len(line)} characters)"
