"""A scope is read once, whatever the case of its headers."""

from typing import Any

import pytest

from faregate.checkout.asgi_scope import has_payment, parse_scope
from faregate.checkout.incoming_request import IncomingRequest


def parse(*headers: tuple[bytes, bytes]) -> IncomingRequest:
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/"}
    return parse_scope(scope, headers)


@pytest.mark.parametrize("name", [b"payment-signature", b"x-payment"])
def test_a_header_of_payment_is_known_however_it_is_spelt(name: bytes) -> None:
    for spelt in (
        name,
        name.upper(),
        name.title(),
        name.replace(b"-", b"_"),
        name.upper().replace(b"-", b"_"),
    ):
        headers = ((b"accept", b"*/*"), (spelt, b"proof"))
        assert has_payment(headers)
        found = parse(*headers)
        assert found.request.headers == ((spelt.decode(), "proof"),)
    for other in (name + b"s", name[1:], b"y" + name[1:], name.replace(b"-", b"."), b""):
        assert not has_payment(((other, b"proof"),))


@pytest.mark.parametrize("name", [b"authorization", b"cookie", b"idempotency-key"])
def test_the_flow_sees_credentials_and_nothing_else(name: bytes) -> None:
    for spelt in (name, name.upper(), name.title()):
        headers = ((b"user-agent", b"x"), (spelt, b"a"), (spelt, b"b"))
        found = parse(*headers)
        assert found.request.headers == ((spelt.decode(), "a"), (spelt.decode(), "b"))
        assert not has_payment(headers)


def test_the_first_host_and_content_type_count_and_framing_in_any_case() -> None:
    found = parse((b"Host", b"one"), (b"host", b"two"), (b"Content-Type", b"a/b"), (b"Content-Length", b"7"))
    assert (found.host, found.content_type, found.content_length) == ("one", "a/b", "7")
    assert parse((b"content-length", b"7"), (b"Transfer-Encoding", b"chunked")).content_length is None
    assert parse().content_length == "0"
