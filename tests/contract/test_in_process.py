"""The same sellers, unchanged, with the service inside their processes: no server but theirs runs."""

from itertools import product
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select, text

from faregate.emulator import Account, Resource, Revision, Wallet
from faregate.rules.builtin_account import builtin_account
from faregate.service.commands.setup import apply_seller
from faregate.service.database.schema import transactions
from faregate.service.database.upgrade import upgrade
from tests.contract.conftest import (
    NO_KEEPING,
    Running,
    Seller,
    assert_instructions,
    assert_released,
    assert_withheld,
)
from tests.contract.stacks import STACKS, Stack, running
from tests.service.databases import DATABASES, empty_database
from tests.service.in_process import build_environ, open_storage_of
from tests.support.faulty_service import FaultyService
from tests.support.products import take_part
from tests.support.usage_account import with_usage_price
from tests.support.waiting import eventually

ALWAYS = {
    ("starlette-granian", "postgres"),
    ("fastapi-hypercorn", "sqlite"),
    ("plain-hypercorn-trio", "postgres"),
    ("django-uvicorn", "sqlite"),
    ("django-gunicorn-gthread-4", "postgres"),
    ("flask-gunicorn-sync-4", "sqlite"),
    ("falcon-granian", "postgres"),
}
"""Each adapter and each way to run, on both databases."""


@pytest.mark.parametrize(
    ("stack", "kind"),
    take_part(product(STACKS, DATABASES), lambda stack, kind: (stack.name, kind) in ALWAYS, 0),
    ids=lambda value: value.name if isinstance(value, Stack) else value,
)
def test_the_seller_sells_with_the_service_inside(stack: Stack, kind: str, tmp_path: Path) -> None:
    with empty_database(kind, tmp_path) as url:
        environ = build_environ(tmp_path, FAREGATE_SERVICE_DATABASE=url)
        del environ["FAREGATE_SERVICE_PAY_TO"]  # that of the account
        upgrade(url)
        with open_storage_of(environ) as storage:
            apply_seller(storage, build_seller())
        environ |= {"FAREGATE_API_KEY": "", "FAREGATE_JOURNAL": ""}
        with (
            running(stack, "service:", tmp_path, **environ) as server,
            httpx.Client(base_url=server.url, timeout=30, trust_env=False, limits=NO_KEEPING) as http,
        ):
            sell_everything(Running(stack, server, FaultyService(), http, tmp_path / "executions"))
        with open_storage_of(environ) as storage, storage.database.read() as connection:
            statuses = connection.execute(select(transactions.c.final_status)).scalars()
            assert sorted(statuses) == ["failed", "succeeded", "succeeded"]
            journal = "journal" if storage.database.is_sqlite else "faregate_journal"
            states = connection.execute(text(f"SELECT state FROM {journal}")).scalars()
            assert sorted(states) == ["closed", "settled", "settled"]


def build_seller() -> Account:
    """The built-in seller, with a name that the sellers of this suite use: here, a start fails without it."""
    seller = with_usage_price(builtin_account())
    unknown = Resource(key="no_such_thing", name="No such thing", revisions=(Revision(amount=1),))
    return seller.model_copy(update={"resources": (*seller.resources, unknown)})


def sell_everything(shop: Running) -> None:
    seller = Seller(shop)
    proof = seller.proof_for("/paid")
    for _ in range(2):
        assert_released(seller.get("/paid", proof))
    assert len(seller.runs()) == 1

    poor = Seller(shop, Wallet.test("poor"))
    assert_instructions(poor.get("/paid", poor.proof_for("/paid")))
    assert poor.runs() == []

    given = seller.get("/free")
    assert given.status_code == 200
    assert "payment-response" not in given.headers

    late = Seller(shop)
    proof = late.proof_for("/late")
    assert_withheld(late.get("/late", proof), 202)
    assert eventually(lambda: late.get("/late", proof).status_code == 200)
    assert_released(late.get("/late", proof))
    assert len(late.runs()) == 1

    never = Seller(shop)
    proof = never.proof_for("/never")
    assert_withheld(never.get("/never", proof), 202)
    assert eventually(lambda: never.get("/never", proof).status_code == 402)
    assert_instructions(never.get("/never", proof))
    assert len(never.runs()) == 1
