"""What a handler's response may be, while it is held: a start, and so many bytes."""

import tracemalloc

import pytest

from faregate.checkout.buffer import BufferedResponse, finalize
from faregate.core.models import Response
from faregate.errors import ResultCutShort, ResultTooLarge


def begun(limit: int = 10) -> BufferedResponse:
    held = BufferedResponse()
    held.limit = limit
    held.start(200, ())
    return held


def test_a_result_may_have_all_of_its_bytes() -> None:
    held = begun(10)
    held.append(b"12345")
    held.append(b"67890")
    assert held.build() == Response(200, (), b"1234567890")
    assert held.failure is None


def test_a_result_of_one_byte_more_is_refused_and_not_kept() -> None:
    held = begun(10)
    held.append(b"1234567890")
    with pytest.raises(ResultTooLarge, match=r"more than 10 bytes.*max_result_bytes") as refused:
        held.append(b"1")
    assert held.failure is refused.value
    assert held.build().body == b""


def test_an_error_takes_the_place_of_a_start_and_of_its_body() -> None:
    held = begun(10)
    held.append(b"1234567890")
    held.start(500, (("x-own", "1"),))
    held.append(b"sorry")
    assert held.build() == Response(500, (("x-own", "1"),), b"sorry")
    assert held.failure is None


@pytest.mark.parametrize(("first", "second"), [(200, 200), (200, 201), (500, 200), (404, 404)])
def test_a_result_that_is_started_again_after_a_part_of_it_is_cut_short(first: int, second: int) -> None:
    held = BufferedResponse()
    held.limit = 10
    held.start(first, ())
    held.append(b"12345")
    held.start(second, ())
    assert isinstance(held.failure, ResultCutShort)
    cut_short = held.failure
    held.start(500, ())
    assert held.failure is cut_short


def test_another_response_takes_the_place_of_one_that_was_cut() -> None:
    held = begun()
    held.append(b"12345")
    held.may_be_replaced = True
    held.start(200, ())
    held.append(b"67890")
    assert (held.failure, held.build().body) == (None, b"67890")
    held.start(200, ())
    assert isinstance(held.failure, ResultCutShort)


def test_a_result_that_is_started_again_before_its_body_is_whole() -> None:
    held = begun()
    held.append(b"")
    held.start(200, ())
    held.append(b"12345")
    assert held.failure is None


def test_a_result_that_was_too_large_stays_too_large() -> None:
    held = begun(1)
    with pytest.raises(ResultTooLarge):
        held.append(b"12")
    held.start(200, ())
    assert isinstance(held.failure, ResultTooLarge)


def test_a_body_without_a_start_is_no_response() -> None:
    held = BufferedResponse()
    assert not held.has_started
    with pytest.raises(RuntimeError, match="before the start"):
        held.build()
    with pytest.raises(RuntimeError, match="before the start"):
        held.append(b"1")
    held.append(b"")
    assert held.failure is None
    assert begun().has_started


def test_what_is_not_a_whole_response_is_no_start() -> None:
    with pytest.raises(ValueError, match="199"):
        BufferedResponse().start(199, ())


@pytest.mark.parametrize(
    "header",
    [("x own", "1"), ("", "1"), ("x-own:", "1"), ("x-own", "a\r\nb"), ("x-own", "a\n"), ("x-own", "\u20ac")],
)
def test_a_header_that_no_server_sends_is_no_start(header: tuple[str, str]) -> None:
    held = BufferedResponse()
    with pytest.raises(ValueError, match="cannot be sent as it is"):
        held.start(200, (header,))
    assert not held.has_started


def test_blanks_around_a_value_are_not_part_of_it() -> None:
    held = BufferedResponse()
    held.start(200, (("x-own", " \t a b\xe9 "),))
    assert held.build().headers == (("x-own", "a b\xe9"),)


RESULT = Response(200, (("Content-Length", "99"), ("x-own", "1")), b"12345")


def test_the_length_is_counted_anew() -> None:
    assert finalize(RESULT, "GET") == ((("x-own", "1"), ("Content-Length", "5")), b"12345")


def test_a_head_has_the_handlers_own_length_and_no_body() -> None:
    assert finalize(RESULT, "HEAD") == (RESULT.headers, b"")


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_none(status: int) -> None:
    assert finalize(Response(status, RESULT.headers, b"12345"), "GET") == ((("x-own", "1"),), b"")


def test_a_body_in_many_chunks_is_not_held_twice() -> None:
    held, size = BufferedResponse(), 4 * 1024 * 1024
    held.limit = size
    held.start(200, ())
    tracemalloc.start()
    try:
        for _ in range(64):
            held.append(bytes(size // 64))
        assert len(held.build().body) == size
        assert tracemalloc.get_traced_memory()[1] < 1.5 * size
    finally:
        tracemalloc.stop()
