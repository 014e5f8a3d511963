"""The seller's account as data: keys, resources, revisions, prices, payers.

The Merchant API has no endpoints for these. Ids are derived from keys and revision numbers (`catalog.py`), so
that they are the same at every start and differ between test and live.
"""

import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self, cast, get_args

from eth_utils.address import is_checksum_formatted_address, to_checksum_address
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic import StringConstraints as Text
from pydantic_core import ErrorDetails

from faregate.errors import ConfigurationError
from faregate.merchant.types import (
    WITHOUT_NULL,
    AtomicAmount,
    Description,
    EvmAddress,
    IntegrationKey,
    ValueName,
)
from faregate.x402.declared_prices import DeclaredPrice
from faregate.x402.prices import AssetAmount
from faregate.x402.tokens import Environment, SettlementAsset, format_price
from faregate.x402.usage_prices import LEAST, CalculationMode, Usage, UsagePrice, parse_rate


def _read_rate(value: Any) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if not isinstance(value, str):
        raise ValueError("write a rate as a string, such as '12.5': numbers of other kinds are rounded")
    return parse_rate(value)


Label = Annotated[str, Text(strict=True, min_length=1, max_length=200), WITHOUT_NULL]
SellerId = Annotated[str, Text(strict=True, max_length=64, pattern=r"^[a-z0-9][a-z0-9._-]*\z")]
Rate = Annotated[
    Decimal,
    BeforeValidator(_read_rate),
    PlainSerializer(lambda rate: format(rate, "f"), return_type=str),
]
"""Atomic units for one unit of a value: a decimal string, exact."""
DEFAULT_CREATED_AT: Final = datetime(2025, 1, 1, tzinfo=UTC)


class FrozenModel(BaseModel):
    """A frozen Pydantic model that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)


def leave_out_none(dumped: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what was dumped without this field if it is None: as it was before there was one."""
    return {key: value for key, value in dumped.items() if key != name or value is not None}


class SettlementRule(FrozenModel):
    """When and how a payment settles: exactly one trigger, the status `via` until then, the status `to` in
    the end.

    Zero means at once. A read is a GET of the transaction or a repeated complete. `until_expiry` waits for
    the authorization's `validBefore` and then always fails. `manual` waits for `settle` or `fail`.
    `amount` is what a faulty facilitator moves of a maximum, in place of what was used; a fixed price is
    moved whole or not at all.
    """

    after_seconds: Annotated[float, Field(ge=0, le=10**9)] | None = None
    after_reads: Annotated[int, Field(strict=True, ge=0)] | None = None
    until_expiry: Annotated[bool, Field(strict=True)] = False
    manual: Annotated[bool, Field(strict=True)] = False
    via: Literal["settling", "reconciling"] = "settling"
    to: Literal["succeeded", "failed"] = "succeeded"
    amount: AtomicAmount | None = None

    @model_validator(mode="before")
    @classmethod
    def _fail_at_expiry(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        values = cast("dict[str, Any]", given)
        return {"to": "failed", **values} if values.get("until_expiry") else values

    @model_validator(mode="after")
    def _check_measure(self) -> Self:
        counted = (self.after_seconds is not None, self.after_reads is not None)
        if sum((*counted, self.until_expiry, self.manual)) != 1:
            raise ValueError("give exactly one of after_seconds, after_reads, until_expiry and manual")
        if self.until_expiry and self.to == "succeeded":
            raise ValueError("what waits until_expiry fails: leave `to` out")
        if self.manual and self.to == "failed":
            raise ValueError("manual settlement ends by settle or fail: leave `to` out")
        if self.amount is not None and self.to == "failed":
            raise ValueError("what fails moves nothing: leave the amount out")
        if self.amount == 0:
            raise ValueError("no transfer is of 0: let the payment fail instead")
        return self

    @model_serializer(mode="wrap")
    def _leave_out_amount(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return leave_out_none(dump(self), "amount")


def build_parked_rule(amount: int) -> SettlementRule:
    """Build the rule of a payment of which only this amount was settled, less than was used."""
    return SettlementRule(manual=True, via="reconciling", amount=amount)


class Value(FrozenModel):
    """One reportable value of a revision. Values are displayed in the order of the list."""

    name: ValueName
    label: Label | None = None
    unit: Label = "count"
    description: Description = ""
    required: bool = False


class UsageRates(FrozenModel):
    """What makes a price follow the use, in atomic units: `rates` per unit of each value, as decimal strings.

    `fixed` is added to each use; `least` is settled in any case.
    """

    rates: Annotated[dict[ValueName, Rate], Field(min_length=1)]
    fixed: AtomicAmount = 0
    least: AtomicAmount = LEAST


class Revision(FrozenModel):
    """Reporting rules with their price: `amount` atomic units of `asset`, with `usage` at most so many."""

    amount: AtomicAmount
    asset: SettlementAsset = "USDC"
    values: Annotated[tuple[Value, ...], Field(max_length=100)] = ()
    name: Label | None = None
    price_label: Label | None = None
    usage: UsageRates | None = None

    @property
    def calculation_mode(self) -> CalculationMode:
        return "fixed" if self.usage is None else "usage"

    @property
    def required_values(self) -> frozenset[str]:
        return frozenset(value.name for value in self.values if value.required)

    @property
    def price_terms(self) -> tuple[int, SettlementAsset, UsageRates | None]:
        """What a payer pays by: equal for revisions that ask the same price."""
        return self.amount, self.asset, self.usage

    @property
    def default_price_label(self) -> str:
        """What the price is called where the seller gave it no name."""
        price = format_price(self.amount, self.asset)
        return price if self.usage is None else f"up to {price}"

    @property
    def usage_price(self) -> UsagePrice | None:
        """The price by use; None if it is fixed."""
        if self.usage is None:
            return None
        return UsagePrice(self.amount, dict(self.usage.rates), self.usage.fixed, self.usage.least)

    @model_validator(mode="after")
    def _check_unique(self) -> Self:
        check_unique("value", [value.name for value in self.values])
        return self

    @model_validator(mode="after")
    def _check_usage(self) -> Self:
        if self.usage is not None:
            _ = self.usage_price  # raises `ValueError`
            reported = {value.name for value in self.values}
            if unknown := sorted(self.usage.rates.keys() - reported):
                raise ValueError(
                    f"usage.rates: {', '.join(unknown)}: not among the values of this revision "
                    f"({', '.join(sorted(reported)) or 'none'})"
                )
        return self

    @model_serializer(mode="wrap")
    def _leave_out_usage(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # The ids of revisions are made from this: those of fixed prices stay what they were.
        return leave_out_none(dump(self), "usage")


def build_revision(declared: DeclaredPrice, name: str | None = None) -> Revision:
    """Build the rules of a price that is written in code; each value with a rate must be reported."""
    price = declared.price
    values = tuple(Value(name=value, required=how == "required") for value, how in declared.values)
    if isinstance(price, AssetAmount):
        return Revision(amount=price.atomic, asset=price.asset, name=name, values=values)
    return Revision(
        amount=price.maximum.atomic,
        asset=price.asset,
        name=name,
        values=(*(Value(name=value, required=True) for value in price.rates), *values),
        usage=build_usage(price),
    )


def build_usage(price: Usage) -> UsageRates:
    """Build what makes a price that is written in code follow the use."""
    atomic = price.price
    return UsageRates(rates=dict(atomic.rates), fixed=atomic.fixed_atomic, least=atomic.least_atomic)


class Appearance(FrozenModel):
    """How a resource is shown in lists and contracts."""

    name: Label
    description: Description = ""
    image_url: Label | None = None


class Resource(Appearance):
    """A product with its integration key. Revisions are numbered from 1; the last one is active."""

    key: IntegrationKey
    revisions: Annotated[tuple[Revision, ...], Field(min_length=1)]
    environments: Annotated[tuple[Environment, ...], Field(min_length=1)] = ("test", "live")
    show_key: bool = True
    """False: the service has no integration key and no revision key for it."""
    require_payment: bool = True
    archived: bool = False
    max_timeout_seconds: Annotated[int, Field(strict=True, ge=1)] = 60
    settlement: SettlementRule | None = None
    created_at: AwareDatetime = DEFAULT_CREATED_AT

    @property
    def appearance(self) -> Appearance:
        return Appearance(name=self.name, description=self.description, image_url=self.image_url)

    def with_appearance(self, **update: str | None) -> Self:
        """Return the resource with these fields changed; `ConfigurationError` if one breaks a rule."""
        try:
            appearance = Appearance.model_validate({**dict(self.appearance), **update})
        except ValidationError as error:
            raise ConfigurationError(describe_error(error, "the resource")) from None
        return self.model_copy(update=dict(appearance))


def check_unique(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the {what} {name!r} is there twice")


def find_price_fault(key: str, revision: Revision, *, required: bool) -> str | None:
    """Say what is wrong with the price of a resource; None if nothing is."""
    if not required or revision.amount > 0:
        return None
    return f"the resource {key!r} has a price of 0: set an amount of at least 1, or require_payment = false"


Capability = Literal[
    "access",
    "contracts:read",
    "executions:complete",
    "payers:read",
    "resources:read",
    "transactions:complete",
    "transactions:read",
]
CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)


def find_address_fault(given: str) -> str | None:
    """Say what is wrong with an address that a person typed; None if it is right.

    Upper and lower case letters are a checksum (EIP-55). One case throughout has none.
    """
    if re.fullmatch("0x[0-9a-fA-F]{40}", given) is None:
        return "must be an address: 0x and 40 hex digits"
    if is_checksum_formatted_address(given) and given != to_checksum_address(given):
        return "is mistyped: its upper and lower case letters do not match its digits. Copy the address again"
    return None


def _check_address(given: object) -> object:
    # `EvmAddress` would show a regular expression.
    if isinstance(given, str) and (fault := find_address_fault(given)) is not None:
        raise ValueError(fault)
    return given


Address = Annotated[EvmAddress, BeforeValidator(_check_address), AfterValidator(to_checksum_address)]
"""An EVM address, kept in its checksum form."""


class Seller(FrozenModel):
    """The organization and the address that is paid.

    `id` names the seller in a database of `faregate service`, whatever else of it changes; the emulator
    ignores it.
    """

    id: SellerId | None = None
    name: Label = "Emulated Seller"
    pay_to: Address = "0xFa4e6a7e00000000000000000000000000000001"


class Key(FrozenModel):
    """An API key. Its prefix names the environment; a missing capability is answered 403."""

    key: Annotated[
        str, Text(strict=True, max_length=200, pattern=r"^svc_(?:test|live)_[A-Za-z0-9._~+/=-]+\z")
    ]
    capabilities: tuple[Capability, ...] = CAPABILITIES

    @property
    def environment(self) -> Environment:
        return "test" if self.key.startswith("svc_test_") else "live"


class PayerSetup(FrozenModel):
    """A payer with balances or a settlement rule of its own, in both environments."""

    address: Address
    balances: dict[SettlementAsset, AtomicAmount] = Field(default_factory=dict[SettlementAsset, AtomicAmount])
    settlement: SettlementRule | None = None


class Account(FrozenModel):
    """A seller's whole account, for both environments.

    A payer that is not named starts with `default_balance` atomic units of each asset. `settlement` is the
    rule for payments whose payer and resource have none; without it payments settle at once.
    """

    resources: Annotated[tuple[Resource, ...], Field(min_length=1)]
    keys: Annotated[tuple[Key, ...], Field(min_length=1)]
    seller: Seller = Seller()
    payers: tuple[PayerSetup, ...] = ()
    default_balance: AtomicAmount = 1_000_000_000
    settlement: SettlementRule | None = None

    @model_validator(mode="after")
    def _check_unique(self) -> Self:
        check_unique("resource key", [resource.key for resource in self.resources])
        check_unique("API key", [key.key for key in self.keys])
        check_unique("payer", [payer.address for payer in self.payers])
        return self

    @model_validator(mode="after")
    def _check_prices(self) -> Self:
        for resource in self.resources:
            active, required = resource.revisions[-1], resource.require_payment
            if (fault := find_price_fault(resource.key, active, required=required)) is not None:
                raise ValueError(fault)
        return self

    @classmethod
    def from_toml(cls, text: str, name: str = "account") -> Self:
        """Read an account from TOML; `ConfigurationError` names the fault and its place in `name`."""
        return cls._from_values(_read_toml(text, name), name)

    @classmethod
    def from_catalog(cls, text: str, name: str = "catalog") -> tuple[Self, bool]:
        """Read an account from TOML that needs no keys; return whether it has some."""
        values = _read_toml(text, name)
        has_keys = bool(values.get("keys"))
        # An account has a key. This one stands in: the service takes none from a file.
        return cls._from_values(
            {**values, "keys": values.get("keys") or [{"key": "svc_test_none"}]}, name
        ), has_keys

    @classmethod
    def _from_values(cls, values: Mapping[str, Any], name: str) -> Self:
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            faults = _drop_consequences(error.errors(include_url=False, include_input=False))
            raise ConfigurationError("\n".join(f"{name}: {_describe(fault)}" for fault in faults)) from None

    def first_key(self, environment: Environment) -> str | None:
        """Return the first key of this environment."""
        return next((key.key for key in self.keys if key.environment == environment), None)


def _read_toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name} is not TOML: {error}") from None


def describe_error(error: ValidationError, whole: str) -> str:
    """Describe the first fault, such as `resources[0].key: Field required`; `whole` names an empty place."""
    # Context may hold an exception, and input may hold a key or a proof: neither is needed.
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return _describe(fault, whole)


def _drop_consequences(faults: list[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out that a list is too short where one of its items has a fault of its own."""
    places = [fault["loc"] for fault in faults]
    return [
        fault
        for fault, place in zip(faults, places, strict=True)
        if fault["type"] != "too_short"
        or not any(other != place and other[: len(place)] == place for other in places)
    ]


def _describe(fault: ErrorDetails, whole: str = "the file") -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
    return f"{''.join(steps).lstrip('.') or whole}: {fault['msg'].removeprefix('Value error, ')}"
