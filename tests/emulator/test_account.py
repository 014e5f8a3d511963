"""Tenants: from TOML, from Python, built in; and faults told in sentences."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from faregate.emulator import (
    TEST_KEY,
    Account,
    Emulator,
    Key,
    PayerSetup,
    Resource,
    Revision,
    SettlementRule,
    Value,
)
from faregate.errors import ConfigurationError
from faregate.rules.account import CAPABILITIES
from faregate.rules.builtin_account import builtin_account

from .seller import ApiClient, assert_error

DOCS = Path(__file__).parents[2] / "docs"
SOLD = '[[resources]]\nkey = "a"\nname = "A"\nrevisions = [{amount = 1}]\n'
KEYS = 'keys = [{key = "svc_test_a"}]\n'


def test_the_built_in_account_is_what_the_page_says() -> None:
    account = builtin_account()
    page = (DOCS / "emulator.md").read_text()
    for word in (*(key.key for key in account.keys), *(one.key for one in account.resources), *CAPABILITIES):
        assert f"`{word}`" in page


def test_the_example_of_the_page_is_an_account(api: ApiClient) -> None:
    page = (DOCS / "emulator-control.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    account = Account.from_toml(example)
    api.use_account(account)
    api.key = account.first_key("test") or ""
    sold = {one.key: one for one in account.resources}
    assert sold["story"].revisions[-1].values[0].required
    bought = api.buy("story")
    done = api.complete(bought, values={"words": "120"})
    assert done.status_code == 202
    assert api.transaction(bought)["status"] == "succeeded"
    assert api.access("gift").json() == {"transaction_id": None}
    assert api.access("retired").status_code == 422


def test_python_and_toml_build_the_same_account() -> None:
    text = (
        'default_balance = "5"\n'
        'seller = {name = "S", pay_to = "0xabababababababababababababababababababab"}\n'
        'keys = [{key = "svc_live_a", capabilities = ["access"]}]\n'
        '[[payers]]\naddress = "0xcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"\nbalances = {EURC = 7}\n'
        "settlement = {after_seconds = 1.5, via = 'reconciling', to = 'failed'}\n"
        "[[resources]]\nkey = 'a'\nname = 'A'\nenvironments = ['live']\nrequire_payment = false\n"
        "[[resources.revisions]]\namount = 1\nasset = 'EURC'\n"
        "values = [{name = 'n', label = 'N', unit = 'page', required = true}]\n"
    )
    payer = PayerSetup(
        address="0x" + "cd" * 20,
        balances={"EURC": 7},
        settlement=SettlementRule(after_seconds=1.5, via="reconciling", to="failed"),
    )
    values = (Value(name="n", label="N", unit="page", required=True),)
    sold = Resource(
        key="a",
        name="A",
        environments=("live",),
        require_payment=False,
        revisions=(Revision(amount=1, asset="EURC", values=values),),
    )
    account = Account.from_toml(text)
    assert account.resources == (sold,)
    assert account.payers == (payer,)
    assert account.keys == (Key(key="svc_live_a", capabilities=("access",)),)
    assert account.default_balance == 5
    assert account.seller.pay_to.lower() == "0x" + "ab" * 20


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("keys = ", "w.toml is not TOML: "),
        ("", "w.toml: resources: Field required"),
        (KEYS, "w.toml: resources: Field required"),
        (SOLD, "w.toml: keys: Field required"),
        ("keys = []\n" + SOLD, "w.toml: keys: "),
        (KEYS + "colour = 1\n" + SOLD, "w.toml: colour: Extra inputs are not permitted"),
        ('keys = [{key = "secret"}]\n' + SOLD, "w.toml: keys[0].key: "),
        (
            'keys = [{key = "svc_test_a", capabilities = ["all"]}]\n' + SOLD,
            "w.toml: keys[0].capabilities[0]: ",
        ),
        (KEYS + SOLD.replace('"a"', '"A-b"'), "w.toml: resources[0].key: "),
        (KEYS + SOLD.replace("[{amount = 1}]", "[]"), "w.toml: resources[0].revisions: "),
        (KEYS + SOLD.replace("= 1}", "= 0}"), "w.toml: the file: the resource 'a' has a price of 0: set an "),
        (KEYS + SOLD.replace('name = "A"', 'name = "A\\u0000"'), "must not contain the character U+0000"),
        (KEYS + SOLD.replace("= 1}", "= 0.01}"), "w.toml: resources[0].revisions[0].amount: "),
        (KEYS + SOLD.replace("= 1}", "= -1}"), "w.toml: resources[0].revisions[0].amount: "),
        (KEYS + SOLD.replace("= 1}", "= 1, asset = 'USDT'}"), "w.toml: resources[0].revisions[0].asset: "),
        (KEYS + SOLD + SOLD, "w.toml: the file: the resource key 'a' is there twice"),
        (KEYS + "seller = {pay_to = '0x1'}\n" + SOLD, "w.toml: seller.pay_to: "),
        (
            KEYS + SOLD + "settlement = {}\n",
            "give exactly one of after_seconds, after_reads, until_expiry and manual",
        ),
        (KEYS + SOLD + "created_at = 2026-01-01T00:00:00\n", "w.toml: resources[0].created_at: "),
    ],
)
def test_faults_of_a_file_are_sentences_with_a_place(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        Account.from_toml(text, "w.toml")
    assert sentence in str(told.value)


def test_names_are_there_once() -> None:
    values = (Value(name="n"), Value(name="n"))
    with pytest.raises(ValidationError, match="there twice"):
        Revision(amount=1, values=values)


@pytest.mark.parametrize("name", ["a", "a-b_c-1", "1", "a" * 100])
def test_value_names_within_the_limits_are_taken(name: str) -> None:
    assert Value(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", "A", "a--b", "_a", "a_", "a b", "a.b", "a/b", "a\n", "\u00e9", "a" * 101]
)
def test_other_value_names_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        Value(name=name)


@pytest.mark.parametrize("key", ["", "A", "1a", "a-b", "a.b", "a b", "a__b", "_a", "a_", "a\n", "a" * 101])
def test_other_integration_keys_are_refused(key: str) -> None:
    with pytest.raises(ValidationError):
        Resource(key=key, name="A", revisions=(Revision(amount=1),))


def test_positions_of_values_go_from_0_to_99(api: ApiClient) -> None:
    values = tuple(Value(name=f"v{place}") for place in range(100))
    sold = Resource(key="a", name="A", revisions=(Revision(amount=1, values=values),))
    api.use_account(Account(keys=(Key(key=TEST_KEY),), resources=(sold,)))
    (contract,) = api.listed("/contracts")["components"]["schemas"].values()
    assert [one["x-svc-position"] for one in contract["properties"].values()] == list(range(100))
    with pytest.raises(ValidationError):
        Revision(amount=1, values=(*values, Value(name="more")))


def test_only_what_is_free_may_have_a_price_of_nothing() -> None:
    emulator, nothing = Emulator(), Revision(amount=0)
    emulator.publish("free_notes", nothing)
    with pytest.raises(ConfigurationError, match="'free_notes' has a price of 0: set an amount"):
        emulator.require_payment("free_notes")
    with pytest.raises(ConfigurationError, match="'text_summary' has a price of 0: set an amount"):
        emulator.publish("text_summary", nothing)


def test_a_price_of_nothing_cannot_be_paid(api: ApiClient) -> None:
    """One that was published before this rule: its transfer would cost gas and move nothing."""
    sold = Resource(key="a", name="A", revisions=(Revision(amount=0),), require_payment=False)
    account = Account(keys=(Key(key=TEST_KEY),), resources=(sold,))
    required = sold.model_copy(update={"require_payment": True})
    api.use_account(account.model_copy(update={"resources": (required,)}))
    assert "an amount of 0 is no payment" in assert_error(
        api.access("a", api.proof("a")), 402, "payment_required"
    )


@pytest.mark.parametrize("amount", [-1, 10**30, 0.5, "1e3", "01", True])
def test_other_amounts_are_refused(amount: object) -> None:
    with pytest.raises(ValidationError):
        Revision.model_validate({"amount": amount})


def test_balances_of_an_account_are_on_the_ledger(api: ApiClient) -> None:
    poor = PayerSetup(address=api.wallet.address, balances={"USDC": 9_999})
    account = Account(keys=(Key(key=TEST_KEY),), resources=builtin_account().resources, payers=(poor,))
    api.use_account(account)
    assert "not enough" in api.access(proof=api.proof()).json()["message"]
    assert api.access("euro_report", api.proof("euro_report")).status_code == 200


def test_a_resource_can_live_in_one_environment() -> None:
    sold = Resource(key="a", name="A", revisions=(Revision(amount=1),), environments=("live",))
    emulator = Emulator(Account(keys=(Key(key="svc_live_a"),), resources=(sold,)))
    assert emulator.revision_id("a", "live").startswith("acr_")
    with pytest.raises(ConfigurationError, match="no resource 'a' in test"):
        emulator.revision_id("a")
    with pytest.raises(ConfigurationError, match="no resource 'b'"):
        emulator.archive("b")


@pytest.mark.parametrize(
    ("amount", "asset", "label"),
    [
        (10_000, "USDC", "0.01 USDC"),
        (1, "USDC", "0.000001 USDC"),
        (1_500_000, "EURC", "1.50 EURC"),
        (2_000_000, "USDC", "2.00 USDC"),
        (10**30 - 1, "USDC", "999999999999999999999999.999999 USDC"),
    ],
)
def test_the_label_of_a_price_is_exact(api: ApiClient, amount: int, asset: str, label: str) -> None:
    revision = Revision.model_validate({"amount": amount, "asset": asset})
    sold = Resource(key="euro_report" if asset == "EURC" else "text_summary", name="A", revisions=(revision,))
    account = Account(keys=(Key(key=TEST_KEY),), resources=(sold,), default_balance=10**30 - 1)
    api.use_account(account)
    receipt = api.complete(api.buy(sold.key)).json()["receipt"]
    assert receipt["price"]["label"] == label
    assert receipt["payment"]["settled_atomic"] == str(amount)
