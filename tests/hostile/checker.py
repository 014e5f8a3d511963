"""What must never happen, whatever a service does; and what must have become of a sale in the end."""

import json
import re

from faregate.emulator import TEST_KEY
from tests.hostile.case import Case, Seen
from tests.hostile.faults.statuses import INNER
from tests.hostile.forgery import LIE
from tests.hostile.sellers import CONTENT, PRICES
from tests.support.promises import Wrong

SECRETS = (TEST_KEY, INNER, LIE, "Traceback", "127.0.0.1", "faregate", "httpx", "pydantic", "_error")
NEVER_MET = "the fault was never met"
OPEN = ("authorized", "settling", "reconciling", "succeeded")


def look_at(case: Case, seen: Seen, proven: bool) -> None:
    """One answer to a payer, at the moment it came."""
    # The name of this header is documented to tell what the seller uses; nothing else may.
    headers = re.sub("faregate-transaction", "", repr(seen.headers), flags=re.IGNORECASE)
    whole = seen.body.decode(errors="replace") + headers
    if seen.status == 0:
        case.wrong("no answer")
    elif CONTENT in whole:
        _released(case, seen)
    else:
        _withheld(case, seen, proven)
    case.wrongs += [f"{secret!r} was told" for secret in SECRETS if secret.lower() in whole.lower()]


def _released(case: Case, seen: Seen) -> None:
    proofs = seen.values("payment-response")
    if case.call.path == "/free":
        if (seen.status, proofs) != (200, []):
            case.wrong(f"free, as {seen.status} with {proofs}")
        case.delivered = True
        return
    settled = case.transaction.settled if case.transaction is not None else None
    if case.status != "succeeded" or settled is None:
        case.wrong(Wrong.UNPAID_RELEASE, case.status)
    elif proofs != [settled.payment_response]:
        case.wrong("released with another proof of payment")
    case.delivered = True


def _withheld(case: Case, seen: Seen, proven: bool) -> None:
    if seen.values("payment-response"):
        case.wrong("a proof of payment without what was paid for")
    unsold = case.call.path == "/refusing" and seen.status == 404
    if seen.values("x-own") and not unsold:
        case.wrong("a header of what is not paid for")
    if seen.values("cache-control") != ["private, no-store"]:
        case.wrong(f"caches may keep {seen.status}")
    if seen.status == 402:
        _asked_to_pay(case, seen, proven)
    elif seen.status != 202 and not unsold and not _is_ours(seen):
        case.wrong(f"an exception: {seen.status} {seen.body[:80]!r}")


def _asked_to_pay(case: Case, seen: Seen, proven: bool) -> None:
    if len(seen.values("payment-required")) != 1:
        case.wrong("402 and nothing to pay")
    # Work that gave nothing to sell is never reported as anything else: its payment is not taken.
    if proven and case.status in (OPEN[1:] if case.call.path == "/refusing" else OPEN):
        case.wrong(Wrong.PAY_AGAIN, case.status)
    case.must_pay_anew = proven


def _is_ours(seen: Seen) -> bool:
    try:
        body = json.loads(seen.body)
    except ValueError:
        return False
    return isinstance(body, dict) and {"code", "message"} <= set(body) <= {
        "code",
        "message",
        "transaction_id",
    }


def look_back(case: Case) -> None:
    """When the service was well for long enough."""
    case.wrongs += case.service.mistakes
    if not case.met:
        case.wrong(NEVER_MET)
    told = [transaction for transaction, _ in case.service.outcomes]
    if len(told) > len(set(told)):
        case.wrong(Wrong.CONTRADICTION)
    reported = [transaction for transaction, _ in case.service.reported]
    if len(reported) > len(set(reported)):
        case.wrong("other values were reported of the same work", f"{case.service.reported}")
    expected = PRICES.get(case.call.path, 0) if case.status == "succeeded" else 0
    if case.charged != expected:
        case.wrong("another sum was charged", f"{case.charged}, and not {expected}")
    owed, stuck = case.holds()
    if owed:
        case.wrong(Wrong.NOT_FINAL, f"{owed}")
    if stuck - case.ear.stuck:
        case.wrong("stuck and not reported", f"{stuck}")
    if case.status == "succeeded" and not case.delivered:
        case.wrong(Wrong.NOT_DELIVERED)
    if case.status in ("settling", "reconciling"):
        case.wrong(Wrong.NOT_FINAL, case.status)
