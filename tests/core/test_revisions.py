"""A revision that is not active any more, rules that cannot be read anew, and what the cache keeps."""

import json
from dataclasses import replace
from typing import Any

import pytest

from faregate.core.claim_types import Claimed
from faregate.core.models import Offer, OfferRevision, Response, WorkSucceeded
from faregate.core.results import AccessFailed, AccessGranted, Predictability, RevisionRejected
from faregate.errors import BadAnswer, ConfigurationError, NoAnswer
from faregate.merchant.interpret import parse_revisions
from faregate.merchant.revisions import (
    ASK_SECONDS,
    FRESH_SECONDS,
    PREDICTABILITY_SECONDS,
    REFRESH_SECONDS,
    RevisionCache,
)
from tests.core.flow_script import (
    ACR,
    ALL_KEYS,
    LEASE_HELD,
    OFFER,
    PAID,
    PROOF,
    RESULT,
    RULES,
    TXN,
    UNPAID,
    WARNED,
    WORK,
    Raise,
    abandoned,
    accessed,
    claimed,
    completed,
    found,
    handled,
    other_encoding,
    play,
    play_sale,
    recorded,
    sale,
    settled,
    started,
)
from tests.core.steps import CallAccess, GetKnownRevision, RefreshRevision, Sleep, serve
from tests.support.clock import Clock

NEWER = OfferRevision("acr_0190bbbbbbbb7bbb8bbbbbbbbbbbbbbb", "USDC")
NEWEST = OfferRevision("acr_0190cccccccc7ccc8ccccccccccccccc", "USDC")
REJECTED = RevisionRejected(AccessFailed(502, "access was answered with 422 invalid_request"))
REFRESH = RefreshRevision(OFFER, RULES)


# Access refuses the revision


def test_a_new_revision_sells_at_once() -> None:
    asked_anew = (CallAccess(sale(None), NEWER, None), UNPAID)
    script = (found(), accessed(REJECTED, None), (REFRESH, NEWER), asked_anew)
    assert play(serve(sale(None)), *script).status == 402


def test_a_new_revision_sells_to_who_paid_already_as_well() -> None:
    """And what is begun then is begun under the new one."""
    asked_anew = (CallAccess(sale(), NEWER, PROOF), UNPAID)
    script = (claimed(), found(), accessed(REJECTED), (REFRESH, NEWER), asked_anew)
    assert play_sale(*script, ALL_KEYS, other_encoding(), abandoned()).status == 402


def test_what_was_authorized_before_is_completed_under_its_own_revision() -> None:
    """The row has the transaction of an earlier request, whose work never began; the price is new since."""
    repeated = (CallAccess(sale(), NEWER, PROOF), AccessGranted(TXN))
    script = (claimed(Claimed(LEASE_HELD, TXN, ACR)), found(NEWER), repeated, started())
    result = replace(WORK, values={})
    outcome = WorkSucceeded(RESULT, (), result.duration_ms)
    sold = (handled(result), recorded(outcome), completed(PAID, outcome=outcome), settled())
    assert play_sale(*script, *sold).body == RESULT.body


@pytest.mark.parametrize("again", [RULES, Raise(NoAnswer("down")), Raise(ConfigurationError("no such key"))])
def test_what_is_refused_for_another_reason_is_the_sellers_to_mend(again: Any) -> None:
    noted = (WARNED, WARNED) if isinstance(again, Raise) else (WARNED,)
    script = (found(), accessed(REJECTED, None), (REFRESH, again), *noted)
    assert play(serve(sale(None)), *script).status == 502


def test_access_is_asked_once_more_and_no_more() -> None:
    refused_again = (CallAccess(sale(None), NEWER, None), REJECTED)
    script = (found(), accessed(REJECTED, None), (REFRESH, NEWER), refused_again, WARNED)
    assert play(serve(sale(None)), *script).status == 502


def test_a_crowd_waits_for_the_one_who_reads() -> None:
    asked_anew = (CallAccess(sale(None), NEWER, None), UNPAID)
    waits = ((REFRESH, None), (Sleep(0.1), None), (REFRESH, None), (Sleep(0.2), None), (REFRESH, NEWER))
    assert play(serve(sale(None)), found(), accessed(REJECTED, None), *waits, asked_anew).status == 402


def test_nobody_waits_for_ever() -> None:
    pauses = (0.1, 0.2, 0.4, 0.8, 0.0)
    waits = [pair for pause in pauses for pair in ((REFRESH, None), (Sleep(pause), None))]
    assert play(serve(sale(None)), found(), accessed(REJECTED, None), *waits, WARNED).status == 502


# The rules cannot be read anew


@pytest.mark.parametrize("error", [NoAnswer("down"), BadAnswer("not a contracts document")])
def test_rules_that_are_known_serve_on(error: Exception) -> None:
    script = (found(Raise(error)), (GetKnownRevision(OFFER), RULES), WARNED)
    assert play(serve(sale(None)), *script, accessed(UNPAID, None)).status == 402


def test_known_rules_for_another_asset_do_not_sell() -> None:
    known = (GetKnownRevision(OFFER), Raise(ConfigurationError("settles in EURC")))
    assert play(serve(sale(None)), found(Raise(NoAnswer("down"))), known, WARNED).status == 503


# The cache


def schema(
    revision: OfferRevision, key: str | None = None, number: Any = 1, **changes: Any
) -> dict[str, Any]:
    return {
        "properties": {name: {} for name in revision.names},
        "required": [],
        "x-svc-settlement-asset": revision.asset,
        "x-svc-revision-id": revision.revision_id,
        "x-svc-revision-number": number,
        "x-svc-resource-integration-key": key,
        **changes,
    }


def contracts(*schemas: Any) -> Response:
    named = {str(number): one for number, one in enumerate(schemas)}
    return Response(200, (), json.dumps({"components": {"schemas": named}}).encode())


def test_of_two_revisions_under_one_key_the_newest_sells() -> None:
    old, new = schema(RULES, "report", 2), schema(NEWER, "report", 10)
    for order in ((old, new), (new, old)):
        rules = parse_revisions(contracts(*order))
        assert rules["report"].revision_id == NEWER.revision_id
        assert set(rules) == {"report", ACR, NEWER.revision_id}


@pytest.mark.parametrize(
    "broken",
    [
        schema(RULES, **{"x-svc-revision-id": "acr_1"}),
        schema(RULES, **{"x-svc-settlement-asset": "DOGE"}),
        schema(RULES, properties=None),
        schema(RULES, required="all"),
        "a text",
    ],
)
def test_a_revision_that_cannot_be_read_keeps_no_other_from_sale(broken: Any) -> None:
    assert set(parse_revisions(contracts(broken, schema(NEWER, "report")))) == {"report", NEWER.revision_id}


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"components": []}', b'{"components": {"schemas": 1}}', b"?"]
)
def test_what_is_no_contracts_document_is_a_bad_answer(body: bytes) -> None:
    with pytest.raises(BadAnswer):
        parse_revisions(Response(200, (), body))


def learned(catalog: RevisionCache, *schemas: Any) -> OfferRevision:
    return catalog.build_call(OFFER).read(contracts(*schemas))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def catalog(clock: Clock) -> RevisionCache:
    made = RevisionCache(clock)
    assert made.resolve(OFFER) is None
    learned(made, schema(RULES, OFFER.sells))
    clock.now = 10.0
    return made


def test_one_refresh_is_enough_for_a_crowd(catalog: RevisionCache) -> None:
    rejected = catalog.resolve(OFFER)
    assert rejected is not None
    assert catalog.find_newer(OFFER, rejected) is None
    assert [catalog.begin_refresh(RULES) for _ in range(50)] == [True] + [False] * 49
    newer = learned(catalog, schema(NEWER, OFFER.sells, 2))
    assert [catalog.find_newer(OFFER, rejected) for _ in range(50)] == [newer] * 50
    assert newer.revision_id == NEWER.revision_id


def test_who_refused_the_newest_revision_is_not_asked_at_once_again(
    catalog: RevisionCache, clock: Clock
) -> None:
    rejected = catalog.resolve(OFFER)
    assert rejected is not None
    assert catalog.begin_refresh(RULES)
    same = learned(catalog, schema(RULES, OFFER.sells))
    assert catalog.find_newer(OFFER, rejected) == same
    clock.now += REFRESH_SECONDS
    assert catalog.find_newer(OFFER, rejected) is None
    assert catalog.begin_refresh(RULES)


def test_what_was_published_right_after_the_last_read_is_found(catalog: RevisionCache, clock: Clock) -> None:
    """The contracts were read a moment before a revision was published: the refusal has them read again."""
    clock.now = REFRESH_SECONDS / 2  # the fixture read them at 0
    rejected = catalog.resolve(OFFER)
    assert rejected is not None
    assert catalog.find_newer(OFFER, rejected) is None
    assert catalog.begin_refresh(RULES)
    newer = learned(catalog, schema(NEWER, OFFER.sells, 2))
    assert catalog.find_newer(OFFER, rejected) == newer


def test_each_revision_that_is_refused_has_the_document_read(catalog: RevisionCache) -> None:
    """A second one is published while the refusal of the first is remembered."""
    assert catalog.begin_refresh(RULES)
    newer = learned(catalog, schema(NEWER, OFFER.sells, 2))
    assert catalog.find_newer(OFFER, newer) is None
    assert [catalog.begin_refresh(newer) for _ in range(50)] == [True] + [False] * 49
    newest = learned(catalog, schema(NEWEST, OFFER.sells, 3))
    assert catalog.find_newer(OFFER, newer) == catalog.find_newer(OFFER, RULES) == newest


def test_old_refusals_are_forgotten(catalog: RevisionCache, clock: Clock) -> None:
    for number in range(1000):
        clock.now += REFRESH_SECONDS / 8
        assert catalog.begin_refresh(OfferRevision(f"acr_{number}", "USDC"))
        assert len(catalog._refused_at) <= 8


def test_a_refresh_that_failed_may_be_tried_again(catalog: RevisionCache, clock: Clock) -> None:
    assert catalog.begin_refresh(RULES)
    clock.now += REFRESH_SECONDS
    assert catalog.begin_refresh(RULES)


def test_old_rules_are_there_for_who_could_not_read_new_ones(catalog: RevisionCache, clock: Clock) -> None:
    rules = catalog.resolve(OFFER)
    clock.now += FRESH_SECONDS
    assert catalog.resolve(OFFER) is None  # to be asked for
    assert catalog.find(OFFER) == rules
    assert catalog.find(Offer("never_seen")) is None


def test_whether_instructions_are_unpredictable_is_known_for_a_while(
    catalog: RevisionCache, clock: Clock
) -> None:
    """One request finds it out; what it recorded holds for an hour."""
    assert catalog.recall_predictability() is Predictability.UNKNOWN
    assert catalog.recall_predictability() is Predictability.BEING_CHECKED
    clock.now += ASK_SECONDS  # whoever asked was not answered
    assert catalog.recall_predictability() is Predictability.UNKNOWN
    catalog.record_predictability(Predictability.UNPREDICTABLE)
    assert catalog.recall_predictability() is Predictability.UNPREDICTABLE
    clock.now += PREDICTABILITY_SECONDS
    assert catalog.recall_predictability() is Predictability.UNKNOWN
    catalog.record_predictability(Predictability.PREDICTABLE)
    assert catalog.recall_predictability() is Predictability.PREDICTABLE
    catalog.forget()
    assert catalog.recall_predictability() is Predictability.UNKNOWN
