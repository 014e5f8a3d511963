"""How long rows live, in seconds, and how often a result is handed out again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalPolicy:
    """The times of a journal.

    `completion_lease` bounds the telling of an outcome; it is added to the time the work may take.
    Both are the longest times. A lease is over sooner if its process died: it renews all its leases every
    `renew_every` seconds, and none outlives `owner_lease` seconds without that. A row that was begun under
    another API key is left alone for `adoption_delay`: its own seller finishes it first, if there is one.
    A result that a sweep got paid is kept for `undelivered_retention` until its payer comes. That a
    payment was taken without a result to hand out is remembered for `paid_retention`: its payer must not be
    asked to pay again. What is still open after `horizon` is left to people. `redeliveries` 0 hands a result
    out once.
    """

    claim_lease: float = 30.0
    completion_lease: float = 120.0
    owner_lease: float = 10.0
    renew_every: float = 2.5
    adoption_delay: float = 3600.0
    first_pause: float = 5.0
    longest_pause: float = 300.0
    undelivered_retention: float = 86_400.0
    redelivery_window: float = 600.0
    redeliveries: int = 3
    failed_retention: float = 3600.0
    paid_retention: float = 2_592_000.0
    horizon: float = 259_200.0

    @classmethod
    def for_calls_of(cls, timeout: float) -> "JournalPolicy":
        """Leases that outlast the calls made under them: two to access, three to complete."""
        return cls(claim_lease=2 * timeout + 10, completion_lease=3 * timeout + 90)


DEFAULT_POLICY = JournalPolicy()


@dataclass(frozen=True, slots=True)
class JournalContext:
    """What a paywall tells a journal that is made for it.

    `namespace` keeps the rows of one key environment and service apart; `seller` tells API keys apart.
    """

    namespace: str
    seller: str
    policy: JournalPolicy
