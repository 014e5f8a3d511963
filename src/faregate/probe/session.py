"""The hands of the probe: it buys, completes, and leaves nothing open behind it."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from faregate.core.models import Response
from faregate.errors import BadAnswer, ServiceError
from faregate.merchant.answers import AccessDecision
from faregate.merchant.api_key import ApiKey
from faregate.merchant.wire import parse
from faregate.pay.wallet import PayerWallet
from faregate.probe.client import Body, Line
from faregate.probe.discovery import Market, Ware, access_body
from faregate.probe.verdicts import CannotSee, shown
from faregate.service.identifiers import shaped_id

METADATA = {
    "duration_ms": 1,
    "response_content_type": "application/json",
    "response_size_bytes": 2,
    "response_status": 200,
}


@dataclass(frozen=True, slots=True)
class Bought:
    """A transaction that was authorized, and what completes it."""

    id: str
    ware: Ware
    proof: str = field(repr=False)

    @property
    def path(self) -> str:
        return f"/transactions/{self.id}/complete"

    def succeeded(self, **changes: object) -> dict[str, Any]:
        """The least that reports success."""
        body = {"revision_id": self.ware.revision.revision_id, "outcome": "succeeded"}
        return {**body, "values": self.ware.values, **changes}

    def failed(self, **changes: object) -> dict[str, Any]:
        """Reports failure: nothing is charged."""
        body = {"revision_id": self.ware.revision.revision_id, "outcome": "failed"}
        return {**body, "failure_code": "probe", **changes}


@dataclass
class Bench:
    """`slow_wallet` pays late, where there is such a payer. `reader` is a key that may only read."""

    line: Line
    market: Market
    wallet: PayerWallet
    slow_wallet: PayerWallet | None
    reader: ApiKey | None
    foreign_revision: str | None
    _open: dict[str, Bought] = field(default_factory=dict[str, Bought])

    @property
    def ware(self) -> Ware:
        if self.market.ware is None:
            raise CannotSee("nothing was found that this payer may buy")
        return self.market.ware

    @property
    def late_ware(self) -> Ware | None:
        """What is bought with a payment that settles late, if there is any."""
        return self.market.slow or (self.market.ware if self.slow_wallet else None)

    @property
    def taken(self) -> list[Ware]:
        """What is paid for if the service decides as expected: one at once, one late."""
        return [ware for ware in (self.market.ware, self.late_ware) if ware is not None]

    @property
    def taken_at_most(self) -> list[Ware]:
        """The same, and what is if it takes the two completions that leave out a value."""
        more = (self.market.ware, self.market.metered)
        return [*self.taken, *(ware for ware in more if ware is not None)]

    def pay(self, ware: Ware, wallet: PayerWallet | None = None) -> str:
        """A new proof for this ware."""
        return (wallet or self.wallet).sign(ware.required).proof

    def access(self, ware: Ware, proof: str | None, path: str = "probe") -> Response:
        return self.line.post("/access", access_body(ware.revision, path), proof=proof)

    def buy(self, ware: Ware, wallet: PayerWallet | None = None) -> Bought:
        """A new authorized transaction. Raises `CannotSee`."""
        bought, reply = self.enter(ware, wallet)
        if bought is None:
            raise CannotSee(f"nothing can be bought: access with a payment is {shown(reply)}")
        return bought

    def enter(self, ware: Ware, wallet: PayerWallet | None = None) -> tuple[Bought | None, Response]:
        """Access with a new payment: the transaction, if it is one, and the reply."""
        proof = self.pay(ware, wallet)
        reply = self.access(ware, proof)
        identifier = transaction_id(reply) if reply.status == 200 else None
        if identifier is None:
            return None, reply
        bought = self._open[identifier] = Bought(identifier, ware, proof)
        return bought, reply

    def complete(self, bought: Bought, body: Mapping[str, Any] | bytes) -> Response:
        return self.noted(bought, self.line.post(bought.path, body, proof=bought.proof))

    def noted(self, bought: Bought, reply: Response) -> Response:
        """A reply to complete that was no refusal closes the transaction."""
        if reply.status < 300:
            self._open.pop(bought.id, None)
        return reply

    def still_open(self) -> Bought:
        """A transaction that nobody completed; the same one as long as it is open."""
        for bought in self._open.values():
            if bought.ware is self.ware:
                return bought
        return self.buy(self.ware)

    def send(self, bought: Bought, body: Body, proof: str | None) -> Response:
        """Complete with this proof, or with none."""
        return self.noted(bought, self.line.post(bought.path, body, proof=proof))

    def tidy(self) -> None:
        """Reports what is still open as failed, so that the payer's money is free."""
        for bought in list(self._open.values()):
            with suppress(ServiceError):
                self.complete(bought, bought.failed())


def transaction_id(reply: Response) -> str | None:
    """The well-formed id in a reply to access, if it has one."""
    try:
        return parse(AccessDecision, reply).transaction_id
    except BadAnswer:
        return None


def unknown_id(prefix: str) -> str:
    """A well-formed id that nobody gave."""
    return shaped_id(prefix, datetime.now(UTC), secrets.randbits(74))
