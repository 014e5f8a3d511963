"""The product with one of its rules taken out, in a process of the seller: the campaign must notice each.

The model breaks rules of `Row`. Here that would not show: a real store refuses the rows that come of it.
"""

from typing import Any

import pytest

from faregate.core.claim_types import Claim, Claimant, Lease
from faregate.core.models import Outcome
from faregate.journals.procedures import Procedures
from faregate.journals.row_operations import Delete, Find, Procedure
from tests.support.mutants import Patch, complete_before_outcome, release_on_any_2xx


def break_it(name: str) -> None:
    """In this process, from now on; an empty name breaks nothing."""
    if name:
        VARIANTS[name](pytest.MonkeyPatch())


def _no_claim(patch: pytest.MonkeyPatch) -> None:
    """Every proof is taken for a new one."""
    claim = Procedures.claim

    def claimed(self: Procedures, proof: str, claimant: Claimant) -> Procedure[Claim]:
        record = yield self._rows.perform(Find(list(self._rows.keyring.lookup_keys(proof, claimant))))
        if record is not None:
            yield self._rows.perform(Delete(record["key"], record["stamp"]))
        return (yield from claim(self, proof, claimant))

    patch.setattr(Procedures, "claim", claimed)


def _no_fence(patch: pytest.MonkeyPatch) -> None:
    """Who lost its lease goes on as if its writes had not been refused."""
    start, decide = Procedures.record_transaction, Procedures.record_outcome

    def started(self: Procedures, *arguments: Any) -> Procedure[bool]:
        yield from start(self, *arguments)
        return True

    def decided(self: Procedures, lease: Lease, outcome: Outcome) -> Procedure[bool]:
        yield from decide(self, lease, outcome)
        return True

    patch.setattr(Procedures, "record_transaction", started)
    patch.setattr(Procedures, "record_outcome", decided)


VARIANTS: dict[str, Patch] = {
    "no-claim": _no_claim,
    "no-fence": _no_fence,
    "complete-before-outcome": complete_before_outcome,
    "release-on-any-2xx": release_on_any_2xx,
}
