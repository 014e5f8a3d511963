"""Token buckets: a key has its own once it was accepted; all other calls share one."""

import pytest

from faregate.core.models import Headers
from faregate.selfhosted.rate_limits import RateLimits
from tests.support.clock import Clock


def bearer(key: str) -> Headers:
    return (("Authorization", f"Bearer {key}"),)


def count_allowed(limits: RateLimits, headers: Headers) -> int:
    allowed = 0
    while limits.take(headers) == 0:
        allowed += 1
        assert allowed < 1000
    return allowed


@pytest.fixture
def limits() -> RateLimits:
    return RateLimits(10, 5, Clock())


def test_a_bucket_holds_two_seconds_and_fills_again() -> None:
    clock = Clock()
    limits = RateLimits(10, 5, clock)
    limits.learn(bearer("a"), 200)
    assert count_allowed(limits, bearer("a")) == 20
    clock.now += 0.5
    assert count_allowed(limits, bearer("a")) == 5
    clock.now += 100
    assert count_allowed(limits, bearer("a")) == 20


def test_keys_do_not_share(limits: RateLimits) -> None:
    limits.learn(bearer("a"), 200)
    limits.learn(bearer("b"), 402)
    count_allowed(limits, bearer("a"))
    assert limits.take(bearer("b")) == 0


def test_invented_keys_share_the_anonymous_bucket(limits: RateLimits) -> None:
    for number in range(10):
        assert limits.take(bearer(f"guess-{number}")) == 0
        limits.learn(bearer(f"guess-{number}"), 401)
    assert limits.take(bearer("another")) == 1
    assert limits.take(()) == 1


@pytest.mark.parametrize("status", [404, 405, 500, 503])
def test_an_answer_that_may_precede_the_key_makes_none_known(limits: RateLimits, status: int) -> None:
    limits.learn(bearer("guess"), status)
    assert count_allowed(limits, bearer("guess")) == 10


def test_a_revoked_key_loses_its_bucket(limits: RateLimits) -> None:
    limits.learn(bearer("a"), 200)
    limits.learn(bearer("a"), 401)
    assert count_allowed(limits, bearer("a")) == 10


def test_zero_is_no_limit() -> None:
    limits = RateLimits(0, 0, Clock())
    limits.learn(bearer("a"), 200)
    assert all(limits.take(bearer("a")) == 0 and limits.take(()) == 0 for _ in range(1000))


def test_a_slow_rate_says_how_long_to_wait() -> None:
    limits = RateLimits(0.1, 5, Clock())
    limits.learn(bearer("a"), 200)
    assert limits.take(bearer("a")) == 0
    assert limits.take(bearer("a")) == 10
