"""The schema of the state document: everything that changed since the emulator was set up.

The account itself (resources, prices, keys) is not in it, nor what can be computed from the rest. A part that
is left out is as it was set up, so a document of a few lines is a fixture.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from faregate.emulator.clock import END_OF_TIME, ClockState
from faregate.emulator.faults.active_faults import FaultsState
from faregate.errors import ConfigurationError
from faregate.merchant.models import (
    AccessRequest,
    CompleteRequest,
    ReceiptDocument,
    ResourceExecutionMetadata,
)
from faregate.merchant.types import (
    EvmAddress,
    IntegrationKey,
    PayerId,
    PayerIdentifier,
    PaymentRequestId,
    ResourceExecutionId,
    RevisionId,
    TransactionHash,
    TransactionId,
)
from faregate.rules.account import (
    Appearance,
    FrozenModel,
    Revision,
    Seller,
    SettlementRule,
    describe_error,
)
from faregate.rules.records import Status
from faregate.x402.tokens import Environment, SettlementAsset

Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Nonce = Annotated[str, Field(strict=True, pattern=r"^(?:0x[0-9a-f]{64}|0|[1-9][0-9]{0,77})\z")]
"""32 bytes of hex in EIP-3009, a decimal number in Permit2."""
_UNITS = re.compile(r"0|[1-9][0-9]{0,77}", re.ASCII)


def _read_units(value: object) -> object:
    if isinstance(value, str):
        if not _UNITS.fullmatch(value):
            raise ValueError("a balance is a decimal string of up to 78 digits without leading zeros")
        return int(value)
    return value


def _check_units(value: int) -> int:
    if not 0 <= value < 1 << 256:
        raise ValueError("a balance fits 256 bits")
    return value


Units = Annotated[
    int,
    BeforeValidator(_read_units),
    Field(strict=True),
    AfterValidator(_check_units),
    PlainSerializer(str, return_type=str),
]
"""A balance: an amount has 30 digits at most, but what an address was paid adds up. As large as a token's."""
Base64 = Annotated[str, Field(strict=True, max_length=1_000_000)]


def _to_utc(moment: datetime) -> datetime:
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("there is no such moment") from None
    if moment > END_OF_TIME:
        raise ValueError(f"time ends at {END_OF_TIME.isoformat()}")
    return moment


Moment = Annotated[AwareDatetime, AfterValidator(_to_utc)]


class ResourceVersion(Appearance):
    """How a resource was shown from `updated_at` on."""

    updated_at: Moment
    archived_at: Moment | None = None


class SavedResource(FrozenModel):
    """A resource after the seller's edits. `revisions` are all of its revisions, published ones included.

    `versions` are how lists showed it, oldest first, the current one last; empty if it was not edited.
    """

    key: IntegrationKey
    revisions: Annotated[tuple[Revision, ...], Field(min_length=1)]
    require_payment: bool = True
    updated_at: Moment
    archived_at: Moment | None = None
    settlement: SettlementRule | None = None
    versions: tuple[ResourceVersion, ...] = ()

    @model_validator(mode="after")
    def _check_versions(self) -> Self:
        moments = [version.updated_at for version in self.versions]
        if moments != sorted(moments):
            raise ValueError("versions go from earlier to later")
        if self.versions and (moments[-1], self.versions[-1].archived_at) != (
            self.updated_at,
            self.archived_at,
        ):
            raise ValueError("the last version is the present one")
        return self


class SavedPayer(FrozenModel):
    id: PayerId
    identifier: PayerIdentifier
    created_at: Moment


class SavedSettlement(FrozenModel):
    at: Moment
    transaction_hash: TransactionHash
    payment_response: str
    receipt: ReceiptDocument


class StatusChange(FrozenModel):
    """A status and when it began."""

    at: Moment
    status: Status


class SavedTransaction(FrozenModel):
    """One transaction. `payer` is a payer id, `proof` the `PAYMENT-SIGNATURE` header as it was sent.

    `plan` is how its payment settles, and `due` when, if it settles by time.
    """

    id: TransactionId
    payment_request_id: PaymentRequestId
    payer: PayerId
    request: AccessRequest
    proof: Base64
    history: Annotated[tuple[StatusChange, ...], Field(min_length=1)]
    accepted: CompleteRequest | None = None
    submitted_at: Moment | None = None
    plan: SettlementRule | None = None
    due: AwareDatetime | None = None
    reads: Count = 0
    settled: SavedSettlement | None = None

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        if self.history[0].status != "authorized":
            raise ValueError("a history begins with authorized")
        if any(later.at < earlier.at for earlier, later in zip(self.history, self.history[1:], strict=False)):
            raise ValueError("a history goes from earlier to later")
        if (self.history[-1].status == "succeeded") != (self.settled is not None):
            raise ValueError("a transaction has settled if it succeeded, and only then")
        return self


class SavedExecution(FrozenModel):
    id: ResourceExecutionId
    revision_id: RevisionId
    metadata: ResourceExecutionMetadata | None = None


class SavedBalance(FrozenModel):
    """The balance of an address, in atomic units of an asset."""

    environment: Environment
    asset: SettlementAsset
    address: EvmAddress
    balance: Units


class SavedUse(FrozenModel):
    """A used authorization, known by its nonce."""

    environment: Environment
    asset: SettlementAsset
    payer: EvmAddress
    nonce: Nonce
    transaction_hash: TransactionHash


VERSION: Final = 1


class MonotonicClockState(FrozenModel):
    """The latest stamp, and the latest moment a list was answered for."""

    latest: Moment
    fence: Moment


class EnvironmentSection(FrozenModel):
    """One environment. Transactions are in the order of their creation, resources in any order.

    A resource that is not named, and settlement rules that are left out, are as they were set up.
    """

    resources: tuple[SavedResource, ...] = ()
    settlement: SettlementRule | None = None
    payer_settlements: dict[EvmAddress, SettlementRule] | None = None
    payers: tuple[SavedPayer, ...] = ()
    transactions: tuple[SavedTransaction, ...] = ()
    executions: tuple[SavedExecution, ...] = ()


class LedgerState(FrozenModel):
    """The simulated ledger. A balance that is not named is as it was set up."""

    balances: tuple[SavedBalance, ...] = ()
    settled: tuple[SavedUse, ...] = ()


class StateDocument(FrozenModel):
    """The state of one emulator. Without a clock, time goes on as it is.

    `ids` and `challenges` are how many of them a seeded source has given.
    """

    version: Literal[1]
    seller: Seller | None = None
    clock: ClockState | None = None
    timeline: MonotonicClockState | None = None
    ids: Count | None = None
    challenges: Count | None = None
    faults: FaultsState | None = None
    ledger: LedgerState = LedgerState()
    test: EnvironmentSection = EnvironmentSection()
    live: EnvironmentSection = EnvironmentSection()


def read_document(document: StateDocument | Mapping[str, Any] | str | bytes) -> StateDocument:
    """Validate an object or JSON text; `ConfigurationError` says what is wrong and where."""
    if isinstance(document, StateDocument):
        return document
    try:
        if isinstance(document, str | bytes):
            return StateDocument.model_validate_json(document)
        return StateDocument.model_validate(dict(document))
    except ValidationError as error:
        text = describe_error(error, "the document")
        raise ConfigurationError(f"this is no state document: {text}") from None


def document_error(place: str, fault: str) -> ConfigurationError:
    return ConfigurationError(f"this is no state document: {place}: {fault}")
