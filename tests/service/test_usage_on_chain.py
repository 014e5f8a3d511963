"""An application sells by use, and its service settles on a chain: books and chain are equal to the unit."""

import json
from asyncio import to_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from examples.chain.facilitator import GAS_KEYS
from examples.chain.permit2 import deploy_upto
from fastapi import Depends, FastAPI
from sqlalchemy import select
from starlette.testclient import TestClient

from faregate import Payment, Paywall, Usage
from faregate.fastapi import PaywallMiddleware, paid
from faregate.service import runtime
from faregate.service.database.schema import transactions
from faregate.service.in_process import InProcessService
from faregate.x402.eip712 import derive_address
from tests.service.chain.test_usage_facilitated import settles_another_amount
from tests.service.command import call
from tests.service.in_process import PAY_TO, build_environ, open_storage_of
from tests.support.chain import USDC, ChainPayer, LocalChain, chain, payer
from tests.support.facilitators import run_facilitator
from tests.support.faulty_facilitator import FaultyFacilitator
from tests.support.headers import decode_header
from tests.support.replies import json_reply
from tests.support.usage_payments import pay_instructions
from tests.support.waiting import eventually

__all__ = ["chain", "payer"]
PRICE = Usage(at_most="0.50 USDC", rates={"output-tokens": "0.00001 USDC"})
GAS_ACCOUNT = derive_address(bytes.fromhex(GAS_KEYS[1][2:]))


def build_app(paywall: Paywall) -> FastAPI:
    app = FastAPI()
    app.state.while_working = lambda: None
    app.add_middleware(PaywallMiddleware, paywall=paywall)

    @app.get("/chat")
    async def chat(payment: Annotated[Payment, Depends(paid("chat", price=PRICE))], tokens: int = 0) -> str:
        if not tokens:
            raise RuntimeError("the model is away")
        await to_thread(app.state.while_working)
        payment.report({"output-tokens": tokens})
        return "42"

    return app


@dataclass
class UsageShop:
    """An application on a chain, and a payer with the official client."""

    folder: Path
    chain: LocalChain
    payer: ChainPayer
    settings: dict[str, str]
    paywall: Paywall
    client: Any = field(init=False)
    restart: Callable[[], None] = lambda: None
    """Restarts the facilitator, if there is one."""

    def buy(self, tokens: int) -> Any:
        asked = self.client.get(f"/chat?tokens={tokens}")
        assert asked.status_code == 402, asked.text
        proof = pay_instructions(self.payer.private_key, asked.headers["payment-required"])
        return self.client.get(f"/chat?tokens={tokens}", headers={"PAYMENT-SIGNATURE": proof})

    @property
    def received(self) -> int:
        return self.chain.get_balance(USDC, PAY_TO)

    @property
    def spent(self) -> int:
        return 100_000_000 - self.chain.get_balance(USDC, self.payer.address)

    def read_metrics(self) -> list[str]:
        """Read the metrics of the service inside the application, a line each."""
        service = self.paywall._embedded
        assert isinstance(service, InProcessService)
        return service._open().runtime.metrics.render().decode().splitlines()

    def reconcile(self) -> dict[str, Any]:
        """Compare books and chain with the command; return what it prints."""
        told = call(self.folder, "reconcile", "--json", GAS=GAS_KEYS[1], **self.settings)
        [result] = [json.loads(line) for line in told.stdout.splitlines() if "is_equal" in line]
        return dict(result, status=told.returncode)


@contextmanager
def run_shop(folder: Path, chain: LocalChain, payer: ChainPayer, **variables: str) -> Generator[UsageShop]:
    deploy_upto(chain)
    chain.approve_permit2(USDC, payer.address)
    chain.fund(GAS_ACCOUNT)
    environ = build_environ(folder, FAREGATE_SERVICE_RPC_TEST=chain.url, **variables)
    paywall = Paywall(environ={**environ, "GAS": GAS_KEYS[1]})
    shop = UsageShop(folder, chain, payer, environ, paywall)
    with TestClient(build_app(paywall), raise_server_exceptions=False) as client:
        shop.client = client
        yield shop


@pytest.fixture(params=["facilitator", "direct"])
def shop(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    chain: LocalChain,
    payer: ChainPayer,
    monkeypatch: pytest.MonkeyPatch,
) -> Generator[UsageShop]:
    monkeypatch.setattr(runtime, "_REORG_SECONDS", 0.5)
    if request.param == "direct":
        (key := tmp_path / "gas.key").write_text(GAS_KEYS[1])
        key.chmod(0o600)
        variables = {"FAREGATE_SERVICE_PAYMENTS": "direct", "FAREGATE_SERVICE_GAS_KEY": f"file:{key}"}
        with run_shop(tmp_path, chain, payer, **variables) as shop:
            yield shop
        return
    with (
        run_facilitator(chain.url) as facilitator,
        run_shop(
            tmp_path,
            chain,
            payer,
            FAREGATE_SERVICE_PAYMENTS="facilitator",
            FAREGATE_SERVICE_FACILITATOR_TEST=facilitator.url,
        ) as shop,
    ):
        shop.restart = facilitator.restart
        yield shop


def test_books_and_chain_say_what_was_used(shop: UsageShop) -> None:
    answer = shop.buy(1230)
    assert answer.json() == "42"
    paid_now = decode_header(answer.headers["payment-response"])
    assert (paid_now["success"], paid_now["amount"]) == (True, "12300")
    assert (shop.received, shop.spent) == (12_300, 12_300)
    assert shop.buy(0).status_code == 500
    assert shop.received == 12_300, "failed work is not charged"
    capped = shop.buy(60_000)
    assert decode_header(capped.headers["payment-response"])["amount"] == "500000"
    assert (shop.received, shop.spent) == (512_300, 512_300)
    shop.chain.mine(2)
    found = shop.reconcile()
    assert (found["status"], found["is_equal"], found["payments"]) == (0, True, 3)
    [sums] = found["assets"].values()
    assert sums["settled_atomic"] == sums["on_chain_atomic"] == "512300"
    assert sums["authorized_atomic"] == "1500000"


def test_a_payer_who_has_not_approved_permit2_is_told(shop: UsageShop) -> None:
    shop.chain.approve_permit2(USDC, shop.payer.address, 0)
    refused = shop.buy(10)
    assert refused.status_code == 402
    assert "permit2_allowance_required" in refused.text
    assert shop.received == 0


def test_what_the_chain_has_lost_is_sent_again_for_the_same_amount(shop: UsageShop) -> None:
    assert shop.buy(1230).status_code == 200
    shop.chain.reorganise(1)
    assert shop.received == 0
    shop.restart()  # it counts the transactions of its account itself, those that are gone included
    shop.chain.advance_time(20)
    assert eventually(lambda: shop.received == 12_300)
    shop.chain.mine(2)
    found = shop.reconcile()
    [sums] = found["assets"].values()
    assert sums["settled_atomic"] == sums["on_chain_atomic"] == "12300"


def test_the_books_say_what_the_chain_shows(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer, caplog: pytest.LogCaptureFixture
) -> None:
    """The seller's facilitator takes more than it was asked to. The payer has its result all the same."""
    with run_facilitator(chain.url) as real:
        proxy = FaultyFacilitator(real.url)
        proxy.fail("settle", settles_another_amount(500_000))
        with (
            proxy.serving() as url,
            run_shop(
                tmp_path,
                chain,
                payer,
                FAREGATE_SERVICE_PAYMENTS="facilitator",
                FAREGATE_SERVICE_FACILITATOR_TEST=url,
            ) as shop,
        ):
            answer = shop.buy(1230)
            assert answer.status_code == 200
            assert decode_header(answer.headers["payment-response"])["amount"] == "500000"
            assert shop.received == 500_000
            shop.chain.mine(2)
            found = shop.reconcile()
            assert found["is_equal"]
            [sums] = found["assets"].values()
            assert sums["settled_atomic"] == "500000"
            metrics = shop.read_metrics()
    assert "faregate_service_other_amounts_total 1.0" in metrics
    assert "faregate_service_exceeded_maximums_total 0.0" in metrics
    assert "settled 500000 atomic units instead of 12300;" in caplog.text


def test_a_payer_who_has_the_facilitator_settle_less_gets_nothing(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    """Whoever asks a facilitator names the amount, and the payer can ask before the service does."""
    with (
        run_facilitator(chain.url) as facilitator,
        run_shop(
            tmp_path,
            chain,
            payer,
            FAREGATE_SERVICE_PAYMENTS="facilitator",
            FAREGATE_SERVICE_FACILITATOR_TEST=facilitator.url,
            FAREGATE_SETTLE_WAIT="0",
        ) as shop,
    ):
        asked = shop.client.get("/chat?tokens=1230")
        proof = pay_instructions(payer.private_key, asked.headers["payment-required"])
        shop.client.app.state.while_working = lambda: settle_at(facilitator.url, proof, amount=1)
        headers = {"PAYMENT-SIGNATURE": proof}
        withheld, again = (shop.client.get("/chat?tokens=1230", headers=headers) for _ in range(2))
        assert (withheld.status_code, again.status_code) == (202, 202)
        assert shop.received == 1
        identifier = withheld.json()["transaction_id"]
        shown = json.loads(call(tmp_path, "payment", "show", identifier, "--json", **shop.settings).stdout)
        assert shown["parked_reason"].startswith("settled 1 atomic units of 12300 that were used")
        retry = ("payment", "retry", identifier, "--json")
        assert json.loads(call(tmp_path, *retry, **shop.settings).stdout)["parked"]
        assert shop.client.get("/chat?tokens=1230", headers=headers).status_code == 202
        # An operator who blames the facilitator takes the payment for what the chain shows.
        accepted = json.loads(call(tmp_path, *retry, "--accept-less", **shop.settings).stdout)
        assert accepted["status"] == "succeeded"
        answer = shop.client.get("/chat?tokens=1230", headers=headers)
        assert (answer.status_code, answer.json()) == (200, "42")
        assert decode_header(answer.headers["payment-response"])["amount"] == "1"
        shop.chain.mine(2)
        assert shop.reconcile()["is_equal"]


def settle_at(facilitator: str, proof: str, amount: int) -> None:
    """Have the facilitator settle this amount, as anybody can who has the proof."""
    payload = decode_header(proof)
    requirements = {**payload["accepted"], "amount": str(amount)}
    asked = {"x402Version": 2, "paymentPayload": payload, "paymentRequirements": requirements}
    assert httpx.post(f"{facilitator}/settle", json=asked, timeout=20).json()["success"] is True


def test_a_facilitator_without_the_scheme_sells_nothing_by_use(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    async def supports_nothing(connection: Any, _call: Any) -> None:
        await connection.answer(json_reply(200, {"kinds": []}))

    proxy = FaultyFacilitator("http://127.0.0.1:9")
    proxy.fail_always("supported", supports_nothing)
    with (
        proxy.serving() as url,
        run_shop(
            tmp_path,
            chain,
            payer,
            FAREGATE_SERVICE_PAYMENTS="facilitator",
            FAREGATE_SERVICE_FACILITATOR_TEST=url,
        ) as shop,
    ):
        answer = shop.client.get("/chat?tokens=5")
    assert answer.status_code in (502, 503), answer.text
    assert "payment-required" not in answer.headers


def test_used_amounts_are_in_the_database(shop: UsageShop) -> None:
    shop.buy(1230)
    with open_storage_of(shop.settings) as storage, storage.database.read() as connection:
        [row] = connection.execute(select(transactions)).mappings()
    assert (row["amount"], row["used_amount"], row["authorized_value"]) == (500_000, 12_300, 500_000)
    assert row["nonce"].isdecimal()
    assert row["facilitator"] == row["facilitator"].lower()


def test_the_doctor_says_whether_the_facilitator_settles_parts(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    with run_facilitator(chain.url) as facilitator:
        variables = {
            "FAREGATE_SERVICE_PAYMENTS": "facilitator",
            "FAREGATE_SERVICE_FACILITATOR_TEST": facilitator.url,
        }
        with run_shop(tmp_path, chain, payer, **variables) as shop:
            told = call(tmp_path, "doctor", **shop.settings)
    assert "settles what was used (scheme upto)" in told.stdout
