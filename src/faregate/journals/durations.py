"""How long leases last and rows live, in seconds, and how often a result is delivered again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalPolicy:
    """The times of a journal, in seconds.

    `claim_lease` covers access, `completion_lease` covers complete; while the work runs, its own time limit
    is added. Leases are upper bounds: a process renews all of its leases every `renew_every`, and none
    outlives `owner_lease` without that, so that the rows of a dead process are free soon. Where a lock tells
    whether the process lives (`faregate.journals.owner_locks`), it decides instead.
    `adoption_delay`: how long a sweep leaves alone a row that was begun under another API key. If that seller
    still runs, its own sweep finishes the row first.
    `initial_backoff` doubles with each retry of a held payment, up to `max_backoff`.
    `max_age`: a payment that is still open then is stuck, and left to people.
    `undelivered_retention`: how long a settled result that was not delivered waits for its payer.
    `redelivery_window`, `redeliveries`: how long and how often a delivered result is replayed; 0 is never.
    `failed_retention`, `paid_retention`: how long an unpaid row, and a paid one without a result, are
    remembered. The latter is long, because its payer must not be asked to pay again.
    `delivered_retention`: how long a delivered row is remembered at least, most of it without its result. It
    is longer, up to `paid_retention`, if its payment says that it is valid for longer.
    """

    claim_lease: float = 30.0
    completion_lease: float = 120.0
    owner_lease: float = 5.0
    renew_every: float = 1.0
    adoption_delay: float = 3600.0
    initial_backoff: float = 5.0
    max_backoff: float = 300.0
    undelivered_retention: float = 86_400.0
    redelivery_window: float = 600.0
    redeliveries: int = 3
    failed_retention: float = 3600.0
    paid_retention: float = 2_592_000.0
    delivered_retention: float = 86_400.0
    max_age: float = 259_200.0

    @property
    def settled_retention(self) -> float:
        """For how long a settled row is remembered at least: as long as any settled row keeps its result."""
        return max(self.delivered_retention, self.redelivery_window, self.undelivered_retention)

    @classmethod
    def for_calls_of(cls, timeout: float) -> "JournalPolicy":
        """Make leases that outlast the calls made under them: two to access, three to complete.

        The quick repetition of an unanswered call to access is in the 10 seconds (`RETRY_BUDGET_SECONDS`).
        """
        return cls(claim_lease=2 * timeout + 10, completion_lease=3 * timeout + 90)


DEFAULT_POLICY = JournalPolicy()
