"""For each check of the probe a service that decides exactly that otherwise."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from faregate.core.models import Response
from faregate.emulator import Emulator
from faregate.emulator.faults.apply import remove_challenges
from tests.probe.wrong_services import (
    EMPTY_LIST,
    Call,
    Truth,
    WrongAnswer,
    change_matching,
    error,
    replace_matching,
    replace_status,
    respond_with,
)
from tests.support.headers import decode_header
from tests.support.replies import with_fields, with_status

_EMULATOR = Emulator()
OWN = {_EMULATOR.revision_id(one.key) for one in _EMULATOR.account.resources}
FOREIGN = {_EMULATOR.revision_id(one.key, "live") for one in _EMULATOR.account.resources}
SUMMARY = _EMULATOR.revision_id("text_summary")
OTHER_ID = "rex_019b76da800070008000000000000001"


def unheard_of(call: Call) -> bool:
    """Whether the revision is one that nobody has, in neither environment."""
    return call.body.get("revision_id") not in FOREIGN | OWN and call.body.get("surprise") is None


def unproven_at_first(call: Call, truth: Truth) -> Response:
    real = truth()
    if COMPLETE(call) and not call.again() and real.status == 200:
        kept = tuple(pair for pair in real.headers if pair[0].lower() != "payment-response")
        return replace(real, headers=kept)
    return real


def one_use(call: Call, truth: Truth) -> Response:
    """A proof is looked at once, also while its transaction is open."""
    real = truth()
    return error(409) if ACCESS(call) and call.proof and call.again() and real.status == 200 else real


def knows_by_nonce(call: Call, truth: Truth) -> Response:
    """Another spelling of a proof is the proof that was sent first."""
    if not (ACCESS(call) and call.proof):
        return truth()
    try:
        nonce = decode_header(call.proof)["payload"]["authorization"]["nonce"]
    except (ValueError, KeyError):
        return truth()
    first = next((known.partition(" ")[2] for known in call.memory if known.startswith(nonce)), call.proof)
    call.memory.add(f"{nonce} {first}")
    headers = (pair for pair in call.request.headers if pair[0].lower() != "payment-signature")
    return truth(replace(call.request, headers=(*headers, ("payment-signature", first))))


def never_repeats(call: Call, truth: Truth) -> Response:
    real = truth()
    took = call.body.get("outcome") == "succeeded" and real.status == 200
    return error(409) if COMPLETE(call) and took and call.again() else real


def never_repeats_pending(call: Call, truth: Truth) -> Response:
    real = truth()
    return error(409) if COMPLETE(call) and real.status == 202 and call.again() else real


def used_up(call: Call, truth: Truth) -> Response:
    real = truth()
    if ACCESS(call) and call.proof and call.body["resource"]["url"].endswith("/probe"):
        return error(409) if call.again() and real.status == 402 else real
    return real


def shows_keys(call: Call, truth: Truth) -> Response:
    real = truth()
    if call.operation != "contracts" or call.query:
        return real
    body = json.loads(real.body)
    for schema in body["components"]["schemas"].values():
        schema["x-svc-revision-key"] = None
    return replace(real, body=json.dumps(body).encode())


def wants_metadata(call: Call) -> bool:
    return call.body.get("outcome") == "succeeded" and "resource_execution" not in call.body


def wants_values(call: Call) -> bool:
    return call.body.get("revision_id") == SUMMARY and call.body.get("values") == {}


def without_values(call: Call) -> bool:
    return call.body.get("outcome") == "succeeded" and "values" not in call.body


def metadata(call: Call) -> dict[str, Any]:
    found: dict[str, Any] = call.body.get("resource_execution") or {}
    return found


def other_proof(call: Call) -> bool:
    return COMPLETE(call) and call.proof is not None and "failure_code" in call.body and not metadata(call)


def elsewhere(call: Call) -> bool:
    url: str = call.body.get("resource", {}).get("url", "")
    return url.endswith("/another")


def of(operation: str) -> Callable[[Call], bool]:
    return lambda call: call.operation == operation


ACCESS, EXECUTION = of("access"), of("complete resource-executions")
COMPLETE, TRANSACTION, TRANSACTIONS = of("complete transactions"), of("transaction"), of("transactions")
SUCCEEDED, FAILED = '"status":"succeeded"', '"status":"failed"'

WRONG_ANSWERS: dict[str, WrongAnswer] = {
    # Keys
    "list-no-key": replace_status(401, TRANSACTIONS, error(403, "forbidden")),
    "access-no-key": replace_status(
        401, lambda call: ACCESS(call) and call.key is None, error(403, "forbidden")
    ),
    "access-wrong-key": replace_status(401, lambda call: ACCESS(call) and call.key is not None, error(403)),
    "access-forbidden": replace_status(403, ACCESS, error(404)),
    "complete-no-key": replace_status(401, COMPLETE, error(403, "forbidden")),
    "complete-forbidden": replace_status(403, COMPLETE, error(401, "unauthenticated")),
    # Access
    "access-unpaid": change_matching(
        402, lambda call: ACCESS(call) and not call.proof, with_fields(code="pay_first")
    ),
    "instructions-unpredictable": change_matching(402, ACCESS, remove_challenges),
    "access-paid": change_matching(200, ACCESS, with_status(201), "txn_"),
    "access-not-json": replace_status(400, ACCESS, error(422)),
    "access-missing-field": replace_status(
        422, lambda call: ACCESS(call) and "settlement_asset" not in call.body, error(400)
    ),
    "access-unknown-property": replace_status(
        422, lambda call: "surprise" in call.body, error(402, "payment_required")
    ),
    "access-unknown-revision": replace_status(
        422, lambda call: ACCESS(call) and unheard_of(call), error(404)
    ),
    "access-foreign-revision": replace_status(
        422, lambda call: call.body.get("revision_id") in FOREIGN, error(403, "forbidden")
    ),
    "status-before-completion": change_matching(
        200, TRANSACTION, with_fields(status="open"), '"status":"authorized"'
    ),
    # Access again
    "access-again-open": one_use,
    "access-again-settling": change_matching(202, ACCESS, with_status(200)),
    "access-again-final": used_up,
    "access-used-elsewhere": replace_status(402, elsewhere, respond_with(transaction_id=None)),
    "access-other-bytes": knows_by_nonce,
    # Complete, refused
    "complete-unknown": replace_status(404, COMPLETE, error(404)),
    "complete-no-proof": replace_status(422, lambda call: COMPLETE(call) and not call.proof, error(400)),
    "complete-other-proof": replace_status(422, other_proof, error(409)),
    "complete-not-json": replace_status(400, COMPLETE, error(422)),
    "complete-other-revision": change_matching(409, COMPLETE, with_status(422), "revision_mismatch"),
    "complete-no-values": replace_status(422, without_values, respond_with()),
    "complete-required-value": replace_status(
        422, lambda call: call.body.get("values") == {}, respond_with()
    ),
    "complete-negative-metadata": replace_status(
        422, lambda call: "duration_ms" in metadata(call), respond_with()
    ),
    "complete-long-metadata": replace_status(
        422, lambda call: "response_content_type" in metadata(call), respond_with()
    ),
    # Complete, taken
    "complete-succeeded": unproven_at_first,
    "complete-failed": change_matching(200, COMPLETE, with_fields(transaction_hash="0x01"), FAILED),
    "complete-no-metadata": replace_matching(wants_metadata, error(422)),
    "complete-empty-values": replace_matching(wants_values, error(422)),
    "complete-again-final": never_repeats,
    "complete-other-outcome": change_matching(409, COMPLETE, with_status(200), "invalid_request"),
    "complete-settling": change_matching(202, COMPLETE, with_status(200)),
    "complete-again-settling": never_repeats_pending,
    # Free
    "free-access": replace_status(200, lambda call: ACCESS(call) and not call.proof, respond_with()),
    "free-execution-id": change_matching(200, ACCESS, with_fields(price="0"), '"transaction_id":null'),
    "execution-closed": change_matching(200, EXECUTION, with_fields(resource_execution_id=OTHER_ID)),
    "execution-conflict": change_matching(409, EXECUTION, with_status(200), "resource_execution_conflict"),
    "execution-other-revision": change_matching(409, EXECUTION, with_status(422), "revision_mismatch"),
    "execution-unknown": replace_status(404, EXECUTION, error(404)),
    # Reads
    "transaction-succeeded": change_matching(200, TRANSACTION, with_fields(receipt=None), SUCCEEDED),
    "transaction-failed": change_matching(200, TRANSACTION, with_fields(status="cancelled"), FAILED),
    "transaction-unknown": replace_status(404, TRANSACTION, error(403, "forbidden")),
    "list-pages": change_matching(200, lambda call: "page=2" in call.query, with_fields(count=1000)),
    "list-page-size": replace_status(
        422, lambda call: "page_size=101" in call.query, respond_with(**EMPTY_LIST)
    ),
    "list-future": replace_status(422, lambda call: "as_of=" in call.query, respond_with(**EMPTY_LIST)),
    "status-filter": replace_status(200, lambda call: "status=reconciling" in call.query, error(422)),
    "status-filter-unknown": replace_status(
        422, lambda call: "status=" in call.query, respond_with(**EMPTY_LIST)
    ),
    "contracts-document": change_matching(
        200, lambda call: call.operation == "contracts" and not call.query, with_fields(openapi="3.0.0")
    ),
    "contracts-keys": shows_keys,
}
