"""`/_emulator/worlds/{name}/transactions`: all of them as the service sees them; `settle` and `fail`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import (
    ControlError,
    get_emulator,
    json_response,
    parse_body,
    validation_error,
)
from faregate.emulator.emulator import Emulator
from faregate.merchant.types import AtomicAmount, Environment, Moment, SettlementAsset
from faregate.service.config import Settlement
from faregate.service.records import Status, TransactionRecord
from faregate.service.state import EnvironmentState

PATH = "/_emulator/worlds/{name}/transactions"


class TransactionQuery(BaseModel):
    """The query. `payer` is an address, `resource` an integration key; the newest `limit` are shown."""

    model_config = ConfigDict(extra="forbid")

    environment: Environment = "test"
    status: Status | None = None
    payer: str | None = None
    resource: str | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100

    def fits(self, record: TransactionRecord) -> bool:
        return (
            self.status in (None, record.status)
            and (self.payer is None or self.payer.lower() == record.payer.identifier.lower())
            and self.resource in (None, record.sale.listing.plan.key)
        )


class TransactionItem(BaseModel):
    """`outcome` is what the seller completed it with. `plan` is how its payment will end."""

    id: str
    environment: Environment
    status: Status
    resource: str
    payer: str
    asset: SettlementAsset
    amount: AtomicAmount
    created_at: Moment
    history: list[tuple[Moment, Status]]
    outcome: Literal["succeeded", "failed"] | None
    plan: Settlement | None
    reads: int
    transaction_hash: str | None


def build_transaction_routes() -> list[Route]:
    return [
        Route(PATH, list_transactions, methods=["GET"]),
        Route(f"{PATH}/{{transaction}}/settle", settle, methods=["POST"]),
        Route(f"{PATH}/{{transaction}}/fail", fail, methods=["POST"]),
        Route(SETTLEMENTS, put_settlement, methods=["PUT"]),
        Route(SETTLEMENTS, delete_settlement, methods=["DELETE"]),
    ]


async def list_transactions(request: Request) -> Response:
    """The newest first; `environment`, `status`, `payer`, `resource` and `limit` say which."""
    wanted = _parse_query(request)
    found = get_emulator(request).look(
        lambda service, _: _list_newest(service.books[wanted.environment], wanted)
    )
    return json_response({"transactions": found})


async def settle(request: Request) -> Response:
    """Takes the payment of a pending transaction now."""
    world, identifier = _find_transaction(request)
    world.settle(identifier)
    return json_response(_get_item(world, identifier))


async def fail(request: Request) -> Response:
    """The payment of a transaction that is not final will never be taken."""
    world, identifier = _find_transaction(request)
    world.fail(identifier)
    return json_response(_get_item(world, identifier))


def _parse_query(request: Request) -> TransactionQuery:
    try:
        return TransactionQuery.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise validation_error(error, "query") from None


def _list_newest(books: EnvironmentState, wanted: TransactionQuery) -> list[object]:
    found = list[object]()
    for record in reversed(books.transactions.values()):
        if len(found) == wanted.limit:
            break
        if wanted.fits(record):
            found.append(_build_item(books, record).model_dump(mode="json"))
    return found


def _find_transaction(request: Request) -> tuple[Emulator, str]:
    world, identifier = get_emulator(request), str(request.path_params["transaction"])
    if not world.look(
        lambda service, _: any(identifier in one.transactions for one in service.books.values())
    ):
        raise ControlError(404, "transaction_not_found", f"there is no transaction {identifier!r}")
    return world, identifier


def _get_item(world: Emulator, identifier: str) -> TransactionItem:
    return world.look(
        lambda service, _: next(
            _build_item(books, books.transactions[identifier])
            for books in service.books.values()
            if identifier in books.transactions
        )
    )


def _build_item(books: EnvironmentState, record: TransactionRecord) -> TransactionItem:
    return TransactionItem(
        id=record.id,
        environment=books.environment,
        status=record.status,
        resource=record.sale.listing.plan.key,
        payer=record.payer.identifier,
        asset=record.sale.terms.token.symbol,
        amount=record.sale.terms.amount,
        created_at=record.created_at,
        history=list(record.history),
        outcome=None if record.accepted is None else record.accepted.outcome,
        plan=record.plan,
        reads=record.reads,
        transaction_hash=None if record.settled is None else record.settled.transaction_hash,
    )


SETTLEMENTS = "/_emulator/worlds/{name}/settlements/{target}"
_settlement: TypeAdapter[Settlement] = TypeAdapter(Settlement)


async def put_settlement(request: Request) -> Response:
    """The payments of a transaction's id, a payer's address, a resource's key or * end so from now on."""
    world = get_emulator(request)
    settlement = await parse_body(request, _settlement)
    world.settle_after(request.path_params["target"], settlement)
    return Response(status_code=204)


async def delete_settlement(request: Request) -> Response:
    """Takes the rule for this target back."""
    get_emulator(request).settle_after(request.path_params["target"], None)
    return Response(status_code=204)
