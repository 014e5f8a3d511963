"""From any state, in a model that is well again: everything comes to its end, and who paid gets the result.

Whatever ran is gone. Sweeps alone must bring each row to its end, or report it as stuck; then the payer
comes back with each of the proofs.
"""

from itertools import count
from typing import Any

from faregate.core.interfaces import Flow
from faregate.journals.states import RowState
from tests.model.backend import How, ModelBackend
from tests.model.flow_tree import loud
from tests.model.frozen_journal import (
    AT,
    Frozen,
    freeze,
    is_owed,
    is_spent,
    jumped,
    row_of,
    standing_of,
    thaw,
)
from tests.model.interning import Told
from tests.model.invariants import check_answer, check_end, check_swept, is_content
from tests.model.replies import transaction
from tests.model.scope import Flows
from tests.model.service import SETTLING, SUCCEEDED

ROUNDS = 3
TXN = transaction(1)


class Healing:
    def __init__(self, journal: Frozen, told: Told, proofs: tuple[str, ...], flows: Flows) -> None:
        self._frozen = journal
        self._flows = flows
        self._proofs = tuple(dict.fromkeys(proofs))
        self._fences = count(1000)
        self._backend = ModelBackend(thaw(journal, self._fences), dict.fromkeys(proofs, 1))
        self._backend.payments[1], self._backend.facts[1] = told
        self._given = False

    def check(self) -> None:
        """Raises `Violation`."""
        for _ in range(ROUNDS):
            self._later()
            self._settle()
            self._run(self._flows.sweep())
        check_swept(all(row[AT["state"]] is RowState.STUCK for row in self._rows() if is_owed(row)))
        for _ in range(ROUNDS):
            self._later()
            self._settle()
            for proof in self._proofs:
                self._come_back(proof)
        self._check_ends()

    def _check_ends(self) -> None:
        payment, facts = self._backend.payments[1], self._backend.facts[1]
        spent = is_spent(row_of(self._rows(), TXN))
        check_end(payment, facts, any(map(is_owed, self._rows())), spent or self._given)

    def _come_back(self, proof: str) -> None:
        answer = self._run(self._flows.request(proof))
        standing = standing_of(self._rows(), TXN, proof)
        check_answer(answer, self._backend.payments[1], self._backend.facts[1], standing)
        self._given = self._given or is_content(answer)

    def _run(self, flow: Flow[Any]) -> Any:
        before = row_of(self._rows(), TXN)
        try:
            question = loud(flow, None)
            while True:
                question = loud(flow, self._backend.asked(question, How()))
        except StopIteration as end:
            return end.value
        finally:
            if before is not None and row_of(self._rows(), TXN) is None:
                self._backend.facts[1] = self._backend.facts[1]._replace(over=True)

    def _rows(self) -> Frozen:
        return freeze(self._backend.journal)

    def _later(self) -> None:
        self._backend.journal = thaw(jumped(self._rows(), far=False), self._fences)

    def _settle(self) -> None:
        if self._backend.payments[1].status == SETTLING:
            self._backend.payments[1] = self._backend.payments[1]._replace(status=SUCCEEDED)
