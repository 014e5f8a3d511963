"""What the seller set up: keys, resources, revisions, prices (spec: Account setup is not this API's).

A `World` is plain frozen data for both environments. Ids are not written here: they are derived from the
keys and numbers, so that they are the same at every start and differ between test and live.
"""

from datetime import UTC, datetime
from typing import Annotated, Final, Literal, Self

from eth_utils.address import to_checksum_address
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic import StringConstraints as Text

from faregate.merchant.types import (
    AtomicAmount,
    Description,
    Environment,
    EvmAddress,
    IntegrationKey,
    SettlementAsset,
    ValueName,
)

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

Label = Annotated[str, Text(strict=True, min_length=1, max_length=200)]
BEGINNING: Final = datetime(2025, 1, 1, tzinfo=UTC)


class Part(BaseModel):
    """A piece of the world: frozen, and no property it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)


class Settlement(Part):
    """When and how a payment ends. Zero is at once; reads are GETs and repeated completes."""

    after_seconds: Annotated[float, Field(ge=0, le=10**9)] | None = None
    after_reads: Annotated[int, Field(strict=True, ge=0)] | None = None
    via: Literal["settling", "reconciling"] = "settling"
    to: Literal["succeeded", "failed"] = "succeeded"

    @model_validator(mode="after")
    def _one_measure(self) -> Self:
        if (self.after_seconds is None) == (self.after_reads is None):
            raise ValueError("give either after_seconds or after_reads")
        return self


class Value(Part):
    """One reportable value of a revision; the order in the list is its display position."""

    name: ValueName
    label: Label | None = None
    unit: Label = "count"
    description: Description = ""
    required: bool = False


class Revision(Part):
    """Published reporting rules with their price. `amount` is in atomic units of `asset`."""

    amount: AtomicAmount
    asset: SettlementAsset = "USDC"
    values: Annotated[tuple[Value, ...], Field(max_length=100)] = ()
    name: Label | None = None
    price_label: Label | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _no_doubles("value", [value.name for value in self.values])
        return self


class Resource(Part):
    """What is sold, under one integration key. Revisions are numbered from 1; the last one is active."""

    key: IntegrationKey
    name: Label
    revisions: Annotated[tuple[Revision, ...], Field(min_length=1)]
    description: Description = ""
    image_url: Label | None = None
    environments: Annotated[tuple[Environment, ...], Field(min_length=1)] = ("test", "live")
    show_key: bool = True
    """False: the service has no integration key and no revision key for it."""
    require_payment: bool = True
    archived: bool = False
    max_timeout_seconds: Annotated[int, Field(strict=True, ge=1)] = 60
    settlement: Settlement | None = None
    created_at: AwareDatetime = BEGINNING


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
    """The whole account. A payer nobody named starts with `default_balance` atomic units of each asset."""

    resources: Annotated[tuple[Resource, ...], Field(min_length=1)]
    keys: Annotated[tuple[Key, ...], Field(min_length=1)]
    seller: Seller = Seller()
    payers: tuple[PayerSetup, ...] = ()
    default_balance: AtomicAmount = 1_000_000_000

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _no_doubles("resource key", [resource.key for resource in self.resources])
        _no_doubles("API key", [key.key for key in self.keys])
        _no_doubles("payer", [payer.address for payer in self.payers])
        return self

    @classmethod
    def builtin(cls) -> "World":
        """The small world that is there when nothing is given."""
        from faregate.emulator.builtin import builtin_world

        return builtin_world()

    @classmethod
    def from_toml(cls, text: str, name: str = "world") -> "World":
        """A world from TOML text; `Misconfigured` says what is wrong, and where in `name`."""
        from faregate.emulator.worldfile import read_world

        return read_world(text, name)

    def first_key(self, environment: Environment) -> str | None:
        """The first key of this environment, for those who only need one."""
        return next((key.key for key in self.keys if key.environment == environment), None)


def _no_doubles(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the {what} {name!r} is there twice")
