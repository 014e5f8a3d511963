"""The payment instructions are x402 version 2: what `PAYMENT-REQUIRED` holds."""

import base64
import re

import pytest
from x402.schemas import PaymentRequired

from faregate.emulator import LIVE_KEY, TEST_KEY, Account, Key, Resource, Revision, Seller
from tests.support.headers import decode_header

from .seller import ApiClient

DOMAINS = [
    (TEST_KEY, "text_summary", "eip155:84532", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC"),
    (LIVE_KEY, "text_summary", "eip155:8453", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin"),
    (TEST_KEY, "euro_report", "eip155:84532", "0x808456652fdb597867f38412077A9182bf77359F", "EURC"),
    (LIVE_KEY, "euro_report", "eip155:8453", "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42", "EURC"),
]


@pytest.mark.parametrize(("key", "resource", "network", "asset", "name"), DOMAINS)
def test_the_terms_name_network_token_and_domain(
    api: ApiClient, key: str, resource: str, network: str, asset: str, name: str
) -> None:
    api.key = key
    instructions = decode_header(api.instructions(resource))
    challenge = instructions["accepts"][0]["extra"].pop("challenge")
    assert re.fullmatch("[0-9a-f]{64}", challenge)
    assert instructions["accepts"] == [
        {
            "scheme": "exact",
            "network": network,
            "amount": "10000",
            "asset": asset,
            "payTo": api.service.account.seller.pay_to,
            "maxTimeoutSeconds": 60,
            "extra": {"name": name, "version": "2"},
        }
    ]


@pytest.mark.parametrize(("key", "resource"), [(key, resource) for key, resource, *_ in DOMAINS])
def test_the_official_models_read_them(api: ApiClient, key: str, resource: str) -> None:
    api.key = key
    found = PaymentRequired.model_validate(decode_header(api.instructions(resource)))
    assert found.x402_version == 2
    assert found.accepts[0].get_amount() == "10000"


def test_the_resource_echoes_the_request(api: ApiClient) -> None:
    resource = {
        "url": "https://seller.example/%C3%BC",
        "mime_type": "text/plain",
        "description": "späte Züge",
    }
    header = api.post("/access", api.access_body(resource=resource)).headers["payment-required"]
    assert "späte Züge".encode() in base64.b64decode(header)
    assert decode_header(header)["resource"] == {
        "url": "https://seller.example/%C3%BC",
        "mimeType": "text/plain",
        "description": "späte Züge",
    }


def test_the_header_is_standard_padded_base64(api: ApiClient) -> None:
    for length in range(12):
        resource = {
            "url": "https://h",
            "mime_type": "text/plain",
            "description": "ÿ?>" * length + "x" * length,
        }
        header = api.post("/access", api.access_body(resource=resource)).headers["payment-required"]
        assert re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", header)
        assert len(header) % 4 == 0


def test_the_reason_is_in_the_body_and_in_the_instructions(api: ApiClient) -> None:
    response = api.access()
    assert response.json()["message"] == "PAYMENT-SIGNATURE header is required"
    assert decode_header(response.headers["payment-required"])["error"] == response.json()["message"]


def test_recipient_amount_and_time_come_from_the_tenant(api: ApiClient) -> None:
    seller = Seller(pay_to="0x" + "ab" * 20)
    sold = Resource(key="text_summary", name="A", revisions=(Revision(amount=123),), max_timeout_seconds=300)
    api.use_account(Account(seller=seller, keys=(Key(key=TEST_KEY),), resources=(sold,)))
    terms = decode_header(api.instructions())["accepts"][0]
    assert terms["payTo"].lower() == "0x" + "ab" * 20
    assert terms["amount"] == "123"
    assert terms["maxTimeoutSeconds"] == 300


def test_every_built_in_price_is_below_what_stock_clients_refuse(api: ApiClient) -> None:
    for resource in api.service.account.resources:
        for revision in resource.revisions:
            assert revision.amount < 1_000_000
