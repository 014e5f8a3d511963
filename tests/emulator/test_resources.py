"""spec: Resource, GET /resources."""

import json
from collections.abc import Callable

import pytest

from faregate.emulator import LIVE_KEY, Emulator, Revision
from faregate.errors import ConfigurationError

from .seller import ApiClient, Json, assert_error, is_id
from .services import MerchantService


def test_a_resource_has_the_fields_of_the_spec(api: ApiClient) -> None:
    found = api.listed("/resources?order=oldest")["items"][0]
    assert is_id("res", found["id"])
    assert found == {
        "id": api.service.resource_id("text_summary"),
        "name": "Text summary",
        "description": "A summary of a text; may report its tokens.",
        "image_url": "https://seller.example/text-summary.png",
        "created_at": "2025-01-01T00:00:00.000Z",
        "updated_at": "2025-01-01T00:00:00.000Z",
    }


def names(api: ApiClient, path: str) -> list[str]:
    return [item["name"] for item in api.listed(path)["items"]]


def test_active_resources_are_listed_by_default(api: ApiClient) -> None:
    assert names(api, "/resources") == names(api, "/resources?archived=false")
    assert "Old report" not in names(api, "/resources")
    assert len(names(api, "/resources")) == 7


def test_archived_true_lists_the_archived_ones_instead(api: ApiClient) -> None:
    assert names(api, "/resources?archived=true") == ["Old report"]
    before = api.listed("/resources")
    api.clock.advance(1)
    api.service.archive("daily_report")
    assert names(api, "/resources?archived=true") == ["Old report", "Daily report"]
    assert "Daily report" not in names(api, "/resources")
    assert "Daily report" in names(api, f"/resources?as_of={before['as_of']}")


EDITS: dict[str, Callable[[MerchantService], object]] = {
    "price off": lambda service: service.require_payment("text_summary", required=False),
    "price on": lambda service: service.require_payment("text_summary"),
    "revision": lambda service: service.publish("text_summary", Revision(amount=7)),
    "name": lambda service: service.edit_resource("text_summary", name="Another name"),
    "description": lambda service: service.edit_resource("text_summary", description="Another text."),
    "image": lambda service: service.edit_resource("text_summary", image_url="https://seller.example/b.png"),
    "archived": lambda service: service.archive("text_summary"),
}
"""What a seller may change of a resource."""


def test_a_snapshot_shows_every_field_as_it_was(api: ApiClient) -> None:
    assert_shown_as_it_was(api, lambda: None)


def test_a_snapshot_shows_every_field_as_it_was_after_a_restart(api: ApiClient) -> None:
    """Of the emulator, with its state."""

    def restart() -> None:
        document = json.dumps(api.emulator.export())
        api.use(Emulator(clock=api.clock))
        api.emulator.load_state(document)
        assert json.dumps(api.emulator.export()) == document

    assert_shown_as_it_was(api, restart)


def assert_shown_as_it_was(api: ApiClient, restart: Callable[[], None]) -> None:
    lists = ("/resources?order=oldest", "/resources?archived=true")
    seen = list[tuple[str, list[Json]]]()
    for edit in EDITS.values():
        for path in lists:
            page = api.listed(path)
            seen.append((f"{path}&as_of={page['as_of']}", page["items"]))
        api.clock.advance(1)
        edit(api.service)
    restart()
    for address, items in seen:
        assert api.listed(address)["items"] == items
    assert len({json.dumps(items) for _, items in seen}) == len(EDITS) + 1


def test_a_snapshot_on_a_still_clock_shows_what_was_before_the_edit(api: ApiClient) -> None:
    before = api.listed("/resources")
    api.service.edit_resource("daily_report", name="Another name")
    assert "Another name" in names(api, "/resources")
    assert api.listed(f"/resources?as_of={before['as_of']}")["items"] == before["items"]


def test_an_edit_is_shown_with_its_moment(api: ApiClient) -> None:
    api.clock.advance(5)
    api.service.edit_resource("text_summary", name="A", description="B", image_url="https://seller.example/c")
    found = api.listed("/resources?order=oldest")["items"][0]
    assert (found["name"], found["description"], found["image_url"]) == ("A", "B", "https://seller.example/c")
    assert found["created_at"] < found["updated_at"] == "2026-01-01T00:00:05.000Z"
    assert api.transaction(api.buy())["status"] == "authorized"


def test_a_receipt_names_the_resource_as_it_was_when_it_was_sold(api: ApiClient) -> None:
    bought = api.buy()
    api.service.edit_resource("text_summary", name="Another name")
    assert api.complete(bought).json()["receipt"]["resource"]["name"] == "Text summary"


@pytest.mark.parametrize("change", [{"name": ""}, {"description": "x" * 501}, {"image_url": ""}], ids=repr)
def test_an_edit_that_breaks_a_rule_is_refused(api: ApiClient, change: dict[str, str]) -> None:
    before = api.listed("/resources")
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        api.service.edit_resource("text_summary", **change)
    with pytest.raises(ConfigurationError, match="no_such"):
        api.service.edit_resource("no_such", name="A")
    assert api.listed("/resources")["items"] == before["items"]


@pytest.mark.parametrize("archived", ["", "1", "yes", "True", "null"])
def test_archived_is_true_or_false(api: ApiClient, archived: str) -> None:
    assert_error(api.get(f"/resources?archived={archived}"), 422, "invalid_request")


def test_archived_travels_in_next(api: ApiClient) -> None:
    api.service.archive("daily_report")
    page = api.listed("/resources?archived=true&page_size=1")
    assert "archived=true" in page["next"]
    assert [page["items"][0]["name"], *names(api, page["next"])] == ["Old report", "Daily report"]
    assert page["count"] == 2


def test_test_and_live_share_keys_but_not_ids(api: ApiClient) -> None:
    live = api.get("/resources", LIVE_KEY).json()["items"]
    test = api.listed("/resources")["items"]
    assert [item["name"] for item in live] == [item["name"] for item in test]
    assert not {item["id"] for item in live} & {item["id"] for item in test}
