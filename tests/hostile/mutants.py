"""The rules of money, each weakened in one way, as a hurried hand might write them."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from faregate.core import completion, flow, recovery
from faregate.core.claim_types import PendingPayment
from faregate.core.interfaces import Backend, Flow
from faregate.core.models import Outcome, Response, WorkFailed, WorkSucceeded, header_values
from faregate.core.results import (
    Completion,
    CompletionPaid,
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
    Settlement,
)
from faregate.errors import BadAnswer
from faregate.merchant import backend, interpret
from faregate.merchant.requests import PAYMENT_RESPONSE
from tests.support.mutants import Patch, Read, read_completions, release_on_a_look, release_on_any_2xx
from tests.support.promises import Wrong


def _without_a_look_at_the_id(honest: Read, reply: Response, transaction_id: str) -> Completion:
    try:
        named = json.loads(reply.body)["transaction_id"]
    except (ValueError, KeyError, TypeError):
        named = transaction_id
    return honest(reply, named)


def _202_is_as_good(honest: Read, reply: Response, transaction_id: str) -> Completion:
    return honest(replace(reply, status=200) if reply.status == 202 else reply, transaction_id)


def _402_means_not_paid(honest: Read, reply: Response, transaction_id: str) -> Completion:
    return CompletionUnpaid() if reply.status == 402 else honest(reply, transaction_id)


def _a_refusal_means_not_paid(honest: Read, reply: Response, transaction_id: str) -> Completion:
    read = honest(reply, transaction_id)
    return CompletionUnpaid() if isinstance(read, CompletionRejected) else read


def _nonsense_means_not_paid(honest: Read, reply: Response, transaction_id: str) -> Completion:
    try:
        return honest(reply, transaction_id)
    except BadAnswer:
        return CompletionUnpaid()


def _no_receipt_asked_for(patch: pytest.MonkeyPatch) -> None:
    def lax(reply: Response, result: dict[str, Any], receipt: str) -> CompletionPaid | CompletionUnknown:
        header = reply.first(PAYMENT_RESPONSE)
        return CompletionUnknown("no header") if header is None else CompletionPaid(header, receipt)

    patch.setattr(interpret, "_parse_paid", lax)


def _any_header_will_do(patch: pytest.MonkeyPatch) -> None:
    def lax(reply: Response, name: str) -> str | None:
        return next(iter(header_values(reply.headers, name)), None)

    patch.setattr(interpret, "_find_header", lax)


def _failed_is_failed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(interpret, "_parse_unpaid", lambda _reply, _result: CompletionUnpaid())


def _values_are_made_anew(patch: pytest.MonkeyPatch) -> None:
    """What was used is reported as it is known now, and not as it was recorded."""
    honest, calls = backend._write_completion, itertools.count()

    def write(revision_id: str, outcome: Outcome) -> bytes:
        if isinstance(outcome, WorkSucceeded) and outcome.values:
            outcome = replace(outcome, values=(("tokens", str(1230 + next(calls))),))
        return honest(revision_id, outcome)

    patch.setattr(backend, "_write_completion", write)


def _unread_payers_differ(patch: pytest.MonkeyPatch) -> None:
    """Where it cannot be read who pays, each payment is taken for another payer's."""
    honest = recovery.compare_payers

    def compare_payers(backend: Backend, *transaction_ids: str) -> Flow[bool | None]:
        return bool((yield from honest(backend, *transaction_ids)))

    patch.setattr(flow, "compare_payers", compare_payers)


def _names_are_not_read(patch: pytest.MonkeyPatch) -> None:
    """After a delivery, each payment is a new purchase."""
    patch.setattr(flow, "read_identifier", lambda _request, _proof: "")


def _all_that_is_signed_is_charged(patch: pytest.MonkeyPatch) -> None:
    """The second payment of a named purchase is completed as sold."""
    honest = completion.complete_failure

    def complete_failure(
        backend: Backend, entry: PendingPayment, outcome: WorkFailed, *, sticks_if_refused: bool
    ) -> Flow[Settlement]:
        yield from completion._complete(backend, entry, WorkSucceeded(Response(200)))
        return (yield from honest(backend, entry, outcome, sticks_if_refused=sticks_if_refused))

    patch.setattr(flow, "complete_failure", complete_failure)


UNPAID, AGAIN = Wrong.UNPAID_RELEASE, Wrong.PAY_AGAIN
OTHER_VALUES, OTHER_SUM = "other values were reported", "another sum was charged"
_SECOND, _WHOSE = "fail the second payment of a named one", "look at the payers of a named one"

BROKEN: dict[str, tuple[Patch, str, str, str]] = {
    "no receipt asked for": (_no_receipt_asked_for, "complete", "receipt is", UNPAID),
    "any header will do": (_any_header_will_do, "complete", "proof", UNPAID),
    "any id will do": (read_completions(_without_a_look_at_the_id), "complete", "another payment", UNPAID),
    "202 is as good as 200": (read_completions(_202_is_as_good), "complete", "all is well", UNPAID),
    "any 2xx is good": (release_on_any_2xx, "complete", "status 2", UNPAID),
    "402 means not paid": (read_completions(_402_means_not_paid), "complete", "402", AGAIN),
    "a refusal means not paid": (read_completions(_a_refusal_means_not_paid), "complete", "status 4", AGAIN),
    "nonsense means not paid": (read_completions(_nonsense_means_not_paid), "complete", "status is", AGAIN),
    "failed is failed, whatever else is said": (_failed_is_failed, "complete", "failed, and", AGAIN),
    "values are made anew": (_values_are_made_anew, "complete a use", "another payment", OTHER_VALUES),
    "unread payers differ": (_unread_payers_differ, _WHOSE, "payer is", Wrong.SECOND_EXECUTION),
    "names are not read": (_names_are_not_read, "complete a named one", "status is", OTHER_SUM),
    "both are charged": (_all_that_is_signed_is_charged, _SECOND, "status is", OTHER_SUM),
    "a look is enough to release": (release_on_a_look, "look at an unpaid one", "a perfect lie", UNPAID),
}
"""How; at which call and with which faults the matrix must see it; and what it must see."""
