"""The parts of the state document: what happened to one resource, payer, transaction, balance. Pure."""

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from faregate.emulator.clock import END
from faregate.emulator.goods import Part, Revision, Settlement
from faregate.emulator.state import Status
from faregate.merchant.answers import ReceiptDocument
from faregate.merchant.requests import AccessRequest, CompleteRequest, ResourceExecutionMetadata
from faregate.merchant.types import (
    AtomicAmount,
    Environment,
    EvmAddress,
    IntegrationKey,
    PayerId,
    PayerIdentifier,
    PaymentRequestId,
    ResourceExecutionId,
    RevisionId,
    SettlementAsset,
    TransactionHash,
    TransactionId,
)

Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Nonce = Annotated[str, Field(strict=True, pattern=r"^0x[0-9a-f]{64}\z")]
Base64 = Annotated[str, Field(strict=True, max_length=1_000_000)]


def _utc(moment: datetime) -> datetime:
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("there is no such moment") from None
    if moment > END:
        raise ValueError(f"time ends at {END.isoformat()}")
    return moment


Moment = Annotated[AwareDatetime, AfterValidator(_utc)]


class ResourceState(Part):
    """A resource as the seller's edits left it. `revisions` are all of it; those published are added."""

    key: IntegrationKey
    revisions: Annotated[tuple[Revision, ...], Field(min_length=1)]
    require_payment: bool = True
    updated_at: Moment
    archived_at: Moment | None = None
    settlement: Settlement | None = None


class PayerState(Part):
    id: PayerId
    identifier: PayerIdentifier
    created_at: Moment


class SettledState(Part):
    """How the payment ended well: what the seller and the payer were given, and will be given again."""

    at: Moment
    transaction_hash: TransactionHash
    payment_response: str
    receipt: ReceiptDocument


class Step(Part):
    """A status and when it began."""

    at: Moment
    status: Status


class TransactionState(Part):
    """One transaction. `payer` is a payer's id; `proof` is base64 of the x402 payload, signature and all.

    `plan` is how its payment ends, and `due` when, if it is by the clock.
    """

    id: TransactionId
    payment_request_id: PaymentRequestId
    payer: PayerId
    request: AccessRequest
    proof: Base64
    history: Annotated[tuple[Step, ...], Field(min_length=1)]
    accepted: CompleteRequest | None = None
    submitted_at: Moment | None = None
    plan: Settlement | None = None
    due: AwareDatetime | None = None
    reads: Count = 0
    settled: SettledState | None = None

    @model_validator(mode="after")
    def _a_story_that_can_be(self) -> Self:
        if self.history[0].status != "authorized":
            raise ValueError("a history begins with authorized")
        if any(later.at < earlier.at for earlier, later in zip(self.history, self.history[1:], strict=False)):
            raise ValueError("a history goes from earlier to later")
        if (self.history[-1].status == "succeeded") != (self.settled is not None):
            raise ValueError("a transaction has settled if it succeeded, and only then")
        return self


class ExecutionState(Part):
    """Work that was free."""

    id: ResourceExecutionId
    revision_id: RevisionId
    metadata: ResourceExecutionMetadata | None = None


class Balance(Part):
    """Atomic units of an asset that an address has on the simulated ledger."""

    environment: Environment
    asset: SettlementAsset
    address: EvmAddress
    balance: AtomicAmount


class Use(Part):
    """An authorization that was taken, known by its nonce."""

    environment: Environment
    asset: SettlementAsset
    payer: EvmAddress
    nonce: Nonce
    transaction_hash: TransactionHash
