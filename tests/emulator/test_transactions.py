"""spec: Transaction, Transaction detail, GET /transactions and GET /transactions/{id}."""

from urllib.parse import parse_qs, urlsplit

import pytest

from faregate.emulator import LIVE_KEY, SettlementRule, Wallet

from .seller import ApiClient, assert_error, is_id

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


def test_an_authorized_transaction_has_no_settlement_and_no_receipt(api: ApiClient) -> None:
    bought = api.buy()
    found = api.transaction(bought)
    assert set(found) == AUTHORIZED
    assert found["id"] == bought.id
    assert is_id("prq", found["payment_request_id"])
    assert found["payer"] == api.wallet.address


def test_a_succeeded_transaction_has_all_and_the_receipt(api: ApiClient) -> None:
    bought = api.buy()
    done = api.complete(bought).json()
    found = api.transaction(bought)
    assert set(found) == AUTHORIZED | SETTLED | {"receipt"}
    assert found["status"] == "succeeded"
    assert found["settled_atomic"] == found["authorized_atomic"] == "10000"
    assert found["receipt"] == done["receipt"]
    assert found["transaction_hash"] == done["transaction_hash"]


@pytest.mark.parametrize("resource", ["slow_settlement", "failing_settlement"])
def test_pending_and_failed_transactions_have_no_receipt(api: ApiClient, resource: str) -> None:
    api.service.settle_after(resource, SettlementRule(after_seconds=9))
    pending, failed = api.buy(resource), api.buy(resource)
    api.complete(pending)
    api.fail(failed)
    for bought in (pending, failed):
        assert set(api.transaction(bought)) == AUTHORIZED


@pytest.mark.parametrize("identifier", ["txn_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f", "txn_1", "x", "%00", "a%2Fb"])
def test_an_unknown_transaction_is_404(api: ApiClient, identifier: str) -> None:
    assert_error(api.get(f"/transactions/{identifier}"), 404, "transaction_not_found")


def test_a_test_key_never_sees_live_transactions(api: ApiClient) -> None:
    bought = api.buy()
    assert_error(api.get(f"/transactions/{bought.id}", LIVE_KEY), 404, "transaction_not_found")
    assert api.get("/transactions", LIVE_KEY).json()["count"] == 0


def test_list_items_are_transactions_without_receipt(api: ApiClient) -> None:
    bought = api.buy()
    api.complete(bought)
    (item,) = api.listed("/transactions")["items"]
    detail = api.transaction(bought)
    del detail["receipt"]
    assert item == detail


def one_of_each(api: ApiClient) -> dict[str, str]:
    """A transaction in every status, by status."""
    bought = {status: api.buy("daily_report") for status in STATUSES}
    api.complete(bought["succeeded"])
    api.fail(bought["failed"])
    for via in ("settling", "reconciling"):
        api.service.settle_after(
            "daily_report", SettlementRule.model_validate({"after_seconds": 9, "via": via})
        )
        api.complete(bought[via])
    return {status: one.id for status, one in bought.items()}


def test_the_status_filter_takes_every_status(api: ApiClient) -> None:
    ids = one_of_each(api)
    for status in STATUSES:
        found = api.listed(f"/transactions?status={status}")
        assert found["count"] == 1
        assert [(item["id"], item["status"]) for item in found["items"]] == [(ids[status], status)]


@pytest.mark.parametrize("status", ["", "open", "Succeeded", "succeeded,failed"])
def test_another_status_is_422(api: ApiClient, status: str) -> None:
    assert_error(api.get(f"/transactions?status={status}"), 422, "invalid_request")


def test_the_payer_filter(api: ApiClient) -> None:
    mine = api.buy()
    api.wallet = Wallet(clock=api.clock)
    theirs = api.buy()
    for bought in (mine, theirs):
        payer = api.transaction(bought)["payer"]
        (record,) = [one for one in api.listed("/payers")["items"] if one["identifier"] == payer]
        found = api.listed(f"/transactions?payer_id={record['id']}")
        assert [item["id"] for item in found["items"]] == [bought.id]
    unknown = "pyr_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f"
    assert api.listed(f"/transactions?payer_id={unknown}")["items"] == []


@pytest.mark.parametrize("payer", ["", "pyr_1", "txn_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f", "0x" + "11" * 20])
def test_a_payer_id_of_another_shape_is_422(api: ApiClient, payer: str) -> None:
    assert_error(api.get(f"/transactions?payer_id={payer}"), 422, "invalid_request")


def test_filters_combine_and_travel_in_next(api: ApiClient) -> None:
    """Two payers with the same statuses: each filter alone would list others."""
    failed = dict[str, list[str]]()
    for _ in range(2):
        api.wallet = Wallet(clock=api.clock)
        failed[api.wallet.address] = [api.buy().id for _ in range(3)]
        for identifier in failed[api.wallet.address]:
            api.service.fail(identifier)
        api.buy()
    for payer in api.listed("/payers")["items"]:
        for order in ("oldest", "newest"):
            address = f"/transactions?status=failed&payer_id={payer['id']}&page_size=2&order={order}"
            page = api.listed(address)
            asked = parse_qs(urlsplit(page["next"]).query)
            assert (asked["status"], asked["payer_id"]) == (["failed"], [payer["id"]])
            rest = api.listed(page["next"])
            assert (page["count"], rest["count"]) == (3, 3)
            assert (rest["next"], rest["as_of"]) == (None, page["as_of"])
            listed = [item["id"] for item in page["items"] + rest["items"]]
            assert listed == failed[payer["identifier"]][:: 1 if order == "oldest" else -1]


def test_a_snapshot_shows_the_status_of_its_moment(api: ApiClient) -> None:
    bought = [api.buy() for _ in range(4)]
    page = api.listed("/transactions?status=authorized&page_size=2")
    for one in bought:
        api.complete(one)
    rest = api.listed(page["next"])
    assert page["count"] == rest["count"] == 4
    shown = page["items"] + rest["items"]
    assert {item["id"] for item in shown} == {one.id for one in bought}
    assert all(set(item) == AUTHORIZED for item in shown)
    assert api.listed("/transactions?status=authorized")["count"] == 0
