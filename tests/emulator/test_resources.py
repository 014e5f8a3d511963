"""spec: Resource, GET /resources."""

import pytest

from faregate.emulator import LIVE_KEY

from .shop import Shop, assert_error, is_id


def test_a_resource_has_the_fields_of_the_spec(shop: Shop) -> None:
    found = shop.listed("/resources?order=oldest")["items"][0]
    assert is_id("res", found["id"])
    assert found == {
        "id": shop.emulator.resource_id("text_summary"),
        "name": "Text summary",
        "description": "A summary of a text; may report its tokens.",
        "image_url": "https://seller.example/text-summary.png",
        "created_at": "2025-01-01T00:00:00.000Z",
        "updated_at": "2025-01-01T00:00:00.000Z",
    }


def names(shop: Shop, path: str) -> list[str]:
    return [item["name"] for item in shop.listed(path)["items"]]


def test_active_resources_are_listed_by_default(shop: Shop) -> None:
    assert names(shop, "/resources") == names(shop, "/resources?archived=false")
    assert "Old report" not in names(shop, "/resources")
    assert len(names(shop, "/resources")) == 7


def test_archived_true_lists_the_archived_ones_instead(shop: Shop) -> None:
    assert names(shop, "/resources?archived=true") == ["Old report"]
    before = shop.listed("/resources")
    shop.clock.advance(1)
    shop.emulator.archive("daily_report")
    assert names(shop, "/resources?archived=true") == ["Old report", "Daily report"]
    assert "Daily report" not in names(shop, "/resources")
    assert "Daily report" in names(shop, f"/resources?as_of={before['as_of']}")


@pytest.mark.parametrize("archived", ["", "1", "yes", "True", "null"])
def test_archived_is_true_or_false(shop: Shop, archived: str) -> None:
    assert_error(shop.get(f"/resources?archived={archived}"), 422, "invalid_request")


def test_archived_travels_in_next(shop: Shop) -> None:
    shop.emulator.archive("daily_report")
    page = shop.listed("/resources?archived=true&page_size=1")
    assert "archived=true" in page["next"]
    assert names(shop, page["next"]) == ["Daily report"] or names(shop, page["next"]) == ["Old report"]
    assert page["count"] == 2


def test_test_and_live_share_keys_but_not_ids(shop: Shop) -> None:
    live = shop.get("/resources", LIVE_KEY).json()["items"]
    test = shop.listed("/resources")["items"]
    assert [item["name"] for item in live] == [item["name"] for item in test]
    assert not {item["id"] for item in live} & {item["id"] for item in test}
