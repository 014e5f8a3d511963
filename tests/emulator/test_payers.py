"""spec: Payer, GET /payers."""

from faregate.emulator import LIVE_KEY, Wallet

from .seller import Shop, is_id


def test_a_payer_is_first_observed_with_its_first_transaction(shop: Shop) -> None:
    shop.access()
    assert shop.listed("/payers")["items"] == []
    shop.clock.advance(1)
    bought = shop.buy()
    shop.clock.advance(1)
    (payer,) = shop.listed("/payers")["items"]
    created = shop.transaction(bought)["created_at"]
    assert set(payer) == {"id", "identifier", "created_at", "last_transaction_at"}
    assert is_id("pyr", payer["id"])
    assert payer["identifier"] == shop.wallet.address
    assert payer["created_at"] == payer["last_transaction_at"] == created


def test_the_same_payer_keeps_its_id(shop: Shop) -> None:
    shop.buy()
    before = shop.listed("/payers")["items"][0]
    shop.clock.advance(60)
    bought = shop.buy()
    (after,) = shop.listed("/payers")["items"]
    assert after["id"] == before["id"]
    assert after["created_at"] == before["created_at"]
    assert after["last_transaction_at"] == shop.transaction(bought)["created_at"]


def test_a_snapshot_shows_the_last_transaction_of_its_moment(shop: Shop) -> None:
    shop.buy()
    before = shop.listed("/payers")
    shop.clock.advance(60)
    shop.buy()
    address = f"/payers?as_of={before['as_of']}"
    assert shop.listed(address)["items"] == before["items"]


def test_the_identifier_has_one_form(shop: Shop) -> None:
    """However a wallet writes its address, there is one payer, in checksum form."""
    from .test_access import upper_hex

    assert shop.access(proof=upper_hex(shop.proof())).status_code == 200
    shop.buy()
    (payer,) = shop.listed("/payers")["items"]
    assert payer["identifier"] == shop.wallet.address


def test_payers_of_test_and_live_are_separate(shop: Shop) -> None:
    shop.buy()
    assert shop.get("/payers", LIVE_KEY).json()["count"] == 0
    shop.key = LIVE_KEY
    shop.wallet = Wallet(clock=shop.clock)
    shop.buy()
    assert shop.listed("/payers")["items"][0]["identifier"] == shop.wallet.address
