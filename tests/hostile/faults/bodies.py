"""Bodies that are no JSON, or another JSON than the one that was asked for."""

import json
from collections.abc import Callable

Words = Callable[[bytes], bytes]
HUGE = b"9" * 5000
DEEP = 100_000


def _saying(words: bytes) -> Words:
    return lambda _: words


def _nothing_like_it(*bodies: bytes) -> dict[str, Words]:
    return {f"{body[:12]!r}": _saying(body) for body in bodies}


def _with(value: bytes) -> Words:
    """The same object with one more, unheard-of field."""
    return lambda body: body.rstrip()[:-1] + b',"unheard_of":' + value + b"}"


def _first(value: bytes) -> Words:
    """The same object, whose first field has this value."""

    def words(body: bytes) -> bytes:
        name = next(iter(json.loads(body)))
        return json.dumps(json.loads(body) | {name: "@"}).encode().replace(b'"@"', value, 1)

    return words


def _said_before(body: bytes) -> bytes:
    """Each field twice; the last of them is null."""
    fields = json.loads(body)
    return body.rstrip()[:-1] + b"," + json.dumps(dict.fromkeys(fields)).encode()[1:]


WRONG: dict[str, Words] = {
    **_nothing_like_it(
        b"", b" ", b"null", b"[]", b"{}", b"0", b"true", b'"paid"', b"{", b"<html>502</html>", b"ok",
        b"status=succeeded", b"[" * DEEP, b'{"a":' * DEEP, b'"\xff\xfe"', b"\x00" * 64, HUGE,
    ),
    "cut": lambda body: body[:-1],
    "more behind it": lambda body: body + b"x",
    "twice": lambda body: body + body,
    "in a list": lambda body: b"[" + body + b"]",
    "in a string": lambda body: json.dumps(body.decode()).encode(),
    "in an envelope": lambda body: b'{"data":' + body + b"}",
    "as JSONP": lambda body: b"call(" + body + b")",
    "with single quotes": lambda body: body.replace(b'"', b"'"),
    "with a comment": lambda body: body + b"// fine",
    "in UTF-16": lambda body: body.decode().encode("utf-16"),
    "in capitals": lambda body: body.upper(),
    "not UTF-8": _with(b'"\xff"'),
    "half a surrogate pair": _with(rb'"\ud800"'),
    "a comma too many": lambda body: body.rstrip()[:-1] + b",}",
    "every field again, as null": _said_before,
    **{
        f"the first field {name}": _first(value)
        for name, value in {
            "NaN": b"NaN", "-Infinity": b"-Infinity", "huge": HUGE, "1e999": b"1e999", "deep": b"[" * DEEP,
            "0": b"0", "false": b"false", "a list": b"[]", "an object": b"{}", "an empty text": b'""',
            "long": b'"' + b"x" * 100_000 + b'"', "with NUL": rb'"\u0000"',
        }.items()
    },
}  # fmt: skip

ODD: dict[str, Words] = {
    "with a mark in front": lambda body: b"\xef\xbb\xbf" + body,
    "with blanks": lambda body: b"\r\n\t " + body + b"\n" * 1000,
    "with a field NaN": _with(b"NaN"),
    "with a huge number": _with(HUGE),
    "with a deep field": _with(b"[" * 50 + b"]" * 50),
    "with more fields": _with(b'{"a":[1,2,{"b":null}]}'),
}
"""True, and said oddly: to be read as they are, or not at all."""
