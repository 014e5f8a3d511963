"""What the bytes of a request and of a reply are, without a socket."""

import pytest

from faregate.transports.base import MAX_REPLY_BYTES
from faregate.transports.messages import (
    MAX_HEAD_BYTES,
    MalformedReply,
    NoReply,
    ReplyReader,
    UnwritableRequest,
    encode_request,
)

URL = "https://service.example/merchant/v1/access"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"


def read(*parts: bytes) -> ReplyReader:
    reader = ReplyReader()
    for part in parts:
        reader.receive(part)
    return reader


def test_a_request_is_written_in_the_order_given() -> None:
    written = encode_request("POST", URL, (("A", "1"), ("B", "2")), b"{}")
    lines = [
        "POST /merchant/v1/access HTTP/1.1",
        "Host: service.example",
        "A: 1",
        "B: 2",
        "Content-Length: 2",
    ]
    assert written == "\r\n".join([*lines, "", "{}"]).encode()


@pytest.mark.parametrize(
    ("method", "url", "headers"),
    [
        ("GET", URL, (("A", "1\r\nInjected: 2"),)),
        ("GET", URL, (("A", "1\nInjected: 2"),)),
        ("GET", URL, (("A\r\nInjected", "1"),)),
        ("GET", URL, (("A", "1\0"),)),
        ("GET", URL, (("A", "caf\xe9"),)),
        ("GET", URL + " HTTP/1.1\r\nInjected: 1", ()),
        ("GET", URL + " x", ()),
        ("GET\r\n", URL, ()),
    ],
)
def test_what_would_begin_another_header_is_not_written(
    method: str, url: str, headers: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(UnwritableRequest) as caught:
        encode_request(method, url, headers, None)
    assert "Injected" not in str(caught.value)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("reply", [OK, CHUNKED + b"\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" + OK])
def test_a_reply_is_read_in_pieces_of_any_size(reply: bytes, size: int) -> None:
    reader = read(*[reply[start : start + size] for start in range(0, len(reply), size)])
    assert reader.reply is not None
    assert (reader.reply[0], reader.reply[2], reader.can_start) == (200, b"hi", True)


def test_a_reader_reads_one_reply_after_the_other() -> None:
    reader = read(OK)
    reader.start()
    assert (reader.reply, reader.can_start) == (None, False)
    reader.receive(CHUNKED + b"\r\n")
    assert reader.reply == (200, (("Transfer-Encoding", "chunked"),), b"hi")


def test_trailers_are_no_headers() -> None:
    reader = read(CHUNKED + b"PAYMENT-RESPONSE: forged\r\n\r\n")
    assert reader.reply == (200, (("Transfer-Encoding", "chunked"),), b"hi")


def test_space_around_a_value_is_no_part_of_it() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nA: \t one two \t \r\nB: \r\nContent-Length: 2\r\n\r\nhi")
    assert reader.reply == (200, (("A", "one two"), ("B", ""), ("Content-Length", "2")), b"hi")


def test_headers_of_an_informational_response_are_no_headers() -> None:
    reader = read(b"HTTP/1.1 103 Early Hints\r\nPAYMENT-RESPONSE: early\r\n\r\n" + OK)
    assert reader.reply == (200, (("Content-Length", "2"),), b"hi")


def test_a_reply_without_a_length_ends_with_the_connection() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\n\r\nhi", b"")
    assert reader.reply == (200, (), b"hi")
    assert not reader.can_start


@pytest.mark.parametrize("excess", [OK, b"garbage", b"\0", b"HTTP/1.1 2"])
@pytest.mark.parametrize("together", [True, False])
def test_a_connection_with_more_than_the_reply_is_not_used_again(excess: bytes, together: bool) -> None:
    reader = read(OK + excess) if together else read(OK, excess)
    assert reader.reply == (200, (("Content-Length", "2"),), b"hi")
    assert not reader.can_start


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK", b"HTTP/1.1 200 OK\r\nConnection: close"])
def test_a_connection_that_the_service_closes_is_not_used_again(head: bytes) -> None:
    assert not read(head + b"\r\nContent-Length: 2\r\n\r\nhi").can_start


@pytest.mark.parametrize(
    "reply",
    [
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nName\0: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nName: a\0b\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nName: " + b"x" * MAX_HEAD_BYTES,
        b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_HEAD_BYTES // 20),
    ],
    ids=lambda reply: reply[:60].decode("latin-1"),
)
def test_what_is_not_http_is_refused(reply: bytes) -> None:
    with pytest.raises(MalformedReply):
        read(reply)


@pytest.mark.parametrize("reply", [OK[:-1], CHUNKED, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi"])
def test_a_reply_that_is_cut_short_is_refused(reply: bytes) -> None:
    with pytest.raises(MalformedReply):
        read(reply, b"")


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_connection_closed_before_the_head_gives_no_reply(begin: bytes) -> None:
    with pytest.raises(NoReply):
        read(*([begin] if begin else []), b"")


def test_reading_stops_where_a_reply_is_too_large() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n"
    reader = read(head, *[bytes(MAX_REPLY_BYTES // 2)] * 2)
    assert reader.reply is None
    reader.receive(b"x")
    assert reader.reply is not None
    assert len(reader.reply[2]) == MAX_REPLY_BYTES + 1
    assert not reader.can_start
