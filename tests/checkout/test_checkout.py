"""The state of a checkout: what may follow what, and that nothing else does."""

import tracemalloc
from collections.abc import Callable
from itertools import product
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faregate.checkout.async_checkout import AsyncCheckout
from faregate.checkout.blocking_checkout import BlockingCheckout
from faregate.checkout.blocking_checkout import BlockingCheckout as Checkout
from faregate.checkout.checkout import SkipHandler
from faregate.checkout.incoming_request import IncomingRequest
from faregate.checkout.path_rules import PathMatch
from faregate.checkout.states import PASSING, TRANSITIONS, State
from faregate.core.interfaces import Flow, RunHandler
from faregate.core.models import PaidRequest, Request, Response
from faregate.core.withholding import Bypass, may_be_result
from faregate.errors import ConfigurationError
from faregate.offers import offer
from faregate.paywall import Paywall


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
    if after in TRANSITIONS[before]:
        checkout._move(after)
        assert checkout.state is after
        return
    with pytest.raises(RuntimeError, match=f"{before.name} cannot become {after.name}"):
        checkout._move(after)
    assert checkout.state is before


# What the table must guarantee, however it is written


def reach(start: State, without: State | None = None) -> set[State]:
    """The states that may follow `start`, at once or later, on ways that do not pass `without`."""
    reached: set[State] = set()
    waiting = [start]
    while waiting:
        new = TRANSITIONS[waiting.pop()] - reached - {without}
        reached |= new
        waiting += new
    return reached


@pytest.mark.parametrize("needed", [State.AUTHORIZING, State.AUTHORIZED, State.COMPLETING])
def test_no_way_to_a_completed_payment_leaves_out_a_step(needed: State) -> None:
    assert State.COMPLETED in reach(State.NEW)
    assert State.COMPLETED not in reach(State.NEW, without=needed)


@pytest.mark.parametrize("begun", [State.AUTHORIZING, State.AUTHORIZED, State.COMPLETING, State.COMPLETED])
def test_a_request_pays_once(begun: State) -> None:
    assert begun not in reach(begun)


@pytest.mark.parametrize("begun", [State.AUTHORIZED, State.COMPLETING, State.COMPLETED])
def test_a_response_never_passes_as_it_is_once_the_handler_may_run(begun: State) -> None:
    assert reach(begun).isdisjoint((*PASSING, State.DECIDED))


def test_an_answer_is_never_taken_back() -> None:
    assert reach(State.DECIDED) == {State.DECIDED, State.CLOSED}


def test_a_free_response_never_becomes_a_sale() -> None:
    assert State.AUTHORIZED not in reach(State.FREE)


def test_each_request_can_end_and_nothing_follows() -> None:
    assert all(State.CLOSED in TRANSITIONS[state] for state in State)
    assert reach(State.CLOSED) == {State.CLOSED}


Call = Callable[[Checkout], object]
CALLS: dict[str, Call] = {
    "authorize": lambda checkout: checkout.authorize(offer("text_summary"), no_snapshot),
    "allow 200": lambda checkout: checkout.allow_unpaid(200),
    "allow 404": lambda checkout: checkout.allow_unpaid(404),
    "mark as sold inside": lambda checkout: checkout.mark_sold_inside(),
    "refuse": lambda checkout: checkout.refuse_unsold(),
    "buffer": lambda checkout: checkout.buffer.start(200, ()),
    "complete": lambda checkout: checkout.complete(),
    "fail": lambda checkout: checkout.fail(ValueError("the seller's")),
    "close": lambda checkout: checkout.close(),
}
DONE_ANYWAY = (RuntimeError, ConfigurationError, SkipHandler, ValueError)
"""What a call raises that comes at the wrong time, or that serves nothing."""


@settings(max_examples=300)
@given(st.lists(st.sampled_from(sorted(CALLS)), max_size=8))
def test_once_a_price_was_asked_nothing_leaves_unpaid_whatever_is_called(names: list[str]) -> None:
    """Of a request without a payment."""
    checkout = make_checkout()
    has_asked = False
    for name in names:
        has_asked = has_asked or name == "authorize"
        try:
            result = CALLS[name](checkout)
        except DONE_ANYWAY:
            continue
        assert not (has_asked and result is True), "allowed to leave unpaid"
        if isinstance(result, Response):
            assert not 200 <= result.status < 400
        assert checkout.payment is None


@pytest.mark.parametrize("state", [State.NEW, State.FREE, State.AUTHORIZING, State.COMPLETED])
def test_nothing_is_completed_that_was_not_authorized(state: State) -> None:
    checkout = make_checkout()
    checkout.state = state
    checkout.buffer.start(200, ())
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


def test_a_price_after_the_response_began_cuts_the_response() -> None:
    checkout = make_checkout()
    assert checkout.allow_unpaid(200)
    with pytest.raises(ConfigurationError, match="after the response began") as raised:
        checkout.authorize(offer("text_summary"), no_snapshot)
    assert checkout.late is raised.value
    assert not checkout.allow_unpaid(404)


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


class Both(BlockingCheckout, AsyncCheckout):
    """As that of Django, whose views may await below a middleware that blocks, or the other way round."""


@pytest.mark.parametrize("awaits", [True, False])
def test_the_flow_goes_on_with_the_backend_of_the_one_that_completes(awaits: bool) -> None:
    paywall = Paywall(environ={}, base_url="emulator:", journal="memory:")
    asked = Request("GET", "/report")
    incoming = IncomingRequest(asked, "/report", "", "http://seller.example", None, "", "0")
    checkout = Both(paywall, lambda: incoming, True)
    step = RunHandler(PaidRequest(offer("report"), asked, "http://seller.example/report", 1, 1), "txn_x")

    def wait_for_handler() -> Flow[Response]:
        yield step
        return Response(200)

    flow = wait_for_handler()
    next(flow)
    checkout.state, checkout._flow, checkout._handler_step = State.AUTHORIZED, flow, step
    checkout.buffer.start(200, ())
    answer = anyio.run(checkout.acomplete) if awaits else checkout.complete()
    assert answer.status == 200
    assert step.backend is (paywall.async_backend if awaits else paywall.backend)
