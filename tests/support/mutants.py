"""Rules of the product, broken on purpose, in this process: the campaigns must notice each.

Here are those that several campaigns break. Each campaign has others, which only it can reach.
"""

from collections.abc import Callable
from typing import Any

import pytest

from faregate.core import completion, flow, recovery
from faregate.core.claim_types import PendingPayment
from faregate.core.interfaces import Backend, Flow
from faregate.core.models import PaidRequest, Response, WorkSucceeded
from faregate.core.results import Completion, CompletionPaid, PaymentProven, Settlement
from faregate.merchant import backend, interpret

Patch = Callable[[pytest.MonkeyPatch], None]
Read = Callable[[Response, str], Completion]


def complete_before_outcome(patch: pytest.MonkeyPatch) -> None:
    """The service is told what the journal does not know yet."""
    honest = completion.report_success

    def report_success(
        backend: Backend, entry: PendingPayment, outcome: WorkSucceeded, request: PaidRequest
    ) -> Flow[Settlement]:
        yield from completion._complete(backend, entry, outcome)
        return (yield from honest(backend, entry, outcome, request))

    patch.setattr(flow, "report_success", report_success)


def release_on_a_look(patch: pytest.MonkeyPatch) -> None:
    """What the service says of a payment is taken for the proof of it."""

    def complete_success(
        _backend: Backend, payment: PendingPayment, outcome: Any, **_: Any
    ) -> Flow[Settlement]:
        yield from ()
        return PaymentProven(outcome.result, "bm8=")

    patch.setattr(recovery, "complete_success", complete_success)


def read_completions(change: Callable[[Read, Response, str], Completion]) -> Patch:
    """`change` reads replies to complete. It is given the honest way to read them, and what that is given."""
    honest = interpret.parse_completion

    def read(reply: Response, transaction_id: str) -> Completion:
        return change(honest, reply, transaction_id)

    return lambda patch: patch.setattr(backend, "parse_completion", read)


def _any_2xx(honest: Read, reply: Response, transaction_id: str) -> Completion:
    return CompletionPaid("bm8=", "{}") if 200 <= reply.status < 300 else honest(reply, transaction_id)


release_on_any_2xx = read_completions(_any_2xx)
