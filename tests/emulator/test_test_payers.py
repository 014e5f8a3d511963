"""Test payers: known keys whose payments end in a known way, in every account, with nothing set up."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account as EthAccount

from faregate.emulator import LIVE_KEY, TEST_PAYERS, Account, PayerSetup, SettlementRule, Wallet
from faregate.errors import ConfigurationError
from faregate.rules.builtin_account import builtin_account
from tests.support.headers import decode_header

from .flask_seller import FlaskSeller
from .seller import ApiClient, assert_error

PAGE = (Path(__file__).parents[2] / "docs" / "emulator.md").read_text()
SCENARIOS: dict[str, list[tuple[str | float, str]]] = {
    "good": [("complete", "succeeded"), ("read", "succeeded")],
    "slow": [("complete", "settling"), ("read", "settling"), (1.9, "settling"), (0.1, "succeeded")],
    "reads": [("complete", "settling"), (3600, "settling"), ("read", "settling"), ("read", "succeeded")],
    "reconciles": [("complete", "reconciling"), ("complete", "reconciling"), ("complete", "succeeded")],
    "reconciles-fails": [
        ("complete", "reconciling"),
        (3600, "reconciling"),
        ("read", "reconciling"),
        ("read", "failed"),
    ],
    "rejected": [("complete", "failed"), ("read", "failed")],
    "expires": [("complete", "settling"), ("read", "settling"), (59, "settling"), (1, "failed")],
}
"""What happens: a complete, a read or so many seconds; and how the payment stands then."""


def test_the_keys_are_no_secrets() -> None:
    assert set(TEST_PAYERS) == {*SCENARIOS, "poor"}
    for name, payer in TEST_PAYERS.items():
        assert payer.name == name
        assert payer.private_key == "0x" + sha256(f"faregate test payer {name}".encode()).hexdigest()
        assert payer.address == EthAccount.from_key(payer.private_key).address == Wallet.test(name).address
        assert payer.address == Wallet(payer.private_key).address


def test_the_page_knows_them_all() -> None:
    for name, payer in TEST_PAYERS.items():
        assert f"| `{name}` | {payer.about} | `{payer.address}` |" in PAGE


def test_an_unknown_name_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="no test payer 'quick'; there are good, slow, reads"):
        Wallet.test("quick")


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("account", ["built in", "other"])
def test_the_whole_story_of(api: ApiClient, name: str, account: str) -> None:
    if account == "other":
        api.use_account(unlike_the_built_in())
    api.wallet = Wallet.test(name, clock=api.clock)
    before = api.service.balance(api.wallet.address)
    bought = api.buy()
    for step, status in SCENARIOS[name]:
        assert happens(api, bought, step) == status, step
    final = api.complete(bought)
    paid = status == "succeeded"
    assert (final.status_code, "payment-response" in final.headers) == (200, paid)
    assert before - api.service.balance(api.wallet.address) == (10_000 if paid else 0)
    assert_error(api.access(proof=bought.proof), 402, "payment_required")


def unlike_the_built_in() -> Account:
    """Payments fail where nobody says otherwise, and a payer nobody named has nothing."""
    sold = tuple(one for one in builtin_account().resources if one.key == "text_summary")
    never = SettlementRule(after_reads=9, to="failed")
    return Account(
        keys=builtin_account().keys,
        resources=(sold[0].model_copy(update={"settlement": never}),),
        default_balance=0,
        settlement=never,
    )


def happens(api: ApiClient, bought: Any, step: str | float) -> str:
    """The status after one step of a scenario; time passes without a read."""
    if step == "complete":
        return str(api.complete(bought).json()["status"])
    if step == "read":
        return str(api.transaction(bought)["status"])
    api.clock.advance(float(step))
    return str(api.listed("/transactions")["items"][0]["status"])


@pytest.mark.parametrize("resource", ["text_summary", "euro_report"])
def test_the_poor_payer_is_asked_to_pay(api: ApiClient, resource: str) -> None:
    api.wallet = Wallet.test("poor", clock=api.clock)
    refused = api.access(resource, api.proof(resource))
    assert "not enough" in assert_error(refused, 402, "payment_required")
    assert decode_header(refused.headers["payment-required"])["accepts"]
    assert api.listed("/transactions")["count"] == 0


def test_an_account_that_names_a_test_payer_decides_for_itself(api: ApiClient) -> None:
    named = tuple(
        PayerSetup(address=TEST_PAYERS[name].address.lower(), balances={"USDC": 10_000})
        for name in ("poor", "slow")
    )
    api.use_account(builtin_account().model_copy(update={"payers": named}))
    for name in ("poor", "slow"):
        api.wallet = Wallet.test(name, clock=api.clock)
        assert api.complete(api.buy()).json()["status"] == "succeeded"
        assert api.access(proof=api.proof()).status_code == 402


@pytest.mark.parametrize("name", ["poor", "slow", "rejected"])
def test_in_live_they_are_like_anybody(api: ApiClient, name: str) -> None:
    api.use_account(allow_live=True)
    api.key = LIVE_KEY
    api.wallet = Wallet.test(name, clock=api.clock)
    before = api.service.balance(api.wallet.address, environment="live")
    assert before == api.service.account.default_balance
    assert api.complete(api.buy()).json()["status"] == "succeeded"


# Through a paywall: what their seller and they themselves get to see


@pytest.fixture
def seller(api: ApiClient, request: pytest.FixtureRequest) -> Iterator[FlaskSeller]:
    seller = FlaskSeller(api, request.param)
    yield seller
    seller.close()


@pytest.mark.parametrize("seller", ["poor"], indirect=True)
def test_for_a_poor_payer_no_work_is_done(seller: FlaskSeller) -> None:
    refused = seller.visit()
    assert refused.status_code == 402
    assert "payment-required" in refused.headers
    assert seller.runs == 0


@pytest.mark.parametrize("seller", ["slow"], indirect=True)
def test_a_slow_payer_comes_back_for_the_result(api: ApiClient, seller: FlaskSeller) -> None:
    for _ in range(2):
        waiting = seller.visit()
        assert (waiting.status_code, "payment-response" in waiting.headers) == (202, False)
        assert "Sunny" not in waiting.text
    api.clock.advance(2)
    served = seller.visit()
    assert (served.status_code, served.json()) == (200, {"report": "Sunny."})
    assert "payment-response" in served.headers
    assert seller.runs == 1


@pytest.mark.parametrize("seller", ["reconciles-fails"], indirect=True)
def test_a_payer_whose_payment_fails_in_the_end_is_not_charged(api: ApiClient, seller: FlaskSeller) -> None:
    address = TEST_PAYERS["reconciles-fails"].address
    before = api.service.balance(address)
    seen = [seller.visit() for _ in range(4)]
    assert [one.status_code for one in seen] == [202, 202, 402, 402]
    assert not [one for one in seen if "Sunny" in one.text or "payment-response" in one.headers]
    assert api.service.balance(address) == before
    assert seller.runs == 1


@pytest.mark.parametrize("seller", ["rejected"], indirect=True)
def test_a_payer_who_is_rejected_after_the_work_gets_nothing(seller: FlaskSeller) -> None:
    assert [seller.visit().status_code for _ in range(2)] == [402, 402]
    assert seller.runs == 1
