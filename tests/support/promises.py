"""What must never happen to a payment, in the words that all campaigns use."""

from enum import StrEnum


class Wrong(StrEnum):
    """A promise that is broken. A campaign that can see more has words of its own beside these."""

    UNPAID_RELEASE = "unpaid releases"
    """Something of a result left, and the payment was not proven."""
    SECOND_EXECUTION = "second executions"
    """The work ran twice for one payment."""
    CONTRADICTION = "contradictory outcomes"
    """The service was told two outcomes of one payment."""
    PAY_AGAIN = "asked to pay again"
    """A 402 with fresh instructions, and the first payment was open or taken."""
    NOT_DELIVERED = "paid, not delivered"
    """The payment was taken, and its payer can never get the result."""
    LOST = "lost transactions"
    """A transaction is open, and the journal does not have it."""
    NOT_FINAL = "not final"
    """In the end, something is still open and not reported as stuck."""
