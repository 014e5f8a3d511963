"""`/_emulator/tenants/{name}`: its `transactions`, and `settlements`, the rules for how payments end."""

from collections.abc import Callable
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import (
    TENANT,
    ControlError,
    get_emulator,
    json_response,
    parse_body,
    parse_query,
)
from faregate.emulator.emulator import Emulator
from faregate.merchant.types import AtomicAmount, Moment
from faregate.rules.account import FrozenModel, SettlementRule
from faregate.rules.app import Service
from faregate.rules.memory_store import MemoryStore
from faregate.rules.records import Status, TransactionRecord
from faregate.x402.tokens import Environment, SettlementAsset

PATH = f"{TENANT}/transactions"
SETTLEMENTS = f"{TENANT}/settlements/{{target}}"
_settlement: TypeAdapter[SettlementRule] = TypeAdapter(SettlementRule)


class TransactionRecordFilter(FrozenModel):
    """The query. `payer` is an address, `resource` an integration key; the newest `limit` are listed."""

    environment: Environment = "test"
    status: Status | None = None
    payer: str | None = None
    resource: str | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100

    def matches(self, record: TransactionRecord) -> bool:
        return (
            self.status in (None, record.status)
            and (self.payer is None or self.payer.lower() == record.payer.identifier.lower())
            and self.resource in (None, record.context.listing.resource.key)
        )


class TransactionSummary(BaseModel):
    """`outcome` is what the seller reported in complete. `plan` is how the payment will end.

    `amount` is the price, or the maximum of one that follows the use; `used` is what is settled of it.
    """

    id: str
    environment: Environment
    status: Status
    resource: str
    payer: str
    asset: SettlementAsset
    amount: AtomicAmount
    used: AtomicAmount | None
    created_at: Moment
    history: list[tuple[Moment, Status]]
    outcome: Literal["succeeded", "failed"] | None
    plan: SettlementRule | None
    reads: int
    transaction_hash: str | None


async def list_transactions(request: Request) -> Response:
    """List transactions, newest first, by `environment`, `status`, `payer`, `resource` and `limit`."""
    query = parse_query(request, TransactionRecordFilter)
    newest = get_emulator(request).read_state(
        lambda service, _: _find_newest(service.environments[query.environment], query)
    )
    return json_response({"transactions": newest})


async def settle(request: Request) -> Response:
    """Settle the payment of a pending transaction now."""
    return _end(request, Emulator.settle)


async def fail(request: Request) -> Response:
    """Fail the payment of a transaction that is not final."""
    return _end(request, Emulator.fail)


def _end(request: Request, end: Callable[[Emulator, str], None]) -> Response:
    """End the payment of the transaction in the path, or raise 404."""
    emulator, identifier = get_emulator(request), str(request.path_params["transaction"])
    store = emulator.read_state(lambda service, _: _find_store(service, identifier))
    if store is None:
        raise ControlError(404, "transaction_not_found", f"there is no transaction {identifier!r}")
    end(emulator, identifier)
    return json_response(
        emulator.read_state(lambda _service, _log: _summarize(store, store.transactions[identifier]))
    )


def _find_store(service: Service, identifier: str) -> MemoryStore | None:
    stores = service.environments.values()
    return next((store for store in stores if identifier in store.transactions), None)


def _find_newest(store: MemoryStore, query: TransactionRecordFilter) -> list[object]:
    newest = list[object]()
    for record in reversed(store.transactions.values()):
        if len(newest) == query.limit:
            break
        if query.matches(record):
            newest.append(_summarize(store, record).model_dump(mode="json"))
    return newest


def _summarize(store: MemoryStore, record: TransactionRecord) -> TransactionSummary:
    return TransactionSummary(
        id=record.id,
        environment=store.environment,
        status=record.status,
        resource=record.context.listing.resource.key,
        payer=record.payer.identifier,
        asset=record.context.terms.token.symbol,
        amount=record.context.terms.amount,
        used=record.used_atomic,
        created_at=record.created_at,
        history=list(record.history),
        outcome=None if record.accepted is None else record.accepted.outcome,
        plan=record.plan,
        reads=record.reads,
        transaction_hash=None if record.settled is None else record.settled.transaction_hash,
    )


async def put_settlement(request: Request) -> Response:
    """Set how payments end, for a transaction id, payer address, resource key or * (all)."""
    emulator = get_emulator(request)
    settlement = await parse_body(request, _settlement)
    emulator.settle_after(request.path_params["target"], settlement)
    return Response(status_code=204)


async def delete_settlement(request: Request) -> Response:
    """Remove the rule for this target."""
    get_emulator(request).settle_after(request.path_params["target"], None)
    return Response(status_code=204)


ROUTES: Final = (
    Route(PATH, list_transactions, methods=["GET"]),
    Route(f"{PATH}/{{transaction}}/settle", settle, methods=["POST"]),
    Route(f"{PATH}/{{transaction}}/fail", fail, methods=["POST"]),
    Route(SETTLEMENTS, put_settlement, methods=["PUT"]),
    Route(SETTLEMENTS, delete_settlement, methods=["DELETE"]),
)
