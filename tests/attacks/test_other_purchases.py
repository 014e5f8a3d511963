"""Equal requests of one payer for different things: at another host, and at another application.

Both applications have one account and one journal, as the services of one seller may. A payer who buys at the
second one while the payment at the first one settles must not get the result of the first one.
"""

from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request

from faregate.emulator import Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.fastapi import Payment, PaywallMiddleware, paid
from faregate.merchant import wire
from faregate.merchant.models import TransactionQuery
from faregate.paywall import Paywall


def make_paywall(emulator: Emulator, **settings: Any) -> Paywall:
    return Paywall(
        base_url="http://service.example",
        api_key="svc_test_emulator",
        environ={},
        settle_wait=0,
        transport=EmbeddedTransport(emulator),
        **settings,
    )


def make_shop(paywall: Paywall, name: str, sells: str) -> FastAPI:
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, paywall=paywall)

    @app.get("/report")
    async def report(request: Request, payment: Annotated[Payment, Depends(paid(sells))]) -> dict[str, str]:
        if sells == "token_meter":
            payment.report(input_tokens=3)
        return {"shop": name, "host": str(request.url.hostname)}

    return app


async def ask(app: Any, host: str, proof: str = "") -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        return await client.get("/report", headers={"PAYMENT-SIGNATURE": proof} if proof else {})


async def pay(app: Any, host: str, wallet: Wallet) -> httpx.Response:
    unpaid = await ask(app, host)
    return await ask(app, host, wallet.pay(unpaid.headers["payment-required"]))


def count_open(paywall: Paywall) -> int:
    """How many payments may still be charged."""
    listed = paywall.call(wire.list_transactions(TransactionQuery())).items
    return sum(str(one.status) == "settling" for one in listed)


@pytest.mark.anyio
async def test_a_payer_buys_at_each_host_of_an_application() -> None:
    paywall = make_paywall(Emulator(), trust_host=True)
    app, slow = make_shop(paywall, "one", "daily_report"), Wallet.test("slow")
    statuses = [(await pay(app, host, slow)).status_code for host in ("a.example", "b.example")]
    assert statuses == [202, 202]
    assert count_open(paywall) == 2
    # A second payment for the first host is for the open one.
    assert (await pay(app, "a.example", slow)).status_code == 202
    assert count_open(paywall) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("second", "sells"),
    [("two", "daily_report"), ("one", "token_meter")],
    ids=["another public URL", "another offer"],
)
async def test_a_payer_buys_at_each_application_of_a_journal(second: str, sells: str, tmp_path: Path) -> None:
    emulator, slow = Emulator(), Wallet.test("slow")
    journal = f"sqlite:///{tmp_path}/journal.db"
    paywalls = [
        make_paywall(emulator, public_url=f"https://{name}.example", journal=journal)
        for name in ("one", second)
    ]
    shops = [
        make_shop(paywalls[0], "first", "daily_report"),
        make_shop(paywalls[1], "second", sells),
    ]
    answers = [await pay(shop, "seller.example", slow) for shop in shops]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert count_open(paywalls[0]) == 2


@pytest.mark.anyio
async def test_processes_without_a_public_url_share_open_payments(tmp_path: Path) -> None:
    """Each names itself by where it listens, and a balancer leads the payer from one to the other."""
    emulator, slow = Emulator(), Wallet.test("slow")
    journal = f"sqlite:///{tmp_path}/journal.db"
    paywalls = [make_paywall(emulator, journal=journal) for _ in range(2)]
    shops = [make_shop(paywall, "one", "daily_report") for paywall in paywalls]
    hosts = ("10.0.0.1", "10.0.0.2")
    answers = [await pay(shop, host, slow) for shop, host in zip(shops, hosts, strict=True)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert count_open(paywalls[0]) == 1
