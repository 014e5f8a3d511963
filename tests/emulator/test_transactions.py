"""spec: Transaction, Transaction detail, GET /transactions and GET /transactions/{id}."""

from urllib.parse import parse_qs, urlsplit

import pytest

from faregate.emulator import LIVE_KEY, SettlementRule, Wallet

from .seller import Shop, assert_error, is_id

AUTHORIZED = {
    "id",
    "payer",
    "payment_request_id",
    "status",
    "created_at",
    "authorized_at",
    "authorized_atomic",
}
SETTLED = {"settled_at", "settled_atomic", "transaction_hash"}
STATUSES = ["authorized", "settling", "reconciling", "failed", "succeeded"]


def test_an_authorized_transaction_has_no_settlement_and_no_receipt(shop: Shop) -> None:
    bought = shop.buy()
    found = shop.transaction(bought)
    assert set(found) == AUTHORIZED
    assert found["id"] == bought.id
    assert is_id("prq", found["payment_request_id"])
    assert found["payer"] == shop.wallet.address


def test_a_succeeded_transaction_has_all_and_the_receipt(shop: Shop) -> None:
    bought = shop.buy()
    done = shop.complete(bought).json()
    found = shop.transaction(bought)
    assert set(found) == AUTHORIZED | SETTLED | {"receipt"}
    assert found["status"] == "succeeded"
    assert found["settled_atomic"] == found["authorized_atomic"] == "10000"
    assert found["receipt"] == done["receipt"]
    assert found["transaction_hash"] == done["transaction_hash"]


@pytest.mark.parametrize("resource", ["slow_settlement", "failing_settlement"])
def test_pending_and_failed_transactions_have_no_receipt(shop: Shop, resource: str) -> None:
    shop.emulator.settle_after(resource, SettlementRule(after_seconds=9))
    pending, failed = shop.buy(resource), shop.buy(resource)
    shop.complete(pending)
    shop.fail(failed)
    for bought in (pending, failed):
        assert set(shop.transaction(bought)) == AUTHORIZED


@pytest.mark.parametrize("identifier", ["txn_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f", "txn_1", "x", "%00", "a%2Fb"])
def test_an_unknown_transaction_is_404(shop: Shop, identifier: str) -> None:
    assert_error(shop.get(f"/transactions/{identifier}"), 404, "transaction_not_found")


def test_a_test_key_never_sees_live_transactions(shop: Shop) -> None:
    bought = shop.buy()
    assert_error(shop.get(f"/transactions/{bought.id}", LIVE_KEY), 404, "transaction_not_found")
    assert shop.get("/transactions", LIVE_KEY).json()["count"] == 0


def test_list_items_are_transactions_without_receipt(shop: Shop) -> None:
    bought = shop.buy()
    shop.complete(bought)
    (item,) = shop.listed("/transactions")["items"]
    detail = shop.transaction(bought)
    del detail["receipt"]
    assert item == detail


def one_of_each(shop: Shop) -> dict[str, str]:
    """A transaction in every status, by status."""
    bought = {status: shop.buy("daily_report") for status in STATUSES}
    shop.complete(bought["succeeded"])
    shop.fail(bought["failed"])
    for via in ("settling", "reconciling"):
        shop.emulator.settle_after(
            "daily_report", SettlementRule.model_validate({"after_seconds": 9, "via": via})
        )
        shop.complete(bought[via])
    return {status: one.id for status, one in bought.items()}


def test_the_status_filter_takes_every_status(shop: Shop) -> None:
    ids = one_of_each(shop)
    for status in STATUSES:
        found = shop.listed(f"/transactions?status={status}")
        assert found["count"] == 1
        assert [(item["id"], item["status"]) for item in found["items"]] == [(ids[status], status)]


@pytest.mark.parametrize("status", ["", "open", "Succeeded", "succeeded,failed"])
def test_another_status_is_422(shop: Shop, status: str) -> None:
    assert_error(shop.get(f"/transactions?status={status}"), 422, "invalid_request")


def test_the_payer_filter(shop: Shop) -> None:
    mine = shop.buy()
    shop.wallet = Wallet(clock=shop.clock)
    theirs = shop.buy()
    for bought in (mine, theirs):
        payer = shop.transaction(bought)["payer"]
        (record,) = [one for one in shop.listed("/payers")["items"] if one["identifier"] == payer]
        found = shop.listed(f"/transactions?payer_id={record['id']}")
        assert [item["id"] for item in found["items"]] == [bought.id]
    unknown = "pyr_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f"
    assert shop.listed(f"/transactions?payer_id={unknown}")["items"] == []


@pytest.mark.parametrize("payer", ["", "pyr_1", "txn_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f", "0x" + "11" * 20])
def test_a_payer_id_of_another_shape_is_422(shop: Shop, payer: str) -> None:
    assert_error(shop.get(f"/transactions?payer_id={payer}"), 422, "invalid_request")


def test_filters_combine_and_travel_in_next(shop: Shop) -> None:
    """Two payers with the same statuses: each filter alone would list others."""
    failed = dict[str, list[str]]()
    for _ in range(2):
        shop.wallet = Wallet(clock=shop.clock)
        failed[shop.wallet.address] = [shop.buy().id for _ in range(3)]
        for identifier in failed[shop.wallet.address]:
            shop.emulator.fail(identifier)
        shop.buy()
    for payer in shop.listed("/payers")["items"]:
        for order in ("oldest", "newest"):
            address = f"/transactions?status=failed&payer_id={payer['id']}&page_size=2&order={order}"
            page = shop.listed(address)
            asked = parse_qs(urlsplit(page["next"]).query)
            assert (asked["status"], asked["payer_id"]) == (["failed"], [payer["id"]])
            rest = shop.listed(page["next"])
            assert (page["count"], rest["count"]) == (3, 3)
            assert (rest["next"], rest["as_of"]) == (None, page["as_of"])
            listed = [item["id"] for item in page["items"] + rest["items"]]
            assert listed == failed[payer["identifier"]][:: 1 if order == "oldest" else -1]


def test_a_snapshot_shows_the_status_of_its_moment(shop: Shop) -> None:
    bought = [shop.buy() for _ in range(4)]
    page = shop.listed("/transactions?status=authorized&page_size=2")
    for one in bought:
        shop.complete(one)
    rest = shop.listed(page["next"])
    assert page["count"] == rest["count"] == 4
    shown = page["items"] + rest["items"]
    assert {item["id"] for item in shown} == {one.id for one in bought}
    assert all(set(item) == AUTHORIZED for item in shown)
    assert shop.listed("/transactions?status=authorized")["count"] == 0
