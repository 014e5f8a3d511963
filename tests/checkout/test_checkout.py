"""The state of a checkout: what may follow what, and that nothing else does."""

import tracemalloc
from itertools import product
from typing import Any

import pytest

from faregate.checkout.blocking_checkout import BlockingCheckout as Checkout
from faregate.checkout.checkout import SkipHandler
from faregate.checkout.path_rules import PathMatch
from faregate.checkout.request import IncomingRequest
from faregate.checkout.states import PASSING, State
from faregate.core.models import Request
from faregate.core.release import Bypass, may_be_result
from faregate.errors import ConfigurationError
from faregate.offers import offer
from faregate.paywall import Paywall

ALLOWED = {
    State.NEW: {State.SOLD_INSIDE, State.FREE, State.AUTHORIZING, State.DECIDED, State.CLOSED},
    State.SOLD_INSIDE: {State.FREE, State.AUTHORIZING, State.DECIDED, State.CLOSED},
    State.FREE: {State.FREE, State.DECIDED, State.CLOSED},
    State.AUTHORIZING: {State.AUTHORIZED, State.FREE, State.DECIDED, State.CLOSED},
    State.AUTHORIZED: {State.COMPLETING, State.CLOSED},
    State.DECIDED: {State.DECIDED, State.CLOSED},
    State.COMPLETING: {State.COMPLETED, State.CLOSED},
    State.COMPLETED: {State.CLOSED},
    State.CLOSED: {State.CLOSED},
}


def make_checkout(match: PathMatch | None = None, bypass: str = "") -> Checkout:
    paywall = Paywall(environ={}, base_url="emulator:", journal="memory:")
    incoming = IncomingRequest(
        Request("GET", "/report"), "/report", "", "http://seller.example", None, "", "0"
    )

    def find_bypass(status: int) -> Bypass | None:
        is_result = bypass and may_be_result(status, ())
        return Bypass(bypass, lambda _path: False) if is_result else None

    return Checkout(paywall, lambda: incoming, False, match or PathMatch(), find_bypass)


def no_snapshot() -> Any:
    return lambda: None


@pytest.mark.parametrize(("before", "after"), list(product(State, State)))
def test_a_checkout_moves_along_its_table_only(before: State, after: State) -> None:
    checkout = make_checkout()
    checkout.state = before
    if after in ALLOWED[before]:
        checkout._move(after)
        assert checkout.state is after
        return
    with pytest.raises(RuntimeError, match=f"{before.name} cannot become {after.name}"):
        checkout._move(after)
    assert checkout.state is before


@pytest.mark.parametrize("state", [State.NEW, State.FREE, State.AUTHORIZING, State.COMPLETED])
def test_nothing_is_completed_that_was_not_authorized(state: State) -> None:
    checkout = make_checkout()
    checkout.state = state
    checkout.start_buffer(200, ())
    with pytest.raises(RuntimeError):
        checkout.complete()


@pytest.mark.parametrize("state", [*(state for state in State if state in PASSING), State.CLOSED])
def test_an_error_that_the_paywall_does_not_answer_goes_on(state: State) -> None:
    checkout, error = make_checkout(), ValueError("the seller's")
    checkout.state = state
    assert checkout.must_raise(error)
    with pytest.raises(ValueError, match="the seller's"):
        checkout.fail(error)


@pytest.mark.parametrize("state", [State.AUTHORIZED, State.COMPLETING, State.COMPLETED, State.CLOSED])
def test_an_unpaid_response_never_leaves_once_payment_began(state: State) -> None:
    checkout = make_checkout()
    checkout.state = state
    with pytest.raises(RuntimeError):
        checkout.allow_unpaid(404)


def test_an_unpaid_response_is_judged_anew_with_each_start() -> None:
    checkout = make_checkout(bypass="a cache answered")
    assert checkout.allow_unpaid(404)
    with pytest.raises(ConfigurationError, match="a cache answered") as raised:
        checkout.allow_unpaid(200)
    assert checkout.state is State.DECIDED
    assert not checkout.allow_unpaid(404)
    assert checkout.complete().status == 502
    assert checkout.must_raise(raised.value)


@pytest.mark.parametrize(("sold_inside", "status"), [(False, 403), (True, None)])
def test_what_is_refused_leaves_only_if_it_is_sold_inside(sold_inside: bool, status: int | None) -> None:
    checkout = make_checkout(PathMatch(refused=True))
    if sold_inside:
        checkout.mark_sold_inside()
    assert checkout.allow_unpaid(404) is sold_inside
    if status is not None:
        assert checkout.complete().status == status


def test_a_checkout_that_is_closed_sells_nothing() -> None:
    checkout = make_checkout()
    checkout.close()
    with pytest.raises(ConfigurationError, match="after its request has ended"):
        checkout.authorize(offer("text_summary"), no_snapshot)


def test_a_checkout_that_is_decided_skips_the_handler() -> None:
    checkout = make_checkout()
    checkout.refuse(403, "not_for_sale", "This resource is not for sale.")
    with pytest.raises(SkipHandler) as raised:
        checkout.authorize(offer("text_summary"), no_snapshot)
    assert (raised.value.status, checkout.state) == (403, State.DECIDED)


def test_long_paths_of_strangers_are_not_kept() -> None:
    paywall = Paywall(environ={}, base_url="emulator:", journal="memory:")
    tracemalloc.start()
    try:
        for number in range(200):
            paywall.resource_urls.build(f"/{number}".ljust(50_000, "x"), "http://seller", None, False)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
