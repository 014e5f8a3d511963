"""spec: Payer, GET /payers."""

from faregate.emulator import LIVE_KEY, Wallet

from .seller import ApiClient, is_id


def test_a_payer_is_first_observed_with_its_first_transaction(api: ApiClient) -> None:
    api.access()
    assert api.listed("/payers")["items"] == []
    api.clock.advance(1)
    bought = api.buy()
    api.clock.advance(1)
    (payer,) = api.listed("/payers")["items"]
    created = api.transaction(bought)["created_at"]
    assert set(payer) == {"id", "identifier", "created_at", "last_transaction_at"}
    assert is_id("pyr", payer["id"])
    assert payer["identifier"] == api.wallet.address
    assert payer["created_at"] == payer["last_transaction_at"] == created


def test_the_same_payer_keeps_its_id(api: ApiClient) -> None:
    api.buy()
    before = api.listed("/payers")["items"][0]
    api.clock.advance(60)
    bought = api.buy()
    (after,) = api.listed("/payers")["items"]
    assert after["id"] == before["id"]
    assert after["created_at"] == before["created_at"]
    assert after["last_transaction_at"] == api.transaction(bought)["created_at"]


def test_a_snapshot_shows_the_last_transaction_of_its_moment(api: ApiClient) -> None:
    api.buy()
    before = api.listed("/payers")
    api.clock.advance(60)
    api.buy()
    address = f"/payers?as_of={before['as_of']}"
    assert api.listed(address)["items"] == before["items"]


def test_the_identifier_has_one_form(api: ApiClient) -> None:
    """However a wallet writes its address, there is one payer, in checksum form."""
    from .test_access import upper_hex

    assert api.access(proof=upper_hex(api.proof())).status_code == 200
    api.buy()
    (payer,) = api.listed("/payers")["items"]
    assert payer["identifier"] == api.wallet.address


def test_payers_of_test_and_live_are_separate(api: ApiClient) -> None:
    api.buy()
    assert api.get("/payers", LIVE_KEY).json()["count"] == 0
    api.key = LIVE_KEY
    api.wallet = Wallet(clock=api.clock)
    api.buy()
    assert api.listed("/payers")["items"][0]["identifier"] == api.wallet.address
