"""A host with several addresses, of which not every one can be reached."""

import socket
import time
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from faregate.errors import NoAnswer

from .conftest import Speaker, get
from .services import ok, says, service, unaccepting

NAME = "several.test"
# Addresses of this machine that nothing else is likely to listen on.
SILENT, GOOD = ["127.77.0.1", "127.77.0.2"], "127.77.0.9"


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """The system's resolver knows these addresses of `NAME`."""
    system = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> list[Any]:
        hosts = addresses if host in (NAME, NAME.encode()) else (host,)
        return [entry for one in hosts for entry in system(one, port, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize("silent", [SILENT[:1], SILENT])
def test_an_address_that_says_nothing_leaves_time_for_the_next(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch, silent: list[str]
) -> None:
    resolve(monkeypatch, *silent, GOOD)
    with service(says(ok()), at=(GOOD, 0)) as merchant, ExitStack() as listeners:
        port = urlsplit(merchant.url).port or 0
        for address in silent:
            listeners.enter_context(unaccepting(address, port))
        (reply,) = speaker.speak(f"http://{NAME}:{port}", get(), timeout=4.0)
    assert getattr(reply, "status", reply) == 200
    assert len(merchant.requests) == 1


def test_an_address_that_refuses_is_followed_by_the_next(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(monkeypatch, SILENT[0], GOOD)
    with service(says(ok()), at=(GOOD, 0)) as merchant:
        (reply,) = speaker.speak(merchant.url.replace(GOOD, NAME), get())
    assert getattr(reply, "status", reply) == 200


def test_the_deadline_holds_for_all_addresses_together(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(monkeypatch, *SILENT)
    with unaccepting(SILENT[0]) as port, unaccepting(SILENT[1], port):
        started = time.monotonic()
        (error,) = speaker.speak(f"http://{NAME}:{port}", get(), timeout=4.0)
        took = time.monotonic() - started
    assert type(error) is NoAnswer
    assert 3.9 < took < 7.6  # one after the other they would take eight seconds
