"""The record of results knows their bodies again, also compressed, and holds no answer of another kind."""

import zlib

import pytest

from faregate.checkout.copy_detection import ResultRecord

BODIES = (b'{"report": "sunny in Oslo, and warm"}' * 3, bytes(range(256)) * 40, b"x" * 30)
FORMATS = {"gzip": (25, 28, 31), "zlib": (9, 12, 15), "deflate": (-9, -12, -15)}


def compress(body: bytes, bits: int, level: int, flushes: bool) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, bits)
    middle = len(body) // 2
    first = compressor.compress(body[:middle]) + (compressor.flush(zlib.Z_SYNC_FLUSH) if flushes else b"")
    return first + compressor.compress(body[middle:]) + compressor.flush()


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("level", [0, 1, 6, 9])
@pytest.mark.parametrize("name", FORMATS)
def test_a_compressed_result_is_known(name: str, level: int, flushes: bool) -> None:
    for body in BODIES:
        record = ResultRecord()
        record.add(body)
        for bits in FORMATS[name]:
            copy = compress(body, bits, level, flushes)
            assert record.is_copy(copy), bits
            assert all(record.may_begin(copy[:length]) for length in (1, 2, 10, 100, 1024)), bits
            assert not record.is_copy(compress(body + b"more", bits, level, flushes))


@pytest.mark.parametrize(
    "beginning",
    [
        b'{\n  "title": "The title of a feed, which ends as deflate after a few bytes"}\n',
        b"<!doctype html><html><head><title>A page that is sent in pieces</title>",
        b'{"line": 1, "of": "a feed that never ends"}\n',
        b"data,that,somebody,reads\n1,2,3,4\n5,6,7,8\n",
    ],
)
def test_a_feed_that_no_result_began_like_is_not_held(beginning: bytes) -> None:
    record = ResultRecord()
    record.add(BODIES[0])
    assert not record.may_begin(beginning)
    assert not record.is_copy(beginning)
