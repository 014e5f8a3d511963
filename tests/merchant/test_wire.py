"""The eight operations as values: what is sent, byte for byte, and what each reply means."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from faregate import errors
from faregate.core.models import Response
from faregate.errors import ApiError, BadAnswer, PaymentPending, PaymentRequired, ServiceError
from faregate.merchant import wire
from faregate.merchant.models import (
    ListQuery,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
    ResourceQuery,
    TransactionQuery,
    complete_request,
)
from faregate.merchant.requests import Call

from .samples import (
    ACCESS,
    ACR,
    COMPLETED,
    CONTRACTS,
    FAILED,
    PAYER,
    PYR,
    RECEIPT,
    RESOURCE,
    REX,
    SUCCEEDED,
    TRANSACTION,
    TXN,
    changed,
    page,
)  # fmt: skip

EXECUTION = ResourceExecutionCompleteRequest(
    revision_id=ACR, resource_execution=ResourceExecutionMetadata(response_status=200)
)
CALLS: dict[str, Call[Any]] = {
    "access": wire.access(ACCESS, "proof"),
    "complete": wire.complete_transaction(TXN, SUCCEEDED, "proof"),
    "get": wire.get_transaction(TXN),
    "transactions": wire.list_transactions(TransactionQuery()),
    "payers": wire.list_payers(ListQuery()),
    "resources": wire.list_resources(ResourceQuery()),
    "contracts": wire.list_contracts(),
    "execution": wire.complete_resource_execution(REX, EXECUTION),
}
GOOD: dict[str, dict[str, Any]] = {
    "access": {"transaction_id": TXN},
    "complete": COMPLETED,
    "get": {**TRANSACTION, "receipt": RECEIPT},
    "transactions": page(TRANSACTION),
    "payers": page(PAYER),
    "resources": page(RESOURCE),
    "contracts": CONTRACTS,
    "execution": {"resource_execution_id": REX},
}


def reply(body: object, status: int = 200, *headers: tuple[str, str]) -> Response:
    return Response(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode())


# What is sent


def test_method_and_path() -> None:
    assert {name: (call.request.method, call.request.path) for name, call in CALLS.items()} == {
        "access": ("POST", "/merchant/v1/access"),
        "complete": ("POST", f"/merchant/v1/transactions/{TXN}/complete"),
        "get": ("GET", f"/merchant/v1/transactions/{TXN}"),
        "transactions": ("GET", "/merchant/v1/transactions"),
        "payers": ("GET", "/merchant/v1/payers"),
        "resources": ("GET", "/merchant/v1/resources"),
        "contracts": ("GET", "/merchant/v1/contracts"),
        "execution": ("POST", f"/merchant/v1/resource-executions/{REX}/complete"),
    }


def test_bodies_have_exactly_what_the_contract_names() -> None:
    bodies = {name: json.loads(call.request.body) for name, call in CALLS.items() if call.request.body}
    assert bodies == {
        "access": {
            "revision_id": ACR,
            "resource": {"url": "https://seller.example/a", "mime_type": "text/plain", "description": ""},
            "settlement_asset": "USDC",
        },
        "complete": {
            "revision_id": ACR,
            "outcome": "succeeded",
            "values": {"tokens": "12.5"},
            "resource_execution": {"duration_ms": 7},
        },
        "execution": {"revision_id": ACR, "resource_execution": {"response_status": 200}},
    }
    failed = wire.complete_transaction(TXN, FAILED, "proof").request.body
    assert failed is not None
    assert json.loads(failed) == {"revision_id": ACR, "outcome": "failed", "failure_code": "work_failed"}


def test_the_proof_travels_unchanged_and_only_where_it_belongs() -> None:
    with_proof = {
        name for name, call in CALLS.items() if ("PAYMENT-SIGNATURE", "proof") in call.request.headers
    }
    assert with_proof == {"access", "complete"}
    for call in (wire.access(ACCESS), CALLS["access"], CALLS["complete"], CALLS["execution"]):
        others = [pair for pair in call.request.headers if pair[0] != "PAYMENT-SIGNATURE"]
        assert others == [("Content-Type", "application/json")]


def test_queries_hold_what_was_asked_and_nothing_else() -> None:
    asked = TransactionQuery(
        as_of=datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=timezone(timedelta(hours=2))),
        status="settling", payer_id=PYR, order="oldest", page=2, page_size=100,
    )  # fmt: skip
    path, _, query = wire.list_transactions(asked).request.path.partition("?")
    assert path == "/merchant/v1/transactions"
    moment = "as_of=2026-01-02T03%3A04%3A05.006000%2B02%3A00"
    others = ("order=oldest", "page=2", "page_size=100", "status=settling", f"payer_id={PYR}")
    assert sorted(query.split("&")) == sorted((moment, *others))
    assert wire.list_resources(ResourceQuery(archived=True)).request.path.endswith("?archived=true")
    assert wire.list_contracts(True).request.path.endswith("/contracts?include_integration_key=true")


@pytest.mark.parametrize("identifier", ["../access", "a/b", "a?b=1", "a#b", "", "ä", "%2e%2e"])
def test_an_id_stays_one_path_segment(identifier: str) -> None:
    path = wire.get_transaction(identifier).request.path
    assert path.startswith("/merchant/v1/transactions/")
    assert path.count("/") == 4
    assert not set("?#") & set(path)
    assert path.isascii()


def test_requests_refuse_what_the_contract_does_not_name() -> None:
    samples: tuple[BaseModel, ...] = (ACCESS, ACCESS.resource, FAILED, SUCCEEDED, EXECUTION)
    for sample in samples:
        body = sample.model_dump(mode="json", exclude_none=True)
        assert type(sample).model_validate(body) == sample
        with pytest.raises(ValidationError):
            type(sample).model_validate({**body, "extra": 1})
    with pytest.raises(ValidationError):
        ResourceExecutionMetadata.model_validate({"headers": {}})
    with pytest.raises(ValidationError):
        ListQuery(as_of=datetime(2026, 1, 2))  # noqa: DTZ001 - a moment without a zone is the point


def test_the_outcome_tells_the_two_completions_apart() -> None:
    for sample in (FAILED, SUCCEEDED):
        assert complete_request.validate_json(sample.model_dump_json()) == sample
    for body in ({"revision_id": ACR}, {"revision_id": ACR, "outcome": "settling"}):
        with pytest.raises(ValidationError):
            complete_request.validate_python(body)


# What a reply means


@pytest.mark.parametrize("name", CALLS)
def test_a_good_reply_is_read(name: str) -> None:
    answer = CALLS[name].read(reply(GOOD[name]))
    answer = answer.result if name == "complete" else answer
    assert json.loads(answer.model_dump_json(by_alias=True, exclude_none=True)) == json.loads(
        json.dumps(GOOD[name] | ({"next": None} if "next" in GOOD[name] else {})).replace(
            ', "next": null', ""
        )
    )


@pytest.mark.parametrize("name", CALLS)
def test_unknown_properties_are_ignored(name: str) -> None:
    assert CALLS[name].read(reply({**GOOD[name], "new_property": {"a": 1}})) == CALLS[name].read(
        reply(GOOD[name])
    )


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b"{", b"\xff\xfe", b"<html>", b'"x"', b"[" * 100_000, b'{"a":' * 100_000],
    ids=lambda body: repr(body[:6]),
)
def test_garbage_is_a_bad_answer_that_repeats_nothing(name: str, body: bytes) -> None:
    with pytest.raises(BadAnswer) as caught:
        CALLS[name].read(reply(body))
    assert len(str(caught.value)) < 300


BROKEN = [
    ("access", "transaction_id", ...),
    ("access", "transaction_id", "txn_1"),
    ("access", "transaction_id", TXN + "\n"),
    ("access", "transaction_id", 5),
    ("complete", "status", ...),
    ("complete", "status", None),
    ("complete", "receipt", ...),
    ("complete", "payment_response", ...),
    ("complete", "transaction_hash", ...),
    ("complete", "transaction_hash", "abc"),
    ("complete", "transaction_id", "txn_"),
    ("complete", "receipt.payment.settled_atomic", "01"),
    ("complete", "receipt.payment.settled_atomic", 1.5),
    ("complete", "receipt.payment.network", "eip155"),
    ("complete", "receipt.issued_at", "2026-01-02T03:04:05"),
    ("get", "payer", "0x12"),
    ("get", "created_at", "yesterday"),
    ("payers", "items", ...),
    ("payers", "items", [{}]),
    ("payers", "count", -1),
    ("payers", "as_of", ...),
    ("payers", "as_of", "2026-01-02T03:04:05"),
    ("payers", "next", ...),
    ("payers", "next", "http://other.example/"),
    ("contracts", "openapi", "3.0.0"),
    ("contracts", "info.version", "1.0.0.0"),
    ("contracts", f"components.schemas.{ACR}.additionalProperties", True),
    ("contracts", f"components.schemas.{ACR}.x-svc-revision-number", 0),
    ("contracts", f"components.schemas.{ACR}.x-svc-settlement-asset", "DAI"),
    ("contracts", f"components.schemas.{ACR}.properties.tokens.x-svc-position", 100),
    ("contracts", f"components.schemas.{ACR}.properties.tokens.pattern", ".*"),
    ("contracts", "paths", {"a": {}}),
    ("execution", "resource_execution_id", TXN),
]


@pytest.mark.parametrize(("name", "path", "value"), BROKEN, ids=lambda value: str(value)[-40:])
def test_one_wrong_property_is_a_bad_answer(name: str, path: str, value: object) -> None:
    CALLS[name].read(reply(GOOD[name]))
    with pytest.raises(BadAnswer):
        CALLS[name].read(reply(changed(GOOD[name], path, value)))


def test_a_bad_answer_names_what_is_wrong() -> None:
    amount = changed(COMPLETED, "receipt.payment.settled_atomic", "01")
    for body, where in ((amount, r"receipt\.payment\.settled_atomic: "), ([], "body: ")):
        with pytest.raises(BadAnswer, match=f"^HTTP 200: not a CompletionResult: {where}"):
            CALLS["complete"].read(reply(body))


def test_an_unknown_status_is_read_and_kept() -> None:
    body = {
        **COMPLETED,
        "status": "teleporting",
        "receipt": None,
        "payment_response": None,
        "transaction_hash": None,
    }
    assert CALLS["complete"].read(reply(body)).result.status == "teleporting"
    assert CALLS["get"].read(reply({**TRANSACTION, "status": "teleporting"})).status == "teleporting"


def test_completion_gives_the_header_unchanged_and_202_is_an_answer() -> None:
    found = CALLS["complete"].read(reply(COMPLETED, 200, ("Payment-Response", "cHJvb2Y=")))
    assert found.payment_response == "cHJvb2Y="
    pending = changed(
        changed(changed(COMPLETED, "receipt", None), "payment_response", None), "transaction_hash", None
    )
    found = CALLS["complete"].read(reply({**pending, "status": "settling"}, 202))
    assert (found.result.status, found.payment_response) == ("settling", None)
    twice = (("payment-response", "a"), ("Payment-Response", "b"))
    assert CALLS["complete"].read(reply(COMPLETED, 200, *twice)).payment_response is None


def test_access_202_is_pending() -> None:
    for body, found in (
        ({"transaction_id": TXN}, TXN),
        ({}, None),
        ({"transaction_id": "txn_x"}, None),
        (b"<", None),
    ):
        with pytest.raises(PaymentPending) as caught:
            CALLS["access"].read(reply(body, 202, ("Retry-After", "3")))
        assert (caught.value.transaction_id, caught.value.retry_after) == (found, "3")


def test_access_402_carries_the_instructions() -> None:
    error = {"code": "payment_required", "message": "pay"}
    with pytest.raises(PaymentRequired) as caught:
        CALLS["access"].read(reply(error, 402, ("PAYMENT-REQUIRED", "aW4="), ("Retry-After", "1")))
    assert (caught.value.instructions, caught.value.retry_after) == ("aW4=", "1")


ERRORS = [
    (400, "invalid_request", errors.InvalidRequest),
    (401, "unauthenticated", errors.Unauthenticated),
    (402, "payment_required", errors.PaymentRequired),
    (403, "forbidden", errors.Forbidden),
    (404, "transaction_not_found", errors.TransactionNotFound),
    (404, "resource_execution_not_found", errors.ResourceExecutionNotFound),
    (409, "resource_execution_conflict", errors.ResourceExecutionConflict),
    (409, "revision_mismatch", errors.RevisionMismatch),
    (422, "invalid_request", errors.InvalidRequest),
    (500, "internal_error", errors.InternalError),
    # Codes nobody told us of: the status decides.
    (400, "new_code", errors.InvalidRequest),
    (401, "new_code", errors.Unauthenticated),
    (404, "new_code", errors.NotFound),
    (409, "new_code", errors.Conflict),
    (503, "new_code", errors.InternalError),
    (418, "new_code", ApiError),
]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("status", "code", "kind"), ERRORS)
def test_errors_by_code_then_by_status(name: str, status: int, code: str, kind: type[ApiError]) -> None:
    with pytest.raises(ApiError) as caught:
        CALLS[name].read(reply({"code": code, "message": "said", "more": 1}, status))
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.code, caught.value.message) == (status, code, "said")


@pytest.mark.parametrize("status", [400, 401, 404, 500, 502, 503])
@pytest.mark.parametrize(
    "body", [b"", b"<html>Bad Gateway</html>", b"{}", b'{"code":1,"message":"m"}', b"\xff"]
)
def test_an_error_without_the_contracts_body_is_known_by_its_status(status: int, body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        CALLS["get"].read(reply(body, status))
    assert (caught.value.status, caught.value.code) == (status, "unknown")
    assert "html" not in str(caught.value)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("status", [201, 204, 301, 302, 304])
def test_any_other_success_or_a_redirect_is_no_answer_of_the_contract(name: str, status: int) -> None:
    with pytest.raises(ServiceError):
        CALLS[name].read(reply(GOOD[name], status))
    with pytest.raises(BadAnswer):
        CALLS[name].read(reply(b"", status))


# Pages


def test_next_is_followed_unchanged() -> None:
    call = wire.list_payers(ListQuery(page_size=1))
    odd = "/merchant/v1/payers?as_of=2026-01-02T03%3a04%3a05Z&page=2&x=%C3%A9&order=newest&&a"
    following = wire.next_page(call.read(reply(page(PAYER, following=odd))), call)
    assert following is not None
    assert following.request.path == odd
    assert following.request.method == "GET"
    assert following.read is call.read
    assert wire.next_page(call.read(reply(page())), call) is None
    assert datetime.now(UTC) > call.read(reply(page())).as_of
