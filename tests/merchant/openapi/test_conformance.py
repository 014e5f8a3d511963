"""The comparison sees what it is for: a good answer, spoiled in one place, no longer conforms."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from faregate.core.models import Header, Response, WireRequest
from faregate.merchant.openapi import describe

from .conformance import Broken, assert_conforms
from .facts import Reader
from .recorded_calls import Teller, read
from .transcription import decisions, specification

Json = dict[str, Any]
Spoil = Callable[[Json], object]


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[WireRequest, Response]]:
    """One good answer of each kind."""
    seller = Teller()
    unpaid = seller.access("text_summary")
    bought = seller.buy("text_summary")
    late = seller.buy("slow_settlement")
    found = {
        "unpaid": unpaid,
        "free": seller.access("free_notes"),
        "succeeded": seller.complete("text_summary", bought),
        "pending": seller.complete("slow_settlement", late),
        "open": seller.call("GET", f"/transactions/{late[0]}"),
        "paid": seller.call("GET", f"/transactions/{bought[0]}"),
        "transactions": seller.call("GET", "/transactions?page_size=1"),
        "payers": seller.call("GET", "/payers"),
        "resources": seller.call("GET", "/resources"),
        "contracts": seller.call("GET", "/contracts?include_integration_key=true"),
        "unknown": seller.call("GET", "/transactions/txn_1"),
    }
    return {
        name: next((call, said) for call, said in seller.told if said is answer)
        for name, answer in found.items()
    }


def test_the_good_answers_conform(answers: dict[str, tuple[WireRequest, Response]]) -> None:
    for request, response in answers.values():
        assert_conforms(request, response)


BODIES: list[tuple[str, Spoil]] = [
    ("unpaid", lambda body: body.update(code="forbidden")),
    ("unpaid", lambda body: body.pop("message")),
    ("unpaid", lambda body: body.update(more=1)),
    ("free", lambda body: body.pop("transaction_id")),
    ("free", lambda body: body.update(transaction_id="txn_1")),
    ("free", lambda body: body.update(more=1)),
    ("succeeded", lambda body: body.pop("receipt")),
    ("succeeded", lambda body: body.update(receipt=None)),
    ("succeeded", lambda body: body.update(status="done")),
    ("succeeded", lambda body: body.update(payment_response="eyJ9")),
    ("succeeded", lambda body: body["receipt"]["payment"].pop("recipient")),
    ("succeeded", lambda body: body["receipt"]["payment"].update(settled_atomic=10000)),
    ("succeeded", lambda body: body["receipt"]["payment"].update(settled_atomic="010000")),
    ("succeeded", lambda body: body["receipt"]["payment"].update(network="Base")),
    ("succeeded", lambda body: body["receipt"].update(issued_at="2026-01-01T00:00:00Z")),
    ("succeeded", lambda body: body["receipt"]["price"].update(currency="USDC")),
    ("pending", lambda body: body.update(status="succeeded")),
    ("pending", lambda body: body.update(status="failed")),
    ("pending", lambda body: body.update(transaction_hash="0x00")),
    ("open", lambda body: body.update(status="succeeded")),
    ("open", lambda body: body.update(payment_request_id="prq_1")),
    ("paid", lambda body: body.pop("receipt")),
    ("paid", lambda body: body.update(status="failed")),
    ("paid", lambda body: body.update(created_at="2026-01-01T00:00:00")),
    ("transactions", lambda body: body.pop("next")),
    ("transactions", lambda body: body.update(next="transactions?page=2")),
    ("transactions", lambda body: body.update(count=-1)),
    ("transactions", lambda body: body["items"][0].update(payer="0x1")),
    ("payers", lambda body: body["items"][0].update(identifier="")),
    ("payers", lambda body: body["items"][0].update(identifier="x" * 256)),
    ("resources", lambda body: body["items"][0].pop("id")),
    ("payers", lambda body: body["items"][0].update(identifier=None)),
    ("payers", lambda body: body["items"][0].pop("identifier")),
    ("contracts", lambda body: body.update(openapi="3.0.0")),
    ("contracts", lambda body: body["info"].update(version="v1")),
    ("contracts", lambda body: body["paths"].update({"/a": {"get": {}}})),
    ("contracts", lambda body: body["components"]["schemas"].update({"acr_1": {}})),
    (
        "contracts",
        lambda body: (
            next(iter(body["components"]["schemas"].values())).pop("x-svc-unit", None) or body.pop("security")
        ),
    ),
    ("unknown", lambda body: body.update(code="resource_execution_not_found")),
]


@pytest.mark.parametrize(("name", "spoil"), BODIES)
def test_a_spoiled_body_does_not(
    answers: dict[str, tuple[WireRequest, Response]], name: str, spoil: Spoil
) -> None:
    request, response = answers[name]
    body = read(response)
    spoil(body)
    with pytest.raises(Broken):
        assert_conforms(request, replace(response, body=json.dumps(body).encode()))


def without(response: Response, name: str) -> Response:
    return replace(response, headers=tuple(pair for pair in response.headers if pair[0].lower() != name))


WAIT: Header = ("Retry-After", "1")


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("unpaid", lambda response: without(response, "payment-required")),
        ("unpaid", lambda response: response.plus(("PAYMENT-REQUIRED", "e30="))),
        ("unpaid", lambda response: without(response, "payment-required").plus(("PAYMENT-REQUIRED", "?"))),
        ("succeeded", lambda response: without(response, "payment-response")),
        (
            "succeeded",
            lambda response: without(response, "payment-response").plus(("PAYMENT-RESPONSE", "e30=")),
        ),
        ("succeeded", lambda response: response.plus(WAIT)),
        ("pending", lambda response: response.plus(("PAYMENT-RESPONSE", "e30="))),
        ("paid", lambda response: without(response, "content-type")),
        ("paid", lambda response: replace(response, body=response.body[:-1])),
        ("paid", lambda response: replace(response, body=b'{"id": 1, ' + response.body[1:])),
        ("paid", lambda response: replace(response, status=201)),
        ("unpaid", lambda response: replace(response, status=403)),
        ("pending", lambda response: replace(response, status=418)),
        ("unknown", lambda response: replace(response, status=422)),
    ],
)
def test_a_spoiled_answer_does_not(
    answers: dict[str, tuple[WireRequest, Response]], name: str, spoil: Callable[[Response], Response]
) -> None:
    request, response = answers[name]
    with pytest.raises((Broken, ValueError)):
        assert_conforms(request, spoil(response))


DOCUMENTS: list[Spoil] = [
    lambda it: it["components"]["schemas"]["AccessResource"].pop("additionalProperties"),
    lambda it: it["components"]["schemas"]["AccessResource"]["properties"]["mime_type"].update(
        pattern="^.+/.+$"
    ),
    lambda it: it["components"]["schemas"]["AccessResource"]["properties"]["url"].update(maxLength=2049),
    lambda it: it["components"]["schemas"]["AccessRequest"]["properties"].update(more={"type": "string"}),
    lambda it: it["components"]["schemas"]["CompletionResult"]["required"].remove("receipt"),
    lambda it: it["components"]["schemas"]["CompletionResult"].pop("if"),
    lambda it: it["components"]["schemas"]["CompleteRequest"].pop("discriminator"),
    lambda it: it["components"]["schemas"]["SucceededCompleteRequest"]["properties"]["values"].pop(
        "propertyNames"
    ),
    lambda it: it["components"]["headers"]["PAYMENT-REQUIRED"].pop("required"),
    lambda it: it["components"]["securitySchemes"]["OrganizationApiKeyAuth"].update(scheme="basic"),
    lambda it: it["components"]["responses"]["ExecutionConflict"].update(
        it["components"]["responses"]["Invalid"]
    ),
    lambda it: it["paths"]["/merchant/v1/access"]["post"]["responses"].pop("402"),
    lambda it: it["paths"]["/merchant/v1/access"]["post"].update(security=[]),
    lambda it: it["paths"]["/merchant/v1/payers"]["get"]["parameters"].pop(),
    lambda it: it["paths"]["/merchant/v1/payers"]["get"]["parameters"][3]["schema"].update(default=20),
    lambda it: it["paths"]["/merchant/v1/payers"]["get"]["responses"].update(
        {"429": {"$ref": "#/components/responses/Invalid"}}
    ),
    lambda it: it["paths"].pop("/merchant/v1/contracts"),
]


@pytest.mark.parametrize("spoil", DOCUMENTS)
def test_a_spoiled_document_differs_from_the_specification(spoil: Spoil) -> None:
    document = describe()
    spoil(document)
    facts = Reader(document, specification().schemas()).facts()
    assert facts != specification().facts | decisions().facts
