"""The official x402 client, unmodified, pays what the emulator asks."""

from typing import Any

import httpx
import pytest
from eth_account import Account
from x402 import x402Client, x402ClientSync
from x402.client_base import SpendControlAsset
from x402.http.clients import x402AsyncTransport
from x402.http.utils import (
    decode_payment_required_header,
    decode_payment_response_header,
    encode_payment_signature_header,
)
from x402.mechanisms.evm.exact import ExactEvmScheme

from faregate.emulator import LIVE_KEY, TEST_KEY
from faregate.system import system_clock

from .seller import ApiClient, Purchase


@pytest.fixture
def options() -> dict[str, Any]:
    """By the real clock, as the client is."""
    return {"allow_live": True, "clock": system_clock}


@pytest.mark.parametrize("key", [TEST_KEY, LIVE_KEY])
@pytest.mark.parametrize("resource", ["text_summary", "daily_report"])
def test_it_pays_in_usdc(api: ApiClient, key: str, resource: str) -> None:
    api.key = key
    account = Account.create()
    client = x402ClientSync().register("eip155:*", ExactEvmScheme(account))
    done = paid(api, client, resource)
    settled = decode_payment_response_header(done.headers["payment-response"])
    assert settled.success
    assert settled.payer == account.address
    assert done.json()["receipt"]["payment"]["payer"] == account.address


def test_it_pays_in_eurc_once_its_payer_allows_it(api: ApiClient) -> None:
    client = x402ClientSync().register("eip155:*", ExactEvmScheme(Account.create()))
    with pytest.raises(Exception, match="spend_controls"):
        paid(api, client, "euro_report")
    euro: SpendControlAsset = {
        "network": "eip155:84532",
        "asset": "0x808456652fdb597867f38412077A9182bf77359F",
        "max_amount_per_payment": "10000",
    }
    client.set_spend_controls({"allowed_assets": [euro]})
    assert paid(api, client, "euro_report").json()["status"] == "succeeded"


def paid(api: ApiClient, client: x402ClientSync, resource: str) -> httpx.Response:
    """Access, the client's payment, access, complete."""
    required = decode_payment_required_header(api.instructions(resource))
    proof = encode_payment_signature_header(client.create_payment_payload(required))
    allowed = api.access(resource, proof)
    assert allowed.status_code == 200, allowed.text
    bought = Purchase(allowed.json()["transaction_id"], proof, str(api.access_body(resource)["revision_id"]))
    return api.complete(bought)


@pytest.mark.anyio
async def test_its_httpx_client_pays_a_seller(api: ApiClient) -> None:
    """A seller in a few lines: relay 402, else complete and release."""

    def seller(request: httpx.Request) -> httpx.Response:
        proof = request.headers.get("payment-signature")
        allowed = api.access(proof=proof)
        if allowed.status_code == 402:
            return httpx.Response(402, headers={"PAYMENT-REQUIRED": allowed.headers["payment-required"]})
        bought = Purchase(allowed.json()["transaction_id"], str(proof), api.access_body()["revision_id"])
        done = api.complete(bought)
        return httpx.Response(
            200, text="paid", headers={"PAYMENT-RESPONSE": done.headers["payment-response"]}
        )

    client = x402Client().register("eip155:*", ExactEvmScheme(Account.create()))
    paying = x402AsyncTransport(client, httpx.MockTransport(seller))
    async with httpx.AsyncClient(transport=paying) as http:
        response = await http.get("https://seller.example/text_summary")
    assert response.text == "paid"
    assert decode_payment_response_header(response.headers["payment-response"]).success


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
