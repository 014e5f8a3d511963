"""What the seller set up: keys, resources, revisions, prices (spec: Account setup is not this API's).

A `World` is plain frozen data for both environments. Ids are not written here: they are derived from the
keys and numbers, so that they are the same at every start and differ between test and live.
"""

from typing import Annotated, Final, Literal, Self

from eth_utils.address import to_checksum_address
from pydantic import AfterValidator, Field, model_validator
from pydantic import StringConstraints as Text

from faregate.merchant.types import AtomicAmount, Environment, EvmAddress, SettlementAsset
from faregate.service.goods import Label, Part, Resource, Settlement, no_doubles

Capability = Literal[
    "access",
    "contracts:read",
    "executions:complete",
    "payers:read",
    "resources:read",
    "transactions:complete",
    "transactions:read",
]
CAPABILITIES: Final[tuple[Capability, ...]] = (
    "access",
    "contracts:read",
    "executions:complete",
    "payers:read",
    "resources:read",
    "transactions:complete",
    "transactions:read",
)
Address = Annotated[EvmAddress, AfterValidator(to_checksum_address)]
"""An EVM address, kept in its checksum form."""


class Seller(Part):
    """The organization, and the address that is paid."""

    name: Label = "Emulated Seller"
    pay_to: Address = "0xFa4e6a7e00000000000000000000000000000001"


class Key(Part):
    """An API key; the prefix is its environment. A missing capability means 403."""

    key: Annotated[
        str, Text(strict=True, max_length=200, pattern=r"^svc_(?:test|live)_[A-Za-z0-9._~+/=-]+\z")
    ]
    capabilities: tuple[Capability, ...] = CAPABILITIES

    @property
    def environment(self) -> Environment:
        return "test" if self.key.startswith("svc_test_") else "live"


class PayerSetup(Part):
    """A payer who is not like the others: other balances, another way to settle. Both environments."""

    address: Address
    balances: dict[SettlementAsset, AtomicAmount] = Field(default_factory=dict[SettlementAsset, AtomicAmount])
    settlement: Settlement | None = None


class World(Part):
    """The whole account. A payer nobody named starts with `default_balance` atomic units of each asset.

    Payments end as `settlement` says where neither their resource nor their payer says more: without it
    at once.
    """

    resources: Annotated[tuple[Resource, ...], Field(min_length=1)]
    keys: Annotated[tuple[Key, ...], Field(min_length=1)]
    seller: Seller = Seller()
    payers: tuple[PayerSetup, ...] = ()
    default_balance: AtomicAmount = 1_000_000_000
    settlement: Settlement | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        no_doubles("resource key", [resource.key for resource in self.resources])
        no_doubles("API key", [key.key for key in self.keys])
        no_doubles("payer", [payer.address for payer in self.payers])
        return self

    @classmethod
    def builtin(cls) -> "World":
        """The small world that is there when nothing is given."""
        from faregate.service.builtin import builtin_world

        return builtin_world()

    @classmethod
    def from_toml(cls, text: str, name: str = "world") -> "World":
        """A world from TOML text; `ConfigurationError` says what is wrong, and where in `name`."""
        from faregate.service.worldfile import read_world

        return read_world(text, name)

    def first_key(self, environment: Environment) -> str | None:
        """The first key of this environment, for those who only need one."""
        return next((key.key for key in self.keys if key.environment == environment), None)
