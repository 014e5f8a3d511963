"""One purchase, asked for by a crowd at once, over all processes that share a journal: one execution."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from faregate.emulator import Wallet
from faregate.journals.durations import DEFAULT_POLICY
from tests.contract.handlers import CONTENT
from tests.contract.stacks import MEMORY, SQLITE, UVICORN, Server, Stack, running
from tests.journals.simultaneous_payers import Given, ask_together
from tests.servers.shared import shared
from tests.support.faulty_service import FaultyService
from tests.support.headers import decode_header
from tests.support.identifiers import with_identifier
from tests.support.lines import read_lines
from tests.support.waiting import eventually

CROWD = 1000
SPACES = [(after, before, behind) for after in range(10) for before in range(10) for behind in range(2)]
"""Blanks after a comma, after a colon, and at the end: as many spellings of one payment."""
PAYMENTS = 40
PROCESSES = {"memory": 1, "sqlite": 3, "redis": 3, "postgres": 3}
PATH = "/do?what=sleep-0.5"


class Raced(Stack):
    """A seller who says which of his processes answered."""

    def command_line(self, port: int) -> list[str]:
        filled = self.command.format(port=port, app="tests.journals.seller_with_pid:app")
        return ["-m", *filled.split()]


@dataclass
class Market:
    """A seller in several processes, one journal, one service, one payer."""

    server: Server
    service: FaultyService
    log: Path
    processes: int
    wallet: Wallet = field(default_factory=Wallet)

    def proof(self) -> str:
        unpaid = httpx.get(self.server.url + PATH, trust_env=False, timeout=30)
        return self.wallet.pay(unpaid.headers["payment-required"])

    def executions(self) -> list[str]:
        """The transactions for which a handler ran, in whichever process."""
        return [line["transaction"] for line in read_lines(self.log)]

    def standings(self) -> list[str]:
        """How this payer's transactions truly stand."""
        books = self.service.emulator.read_state(
            lambda service, _: service.environments["test"].transactions
        ).values()
        mine = self.wallet.address.lower()
        return [record.status for record in books if record.payment.payer.lower() == mine]


@pytest.fixture(scope="module", params=PROCESSES)
def market(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Market]:
    kind: str = request.param
    places = {"memory": MEMORY, "sqlite": SQLITE}
    place = places.get(kind) or shared(kind)
    command = f"{UVICORN} --backlog 2048 --workers {PROCESSES[kind]}"
    folder, service = tmp_path_factory.mktemp(kind), FaultyService()
    with (
        service.serving() as url,
        running(
            Raced(f"race-{kind}", command, "", "asgi", place),
            url,
            folder,
            FAREGATE_PAYMENT_IDENTIFIER="optional",
        ) as server,
    ):
        yield Market(server, service, folder / "executions", PROCESSES[kind])


def asked(market: Market, proofs: list[str]) -> list[Given]:
    return asyncio.run(ask_together(market.server.port, PATH, proofs))


def test_a_crowd_with_one_proof_gets_one_execution(market: Market) -> None:
    proof, before = market.proof(), len(market.executions())
    market.service.asked.clear()
    given = asked(market, [proof] * CROWD)
    counted = Counter(one.status for one in given)
    assert (len(market.executions()) - before, market.standings()) == (1, ["succeeded"])
    # Besides the payment, each process asks twice whether the instructions can be guessed.
    assert market.service.count("access") <= 1 + 2 * market.processes
    assert market.service.count("complete") == 1
    assert set(counted) <= {200, 409, 503}
    assert 1 <= counted[200] <= 1 + DEFAULT_POLICY.redeliveries
    assert all(CONTENT.encode() in one.body for one in given if one.status == 200)
    assert not [one for one in given if one.status != 200 and CONTENT.encode() in one.body]
    assert len({one.process for one in given}) >= market.processes / 2


def test_one_payment_in_many_spellings_gets_one_execution(market: Market) -> None:
    market.wallet, before = Wallet(), len(market.executions())
    payment = decode_header(market.proof())
    spelt = [spelling(payment, *spaces) for spaces in SPACES]
    assert len(set(spelt)) == len(SPACES)
    given = asked(market, spelt)
    assert (len(market.executions()) - before, market.standings()) == (1, ["succeeded"])
    assert Counter(one.status for one in given)[200] == 1
    assert {one.status for one in given} <= {200, 402, 409, 503}
    assert not [one for one in given if one.status != 200 and CONTENT.encode() in one.body]


def test_payments_that_name_one_purchase_get_one_execution(market: Market) -> None:
    market.wallet, before = Wallet(), len(market.executions())
    proofs = [with_identifier(market.proof(), "pay_0123456789abcdef") for _ in range(PAYMENTS)]
    given = asked(market, proofs)
    one_charge = ["failed"] * (PAYMENTS - 1) + ["succeeded"]
    assert len(market.executions()) - before == 1
    assert eventually(lambda: sorted(market.standings()) == one_charge)
    assert len({one.process for one in given}) >= market.processes / 2
    # The results that are left of those a purchase may have go to whoever asks first.
    given += asked(market, proofs)
    assert (len(market.executions()) - before, sorted(market.standings())) == (1, one_charge)
    counted = Counter(one.status for one in given)
    assert set(counted) == {200, 409}
    assert 1 <= counted[200] <= 1 + DEFAULT_POLICY.redeliveries
    assert [CONTENT.encode() in one.body for one in given] == [one.status == 200 for one in given]


def spelling(payment: object, after: int, before: int, behind: int) -> str:
    text = json.dumps(payment, separators=("," + after * " ", ":" + before * " "))
    return base64.b64encode((text + behind * " ").encode()).decode()
