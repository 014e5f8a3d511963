"""A payer names a purchase: one payment for it is charged."""

from dataclasses import replace
from typing import Any

import pytest

from faregate.core.claim_types import (
    AlreadyUsed,
    Claimant,
    ClientMismatch,
    EarlierPayment,
    Replayable,
    ReplayPolicy,
    RequestMismatch,
)
from faregate.core.interfaces import RunHandler
from faregate.core.models import PaidRequest
from faregate.core.results import AccessGranted
from faregate.x402.payment_identifier import IdentifierUse
from tests.core.flow_script import (
    ACR,
    GOOD,
    LEASE_HELD,
    OTHER_TXN,
    PAID,
    RECEIPT,
    RESULT,
    RULES,
    SOLD,
    TXN,
    WORK,
    Pair,
    abandoned,
    claimed,
    found,
    play,
    sale,
)
from tests.core.steps import (
    CallAccess,
    CallComplete,
    ClaimProof,
    RecordOutcome,
    RecordSettlement,
    RecordTransaction,
    serve,
)
from tests.core.test_resumption import COMPARED, GIVEN_UP, LINKED, OURS, first
from tests.support.encodings import encode_payment
from tests.support.identifiers import with_identifier

NAME = "pay_0123456789abcdef"
NAMED = with_identifier(encode_payment(), NAME)
UNNAMED = encode_payment()
MALFORMED = with_identifier(encode_payment(), "short")
PAYER_COMES = Claimant("GET /summary?q=1", replay=ReplayPolicy.PROVEN_PAYER, sold=SOLD)


def asked(proof: str, use: IdentifierUse = IdentifierUse.OPTIONAL, **more: Any) -> PaidRequest:
    return replace(sale(proof), identifier_use=use, **more)


def claim(proof: str, identifier: str = "", answer: Any = None) -> Pair:
    claimant = Claimant("GET /summary?q=1", replay=ReplayPolicy.SAME_CLIENT, sold=SOLD, identifier=identifier)
    return ClaimProof(proof, claimant), answer or claimed()[1]


def bought(
    request: PaidRequest, proof: str, claimant: Claimant | None, start: Any = True
) -> tuple[Pair, ...]:
    """The steps up to the start of the work."""
    return (
        found(),
        (CallAccess(request, RULES, proof), AccessGranted(TXN)),
        (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0, claimant), start),
    )


def runs(request: PaidRequest, proof: str) -> tuple[Pair, ...]:
    payment = replace(OURS, proof=proof)
    return (
        (RunHandler(request, TXN), WORK),
        (RecordOutcome(LEASE_HELD, GOOD), True),
        (CallComplete(payment, GOOD), PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), None),
    )


def named(identifier: str = f"https://seller.example {NAME}") -> Claimant:
    return Claimant("GET /summary?q=1", replay=ReplayPolicy.SAME_CLIENT, sold=SOLD, identifier=identifier)


def given_up(proof: str) -> tuple[Pair, ...]:
    (completed, answer), final = GIVEN_UP
    return (replace(completed, payment=replace(OURS, proof=proof)), answer), final


@pytest.mark.parametrize("use", [IdentifierUse.OPTIONAL, IdentifierUse.REQUIRED])
def test_a_named_purchase_is_known_by_its_name_and_its_seller(use: IdentifierUse) -> None:
    request = asked(NAMED, use)
    identifier = f"https://seller.example {NAME}"
    script = (claim(NAMED, identifier), *bought(request, NAMED, named()), *runs(request, NAMED))
    assert play(serve(request), *script).status == 200


def test_sellers_of_one_journal_are_told_apart_by_their_origins() -> None:
    request = asked(NAMED, resource_url="https://other.example:8443/summary")
    identifier = f"https://other.example:8443 {NAME}"
    claimant = named(identifier)
    script = (claim(NAMED, identifier), *bought(request, NAMED, claimant), *runs(request, NAMED))
    assert play(serve(request), *script).status == 200


def test_a_seller_that_did_not_ask_reads_no_name() -> None:
    for proof in (NAMED, MALFORMED):
        request = sale(proof)
        script = (claim(proof), *bought(request, proof, None), *runs(request, proof))
        assert play(serve(request), *script).status == 200


def test_a_payment_without_a_name_is_sold_where_names_are_optional() -> None:
    request = asked(UNNAMED)
    script = (claim(UNNAMED), *bought(request, UNNAMED, None), *runs(request, UNNAMED))
    assert play(serve(request), *script).status == 200


@pytest.mark.parametrize(
    ("proof", "use", "code"),
    [
        (UNNAMED, IdentifierUse.REQUIRED, "payment_identifier_required"),
        (MALFORMED, IdentifierUse.REQUIRED, "invalid_payment_identifier"),
        (MALFORMED, IdentifierUse.OPTIONAL, "invalid_payment_identifier"),
    ],
)
def test_it_is_refused_before_the_service_is_called(proof: str, use: IdentifierUse, code: str) -> None:
    response = play(serve(asked(proof, use)), claim(proof), abandoned())
    assert (response.status, response.code) == (400, code)


@pytest.mark.parametrize("proof", [UNNAMED, MALFORMED])
def test_a_payment_that_is_known_is_served_whatever_its_name(proof: str) -> None:
    """The seller may have asked for names after it took this payment."""
    replayed = Replayable(RESULT, PAID.payment_response, OTHER_TXN)
    response = play(serve(asked(proof, IdentifierUse.REQUIRED)), claim(proof, "", replayed))
    assert (response.status, response.body) == (200, RESULT.body)


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (Replayable(RESULT, PAID.payment_response, OTHER_TXN), 200, ""),
        (AlreadyUsed(OTHER_TXN), 409, "proof_already_used"),
        (ClientMismatch(), 409, "proof_already_used"),
        (RequestMismatch(), 409, "payment_identifier_reused"),
    ],
)
def test_a_second_payment_for_a_name_is_not_charged(answer: Any, status: int, code: str) -> None:
    request, identifier = asked(NAMED), f"https://seller.example {NAME}"
    start = bought(request, NAMED, named(), EarlierPayment(OTHER_TXN))
    script = (claim(NAMED, identifier), *start, *COMPARED, LINKED, *given_up(NAMED), first(answer))
    response = play(serve(request), *script)
    assert (response.status, response.code) == (status, code)


def test_a_name_whose_work_was_cut_off_for_another_request_is_not_used_again() -> None:
    request, identifier = asked(NAMED), f"https://seller.example {NAME}"
    start = bought(request, NAMED, named(), EarlierPayment(OTHER_TXN, is_interrupted=True))
    other = first(RequestMismatch(), named())
    script = (claim(NAMED, identifier), *start, *COMPARED, other, LINKED, *given_up(NAMED))
    response = play(serve(request), *script, first(RequestMismatch()))
    assert (response.status, response.code) == (409, "payment_identifier_reused")


def test_a_name_holds_where_open_payments_are_not_resumed() -> None:
    """Also for a body that is not compared: the payer says that it is the same purchase."""
    request = asked(NAMED)
    http = replace(request.http, method="POST", body_digest="")
    request = replace(request, http=http, resumes_open_payments=False)
    identifier = f"https://seller.example {NAME}"
    claimant = Claimant(
        "POST /summary?q=1", replay=ReplayPolicy.SAME_CLIENT, sold=SOLD, identifier=identifier
    )
    script = ((ClaimProof(NAMED, claimant), claimed()[1]), *bought(request, NAMED, claimant))
    assert play(serve(request), *script, *runs(request, NAMED)).status == 200
