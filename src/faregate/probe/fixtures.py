"""The stories that several checks look at, each played once, when the first of them asks."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from faregate.core.models import Response
from faregate.errors import BadAnswer, FaregateError
from faregate.merchant.answers import TransactionDetail
from faregate.merchant.contracts import ContractRevision
from faregate.merchant.wire import parse
from faregate.probe.discovery import access_body
from faregate.probe.session import METADATA, Bench, Bought
from faregate.probe.verdicts import CannotSee, said, shown

PENDING = ("settling", "reconciling")
T = TypeVar("T")
PATIENCE = 30.0
"""Seconds in which a payment that was taken should be final."""


@dataclass(frozen=True, slots=True)
class Sold:
    """`told` is the least that was taken as a report; `proving` the first answer that may prove payment."""

    bought: Bought
    told: Mapping[str, Any]
    proving: Response

    @property
    def taken(self) -> bool:
        return self.proving.status < 300


@dataclass(frozen=True, slots=True)
class Late:
    """A sale whose payment settles late: each call was made while, so far as we know, it was pending."""

    bought: Bought
    completed: Response
    accessed: Response
    completed_again: Response


class story(Generic[T]):  # noqa: N801  # used as a decorator
    """Played once, also when it ends in an error: another try would pay again."""

    def __init__(self, play: Callable[[Any], T]) -> None:
        self._play = play

    def __get__(self, visit: "Visit", kind: type["Visit"]) -> T:
        name = self._play.__name__
        if name not in visit.played:
            try:
                visit.played[name] = self._play(visit)
            except (CannotSee, FaregateError) as error:
                visit.played[name] = error
        found: Any = visit.played[name]
        if isinstance(found, Exception):
            raise CannotSee(str(found))
        return cast(T, found)


class Visit:
    """One visit of the service."""

    def __init__(self, bench: Bench, sleep: Callable[[float], object] = time.sleep) -> None:
        self.bench = bench
        self.played: dict[str, object] = {}
        self._sleep = sleep

    @story
    def sold(self) -> Sold:
        """A payment that is taken, as far as it can be. Raises `CannotSee`."""
        bench = self.bench
        bought = bench.buy(bench.ware)
        told, reply = {}, bench.complete(bought, bought.succeeded())
        for more in _more_and_more(bought):
            if reply.status < 300:
                break
            told, reply = more, bench.complete(bought, bought.succeeded(**more))
        if reply.status == 202:
            self._until_final(bought)
            reply = bench.complete(bought, bought.succeeded(**told))
        return Sold(bought, told, reply)

    @story
    def final(self) -> Bought:
        """The sold one, once its payment is final. Raises `CannotSee`."""
        sold = self.sold
        if sold.proving.status != 200:
            raise CannotSee(f"no payment could be finished: complete is {shown(sold.proving)}")
        return sold.bought

    @story
    def failed(self) -> tuple[Bought, Response]:
        """Work that failed, and the answer to it."""
        bought = self.bench.buy(self.bench.ware)
        return bought, self.bench.complete(bought, bought.failed())

    @story
    def late(self) -> Late:
        """A payment that is not settled at once. Raises `CannotSee` if this service has none."""
        bench = self.bench
        ware = bench.late_ware
        if ware is None:
            raise CannotSee("no payment settles late here: name a resource with --slow-resource")
        metadata = {name: told for name, told in self.sold.told.items() if name != "values"}
        bought = bench.buy(ware, bench.slow_wallet)
        report = bought.succeeded(**metadata)
        completed = bench.complete(bought, report)
        if completed.status == 200 and said(completed, "status") not in PENDING:
            raise CannotSee("the payment was settled at once: name another resource with --slow-resource")
        accessed = bench.access(ware, bought.proof)
        again = bench.complete(bought, report)
        bench.line.get(f"/transactions/{bought.id}")  # some payments settle by being read
        return Late(bought, completed, accessed, again)

    @story
    def freed(self) -> Response:
        """Access to what is free. Raises `CannotSee`."""
        return self.free_access()

    @property
    def free(self) -> ContractRevision:
        found = self.bench.market.free
        if found is None:
            raise CannotSee("no free resource was found: name one with --free-resource")
        return found

    def free_access(self) -> Response:
        return self.bench.line.post("/access", access_body(self.free))

    def transaction(self, bought: Bought) -> TransactionDetail:
        """The transaction now. Raises `CannotSee`."""
        reply = self.bench.line.get(f"/transactions/{bought.id}")
        if reply.status != 200:
            raise CannotSee(f"the transaction cannot be read: {shown(reply)}")
        try:
            return parse(TransactionDetail, reply)
        except BadAnswer as error:
            raise CannotSee(str(error)) from None

    def _until_final(self, bought: Bought) -> None:
        for _ in range(int(PATIENCE)):
            if self.transaction(bought).status not in PENDING:
                return
            self._sleep(1.0)


def _more_and_more(bought: Bought) -> list[dict[str, Any]]:
    """What a service may want told beyond the least: metadata, values that need not be reported, or both."""
    every = {"values": dict.fromkeys(bought.ware.revision.properties, "1")}
    metadata = {"resource_execution": METADATA}
    return [metadata, every, {**metadata, **every}]
