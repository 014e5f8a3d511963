"""One case: a sale whose service misbehaves in one way, at one call, at some of its times."""

from dataclasses import dataclass, field

from faregate.core.models import Headers
from faregate.core.reported_values import Payment
from faregate.emulator import Emulator, ManualClock, Wallet
from faregate.events import Stuck
from faregate.journals.memory import MemoryJournal
from faregate.journals.persistent import PersistentJournal
from faregate.paywall import Paywall
from faregate.rules.builtin_account import builtin_account
from faregate.rules.records import TransactionRecord
from tests.hostile.calls import Call
from tests.hostile.sellers import NAMED
from tests.hostile.service import CaseService, NamedFault
from tests.journals.stores import Clock
from tests.support.promises import Wrong
from tests.support.usage_account import with_usage_price

_ACCOUNT = with_usage_price(builtin_account())
HASTE = 0.15
"""Seconds that a seller waits for a service that says nothing."""


class LogCapture:
    """What a paywall tells. Apart from the case: a paywall that is done with must be free to go."""

    def __init__(self) -> None:
        self.stuck: set[str] = set()

    def hear(self, event: object) -> None:
        if isinstance(event, Stuck):
            self.stuck.add(event.transaction_id)


@dataclass(frozen=True)
class Seen:
    """What a payer was given. Status 0: nothing."""

    status: int
    headers: Headers = ()
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]


@dataclass
class Case:
    """Its seller has a journal, and a clock for it, of its own."""

    call: Call
    fault: NamedFault
    window: str
    clock: Clock = field(default_factory=Clock)
    emulator_clock: ManualClock = field(default_factory=ManualClock)
    """The service's and the payer's. It stands still, so that no payment is too late."""
    runs: list[str | None] = field(default_factory=list)
    wrongs: list[str] = field(default_factory=list)
    proofs: tuple[str, ...] = ()
    """The payments that the payer sends in turn."""
    visits: int = 0
    delivered: bool = False
    must_pay_anew: bool = False
    patience: float = HASTE
    ear: LogCapture = field(default_factory=LogCapture)

    def __post_init__(self) -> None:
        self.wallet = Wallet(clock=self.emulator_clock)
        self.service = CaseService(
            Emulator(_ACCOUNT, clock=self.emulator_clock, expose_execution_id=True),
            self.call.plan(self.fault, self.window),
        )
        self.paywall: Paywall
        self.journal: MemoryJournal | PersistentJournal

    @property
    def met(self) -> bool:
        return self.fault in self.service.met

    @property
    def is_named(self) -> bool:
        return self.call.path == NAMED

    @property
    def proof(self) -> str | None:
        """The payment of the next visit."""
        return self.proofs[self.visits % len(self.proofs)] if self.proofs else None

    @property
    def name(self) -> str:
        return f"{self.call.name}: {self.fault.name} ({self.window})"

    def worked(self, payment: Payment) -> None:
        run, before = payment.transaction_id, [run for run in self.runs if run is not None]
        if run is not None and before and (run in before or not self._may_be_made_again(before)):
            self.wrong(Wrong.SECOND_EXECUTION, f"{before}, and then {run}")
        self.runs.append(run)

    def _may_be_made_again(self, before: list[str]) -> bool:
        """Whether the work may run for another payment: these were not charged, and never will be."""
        known = self.service.transactions
        return self.is_named and all(run in known and known[run].status == "failed" for run in before)

    def owed(self) -> list[str]:
        """The states of rows that are not final, and not stuck."""
        return self.holds()[0]

    def holds(self) -> tuple[list[str], set[str]]:
        """What is `owed`, and the transactions that `faregate holds` shows as stuck, and why.

        Read at once: each look at SQLite opens a connection.
        """
        holds = self.journal.list_holds(100)
        owed = [held.state for held in holds if held.state != "stuck"]
        stuck = {held.transaction_id for held in holds if held.state == "stuck" and held.reason}
        return owed, stuck

    def wrong(self, what: str, how: str = "") -> None:
        self.wrongs.append(f"{what} ({how})" if how else what)

    @property
    def transaction(self) -> TransactionRecord | None:
        """The one whose work ran last; without any, the first."""
        known = self.service.transactions
        worked = [known[run] for run in self.runs if run in known]
        return worked[-1] if worked else next(iter(known.values()), None)

    @property
    def charged(self) -> int:
        """What the payer has lost, in atomic units."""
        return _ACCOUNT.default_balance - self.service.emulator.balance(self.wallet.address)

    @property
    def status(self) -> str:
        """How the payment truly stands."""
        return "none" if self.transaction is None else self.transaction.status
