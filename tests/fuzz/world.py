"""What random programs are played in: a service that may fail, a paywall, payers, and the checks.

A program writes the mark of its request into all that it sends. The mark names the phase of the handler:

- `free`: no payment was asked for yet. This is the application's own content; it may leave.
- `asked`: `require_payment` was called, or an offer made, and there is no payment yet. Unless one is given
  later in the same request, this leaves in no response.
- `sold`: it has given a payment. This leaves with `PAYMENT-RESPONSE`, or in an error of the handler that the
  offer does not bill, there without cookies.
"""

import re
from collections import defaultdict
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from faregate.core.models import Offer
from faregate.emulator import Emulator, Wallet
from faregate.emulator.faults.models import Fault
from faregate.emulator.transports import EmbeddedTransport
from faregate.journals.durations import DEFAULT_POLICY
from faregate.journals.memory import MemoryJournal
from faregate.offers import offer
from faregate.paywall import Paywall
from faregate.rules.account import SettlementRule
from faregate.rules.records import FINAL

Phase = Literal["free", "asked", "sold"]
SEEN: ContextVar[str] = ContextVar("fuzz_seen", default="")
"""Set by handlers, and read by the server with each message."""
FORGED = "Zm9yZ2Vk"
"""What an application says itself in a `PAYMENT-RESPONSE`."""
MARK = re.compile(r"(asked|sold)-(\d+)-")
NAMES = ("daily_report", "text_summary")
BILLABLE: tuple[frozenset[int] | None, ...] = (None, None, None, frozenset({200}), frozenset({200, 404}))
RULES = (
    SettlementRule(after_seconds=0),
    SettlementRule(after_seconds=3),
    SettlementRule(after_reads=1),
    SettlementRule(after_reads=1, via="reconciling", to="failed"),
    SettlementRule(after_seconds=0, to="failed"),
)
KINDS = ("silence", "reset", "cut", "status", "garbage", "second-402", "missing-header")
OPEN = ("settling", "reconciling", "succeeded")
REDELIVERY = DEFAULT_POLICY.redelivery_window
"""Seconds in which a result that was delivered is delivered again."""
PAYER = Wallet("0x" + "17" * 32)


@dataclass
class Answer:
    """What a server was given to send for one request, whole or not."""

    request: int
    proof: str | None
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: bytes = b""
    is_whole: bool = False
    contexts: list[str] = field(default_factory=list[str])
    """Values of `SEEN` when something was sent."""
    state: str = ""
    """The state that middleware outside shares with the request, when its response began."""
    wrong: list[str] = field(default_factory=list[str])

    def first(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def is_released(self) -> bool:
        return self.first("payment-response") not in (None, FORGED)


@dataclass
class Request:
    """One run of a program: what its handler may write, and what it was granted."""

    number: int
    phase: Phase = "free"
    is_gratis: bool = False

    def mark(self, place: str) -> str:
        return f"{self.phase}-{self.number}-{place}"


class World:
    """One case: a service with faults of this seed, a seller, one payer, and what all of them saw."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.emulator = Emulator(seed=str(random.random()))
        self.seconds = 1000.0
        self.journal = MemoryJournal(clock=lambda: self.seconds)
        self.paywall = Paywall(
            base_url="http://service.example",
            api_key="svc_test_emulator",
            public_url="https://seller.example",
            environ={},
            settle_wait=0,
            journal=self.journal,
            transport=EmbeddedTransport(self.emulator),
        )
        for backend in (self.paywall.backend, self.paywall.async_backend):
            backend.sleep = lambda _seconds: None  # type: ignore[method-assign]
        self.billable = random.choice(BILLABLE)
        self.offers = [offer(name, billable=self.billable) for name in NAMES]
        self.is_prefix = random.random() < 0.3
        self.runs: defaultdict[str, list[int]] = defaultdict(list)
        """The requests whose handlers worked for each transaction."""
        self.delivered_at: dict[str, float] = {}
        """When each proof was first answered with its result."""
        self.answers: list[Answer] = []
        self.requests: dict[int, Request] = {}
        self.proofs: dict[int, str | None] = {}
        self.wrong: list[str] = []
        self.stuck: set[str] = set()
        if random.random() < 0.5:
            self._break()

    def _break(self) -> None:
        random = self.random
        if random.random() < 0.5:
            self.emulator.settle_after("*", random.choice(RULES))
            return
        kind = random.choice(KINDS)
        arguments: dict[str, Any] = {"kind": kind, "times": random.choice((1, 2, 9))}
        arguments["operation"] = random.choice(("access", "complete", "complete", "transaction"))
        if kind == "status":
            arguments |= {"status": random.choice((400, 404, 409, 422, 500, 503))}
        if kind in ("status", "silence", "reset"):
            arguments |= {"when": random.choice(("before", "after"))}
        if kind == "missing-header":
            arguments |= {"header": "payment-response"}
        self.emulator.faults.add(Fault(**arguments))

    @property
    def prefixes(self) -> dict[str, str | Offer] | None:
        return {"/sold": self.offers[0]} if self.is_prefix else None

    def begin(self, proof: str | None) -> Request:
        request = Request(len(self.proofs))
        self.proofs[request.number] = proof
        self.requests[request.number] = request
        # Below a prefix the application runs only once the payment is authorized.
        request.phase = "sold" if self.is_prefix else "free"
        return request

    def grant(self, request: Request, transaction_id: str | None) -> None:
        """A payment was given to a handler, which does its work now."""
        request.phase = "sold"
        if transaction_id is None:
            request.is_gratis = True
        elif not (self.is_prefix and request.number in self.runs[transaction_id]):
            # Below a prefix the handler may ask once more, before the work.
            self.runs[transaction_id].append(request.number)

    def heal(self) -> None:
        self.emulator.faults.clear()

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.emulator.clock.advance(seconds)

    def pay(self, instructions: str) -> str:
        return PAYER.pay(instructions)

    def check(self, answer: Answer) -> None:
        """One answer, at the moment it came."""
        self.answers.append(answer)
        if not answer.status and answer.proof is not None:
            # A payer who left: the seller cannot know, and holds the result for delivered.
            self.delivered_at.setdefault(answer.proof, self.seconds)
        say = self.wrong.append
        for problem in answer.wrong:
            say(f"request {answer.request}: {problem}")
        text = "\n".join(
            (*(f"{name}: {value}" for name, value in answer.headers), answer.body.decode("latin-1"))
        )
        cookies = "\n".join(value for name, value in answer.headers if name.lower() == "set-cookie")
        is_gratis = self.requests[answer.request].is_gratis
        is_granted = self.requests[answer.request].phase == "sold"
        is_shown = 400 <= answer.status <= 599 and answer.status not in (self.billable or ())
        for phase, number in MARK.findall(text):
            if answer.is_released:
                if self.proofs[int(number)] != answer.proof or answer.proof is None:
                    say(f"request {answer.request} got the result of request {number}")
            elif is_gratis:
                continue
            elif not is_granted or not is_shown or int(number) != answer.request:
                say(f"request {answer.request}: {phase} content of {number} left unpaid with {answer.status}")
        if not (answer.is_released or is_gratis):
            if MARK.search(cookies):
                say(f"request {answer.request}: a cookie left unpaid")
            if answer.status and "sold-" in answer.state:
                say(f"request {answer.request}: state left unpaid")
            if answer.proof is not None and any(map(MARK.search, answer.contexts)):
                say(f"request {answer.request}: a context variable left unpaid")
        if answer.status == 402 and answer.proof is not None and "payment-required" in text.lower():
            record = self._find(answer.proof)
            is_over = self.seconds - self.delivered_at.get(answer.proof, self.seconds) >= REDELIVERY
            if record is not None and record.status in OPEN and not is_over:
                say(f"request {answer.request}: asked to pay again while the payment is {record.status}")
        if answer.is_released:
            if len([1 for name, _ in answer.headers if name.lower() == "payment-response"]) > 1:
                say(f"request {answer.request}: PAYMENT-RESPONSE twice")
            self.delivered_at.setdefault(answer.proof or "", self.seconds)
            record = None if answer.proof is None else self._find(answer.proof)
            if record is None or record.status != "succeeded":
                say(f"request {answer.request}: released, but the payment is {record and record.status}")

    def _find(self, proof: str) -> Any:
        from faregate.emulator.assertions import find_paid_by

        return self.emulator.read_state(lambda service, _: find_paid_by(service, proof))

    def check_end(self) -> None:
        """When the service has been well for long enough, and its payer has come back."""
        for transaction_id, runs in self.runs.items():
            if len(runs) > 1:
                self.wrong.append(f"{transaction_id} was worked for in the requests {runs}")
        delivered: defaultdict[str, bool] = defaultdict(bool)
        for answer in self.answers:
            if answer.proof is not None:
                record = self._find(answer.proof)
                if record is not None:
                    delivered[record.id] |= answer.is_released and answer.is_whole
        for transaction_id, is_delivered in delivered.items():
            record = self.emulator.read_state(
                lambda service, _: service.environments["test"].transactions[transaction_id]  # noqa: B023
            )
            if record.status == "succeeded" and not is_delivered and record.id not in self.stuck:
                self.wrong.append(f"{record.id} was charged, and its result never delivered")
            # What the seller never heard of is charged to nobody.
            is_heard_of = record.status != "authorized" or self.runs[record.id]
            if record.status not in FINAL and record.id not in self.stuck and is_heard_of:
                self.wrong.append(f"{record.id} is still {record.status}")
