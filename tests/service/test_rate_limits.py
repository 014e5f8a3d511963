"""Token buckets: a key has its own once it was accepted; all other calls use that of their address."""

import pytest

from faregate.core.models import Headers
from faregate.service.rate_limits import RateLimits
from tests.support.clock import Clock

HERE, THERE = "192.0.2.1", "192.0.2.2"


def bearer(key: str) -> Headers:
    return (("Authorization", f"Bearer {key}"),)


def call(limits: RateLimits, headers: Headers, status: int = 200, address: str = HERE) -> int:
    """Make a call that is answered with this status; return how long to wait if it is not."""
    ticket = limits.take(headers, address)
    if not ticket.wait:
        limits.learn(ticket, status)
    return ticket.wait


def count_allowed(limits: RateLimits, headers: Headers, address: str = HERE) -> int:
    allowed = 0
    while limits.take(headers, address).wait == 0:
        allowed += 1
        assert allowed < 1000
    return allowed


@pytest.fixture
def limits() -> RateLimits:
    return RateLimits(10, 5, Clock())


def test_a_bucket_holds_two_seconds_and_fills_again() -> None:
    clock = Clock()
    limits = RateLimits(10, 5, clock)
    call(limits, bearer("a"))
    assert count_allowed(limits, bearer("a")) == 20
    clock.now += 0.5
    assert count_allowed(limits, bearer("a")) == 5
    clock.now += 100
    assert count_allowed(limits, bearer("a")) == 20


def test_keys_do_not_share(limits: RateLimits) -> None:
    call(limits, bearer("a"))
    call(limits, bearer("b"), 402)
    count_allowed(limits, bearer("a"))
    assert call(limits, bearer("b")) == 0


def test_invented_keys_share_the_bucket_of_their_address(limits: RateLimits) -> None:
    for number in range(10):
        assert call(limits, bearer(f"guess-{number}"), 401) == 0
    assert call(limits, bearer("another")) == 1
    assert call(limits, ()) == 1


def test_a_flood_of_invented_keys_keeps_out_no_valid_key_at_another_address(limits: RateLimits) -> None:
    while call(limits, bearer("guess"), 401) == 0:
        pass
    # Nothing is known of this key, as after a restart.
    assert count_allowed(limits, bearer("valid"), THERE) == 10
    assert RateLimits(10, 5, Clock()).take(bearer("valid"), THERE).wait == 0


def test_a_valid_key_takes_nothing_from_its_address(limits: RateLimits) -> None:
    for number in range(100):
        assert call(limits, bearer(f"valid-{number}"), 200) == 0
    assert count_allowed(limits, bearer("guess")) == 10


@pytest.mark.parametrize(
    ("addresses", "shared"),
    [
        (("2001:db8::1", "2001:db8::ffff:2"), True),
        (("2001:db8::1", "2001:db8:0:1::1"), False),
        (("", ""), True),
        (("", HERE), False),
    ],
)
def test_the_addresses_of_one_network_share(
    limits: RateLimits, addresses: tuple[str, str], shared: bool
) -> None:
    count_allowed(limits, (), addresses[0])
    assert (limits.take((), addresses[1]).wait > 0) is shared


@pytest.mark.parametrize("spelling", ["Bearer  a", "bearer a", "BEARER a ", "Bearer    a  "])
def test_a_key_has_one_bucket_however_it_is_spelt(limits: RateLimits, spelling: str) -> None:
    call(limits, bearer("a"))
    count_allowed(limits, bearer("a"))
    headers = (("authorization", spelling),)
    assert limits.take(headers, HERE).wait > 0
    assert limits.take(headers, HERE).address is None


@pytest.mark.parametrize("status", [404, 405, 500, 503])
def test_an_answer_that_may_precede_the_key_makes_none_known(limits: RateLimits, status: int) -> None:
    call(limits, bearer("guess"), status)
    assert count_allowed(limits, bearer("guess")) == 9


def test_a_revoked_key_loses_its_bucket(limits: RateLimits) -> None:
    call(limits, bearer("a"))
    call(limits, bearer("a"), 401)
    assert count_allowed(limits, bearer("a")) == 10


def test_zero_is_no_limit() -> None:
    limits = RateLimits(0, 0, Clock())
    assert all(call(limits, bearer("a")) == 0 and call(limits, ()) == 0 for _ in range(1000))


def test_a_slow_rate_says_how_long_to_wait() -> None:
    limits = RateLimits(0.1, 5, Clock())
    call(limits, bearer("a"))
    assert call(limits, bearer("a")) == 0
    assert call(limits, bearer("a")) == 10
