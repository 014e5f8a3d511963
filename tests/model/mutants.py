"""Each rule that keeps a payment safe, broken on purpose. Whoever searches must find every one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from faregate.core.claim_types import AlreadyUsed, Claim, Claimed, Lease
from faregate.errors import JournalError
from faregate.journals import memory, row_rules
from faregate.journals.durations import JournalPolicy
from faregate.journals.memory import MemoryJournal
from faregate.journals.row_rules import Holder, Row
from faregate.journals.states import RowState
from tests.core.steps import sweep
from tests.model import mutated_flows
from tests.model.mutated_flows import Wrap
from tests.model.scope import ANEW, FIRST, Flows, Scope
from tests.support.mutants import Patch, complete_before_outcome, release_on_a_look

SMALL = Scope("two requests", crashes=1)
ENCODED = Scope("two encodings", proofs=(FIRST, ANEW), crashes=0, courses=())


@dataclass(frozen=True)
class Mutant:
    """`plant` changes a journal's rule; `wrap` stands between a flow and its backend."""

    name: str
    plant: Patch = lambda _: None
    wrap: Wrap = lambda flow: flow
    scope: Scope = SMALL

    @contextmanager
    def flows(self) -> Iterator[Flows]:
        plain = Flows()
        with pytest.MonkeyPatch.context() as patch:
            self.plant(patch)
            yield Flows(lambda proof: self.wrap(plain.request(proof)), lambda: self.wrap(sweep()))


def _no_claim(patch: pytest.MonkeyPatch) -> None:
    def claimed(
        row: Row, _print: Any, _replay: Any, now: float, policy: JournalPolicy, holder: Holder, _until: float
    ) -> Claim:
        row.state, row.expires_at = RowState.CLAIMED, now + policy.claim_lease
        return Claimed(row.lease_to(holder, now + policy.claim_lease, now))

    patch.setattr(Row, "claim_again", claimed)


def _worked_again(patch: pytest.MonkeyPatch) -> None:
    claim_again = Row.claim_again

    def claimed(row: Row, fingerprint: Any, replay: Any, now: float, *others: Any) -> Claim:
        if row.state is RowState.RUNNING and row.lease_until <= now:
            row.state = RowState.UNSTARTED
        return claim_again(row, fingerprint, replay, now, *others)

    patch.setattr(Row, "claim_again", claimed)


def _no_running_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryJournal, "record_transaction", lambda *_: True)


def _decided_by_anybody(patch: pytest.MonkeyPatch) -> None:
    def decide(row: Row, lease: Lease, outcome: Any, now: float, policy: JournalPolicy) -> bool:
        row.fence, row.state, row.outcome = lease.fence, RowState.RUNNING, None
        return plain(row, lease, outcome, now, policy)

    plain = Row.record_outcome
    patch.setattr(Row, "record_outcome", decide)


def _started_by_anybody(patch: pytest.MonkeyPatch) -> None:
    def may_start(row: Row, lease: Lease, transaction_id: str) -> bool:
        return row.state in (RowState.CLAIMED, RowState.UNSTARTED, RowState.RUNNING)

    patch.setattr(Row, "may_start", may_start)


def _swept_under_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Row, "is_due", lambda row, now: row.expires_at is None)


def _forgotten_when_held(patch: pytest.MonkeyPatch) -> None:
    def hold(journal: MemoryJournal, lease: Lease) -> bool:
        journal._forget(journal._rows.find(lease.key))
        return True

    patch.setattr(MemoryJournal, "schedule_retry", hold)


def _two_rows_for_one_payment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryJournal, "_may_have_transaction", lambda *_: True)


def _id_of_the_slow_one_is_lost(patch: pytest.MonkeyPatch) -> None:
    def learned(journal: MemoryJournal, *known: Any, waits: bool) -> None:
        try:
            plain(journal, *known, waits=waits)
        except JournalError:
            return

    plain = MemoryJournal._learn_transaction
    patch.setattr(Row, "learn_transaction", lambda *_: False)
    patch.setattr(MemoryJournal, "_learn_transaction", learned)


def _never_due(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Row, "is_due", lambda *_: False)


def _delivered_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Row, "_replay", lambda row, *_: AlreadyUsed(row.transaction_id))


def _never_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Row, "record_settlement", lambda *_: False)


def _no_purchase(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory, "hash_purchase", lambda *_: "")


def _forgets_what_it_was_given_up_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_rules, "find_resumed", lambda _: "")


def _named_until_delivered(patch: pytest.MonkeyPatch) -> None:
    def free_purchase(row: Row, failed: bool = False) -> None:
        row.purchase = ""

    patch.setattr(Row, "_free_purchase_unless_named", free_purchase)


RESUMPTIONS = (
    Mutant("two payments of one payer run", _no_purchase),
    Mutant("a payment that was given up leads nowhere", _forgets_what_it_was_given_up_for),
    Mutant("a name is forgotten with the delivery", _named_until_delivered),
)
"""These need two payments."""

MUTANTS = (
    Mutant("every claim is fresh", _no_claim),
    Mutant("work that was interrupted is done again", _worked_again),
    Mutant("no mark that the work runs", _no_running_mark),
    Mutant("whoever comes decides, and decides again", _decided_by_anybody),
    Mutant("whoever comes starts", _started_by_anybody),
    Mutant("the sweep takes rows under lease", _swept_under_lease),
    Mutant("a row is dropped after its start", _forgotten_when_held),
    Mutant("two rows for one payment", _two_rows_for_one_payment, scope=ENCODED),
    Mutant("the id that a slow request learned is lost", _id_of_the_slow_one_is_lost),
    Mutant("nothing is ever due", _never_due),
    Mutant("a result is handed out once", _delivered_once),
    Mutant("a settled row is not written", _never_released),
    Mutant("told before it is written", complete_before_outcome),
    Mutant("released on a 202", wrap=mutated_flows.released_on_202),
    Mutant("released on a GET", release_on_a_look),
    Mutant("a fresh 402 while unconfirmed", wrap=mutated_flows.fresh_402),
    Mutant("a 402 that a newer request made untrue", wrap=mutated_flows.any_402),
    Mutant(
        "a 402 for another encoding of a payment", wrap=mutated_flows.deaf_to_other_encodings, scope=ENCODED
    ),
    Mutant("who lost the decision goes on", wrap=mutated_flows.deaf_to_a_lost_decision),
    Mutant("who could not start works", wrap=mutated_flows.deaf_to_a_refused_start),
    Mutant("a failed complete counts as paid", wrap=mutated_flows.released_without_an_answer),
)
