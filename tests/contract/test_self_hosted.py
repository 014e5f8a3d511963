"""The same shops, unchanged, with the self-hosted service at their `FAREGATE_BASE_URL`.

The listener stays that of the other tests, so that no shop starts twice; behind it is the service on SQLite.
"""

from collections.abc import Iterator

import pytest

from faregate.emulator import Wallet
from faregate.system import system_clock
from tests.contract.conftest import Running, Seller, assert_instructions, assert_released, assert_withheld
from tests.emulator.sql_accounts import open_source
from tests.emulator.sql_service import SqlService
from tests.support.waiting import eventually


@pytest.fixture(scope="session")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlService]:
    with open_source("sqlite", tmp_path_factory.mktemp("hosted")) as source:
        service = SqlService(source, clock=system_clock)
        service.serve()
        yield service


@pytest.fixture(scope="module", autouse=True)
def _restarted(running: Running) -> Iterator[None]:
    """Start the shop anew for later tests: some of its processes know the contracts of this service only."""
    yield
    running.server.stop()
    running.server.start()


@pytest.fixture(autouse=True)
def _instead(seller: Seller, hosted: SqlService, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the service in place of the emulator, and wait until the shop knows its revisions.

    A shop does not read the contracts again within two seconds for a revision that was refused before.
    """
    with monkeypatch.context() as context:
        context.setattr(seller.service, "emulator", hosted)
        assert eventually(lambda: seller.get("/paid").status_code == 402)
        yield
    assert eventually(lambda: seller.get("/paid").status_code == 402)


def test_who_pays_gets_the_result_once(seller: Seller, hosted: SqlService) -> None:
    before = hosted.balance(seller.wallet.address)
    proof = seller.proof_for("/paid")
    for _ in range(2):
        assert_released(seller.get("/paid", proof))
    assert len(seller.runs()) == 1
    assert seller.outcome() == "succeeded"
    assert before - hosted.balance(seller.wallet.address) == 50_000


def test_who_does_not_pay_gets_instructions(seller: Seller) -> None:
    assert_instructions(seller.get("/paid"))
    seller.wallet = Wallet.test("poor")
    assert_instructions(seller.get("/paid", seller.proof_for("/paid")))
    assert seller.runs() == []


def test_a_free_result_needs_no_payment(seller: Seller) -> None:
    given = seller.get("/free")
    assert given.status_code == 200
    assert "payment-response" not in given.headers
    assert len(seller.runs()) == 1


def test_a_late_payment_is_waited_for(seller: Seller) -> None:
    proof = seller.proof_for("/late")
    assert_withheld(seller.get("/late", proof), 202)
    answers = [seller.get("/late", proof) for _ in range(3)]
    assert_released(answers[-1])
    assert len(seller.runs()) == 1


def test_a_payment_that_fails_in_the_end_charges_nobody(seller: Seller, hosted: SqlService) -> None:
    before = hosted.balance(seller.wallet.address)
    proof = seller.proof_for("/never")
    assert_withheld(seller.get("/never", proof), 202)
    assert_instructions(seller.get("/never", proof))
    assert seller.outcome() == "failed"
    assert hosted.balance(seller.wallet.address) == before
