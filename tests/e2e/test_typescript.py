"""The official TypeScript client pays the example. Left out where there is no npm, or no registry."""

from pathlib import Path

import pytest
from examples.chain.typescript_payer import NoTypeScript, install_client, pay

from tests.e2e.example_seller import Market
from tests.servers.shared import need


@pytest.fixture(scope="module")
def installed() -> Path:
    """The client with what it needs, in a folder that is kept until the client changes."""
    try:
        return install_client()
    except NoTypeScript as error:
        need("npm", str(error))
        raise


@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_a_get_is_paid(installed: Path, seller: Market) -> None:
    told = pay(installed, "GET", f"{seller.seller}/report")

    assert told["status"] == 200, told
    [transaction] = seller.transactions()
    assert (transaction.status, transaction.transaction_hash) == ("succeeded", told["paid"]["transaction"])
    assert transaction.payer == told["address"]
    assert seller.runs("report") == 1
    [(challenge, echoed)] = seller.echoed()
    assert (echoed, len(echoed)) == (challenge, 64)


@pytest.mark.parametrize("seller", ["trio"], indirect=True)
def test_a_post_is_paid_and_its_body_arrives(installed: Path, seller: Market) -> None:
    told = pay(installed, "POST", f"{seller.seller}/summary", '{"text": "one two three four five six"}')

    assert (told["status"], told["body"]) == (200, {"summary": "one two three four five"})
    assert told["paid"]["success"] is True


@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_failed_work_is_not_charged(installed: Path, seller: Market) -> None:
    told = pay(installed, "GET", f"{seller.seller}/broken")

    assert (told["status"], told["paid"]) == (503, None)
    assert [one.status for one in seller.transactions()] == ["failed"]


@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_eurc_is_refused_by_default(installed: Path, seller: Market) -> None:
    told = pay(installed, "GET", f"{seller.seller}/euro")

    assert "refused" in told, told
    assert seller.transactions() == []
