"""The formats of values, as patterns: what the paywall checks itself (spec: Identifier format, Limits).

`types` has the types that are made of them.
"""

import re
from typing import Final

ID_TAIL: Final = "[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}"
MAX_URL: Final = 2048
MAX_MIME_TYPE: Final = 255
MAX_DESCRIPTION: Final = 500

_TOP_LEVEL: Final = (
    "(?:application|audio|font|image|message|model|multipart|text|video|x-[a-z0-9][a-z0-9!#$&^_.+-]*)"
)
MIME_TYPE_PATTERN: Final = rf"{_TOP_LEVEL}/[a-z0-9][a-z0-9!#$&^_.+-]*"

_PCT: Final = "%[0-9A-Fa-f]{2}"
_NAME: Final = r"[A-Za-z0-9._~!$&'()*+,;=-]"
"""A character of a host name: unreserved or a sub-delimiter (RFC 3986, 2.2 and 2.3)."""
_PCHAR: Final = r"[A-Za-z0-9._~!$&'()*+,;=:@-]"
_PORT: Final = r"0*(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_H16: Final = "[0-9A-Fa-f]{1,4}"
_LS32: Final = rf"(?:{_H16}:{_H16}|(?:{_OCTET}\.){{3}}{_OCTET})"


def _ipv6() -> str:
    """The nine forms of RFC 3986, 3.2.2: up to `most` groups before `::`, and exactly `after` behind it."""
    before = (f"(?:(?:{_H16}:){{0,{most - 1}}}{_H16})?" if most else "" for most in range(7))
    after = (*(f"(?:{_H16}:){{{groups}}}{_LS32}" for groups in (5, 4, 3, 2, 1, 0)), _H16)
    pairs = [f"{before_gap}::{other}" for before_gap, other in zip(before, after, strict=True)]
    return "|".join((f"(?:{_H16}:){{6}}{_LS32}", *pairs, f"(?:(?:{_H16}:){{0,6}}{_H16})?::"))


_LITERAL: Final = rf"\[(?:{_ipv6()}|[vV][0-9A-Fa-f]+\.(?:{_NAME}|:)+)\]"
URL_PATTERN: Final = (
    rf"[Hh][Tt][Tt][Pp][Ss]?://(?:{_LITERAL}|(?:{_NAME}|{_PCT})+)(?::(?:{_PORT})?)?"
    rf"(?:/(?:{_PCHAR}|{_PCT}|/)*)?"
)
"""A full http(s) URI of RFC 3986 with neither userinfo nor query nor fragment, and a port that TCP has."""
_URL: Final = re.compile(URL_PATTERN, re.ASCII)
_NO_URL_CHARACTER: Final = re.compile(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]", re.ASCII)
_NO_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)


def find_url_fault(url: str) -> str | None:
    """Say what is wrong with a resource URL, or with the beginning of one; None if it is well-formed."""
    if _URL.fullmatch(url) is not None:
        return None
    scheme, colon, rest = url.partition("://")
    if not colon or scheme.lower() not in ("http", "https"):
        return "is a full http or https URL"
    if "?" in url or "#" in url or "@" in rest.partition("/")[0]:
        return "has no username, password, query string or fragment"
    strange = _NO_URL_CHARACTER.search(url)
    if strange is not None:
        return f"is a URI (RFC 3986): {strange[0]!a} must be percent-encoded"
    if _NO_ESCAPE.search(url) is not None:
        return "is a URI (RFC 3986): % must be followed by two hex digits"
    return "is a URI (RFC 3986): its host or port is not valid"
