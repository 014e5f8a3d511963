"""What the paid handlers of a site give: a unique mark in each place that a handler can write to.

A mark that an attacker holds names the way by which it left.
"""

import base64
import binascii
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

RESPONSE = frozenset(("body", "header"))
"""What may leave with an answer of the handler's own that nobody is charged for."""
BESIDE = frozenset(("cookie", "session", "nested", "state", "mapping", "message", "background"))
"""What leaves, or is kept, only with a result that is released."""
EVERYWHERE = RESPONSE | BESIDE


@dataclass
class Content:
    """The content of one site during one attack.

    `done` is what handlers did after their response. `runs` counts the paid handlers that ran.
    """

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    done: list[str] = field(default_factory=list)
    runs: int = 0

    def mark(self, place: str) -> str:
        return f"{place}-{self.token}"

    def work(self) -> None:
        """Background work: it leaves its mark where nobody pays for it."""
        self.done.append(self.mark("background"))

    def found_in(self, loot: Iterable[bytes]) -> frozenset[str]:
        """The places whose marks are in what an attacker got, however encoded, or in what was done."""
        texts = [text for piece in loot for text in _readings(piece)] + ["\n".join(self.done)]
        return frozenset(place for place in EVERYWHERE if any(self.mark(place) in text for text in texts))


def _readings(piece: bytes) -> Iterator[str]:
    """The bytes themselves, and what a reader of cookies and tokens makes of their parts."""
    text = piece.decode("latin-1")
    yield text
    for part in re.findall(r"[\w+/=%~-]{12,}", unquote(text)):
        for alphabet in (base64.b64decode, base64.urlsafe_b64decode):
            try:
                decoded = alphabet(part + "=" * (-len(part) % 4))
            except (ValueError, binascii.Error):
                continue
            yield decoded.decode("latin-1")
            try:
                yield zlib.decompress(decoded).decode("latin-1")
            except zlib.error:
                continue
