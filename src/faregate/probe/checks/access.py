"""Access: the price, the transaction, and what is refused (spec: POST /merchant/v1/access)."""

from typing import Any

from faregate.core.instructions import are_unguessable
from faregate.core.models import Response
from faregate.merchant.wire import INSTRUCTIONS
from faregate.pay.requirements import NotSigned, parse_payment_required
from faregate.probe.discovery import access_body
from faregate.probe.fixtures import Visit
from faregate.probe.session import unknown_id
from faregate.probe.verdicts import CannotSee, Check, Seen, judged, refused, shown


def _unpaid(visit: Visit) -> Seen:
    reply = visit.bench.access(visit.bench.ware, None)
    try:
        parse_payment_required(reply.first("payment-required") or "")
    except NotSigned:
        return Seen("differs", f"{shown(reply)}, without readable instructions")
    return refused(reply, 402, "payment_required")


def _unguessable(visit: Visit) -> Seen:
    """Two 402s to the same request: what differs in them no stranger can know."""
    replies = [visit.bench.access(visit.bench.ware, None) for _ in range(2)]
    headers = [reply.first(INSTRUCTIONS) for reply in replies if reply.status == 402]
    if len(headers) < 2 or None in headers:
        raise CannotSee(f"there are no two instructions to compare: access is {shown(replies[-1])}")
    fresh = are_unguessable(headers[0] or "", headers[1] or "")
    return judged(fresh, "a fresh value each time" if fresh else "they can be guessed from what is public")


def _paid(visit: Visit) -> Seen:
    bought, reply = visit.bench.enter(visit.bench.ware)
    if reply.status == 402:
        raise CannotSee(f"the payment was not accepted; is there money? It says: {_why(reply)}")
    return judged(bought is not None, f"{shown(reply)}, {'a' if bought else 'no'} transaction")


def _why(reply: Response) -> str:
    """What the instructions of a 402 say, in one line."""
    try:
        error = parse_payment_required(reply.first("payment-required") or "").error or "nothing"
    except NotSigned as unread:
        error = str(unread)
    return "".join(char for char in error[:200] if char.isprintable())


def _not_json(visit: Visit) -> Seen:
    return refused(visit.bench.line.post("/access", b"{"), 400, "invalid_request")


def _missing_field(visit: Visit) -> Seen:
    body = access_body(visit.bench.ware.revision)
    del body["settlement_asset"]
    return refused(visit.bench.line.post("/access", body), 422, "invalid_request")


def _unknown_property(visit: Visit) -> Seen:
    return _with(visit, surprise="1")


def _unknown_revision(visit: Visit) -> Seen:
    return _with(visit, revision_id=unknown_id("acr"))


def _foreign_revision(visit: Visit) -> Seen:
    foreign = visit.bench.foreign_revision
    if foreign is None:
        raise CannotSee("no revision of the other environment is known: say --foreign-revision")
    return _with(visit, revision_id=foreign)


def _with(visit: Visit, **changes: Any) -> Seen:
    reply: Response = visit.bench.line.post("/access", {**access_body(visit.bench.ware.revision), **changes})
    return refused(reply, 422, "invalid_request")


def _authorized(visit: Visit) -> Seen:
    status = visit.transaction(visit.bench.still_open()).status
    return judged(status == "authorized", status or "no status")


CHECKS = (
    Check("access-unpaid", "contract", "402 payment_required, with instructions", _unpaid),
    Check(
        "instructions-unguessable",
        "decision",
        "a fresh value of 128 bits in the extra of every accepts entry",
        _unguessable,
    ),
    Check("access-paid", "contract", "200 with a transaction id", _paid),
    Check("access-not-json", "decision", "400 invalid_request", _not_json),
    Check("access-missing-field", "decision", "422 invalid_request", _missing_field),
    Check("access-unknown-property", "decision", "422 invalid_request", _unknown_property),
    Check("access-unknown-revision", "decision", "422 invalid_request", _unknown_revision),
    Check("access-foreign-revision", "decision", "422 invalid_request", _foreign_revision),
    Check("status-before-completion", "decision", "the status authorized", _authorized),
)
