"""Completions that are refused and leave the transaction open. None of them, if taken, would cost anything,
but for those that leave a value out."""

from collections.abc import Mapping

from faregate.probe.fixtures import Visit
from faregate.probe.session import Bought, unknown_id
from faregate.probe.verdicts import CannotSee, Check, Seen, refused

_TOO_LONG = {"response_content_type": "text/" + "x" * 300}


def _unknown_transaction(visit: Visit) -> Seen:
    bench, bought = visit.bench, visit.bench.still_open()
    path = f"/transactions/{unknown_id('txn')}/complete"
    reply = bench.line.post(path, bought.failed(), proof=bought.proof)
    return refused(reply, 404, "transaction_not_found")


def _no_proof(visit: Visit) -> Seen:
    bought = visit.bench.still_open()
    return refused(visit.bench.send(bought, bought.failed(), None), 422, "invalid_request")


def _other_proof(visit: Visit) -> Seen:
    bought = visit.bench.still_open()
    other = visit.bench.pay(bought.ware)
    return refused(visit.bench.send(bought, bought.failed(), other), 422, "invalid_request")


def _not_json(visit: Visit) -> Seen:
    return refused(visit.bench.complete(visit.bench.still_open(), b"{"), 400, "invalid_request")


def _other_revision(visit: Visit) -> Seen:
    bought = visit.bench.still_open()
    own = bought.ware.revision.revision_id
    other = next((one.revision_id for one in visit.bench.market.revisions if one.revision_id != own), None)
    if other is None:
        raise CannotSee("there is only one active revision")
    return refused(visit.bench.complete(bought, bought.failed(revision_id=other)), 409, "revision_mismatch")


def _no_values(visit: Visit) -> Seen:
    bought = visit.bench.still_open()
    body = bought.succeeded()
    del body["values"]
    return refused(visit.bench.complete(bought, body), 422, "invalid_request")


def _required_value(visit: Visit) -> Seen:
    metered = visit.bench.market.metered
    if metered is None:
        raise CannotSee("no revision with a required value was found")
    bought = visit.bench.buy(metered)
    return refused(visit.bench.complete(bought, bought.succeeded(values={})), 422, "invalid_request")


def _negative(visit: Visit) -> Seen:
    return _metadata(visit, visit.bench.still_open(), {"duration_ms": -1})


def _too_long(visit: Visit) -> Seen:
    return _metadata(visit, visit.bench.still_open(), _TOO_LONG)


def _metadata(visit: Visit, bought: Bought, metadata: Mapping[str, object]) -> Seen:
    reply = visit.bench.complete(bought, bought.failed(resource_execution=metadata))
    return refused(reply, 422, "invalid_request")


CHECKS = (
    Check("complete-unknown", "decision", "404 transaction_not_found", _unknown_transaction),
    Check("complete-no-proof", "decision", "422 invalid_request", _no_proof),
    Check("complete-other-proof", "decision", "422 invalid_request", _other_proof),
    Check("complete-not-json", "decision", "400 invalid_request", _not_json),
    Check("complete-other-revision", "decision", "409 revision_mismatch", _other_revision),
    Check("complete-no-values", "decision", "422 invalid_request", _no_values),
    Check("complete-required-value", "decision", "left out: 422 invalid_request", _required_value),
    Check("complete-negative-metadata", "decision", "422 invalid_request", _negative),
    Check("complete-long-metadata", "decision", "422 invalid_request", _too_long),
)
