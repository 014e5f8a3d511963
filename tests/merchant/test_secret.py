"""The key reaches the service and nothing else: no repr, no log, no traceback with locals."""

import copy
import logging
import pickle
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from faregate.core.models import Response
from faregate.errors import ConfigurationError, FaregateError
from faregate.merchant.api_key import ApiKey
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.requests import Call
from faregate.merchant.sender import RedactedHeaders, merge_headers

from .conftest import KEY, SPEAKERS, Speaker, get
from .services import Reply, Seen, drips, ok, reset, says, service

TAIL = "0123456789abcdefSECRET"


def test_a_key_tells_its_environment_and_no_more() -> None:
    key = ApiKey(KEY)
    assert key.environment == "test"
    assert ApiKey("svc_live_x").environment == "live"
    assert {repr(key), str(key), f"{key}", f"{key:>11}", "%s" % key} == {"svc_test_…", " svc_test_…"}  # noqa: UP031 - each way to format
    assert repr([key]) == "[svc_test_…]"
    assert key.reveal() == f"Bearer {KEY}"


@pytest.mark.parametrize("write", [pickle.dumps, copy.deepcopy])
@pytest.mark.parametrize(
    "secret", [ApiKey(KEY), RedactedHeaders((("Authorization", KEY),))], ids=["key", "headers"]
)
def test_it_is_not_written_anywhere(write: Callable[[object], object], secret: object) -> None:
    with pytest.raises(TypeError):
        write(secret)


WRONG: list[Any] = [
    *("", "hunter2hunter2", "svc_test_", "svc_live_", "SVC_TEST_hunter2", "svc_prod_hunter2"),
    *("svc_test_hunter2\n", "svc_test_hunter2\r\nX: 1", "svc_test_hunter 2", " svc_test_hunter2"),
    *("svc_test_hunter2é", "svc_test_hunter2\0", "svc_test_" + "hunter2" * 100),
    *(None, b"svc_test_hunter2", 5),
]


def client_with(key: Any) -> object:
    return MerchantClient(key, "http://127.0.0.1:1")


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("make", [ApiKey, client_with])
def test_a_wrong_key_is_refused_without_echo(make: Callable[[Any], object], wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="key") as caught:
        make(wrong)
    held = locals_of(caught.value)
    assert any("__init__ key=''" in one for one in held), "the frame that had the key is looked at"
    assert not [one for one in held if "hunter2" in one]


def test_a_live_key_is_not_given_to_plain_http() -> None:
    for url in ("http://api.example.com", "http://10.0.0.1", "http://localhost.example.com", "http://[::2]"):
        with pytest.raises(ConfigurationError, match="https") as caught:
            MerchantClient("svc_live_hunter2", url)
        assert "hunter2" not in "".join(locals_of(caught.value))
    for url in ("https://api.example.com", "http://127.0.0.1:9", "http://[::1]", "http://localhost:8000"):
        assert MerchantClient("svc_live_x", url).environment == "live"


def test_a_client_shows_its_environment_and_address_only() -> None:
    client = MerchantClient(KEY, "https://api.example.com/")
    assert repr(client) == "<MerchantClient test https://api.example.com>"
    assert TAIL not in repr(vars(client))


@pytest.mark.parametrize("value", ["a\r\nX: 1", "a\n", "é", "", " a", "a\0", "a\x7f"])
def test_a_header_that_cannot_be_sent_is_not_echoed(value: str) -> None:
    with pytest.raises(ValueError, match="PAYMENT-SIGNATURE") as caught:
        merge_headers((), (("PAYMENT-SIGNATURE", value),))
    assert not value.strip(" a") or value not in str(caught.value)


# Failing calls


def mid_body_reset(connection: socket.socket, _seen: Seen) -> None:
    connection.sendall(ok(body=b"x" * 50)[:-20])
    time.sleep(0.05)
    reset(connection)


def refuses(_reply: Response) -> Any:
    raise FaregateError("whoever reads the reply may fail too")


FAILURES: dict[str, Reply] = {
    "silent": says(b"", then_close=True),
    "reset": mid_body_reset,
    "short": says(ok(body=b"x" * 50)[:-20], then_close=True),
    "ssh": says(b"SSH-2.0\r\n\r\n", then_close=True),
    "large": says(ok(body=b"x" * (1024 * 1024 + 1))),
    "coded": says(ok("Content-Encoding: gzip")),
    "drip": drips(b"HTTP/1.1 200 OK"),
}


def locals_of(error: BaseException) -> list[str]:
    """Every local of every frame of ours and of libraries, in the error and all it came from.

    Frames of these tests hold the key themselves and are left out.
    """
    found: list[str] = []
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
        found += [str(each), repr(each), repr(each.args)]
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if "/tests/" not in frame.f_code.co_filename:
                found += [
                    f"{frame.f_code.co_qualname} {name}={value!r}" for name, value in frame.f_locals.items()
                ]
    return found


@pytest.mark.parametrize("fault", FAILURES)
@pytest.mark.parametrize("speaker", SPEAKERS, ids=repr)
def test_no_failure_shows_the_key(speaker: Speaker, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), service(FAILURES[fault]) as merchant:
        (error,) = speaker.speak(merchant.url, get(), timeout=0.4)
    assert merchant.requests[0].values("authorization") == [f"Bearer {KEY}"]
    assert isinstance(error, FaregateError)
    held = locals_of(error)
    assert any("headers=<headers" in one for one in held), "the frames that hold the headers are looked at"
    assert not [one for one in held if TAIL in one]
    assert TAIL not in caplog.text


def test_an_error_of_the_reader_shows_no_key(speaker: Speaker) -> None:
    with service(says(ok())) as merchant:
        (error,) = speaker.speak(merchant.url, Call(get().request, refuses))
    assert not [one for one in locals_of(error) if TAIL in one]


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
def test_a_mount_that_fails_shows_no_key(kind: str) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        raise httpx.ReadTimeout("late")

    mount = httpx.MockTransport(handler)
    blocking = MerchantClient(KEY, "http://in.process", transport=mount)
    awaiting = AsyncMerchantClient(KEY, "http://in.process", transport=mount)
    with pytest.raises(FaregateError) as caught:
        blocking.send(get()) if kind == "blocking" else anyio.run(awaiting.send, get())
    assert not [one for one in locals_of(caught.value) if TAIL in one]
