"""The product with one of its rules taken out, in a process of the shop: the campaign must notice each."""

from collections.abc import Callable
from typing import Any

from faregate.core import completion, flow
from faregate.core.claims import Claim, Claimant, Lease, PendingPayment
from faregate.core.models import Outcome, Response, Succeeded
from faregate.core.results import Completion, CompletionPaid, Settlement
from faregate.core.steps import Flow
from faregate.journals.operations import Delete, Find, Procedure
from faregate.journals.procedures import Procedures
from faregate.merchant import backend
from faregate.merchant.interpret import parse_completion


def break_it(name: str) -> None:
    """In this process, from now on; an empty name breaks nothing."""
    if name:
        VARIANTS[name]()


def _no_claim() -> None:
    """Every proof is taken for a new one."""
    claim = Procedures.claim

    def claimed(self: Procedures, proof: str, claimant: Claimant) -> Procedure[Claim]:
        record = yield Find(list(self._rows.keyring.lookup_keys(proof, claimant)))
        if record is not None:
            yield Delete(record["key"], record["stamp"])
        return (yield from claim(self, proof, claimant))

    _put(Procedures, "claim", claimed)


def _no_fence() -> None:
    """Who lost its lease goes on as if its writes had not been refused."""
    start, decide = Procedures.record_transaction, Procedures.record_outcome

    def started(self: Procedures, *arguments: Any) -> Procedure[bool]:
        yield from start(self, *arguments)
        return True

    def decided(self: Procedures, lease: Lease, outcome: Outcome) -> Procedure[bool]:
        yield from decide(self, lease, outcome)
        return True

    _put(Procedures, "record_transaction", started)
    _put(Procedures, "record_outcome", decided)


def _complete_before_outcome() -> None:
    """The service is told what the journal does not know yet."""
    report_success = completion.report_success

    def told_first(entry: PendingPayment, outcome: Succeeded) -> Flow[Settlement]:
        yield from completion._complete(entry, outcome)
        return (yield from report_success(entry, outcome))

    _put(flow, "report_success", told_first)


def _release_on_any_2xx() -> None:
    """Whatever is no refusal is taken for paid."""

    def believed(reply: Response, transaction_id: str) -> Completion:
        if 200 <= reply.status < 300:
            return CompletionPaid("cGFpZA==", "{}")
        return parse_completion(reply, transaction_id)

    _put(backend, "parse_completion", believed)


def _put(where: Any, name: str, what: Any) -> None:
    setattr(where, name, what)


VARIANTS: dict[str, Callable[[], None]] = {
    "no-claim": _no_claim,
    "no-fence": _no_fence,
    "complete-before-outcome": _complete_before_outcome,
    "release-on-any-2xx": _release_on_any_2xx,
}
