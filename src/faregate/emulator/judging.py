"""What a test asks of an emulator: did the seller do right?"""

from collections.abc import Iterable

from faregate.emulator import invariants
from faregate.emulator.invariants import Finding, InvariantBroken, Received
from faregate.emulator.releases import released_unpaid
from faregate.emulator.witness import Witness


class Judging(Witness):
    """The invariants, each as an assertion."""

    def assert_all_settled(self) -> None:
        """`InvariantBroken` if a transaction is neither failed nor succeeded now.

        What only reads can settle stays open until somebody reads: let the seller sweep before.
        """
        _none(self.look(lambda service, _: list(invariants.left_open(service))))

    def assert_no_double_charge(self, answers: Iterable[Received] | None = None) -> None:
        """`InvariantBroken` if somebody paid twice for one thing.

        With the `answers` that payers got this is certain: they know what was one purchase, and for each
        at most one transaction may have succeeded. Without them the service only sees two charges of one
        payer for one URL, the second authorized before the seller was told how the first had ended. It is
        told no query, so that a payer who buys the same path twice at once looks the same; and it does
        not see a payer who was asked to pay again later.
        """
        if answers is None:
            _none(self.look(lambda service, diary: list(invariants.charged_while_open(service, diary))))
        else:
            given = list(answers)
            _none(self.look(lambda service, _: list(invariants.charged_twice(service, given))))

    def assert_released_only_if_completed(self, answers: Iterable[Received]) -> None:
        """`InvariantBroken` if a result left before the service proved its payment.

        For each 2xx with a body that a payer got for a proof, the seller must have been answered before:
        complete with `PAYMENT-RESPONSE` for this very proof, or access that said it is free. Not seen are
        results that were given without any proof (ask without one and look at the status), and those of
        requests that never were answered 402.
        """
        given = list(answers)
        _none(self.look(lambda service, diary: list(released_unpaid(service, diary, given))))

    def check_invariants(self, answers: Iterable[Received] | None = None) -> None:
        """All of them, that of released results only if the `answers` that payers got are given."""
        given = None if answers is None else list(answers)
        self.assert_no_double_charge(given)
        if given is not None:
            self.assert_released_only_if_completed(given)
        self.assert_all_settled()


def _none(findings: list[Finding]) -> None:
    if findings:
        raise InvariantBroken("\n".join(finding.about for finding in findings))
