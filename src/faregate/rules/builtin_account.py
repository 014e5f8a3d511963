"""The account that an emulator has when it is given none, and the keys of tenants.

All prices are far below one dollar, the limit up to which stock x402 clients sign without asking.
"""

import re
from functools import cache
from typing import Final

from faregate.rules.account import Account, Capability, Key, Resource, Revision, SettlementRule, Value

READ_CAPABILITIES: Final[tuple[Capability, ...]] = (
    "contracts:read",
    "payers:read",
    "resources:read",
    "transactions:read",
)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_KEY: Final = re.compile(r"svc_(?:test|live)_tenant_([A-Za-z0-9_-]{1,100})(?:\.readonly)?", re.ASCII)


def is_valid_name(name: str) -> bool:
    """Whether this is 1 to 100 letters, digits, `_` and `-`."""
    return _NAME.fullmatch(name) is not None


def parse_tenant_name(key: str) -> str | None:
    """Return the tenant that this key belongs to; None if the key names none."""
    match = _KEY.fullmatch(key)
    return None if match is None else match[1]


def build_tenant_keys(name: str) -> tuple[Key, ...]:
    """Build the keys of this tenant."""
    return (
        Key(key=f"svc_test_tenant_{name}"),
        Key(key=f"svc_live_tenant_{name}"),
        Key(key=f"svc_test_tenant_{name}.readonly", capabilities=READ_CAPABILITIES),
    )


def with_tenant_keys(account: Account, name: str) -> Account:
    """Return the account with the keys of this tenant instead of its own."""
    return account.model_copy(update={"keys": build_tenant_keys(name)})


TEST_KEY: Final = "svc_test_emulator"
"""The API key of the built-in account in the test environment."""
LIVE_KEY: Final = "svc_live_emulator"
"""The API key of the built-in account in the live environment, where no money moves either."""
READ_ONLY_TEST_KEY: Final = "svc_test_emulator_readonly"
"""A test key of the built-in account that may read and not sell."""
_CENT: Final = 10_000
_TOKENS_IN: Final = Value(name="input-tokens", label="Input tokens", unit="token")
_TOKENS_OUT: Final = Value(name="output-tokens", label="Output tokens", unit="token")


@cache
def builtin_account() -> Account:
    """Return the account that an emulator has when it is given none."""
    return Account(
        keys=(
            Key(key=TEST_KEY),
            Key(key=LIVE_KEY),
            Key(key=READ_ONLY_TEST_KEY, capabilities=READ_CAPABILITIES),
        ),
        resources=(*_build_ordinary_resources(), *_build_special_resources()),
    )


def _build_ordinary_resources() -> tuple[Resource, ...]:
    metered = Value(name="input_tokens", label="Input tokens", unit="token", required=True)
    return (
        Resource(
            key="text_summary",
            name="Text summary",
            description="A summary of a text; may report its tokens.",
            image_url="https://seller.example/text-summary.png",
            revisions=(Revision(amount=_CENT, values=(_TOKENS_IN, _TOKENS_OUT)),),
        ),
        Resource(
            key="token_meter",
            name="Token meter",
            description="Must report its input tokens.",
            revisions=(
                Revision(amount=_CENT // 2, values=(metered,)),
                Revision(amount=_CENT, values=(metered, Value(name="output_tokens", unit="token"))),
            ),
        ),
        Resource(key="daily_report", name="Daily report", revisions=(Revision(amount=5 * _CENT),)),
        Resource(key="euro_report", name="Euro report", revisions=(Revision(amount=_CENT, asset="EURC"),)),
    )


def _build_special_resources() -> tuple[Resource, ...]:
    price = (Revision(amount=_CENT),)
    return (
        Resource(key="free_notes", name="Free notes", revisions=price, require_payment=False),
        Resource(
            key="slow_settlement",
            name="Slow settlement",
            description="Settles at the second read.",
            revisions=price,
            settlement=SettlementRule(after_reads=2),
        ),
        Resource(
            key="failing_settlement",
            name="Failing settlement",
            description="Fails to settle at the first read.",
            revisions=price,
            settlement=SettlementRule(after_reads=1, via="reconciling", to="failed"),
        ),
        Resource(key="old_report", name="Old report", revisions=price, archived=True),
    )
