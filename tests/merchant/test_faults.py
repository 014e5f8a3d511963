"""What each transport makes of a service that misbehaves: an error of ours, in time, and no second try."""

import gzip
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from faregate.errors import BadAnswer, NoAnswer, ServiceError
from faregate.transports import MAX_REPLY_BYTES, Choice, ReplyTooLarge, make_sync

from .conftest import Speaker, get
from .services import FREE, Reply, Seen, drips, ok, reset, says, service, unaccepting


def fails(speaker: Speaker, reply: Reply, **settings: Any) -> ServiceError:
    """The error of one call; the service saw it exactly once."""
    with service(reply) as merchant:
        (error,) = speaker.speak(merchant.url, get(), **settings)
    assert isinstance(error, ServiceError)
    assert len(merchant.requests) == 1
    return error


def mid_body_reset(connection: socket.socket, _seen: Seen) -> None:
    connection.sendall(ok(body=b"x" * 50)[:-20])
    time.sleep(0.1)
    reset(connection)


def endless(connection: socket.socket, _seen: Seen) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


CUT = ok(body=b"x" * 50)[:-20]
CUT_CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (says(b"", then_close=True), NoAnswer),
        (says(b"HTTP/1.1 200 OK\r\nContent-Le", then_close=True), NoAnswer),
        (mid_body_reset, NoAnswer),
        (says(CUT, then_close=True), BadAnswer),
        (says(CUT_CHUNK, then_close=True), BadAnswer),
        (says(b"SSH-2.0-OpenSSH_9.9\r\n\r\n", then_close=True), BadAnswer),
        (says(ok("Content-Encoding: gzip", body=gzip.compress(FREE))), BadAnswer),
        (says(ok("Content-Encoding: br")), BadAnswer),
        (says(ok(body=b"x" * (MAX_REPLY_BYTES + 1))), ReplyTooLarge),
        (endless, ReplyTooLarge),
    ],
    ids=["silent", "half a head", "reset", "short", "short chunk", "ssh", "gzip", "br", "large", "endless"],
)
def test_a_broken_reply_is_one_error(speaker: Speaker, reply: Reply, kind: type[ServiceError]) -> None:
    assert type(fails(speaker, reply)) is kind


def test_nobody_there(speaker: Speaker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    (error,) = speaker.speak(f"http://127.0.0.1:{port}", get())
    assert type(error) is NoAnswer


def test_a_handshake_that_the_service_cuts_off_is_no_answer(speaker: Speaker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close_first_connection() -> None:
            with listener.accept()[0] as accepted:
                accepted.recv(10)

        threading.Thread(target=close_first_connection, daemon=True).start()
        (error,) = speaker.speak(f"https://127.0.0.1:{listener.getsockname()[1]}", get())
    assert type(error) is NoAnswer


def test_a_name_that_does_not_exist(speaker: Speaker) -> None:
    (error,) = speaker.speak("http://nowhere.invalid", get())
    assert type(error) is NoAnswer


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n"


@pytest.mark.parametrize(
    "reply", [drips(b"HTTP/1.1 200 OK\r\nX-Slow: yes\r\n"), drips(b"x" * 40, HEAD)], ids=["head", "body"]
)
def test_the_deadline_is_total_against_a_drip(speaker: Speaker, reply: Reply) -> None:
    started = time.monotonic()
    with service(reply) as merchant:
        (error,) = speaker.speak(merchant.url, get(), timeout=0.8)
        took = time.monotonic() - started
    assert type(error) is NoAnswer
    assert 0.7 < took < 6  # all of the drip takes ten seconds or more


def test_the_deadline_holds_for_a_connection_that_is_never_accepted(speaker: Speaker) -> None:
    with unaccepting() as port:
        started = time.monotonic()
        (error,) = speaker.speak(f"http://127.0.0.1:{port}", get(), timeout=0.5)
        assert time.monotonic() - started < 15  # the kernel goes on for minutes
    assert type(error) is NoAnswer


def test_the_deadline_holds_for_a_request_that_is_never_read() -> None:
    transport = make_sync(None, 1000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        started = time.monotonic()
        with pytest.raises(NoAnswer):
            transport.send(
                "POST", f"http://127.0.0.1:{listener.getsockname()[1]}/x", (), bytes(64 << 20), 0.5
            )
        assert 0.4 < time.monotonic() - started < 15
    transport.close()


def test_nothing_is_sent_after_the_deadline() -> None:
    transport = make_sync(None, 1000)
    with service(says(ok())) as merchant:
        assert transport.send("GET", f"{merchant.url}/x", (), None, 5.0).status == 200
        with pytest.raises(NoAnswer):
            transport.send("GET", f"{merchant.url}/x", (), None, 0.0)
    assert len(merchant.requests) == 1
    transport.close()


def test_the_largest_reply_allowed_is_read(speaker: Speaker) -> None:
    with service(says(ok(body=b"x" * MAX_REPLY_BYTES))) as merchant:
        (reply,) = speaker.speak(merchant.url, get())
    assert len(reply.body) == MAX_REPLY_BYTES


@pytest.mark.parametrize("choice", [None, httpx.HTTPTransport(trust_env=False)], ids=["built in", "httpx"])
def test_a_transport_may_have_another_limit(choice: Choice) -> None:
    limit = 3 * MAX_REPLY_BYTES
    transport = make_sync(choice, limit)
    with service(says(ok(body=b"x" * limit))) as merchant:
        assert len(transport.send("GET", f"{merchant.url}/x", (), None, 5.0).body) == limit
    with service(says(ok(body=b"x" * (limit + 1)))) as merchant, pytest.raises(ReplyTooLarge):
        transport.send("GET", f"{merchant.url}/x", (), None, 5.0)
    transport.close()


def test_a_chunked_reply_is_whole(speaker: Speaker) -> None:
    def chunks(connection: socket.socket, _seen: Seen) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"5\r\nhello\r\n", b"6\r\n world\r\n", b"0\r\n\r\n"):
            time.sleep(0.05)
            connection.sendall(piece)

    with service(chunks) as merchant:
        (reply,) = speaker.speak(merchant.url, get())
    assert reply.body == b"hello world"


def test_duplicate_headers_stay_apart(speaker: Speaker) -> None:
    with service(says(ok("PAYMENT-RESPONSE: a", "payment-response: b"))) as merchant:
        (reply,) = speaker.speak(merchant.url, get())
    values = [value for name, value in reply.headers if name.lower() == "payment-response"]
    assert values == ["a", "b"]
    assert reply.first("payment-response") is None


def test_a_header_beyond_ascii_does_not_cost_the_reply(speaker: Speaker) -> None:
    with service(says(ok("X-Name: caf\xe9", "PAYMENT-RESPONSE: a"))) as merchant:
        (reply,) = speaker.speak(merchant.url, get())
    assert reply.status == 200
    assert reply.first("payment-response") == "a"


def test_a_connection_the_service_closed_meanwhile_is_not_used_again(speaker: Speaker) -> None:
    def once(connection: socket.socket, seen: Seen) -> None:
        connection.sendall(ok())
        if seen.line.startswith("GET /first"):
            raise ConnectionAbortedError

    with service(once) as merchant:
        for _ in range(5):
            first, second = speaker.speak(merchant.url, get("/first"), get("/second"))
            assert first.status == 200
            assert getattr(second, "status", None) == 200 or type(second) is NoAnswer
    # However the race ends, nothing is sent twice.
    assert len([seen for seen in merchant.requests if "/second" in seen.line]) <= 5


def test_an_exchange_on_a_used_connection_is_not_repeated(speaker: Speaker) -> None:
    def second_is_silent(connection: socket.socket, seen: Seen) -> None:
        if "/second" in seen.line:
            raise ConnectionAbortedError
        connection.sendall(ok())

    with service(second_is_silent) as merchant:
        first, second = speaker.speak(merchant.url, get("/first"), get("/second"))
    assert first.status == 200
    assert type(second) is NoAnswer
    assert [seen.line.split()[1] for seen in merchant.requests] == ["/first", "/second"]


def test_a_connection_that_is_closed_at_once_is_not_waited_for(speaker: Speaker) -> None:
    """It may be closed between the connect and the first byte of the request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close_all() -> None:
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=close_all)
        thread.start()
        try:
            errors = speaker.speak(f"http://127.0.0.1:{listener.getsockname()[1]}", *[get()] * 10, timeout=50)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert [type(error) for error in errors] == [NoAnswer] * 10
