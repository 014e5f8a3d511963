"""What can be wrong with what is said of a payment: to access, to complete, to a look."""

from collections.abc import Iterator
from typing import Any

from faregate.core.models import Response
from tests.hostile.faults import ONLY_AFTER, spoken, twisted
from tests.hostile.faults.fields import GONE, JUNK, NEVER, OTHER, SOME, answering, brief, field, odd, paths
from tests.hostile.faults.framing import says, trailing
from tests.hostile.forgery import LIE
from tests.hostile.service import NamedFault
from tests.merchant.samples import RECEIPT, SETTLEMENT, TAIL
from tests.support.replies import JSON, json_reply, with_body, with_fields, with_header, without

IDS = (*JUNK, OTHER, f"rex_{TAIL}", f"TXN_{TAIL}", f" {OTHER}", f"{OTHER}\n", f"{OTHER}0", [OTHER])
STATUSES = (
    *JUNK,
    "Succeeded",
    "SUCCEEDED",
    "succeeded ",
    ["succeeded"],
    "authorized",
    "settling",
    "invented",
)
PROOF = "PAYMENT-RESPONSE"
SIGNS: tuple[dict[str, Any], ...] = (
    {"receipt": None, "payment_response": None},
    {"receipt": None, "transaction_hash": None},
    {"payment_response": None, "transaction_hash": None},
    {"receipt": None, "payment_response": None, "transaction_hash": None},
)
"""What may be missing of a payment's signs, so that some are left; of the last, the header."""


def of_access() -> Iterator[NamedFault]:
    yield from field("transaction_id", [value for value in IDS if value is not None])
    yield from answering("202 and no words", Response(202))
    yield from answering("202 and other words", Response(202, JSON, b'{"status":"settling"}'))
    yield from answering("202 and null", Response(202, JSON, b'{"transaction_id":null}'))
    yield from answering("402 and nothing to pay", Response(402, JSON, b'{"code":"payment_required"}'))
    for header in ("", " ", "a b", "\xff", "x" * 20_000):
        reply = Response(402, (*JSON, ("PAYMENT-REQUIRED", header)), b"{}")
        yield from answering(f"402 and {header!r:.9}", reply)
    two = (("PAYMENT-REQUIRED", "YQ=="), ("PAYMENT-REQUIRED", "Yg=="))
    yield from answering("402 twice", Response(402, (*JSON, *two), b"{}"))


def of_complete() -> Iterator[NamedFault]:
    yield from twisted("no proof", without(PROOF))
    yield from twisted(
        "an old proof's name", lambda reply: with_header("X-" + PROOF, LIE)(without(PROOF)(reply))
    )
    yield from twisted(
        "the proof twice", lambda reply: reply.plus((PROOF, reply.first("payment-response") or ""))
    )
    yield from twisted("two proofs", lambda reply: reply.plus((PROOF, LIE)))
    yield from spoken("the proof in the trailer", says(trailing))
    for value in ("", " ", "a b", "\t", "\xff", "x" * 20_000):
        yield from twisted(f"the proof is {value!r:.9}", with_header(PROOF, value))
    yield from field("transaction_id", IDS)
    yield from field("status", STATUSES)
    yield from field("receipt", JUNK)
    for path in sorted(paths(RECEIPT)):
        yield from odd(f"receipt.{path}", NEVER)
    for name in ("payment_response", "transaction_hash"):
        yield from odd(name, JUNK)
    elsewhere = {"transaction_id": OTHER, "receipt": RECEIPT | {"transaction_id": OTHER}}
    yield from twisted("of another payment, all of it", with_fields(**elsewhere))
    for signs in SIGNS:
        change = {"status": "failed", **signs}
        yield from twisted(f"failed, and {sorted(signs)} gone", with_fields(**change))


AMOUNTS: tuple[Any, ...] = (
    *JUNK,
    *("-1", "NaN", "Infinity", "1e3", "0", "1", "12299", "12301", "500001", "1" * 40, "\u0661"),
    *(-1, float("nan"), 10**400),
)
"""What the service may say that was charged for a use of 12,300, and did not charge."""


def of_used_complete() -> Iterator[NamedFault]:
    """Amounts prove nothing and refute nothing: the receipt is there, and the payer is shown what it says."""
    for name in ("settled_atomic", "authorized_atomic"):
        yield from odd(f"receipt.payment.{name}", AMOUNTS)
    yield from odd("receipt.price.calculation_mode", (*JUNK, "fixed", "Usage"))
    yield from answering("409 other values", json_reply(409, OTHER_VALUES))
    yield from answering("422 a value is missing", json_reply(422, MISSING_VALUE))
    elsewhere = {"transaction_id": OTHER, "receipt": RECEIPT | {"transaction_id": OTHER}}
    yield from twisted("of another payment, all of it", with_fields(**elsewhere))


def of_used_transaction() -> Iterator[NamedFault]:
    """What a look at an unpaid use says of its amounts."""
    yield from twisted("a perfect lie", lambda reply: reply, ("before",))
    for name in ("settled_atomic", "authorized_atomic"):
        yield from field(name, AMOUNTS, ("after",))
    yield from twisted("settled, and still authorized", with_fields(settled_atomic="12300"), ("after",))


OTHER_VALUES = {"code": "invalid_request", "message": "the transaction was completed with other values"}
MISSING_VALUE = {"code": "invalid_request", "message": "values.tokens is required by the revision"}


def of_named_complete() -> Iterator[NamedFault]:
    """What is said of the first payment of a named purchase, of the second one, or of both."""
    yield from twisted("no proof", without(PROOF))
    yield from field("status", STATUSES)
    elsewhere = {"transaction_id": OTHER, "receipt": RECEIPT | {"transaction_id": OTHER}}
    yield from twisted("of another payment, all of it", with_fields(**elsewhere))
    for signs in SIGNS:
        change = {"status": "failed", **signs}
        yield from twisted(f"failed, and {sorted(signs)} gone", with_fields(**change))


def of_named_fail() -> Iterator[NamedFault]:
    """What is said of the second payment, which is not charged."""
    yield from field("status", [*STATUSES, "succeeded"])
    yield from field("receipt", [RECEIPT])
    yield from answering("409 settled", json_reply(409, SETTLED))
    yield from twisted("failed, and with a proof", with_header(PROOF, LIE))


def of_named_transaction() -> Iterator[NamedFault]:
    """What is said of whose the payments are. Whom the service names is believed, however it is written."""
    yield from field("id", IDS, ("after",))
    yield from field("payer", NO_PAYERS, ("after",))
    yield from twisted("payer in upper case", with_body(_in_upper_case), ("after",))


NO_PAYERS: tuple[Any, ...] = (GONE, None, 0, 1.5, True, [], {}, ["x"], "")
SETTLED = {"code": "transaction_settled", "message": "the transaction has settled"}


def _in_upper_case(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "payer": str(body["payer"]).upper()} if "payer" in body else body


def of_fail() -> Iterator[NamedFault]:
    yield from field("transaction_id", IDS)
    yield from field("status", [*STATUSES, "succeeded"])
    for name in ("payment_response", "receipt", "transaction_hash"):
        yield from field(name, [value for value in JUNK if value is not None])
    yield from field("receipt", [RECEIPT])
    yield from twisted("failed, and with a proof", with_header(PROOF, LIE))


def of_transaction(paid: bool) -> Iterator[NamedFault]:
    """`paid`: whether the truth has a receipt in which something can be wrong."""
    with_signs = ("before", "after") if paid else ("before",)
    yield from field("id", IDS)
    yield from twisted("a perfect lie", lambda reply: reply, ("before",))
    yield from field("status", STATUSES)
    yield from field("receipt", [value for value in JUNK if value is not GONE])
    yield from field("receipt.transaction_id", IDS, with_signs)
    elsewhere = {"id": OTHER, "receipt": RECEIPT | {"transaction_id": OTHER}, "status": "succeeded"}
    yield from twisted("of another payment, all of it", with_fields(**elsewhere))
    for name in ("payer", "payment_request_id", "created_at"):
        yield from field(name, NEVER)
    for name in SETTLEMENT:
        yield from field(name, (0, [], {}, "x"))
    for change in ({"status": "failed"}, {"status": "failed", "receipt": None}):
        twist = with_fields(**change)
        yield from twisted(f"failed, and yet settled, {len(change)}", twist, with_signs)


def of_execution() -> Iterator[NamedFault]:
    return field("resource_execution_id", IDS, ONLY_AFTER)


def of_ask() -> Iterator[NamedFault]:
    yield from twisted("nothing to pay", without("PAYMENT-REQUIRED"), ONLY_AFTER)
    yield from twisted("to pay twice", lambda reply: reply.plus(("PAYMENT-REQUIRED", "YQ==")), ONLY_AFTER)
    for value in ("", " ", "a b", "\xff", "x" * 20_000):
        yield from twisted(f"to pay {value!r:.9}", with_header("PAYMENT-REQUIRED", value), ONLY_AFTER)
    for wrong in IDS:
        body = {} if wrong is GONE else {"transaction_id": wrong}
        if wrong is not None:
            yield from answering(
                f"free, by {brief(wrong)}, {type(wrong).__name__}", json_reply(200, body), ONLY_AFTER
            )
    yield from twisted(
        "to be waited for", lambda _: Response(202, JSON, b'{"transaction_id":null}'), ONLY_AFTER
    )


def of_contracts(revision_id: str) -> Iterator[NamedFault]:
    revision = f"components.schemas.{revision_id}"
    for path in ("openapi", "info", "info.version", "paths", "components", "components.schemas", "security"):
        yield from field(path, SOME, ONLY_AFTER)
    for name in ("title", "type", "additionalProperties", "properties", "required"):
        yield from field(f"{revision}.{name}", SOME, ONLY_AFTER)
    for name in (
        "revision-id",
        "revision-number",
        "resource-id",
        "settlement-asset",
        "resource-integration-key",
    ):
        yield from field(f"{revision}.x-svc-{name}", (*SOME, OTHER, -1, "EURC"), ONLY_AFTER)
    yield from field(revision, SOME, ONLY_AFTER)
