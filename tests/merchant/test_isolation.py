"""What a transport must not do: follow, ask a proxy, read netrc, keep cookies, trust a stranger."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from faregate.errors import NoAnswer
from faregate.merchant.client import AsyncMerchantClient
from faregate.transports import async_connections, connections, make_sync

from .conftest import KEY, Speaker, get
from .services import Seen, Service, ok, says, service

PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def only(merchant: Service, name: str) -> list[list[str]]:
    return [seen.values(name) for seen in merchant.requests]


def test_what_is_sent(speaker: Speaker) -> None:
    with service(says(ok())) as merchant:
        speaker.speak(merchant.url, get("/merchant/v1/payers?page=2&as_of=2026-01-01T00%3A00%3A00Z"))
    (seen,) = merchant.requests
    assert seen.line == "GET /merchant/v1/payers?page=2&as_of=2026-01-01T00%3A00%3A00Z HTTP/1.1"
    assert {name.lower(): value for name, value in seen.headers} == {
        "host": merchant.url.removeprefix("http://"),
        "authorization": f"Bearer {KEY}",
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "faregate",
    }
    assert len(seen.headers) == 5


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
def test_redirects_are_not_followed(speaker: Speaker, status: str) -> None:
    with (
        service(says(ok())) as canary,
        service(says(ok(f"Location: {canary.url}/x", status=status))) as merchant,
    ):
        (reply,) = speaker.speak(merchant.url, get())
    assert reply.status == int(status[:3])
    assert canary.connections == 0


def test_proxies_of_the_environment_are_ignored(speaker: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with service(says(ok())) as canary, service(says(ok())) as merchant:
        for name in PROXIES:
            monkeypatch.setenv(name, canary.url)
        httpx.get(merchant.url)
        assert len(canary.requests) == 1, "the canary would notice"
        (reply,) = speaker.speak(merchant.url, get())
    assert reply.status == 200
    assert len(canary.requests) == 1
    assert len(merchant.requests) == 1


def test_netrc_is_ignored(speaker: Speaker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login thief password stolen\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with service(says(ok())) as merchant:
        speaker.speak(merchant.url, get())
    assert only(merchant, "authorization") == [[f"Bearer {KEY}"]]


def test_cookies_are_not_kept(speaker: Speaker) -> None:
    with service(says(ok("Set-Cookie: session=1; Path=/"))) as merchant:
        speaker.speak(merchant.url, get(), get())
    assert only(merchant, "cookie") == [[], []]


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate and key for 127.0.0.1, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    use = ["-addext", "basicConstraints=critical,CA:FALSE"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *names, *use, *files], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return both


def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_a_certificate_nobody_signed_is_refused(speaker: Speaker, certificate: Path) -> None:
    with service(says(ok()), server_side(certificate)) as merchant:
        (error,) = speaker.speak(merchant.url, get())
    assert type(error) is NoAnswer
    assert merchant.requests == []


TRUSTING = """
import asyncio, sys
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.requests import Call
from faregate.core.models import WireRequest
call = Call(WireRequest("GET", "/"), lambda reply: reply.status)
url = sys.argv[1]
print(MerchantClient("svc_live_x", url).send(call))
print(asyncio.run(AsyncMerchantClient("svc_live_x", url).send(call)))
"""


def test_a_certificate_that_is_trusted_is_accepted(certificate: Path) -> None:
    environment = {**os.environ, "SSL_CERT_FILE": str(certificate.parent / "cert.pem")}
    with service(says(ok()), server_side(certificate)) as merchant:
        done = subprocess.run(
            [sys.executable, "-c", TRUSTING, merchant.url],
            env=environment, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert done.stdout.split() == ["200", "200"], done.stderr


def trust(monkeypatch: pytest.MonkeyPatch, context: ssl.SSLContext) -> None:
    for module in (connections, async_connections):
        monkeypatch.setattr(module, "make_ssl_context", lambda: context)


@pytest.mark.skipif(not hasattr(socket, "TCP_CORK"), reason="needs Linux")
@pytest.mark.parametrize("backend", [None, "asyncio", "trio"])
def test_a_second_answer_in_a_record_of_its_own_is_never_that_of_the_next_call(
    certificate: Path, backend: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that came together are in the memory of TLS, where `poll` does not see them."""

    def twice(connection: socket.socket, seen: Seen) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        connection.sendall(ok(body=seen.line.split()[1].encode()))
        connection.sendall(ok(body=b"/nobody-asked"))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    trusting = ssl.create_default_context(cafile=str(certificate.parent / "cert.pem"))
    trust(monkeypatch, trusting)
    with service(twice, server_side(certificate)) as merchant:
        replies = Speaker(backend).speak(merchant.url, get("/1"), get("/2"), get("/3"))
    assert [reply.body for reply in replies] == [b"/1", b"/2", b"/3"]


def test_a_tls_connection_is_used_again(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate.parent / "cert.pem"))
    trust(monkeypatch, trusting)
    with service(says(ok()), server_side(certificate)) as merchant:
        replies = Speaker("asyncio").speak(merchant.url, *[get()] * 5)
    assert [reply.status for reply in replies] == [200] * 5
    assert merchant.connections == 1


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_more_than_a_socket_takes_at_once_is_sent_and_read_whole(
    certificate: Path, is_tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(monkeypatch, ssl.create_default_context(cafile=str(certificate.parent / "cert.pem")))
    body = os.urandom(8 << 20)

    def echo(connection: socket.socket, seen: Seen) -> None:
        connection.sendall(ok(body=seen.body))

    transport = make_sync(None, len(body))
    with service(echo, server_side(certificate) if is_tls else None) as merchant:
        for _ in range(2):
            assert transport.send("POST", f"{merchant.url}/x", (), body, 30.0).body == body
        transport.close()


def test_calls_that_are_cancelled_in_their_handshakes_harm_no_other(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file number of a connection that was given up is that of the next one."""
    trust(monkeypatch, ssl.create_default_context(cafile=str(certificate.parent / "cert.pem")))

    async def call_in_haste(url: str, number: int) -> None:
        client = AsyncMerchantClient(KEY, url, timeout=(0.004, 0.5)[number % 2])
        for seconds in (0.001, 0.003, 0.005, 0.02) * 10:
            with suppress(NoAnswer, TimeoutError):
                async with asyncio.timeout(seconds):
                    await client.send(get())
        await client.aclose()

    async def cancel_many(url: str) -> None:
        await asyncio.gather(*[call_in_haste(url, number) for number in range(16)])

    with service(says(ok()), server_side(certificate)) as merchant:
        asyncio.run(cancel_many(merchant.url))
