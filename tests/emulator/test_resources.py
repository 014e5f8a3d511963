"""spec: Resource, GET /resources."""

import json
from collections.abc import Callable

import pytest

from faregate.emulator import LIVE_KEY, Emulator, Revision
from faregate.errors import ConfigurationError

from .seller import Json, Shop, assert_error, is_id


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


EDITS: dict[str, Callable[[Emulator], object]] = {
    "price on": lambda emulator: emulator.require_payment("text_summary"),
    "price off": lambda emulator: emulator.require_payment("text_summary", required=False),
    "revision": lambda emulator: emulator.publish("text_summary", Revision(amount=7)),
    "name": lambda emulator: emulator.edit_resource("text_summary", name="Another name"),
    "description": lambda emulator: emulator.edit_resource("text_summary", description="Another text."),
    "image": lambda emulator: emulator.edit_resource(
        "text_summary", image_url="https://seller.example/b.png"
    ),
    "archived": lambda emulator: emulator.archive("text_summary"),
}
"""What a seller may change of a resource."""


@pytest.mark.parametrize("restarted", [False, True])
def test_a_snapshot_shows_every_field_as_it_was(shop: Shop, restarted: bool) -> None:
    """Also after the emulator was restarted with its state."""
    lists = ("/resources?order=oldest", "/resources?archived=true")
    seen = list[tuple[str, list[Json]]]()
    for edit in EDITS.values():
        for path in lists:
            page = shop.listed(path)
            seen.append((f"{path}&as_of={page['as_of']}", page["items"]))
        shop.clock.advance(1)
        edit(shop.emulator)
    if restarted:
        document = json.dumps(shop.emulator.export())
        shop.use(Emulator(clock=shop.clock))
        shop.emulator.seed(document)
        assert json.dumps(shop.emulator.export()) == document
    for address, items in seen:
        assert shop.listed(address)["items"] == items
    assert len({json.dumps(items) for _, items in seen}) == len(EDITS) + 1


def test_a_snapshot_on_a_still_clock_shows_what_was_before_the_edit(shop: Shop) -> None:
    before = shop.listed("/resources")
    shop.emulator.edit_resource("daily_report", name="Another name")
    assert "Another name" in names(shop, "/resources")
    assert shop.listed(f"/resources?as_of={before['as_of']}")["items"] == before["items"]


def test_an_edit_is_shown_with_its_moment(shop: Shop) -> None:
    shop.clock.advance(5)
    shop.emulator.edit_resource(
        "text_summary", name="A", description="B", image_url="https://seller.example/c"
    )
    found = shop.listed("/resources?order=oldest")["items"][0]
    assert (found["name"], found["description"], found["image_url"]) == ("A", "B", "https://seller.example/c")
    assert found["created_at"] < found["updated_at"] == "2026-01-01T00:00:05.000Z"
    assert shop.transaction(shop.buy())["status"] == "authorized"


def test_a_receipt_names_the_resource_as_it_was_when_it_was_sold(shop: Shop) -> None:
    bought = shop.buy()
    shop.emulator.edit_resource("text_summary", name="Another name")
    shop.emulator.seed(shop.emulator.export())
    assert shop.complete(bought).json()["receipt"]["resource"]["name"] == "Text summary"


@pytest.mark.parametrize("change", [{"name": ""}, {"description": "x" * 501}, {"image_url": ""}], ids=repr)
def test_an_edit_that_breaks_a_rule_is_refused(shop: Shop, change: dict[str, str]) -> None:
    before = shop.listed("/resources")
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        shop.emulator.edit_resource("text_summary", **change)
    with pytest.raises(ConfigurationError, match="no_such"):
        shop.emulator.edit_resource("no_such", name="A")
    assert shop.listed("/resources")["items"] == before["items"]


@pytest.mark.parametrize("archived", ["", "1", "yes", "True", "null"])
def test_archived_is_true_or_false(shop: Shop, archived: str) -> None:
    assert_error(shop.get(f"/resources?archived={archived}"), 422, "invalid_request")


def test_archived_travels_in_next(shop: Shop) -> None:
    shop.emulator.archive("daily_report")
    page = shop.listed("/resources?archived=true&page_size=1")
    assert "archived=true" in page["next"]
    assert [page["items"][0]["name"], *names(shop, page["next"])] == ["Old report", "Daily report"]
    assert page["count"] == 2


def test_test_and_live_share_keys_but_not_ids(shop: Shop) -> None:
    live = shop.get("/resources", LIVE_KEY).json()["items"]
    test = shop.listed("/resources")["items"]
    assert [item["name"] for item in live] == [item["name"] for item in test]
    assert not {item["id"] for item in live} & {item["id"] for item in test}
