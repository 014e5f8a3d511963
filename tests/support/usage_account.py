"""A resource whose price follows the use, beside those of an account."""

from typing import Final

from faregate.emulator import Account, Resource, Revision

USED: Final = "used_tokens"
MAXIMUM: Final = 500_000
_REVISION: Final = Revision.model_validate(
    {
        "amount": MAXIMUM,
        "values": [{"name": "tokens", "unit": "token", "required": True}, {"name": "pages"}],
        "usage": {"rates": {"tokens": "10", "pages": "0.5"}},
    }
)


def with_usage_price(account: Account) -> Account:
    """Return the account with one resource more: at most 0.50 USDC, 10 atomic units a token."""
    used = Resource(key=USED, name="Used tokens", revisions=(_REVISION,))
    return account.model_copy(update={"resources": (*account.resources, used)})
