"""Test payers: published keys whose payments always settle in the same known way, like test card numbers.

They exist in the test environment of every account. An account that names one of these addresses among its
payers overrides it. In live they are ordinary addresses.

Each private key is the SHA-256 of "faregate test payer <name>". Never send money to these addresses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import ClassVar, Final

from faregate.rules.account import Account, PayerSetup, SettlementRule
from faregate.x402.tokens import Environment

AMPLE_BALANCE: Final = 10**12
"""Atomic units of each asset: a million, more than any price."""


@dataclass(frozen=True, slots=True)
class TestPayer:
    """A payer with a published key. `balance` is in atomic units of each asset, in test.

    `settlement` is how its payments settle; None leaves it to the resource.
    """

    __test__: ClassVar[bool] = False  # pytest would take the class for a test

    name: str
    private_key: str
    address: str
    about: str
    settlement: SettlementRule | None = None
    balance: int = AMPLE_BALANCE

    def setup(self) -> PayerSetup:
        """Return the payer in the form that an account uses."""
        return PayerSetup(
            address=self.address,
            balances={"EURC": self.balance, "USDC": self.balance},
            settlement=self.settlement,
        )


def list_special_payers(account: Account, environment: Environment) -> tuple[PayerSetup, ...]:
    """List the account's payers and, in test, the test payers that it does not override."""
    if environment == "live":
        return account.payers
    named = {payer.address for payer in account.payers}
    return (
        *account.payers,
        *(test_payer for test_payer in _list_test_payers() if test_payer.address not in named),
    )


@cache  # checksums of addresses take a millisecond, and each emulator needs them
def _list_test_payers() -> tuple[PayerSetup, ...]:
    return tuple([payer.setup() for payer in TEST_PAYERS.values()])


def map_settlement_rules(account: Account, environment: Environment) -> dict[str, SettlementRule]:
    """Map the addresses (lower case) of special payers to their settlement rules."""
    return {
        payer.address.lower(): payer.settlement
        for payer in list_special_payers(account, environment)
        if payer.settlement is not None
    }


_ALL: Final = (
    TestPayer(
        name="good",
        private_key="0x4e2d28cbbf54df2425f69d97ecd818d5eef9802c99f9c8fc39068fe74dbbf91f",
        address="0x93771F6e7A3bA4b22A9dE19dEe42E16faf86eF48",
        about="pays at once",
        settlement=SettlementRule(after_seconds=0),
    ),
    TestPayer(
        name="slow",
        private_key="0x093fa56d8046ab8a06e7ffaedd789885c98b715cf3116016b08e4a1997d2868e",
        address="0x875397fBED83d67D809A87475252946C7E75d58D",
        about="settling, then succeeded after 2 seconds",
        settlement=SettlementRule(after_seconds=2),
    ),
    TestPayer(
        name="reads",
        private_key="0xd000e66aacd32b48c45ea09473ce6633bf6c807014a4f02e2dfa983cea4366a8",
        address="0x90B7d6509D4735c7634c78391CBa886bDD411043",
        about="settling, then succeeded at the second read",
        settlement=SettlementRule(after_reads=2),
    ),
    TestPayer(
        name="reconciles",
        private_key="0x2ef33dcc4859514b3bdfdcd3c6eaff960cfb4549fc0710fcd4f8ee5614759719",
        address="0x31C1b0606E1321adaEA07799ba383856c4Deb32f",
        about="reconciling, then succeeded at the second read",
        settlement=SettlementRule(after_reads=2, via="reconciling"),
    ),
    TestPayer(
        name="reconciles-fails",
        private_key="0xf1d150551b25c2e01e183c61b401e707f90ae7b1ebb2f59284aac7b023bfe132",
        address="0x72f451D7C2cb46621B0Fd30BE5A546760FBDfDda",
        about="reconciling, then failed at the second read",
        settlement=SettlementRule(after_reads=2, via="reconciling", to="failed"),
    ),
    TestPayer(
        name="poor",
        private_key="0x5e80960cac197ac294e439deb2a4e162f3d5a665a7f919d9c38adcdc412aa61c",
        address="0x4281A0945A4002D70e98b92C79b09f654499E26a",
        about="has nothing: access is 402",
        balance=0,
    ),
    TestPayer(
        name="rejected",
        private_key="0x4f915f3b91dc4f0dad6ec0a4b9bc8f6a14d4a7a65be4fe2d220937c7a33c60e6",
        address="0x063D59d66c69a2A8529164f8Ba0aDF3B1d83826f",
        about="may have the resource, but its payment fails as soon as it is taken",
        settlement=SettlementRule(after_seconds=0, to="failed"),
    ),
    TestPayer(
        name="expires",
        private_key="0xf42bb657d7f75e15fa0c15f156f747f47dc2077dfc88d912ab654572fb850600",
        address="0x1c6D1e80DEC6e428575eA3B9851B188dC9db9dCf",
        about="settling until its authorization expires (validBefore), then failed",
        settlement=SettlementRule(until_expiry=True),
    ),
)
TEST_PAYERS: Final[Mapping[str, TestPayer]] = MappingProxyType({payer.name: payer for payer in _ALL})
"""The test payers by name."""
