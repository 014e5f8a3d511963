"""Sessions of the console: a signed cookie, so that every process of the service knows them.

The cookie names a key and a time, and is signed with the hash of that key, which only the database has. The
key itself is not in it. A session ends when its time is over, and at once when its key is revoked.
"""

import hmac
import re
from dataclasses import dataclass
from typing import Final

from faregate.merchant.formats import ID_TAIL

COOKIE: Final = "faregate_console"
SECONDS: Final = 8 * 3600
_FORM: Final = re.compile(rf"(\d{{1,9}})\.(key_{ID_TAIL})\.(\d{{1,12}})\.([0-9a-f]{{64}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Session:
    """What a cookie claims; `is_signed` says whether it is true. `expires_at` is in Unix seconds."""

    account: int
    key_id: str
    expires_at: int
    signature: str = ""

    def is_signed(self, key_hash: bytes) -> bool:
        return hmac.compare_digest(self.signature, sign(self, key_hash))

    def format(self, key_hash: bytes) -> str:
        """Return the value of the cookie."""
        return f"{self.account}.{self.key_id}.{self.expires_at}.{sign(self, key_hash)}"


def sign(session: Session, key_hash: bytes) -> str:
    claims = f"faregate console 1 {session.account} {session.key_id} {session.expires_at}"
    return hmac.digest(key_hash, claims.encode(), "sha256").hex()


def parse_session(cookie: str, now: int) -> Session | None:
    """Read a cookie's claims; None if it has none, or its time is over."""
    found = _FORM.fullmatch(cookie)
    if found is None or int(found[3]) <= now:
        return None
    return Session(int(found[1]), found[2], int(found[3]), found[4])
