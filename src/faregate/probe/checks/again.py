"""Access again with a proof that was sent before: the same purchase, or none (decision)."""

import base64
import json

from faregate.probe.fixtures import PENDING, Visit
from faregate.probe.session import transaction_id
from faregate.probe.verdicts import CannotSee, Check, Seen, judged, refused, shown


def _while_open(visit: Visit) -> Seen:
    bought = visit.bench.still_open()
    reply = visit.bench.access(bought.ware, bought.proof)
    same = transaction_id(reply) == bought.id
    return judged(reply.status == 200 and same, f"{shown(reply)}, {_whose(same)}")


def _while_settling(visit: Visit) -> Seen:
    late = visit.late
    same = transaction_id(late.accessed) == late.bought.id
    if late.accessed.status == 402 and visit.transaction(late.bought).status not in PENDING:
        raise CannotSee("the payment was final before access was asked again")
    return judged(late.accessed.status == 202 and same, f"{shown(late.accessed)}, {_whose(same)}")


def _once_final(visit: Visit) -> Seen:
    bought = visit.final
    return refused(visit.bench.access(bought.ware, bought.proof), 402, "payment_required")


def _for_another_resource(visit: Visit) -> Seen:
    bought = visit.bench.still_open()
    reply = visit.bench.access(bought.ware, bought.proof, path="another")
    return refused(reply, 402, "payment_required")


def _in_other_bytes(visit: Visit) -> Seen:
    """The same authorization, as a stranger would write it who read it on the chain."""
    bought = visit.bench.still_open()
    respelled = base64.b64encode(json.dumps(json.loads(base64.b64decode(bought.proof)), indent=1).encode())
    reply = visit.bench.access(bought.ware, respelled.decode("ascii"))
    return refused(reply, 402, "payment_required")


def _whose(same: bool) -> str:
    return "the same transaction" if same else "not the same transaction"


CHECKS = (
    Check("access-again-open", "decision", "200, the same transaction", _while_open),
    Check("access-again-settling", "decision", "202, the same transaction", _while_settling),
    Check("access-again-final", "decision", "402 payment_required", _once_final),
    Check("access-used-elsewhere", "decision", "402 payment_required", _for_another_resource),
    Check("access-other-bytes", "decision", "402 payment_required", _in_other_bytes),
)
