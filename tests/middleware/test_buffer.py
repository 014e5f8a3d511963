"""What a handler's response may be, while it is held: a start, and so many bytes."""

import pytest

from faregate.core.models import Response
from faregate.errors import ResultTooLarge
from faregate.middleware.buffer import Held, sendable


def begun(limit: int = 10) -> Held:
    held = Held()
    held.begin(200, (), limit)
    return held


def test_a_result_may_have_all_of_its_bytes() -> None:
    held = begun(10)
    held.take(b"12345")
    held.take(b"67890")
    assert held.whole() == Response(200, (), b"1234567890")
    assert held.too_large is None


def test_a_result_of_one_byte_more_is_refused_and_not_kept() -> None:
    held = begun(10)
    held.take(b"1234567890")
    with pytest.raises(ResultTooLarge, match=r"more than 10 bytes.*max_result_bytes") as refused:
        held.take(b"1")
    assert held.too_large is refused.value
    assert held.whole().body == b""


def test_a_second_start_takes_the_place_of_the_first_and_of_its_body() -> None:
    held = begun(10)
    held.take(b"1234567890")
    held.begin(500, (("x-own", "1"),), 5)
    held.take(b"sorry")
    assert held.whole() == Response(500, (("x-own", "1"),), b"sorry")


def test_a_body_without_a_start_is_no_response() -> None:
    held = Held()
    assert not held.has_begun
    with pytest.raises(RuntimeError, match="before the start"):
        held.whole()
    assert begun().has_begun


def test_what_is_not_a_whole_response_is_no_start() -> None:
    with pytest.raises(ValueError, match="199"):
        Held().begin(199, (), 10)


@pytest.mark.parametrize(
    "header",
    [("x own", "1"), ("", "1"), ("x-own:", "1"), ("x-own", "a\r\nb"), ("x-own", "a\n"), ("x-own", "\u20ac")],
)
def test_a_header_that_no_server_sends_is_no_start(header: tuple[str, str]) -> None:
    held = Held()
    with pytest.raises(ValueError, match="cannot be sent as it is"):
        held.begin(200, (header,), 10)
    assert not held.has_begun


def test_blanks_around_a_value_are_not_part_of_it() -> None:
    held = Held()
    held.begin(200, (("x-own", " \t a b\xe9 "),), 10)
    assert held.whole().headers == (("x-own", "a b\xe9"),)


RESULT = Response(200, (("Content-Length", "99"), ("x-own", "1")), b"12345")


def test_the_length_is_counted_anew() -> None:
    assert sendable(RESULT, "GET") == ((("x-own", "1"), ("Content-Length", "5")), b"12345")


def test_a_head_has_the_handlers_own_length_and_no_body() -> None:
    assert sendable(RESULT, "HEAD") == (RESULT.headers, b"")


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_none(status: int) -> None:
    assert sendable(Response(status, RESULT.headers, b"12345"), "GET") == ((("x-own", "1"),), b"")
