"""What a payer got of a seller, with all that a test may ask of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from faregate.core.models import Headers, Response, header_values
from faregate.emulator.calls import decoded


@dataclass(frozen=True, slots=True)
class Errand:
    """A request as the test wrote it: `options` are those of its client."""

    client: Any
    method: str
    path: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Answer:
    """A seller's answer to a request, sent with a `proof` of payment or without (None).

    `purchase` counts what the payer wanted; all requests for one thing have the same number. `priced`
    says that this request had been answered 402 before. `calls` is how many calls the service had had.
    """

    response: Response
    errand: Errand
    proof: str | None
    purchase: int
    priced: bool
    calls: int
    find_transaction: Callable[[str], str | None]

    def __repr__(self) -> str:
        """For a failing test to show: no proof, the beginning of the body."""
        paid = ", paid" if self.paid else ""
        return f"<{self.status} {self.errand.method} {self.errand.path}{paid}: {self.body[:200]!r}>"

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def headers(self) -> Headers:
        """Pairs of name and value; `header` looks one up."""
        return self.response.headers

    @property
    def body(self) -> bytes:
        return self.response.body

    def header(self, name: str) -> str | None:
        """The value of a header, whatever the case of its name; None if it is absent or there are several."""
        return self.response.first(name.lower())

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        """The body as JSON; `ValueError` if it is none."""
        return json.loads(self.body)

    @property
    def instructions(self) -> dict[str, Any] | None:
        """`PAYMENT-REQUIRED`, decoded."""
        return decoded(header_values(self.headers, "payment-required"))

    @property
    def payment(self) -> dict[str, Any] | None:
        """`PAYMENT-RESPONSE`, decoded: `success`, `transaction` (its hash), `network`, `payer`, `amount`."""
        return decoded(header_values(self.headers, "payment-response"))

    @property
    def paid(self) -> bool:
        """Whether the answer carries the proof that the payment is settled."""
        return self.payment is not None and self.payment.get("success") is True

    @property
    def transaction(self) -> str | None:
        """The `txn_` id that this proof led to, as the service knows it; None if there is none."""
        return None if self.proof is None else self.find_transaction(self.proof)
