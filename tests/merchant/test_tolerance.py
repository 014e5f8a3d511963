"""Of a transaction, a payer and a resource only the id is certain (spec: the markings are not shown)."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from faregate.core.models import Response
from faregate.core.results import TransactionState
from faregate.emulator import TEST_KEY, Emulator, Fault, transport
from faregate.errors import BadAnswer
from faregate.merchant import wire
from faregate.merchant.client import MerchantClient
from faregate.merchant.interpret import parse_transaction_state
from faregate.merchant.models import ListQuery, ResourceQuery, TransactionQuery
from faregate.merchant.requests import Call

from .samples import PAYER, PYR, RECEIPT, RES, RESOURCE, TRANSACTION, TXN, changed, page

Read = Callable[[dict[str, Any]], Any]


def reading(call: Call[Any]) -> Read:
    """What the client makes of this body."""
    return lambda body: call.read(Response(200, (), json.dumps(body).encode()))


def item_of(call: Call[Any]) -> Read:
    """The same of the only item of a list."""
    return lambda item: reading(call)(page(item)).items[0]


DETAIL = {**TRANSACTION, "receipt": RECEIPT}
READS: dict[str, tuple[Read, dict[str, Any]]] = {
    "transaction": (item_of(wire.list_transactions(TransactionQuery())), TRANSACTION),
    "transaction detail": (reading(wire.get_transaction(TXN)), DETAIL),
    "payer": (item_of(wire.list_payers(ListQuery())), PAYER),
    "resource": (item_of(wire.list_resources(ResourceQuery())), RESOURCE),
}
FIELDS = [(what, name) for what, (_, body) in READS.items() for name in body if name != "id"]


@pytest.mark.parametrize("value", [None, ...], ids=["null", "missing"])
@pytest.mark.parametrize(("what", "field"), FIELDS)
def test_a_field_may_be_null_or_missing(what: str, field: str, value: Any) -> None:
    read, body = READS[what]
    found, whole = read(changed(body, field, value)), read(body)
    assert getattr(whole, field) is not None
    assert getattr(found, field) is None
    others = type(whole).model_fields.keys() - {field}
    assert all(getattr(found, name) == getattr(whole, name) for name in others)


@pytest.mark.parametrize("what", READS)
def test_the_id_alone_is_enough(what: str) -> None:
    read, body = READS[what]
    found = read({"id": body["id"]})
    assert found.model_dump(exclude_none=True) == {"id": body["id"]}


@pytest.mark.parametrize(
    "value", [None, ..., "", 7, "txn_1"], ids=["null", "missing", "empty", "number", "short"]
)
@pytest.mark.parametrize("what", READS)
def test_the_id_is_certain(what: str, value: Any) -> None:
    read, body = READS[what]
    with pytest.raises(BadAnswer, match="id: "):
        read(changed(body, "id", value))


@pytest.mark.parametrize("status", [None, ...], ids=["null", "missing"])
def test_a_transaction_without_a_status_decides_nothing(status: Any) -> None:
    body = changed(DETAIL, "status", status)
    assert (
        parse_transaction_state(Response(200, (), json.dumps(body).encode()), TXN)
        is TransactionState.UNRECOGNIZED
    )


def test_the_client_lists_what_has_only_ids() -> None:
    emulator = Emulator()
    for operation, identifier in (("transactions", TXN), ("payers", PYR), ("resources", RES)):
        items = {"items": [{"id": identifier}, {"id": identifier}], "count": 2}
        emulator.faults.add(
            Fault.model_validate({"kind": "changed-body", "operation": operation, "fields": items})
        )
    with MerchantClient(TEST_KEY, "http://emulator", transport=httpx_transport(emulator)) as client:
        assert [one.id for one in client.iter_transactions()] == [TXN, TXN]
        assert [one.id for one in client.iter_payers()] == [PYR, PYR]
        assert [one.id for one in client.iter_resources()] == [RES, RES]


def httpx_transport(emulator: Emulator) -> httpx.BaseTransport:
    return transport(emulator)
