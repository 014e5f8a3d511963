"""Patterns of paths as frameworks write them, and operations that a seller completes."""

from typing import Any

import pytest

from faregate.checkout.openapi_operations import merge_operation, read_path_template

INTEGER, STRING, UUID = {"type": "integer"}, {"type": "string"}, {"type": "string", "format": "uuid"}


@pytest.mark.parametrize(
    ("pattern", "path", "parameters"),
    [
        ("/report", "/report", {}),
        ("/items/{number}", "/items/{number}", {"number": STRING}),
        ("/items/{number:int}/x", "/items/{number}/x", {"number": INTEGER}),
        ("/files/{name:path}", "/files/{name}", {"name": STRING}),
        ("/items/<int:number>", "/items/{number}", {"number": INTEGER}),
        ("/items/<string(length=2):code>", "/items/{code}", {"code": STRING}),
        ("/items/<uuid:key>/<slug>", "/items/{key}/{slug}", {"key": UUID, "slug": STRING}),
        (r"/^items/(?P<pk>[^/.]+)/$", "/items/{pk}/", {"pk": STRING}),
        (r"/api/^items/(?P<year>\d{4})\Z", "/api/items/{year}", {"year": STRING}),
        ("/files/*", "/files/{path}", {"path": STRING}),
    ],
)
def test_a_pattern_is_a_template(pattern: str, path: str, parameters: dict[str, Any]) -> None:
    route = read_path_template(pattern)

    assert route is not None
    assert route.path == path
    assert {one["name"]: one["schema"] for one in route.parameters} == parameters
    assert all(one["in"] == "path" and one["required"] for one in route.parameters)


@pytest.mark.parametrize(
    "pattern",
    ["", "items", r"/items\.(?P<format>[a-z0-9]+)/?$", "/(?P<a>(x|y))", "/{a}/{a}", "/a*b", "/<a", "/(x)"],
)
def test_what_is_no_template_is_left_out(pattern: str) -> None:
    assert read_path_template(pattern) is None


def test_what_the_seller_declares_counts() -> None:
    found = {
        "summary": "x",
        "parameters": [{"name": "a", "in": "path"}, {"name": "b", "in": "query"}],
        "responses": {"200": {"description": "x"}, "422": {}},
    }
    declared = {"parameters": [{"name": "b", "in": "query", "required": True}], "responses": {"200": {}}}

    assert merge_operation(found, declared) == {
        "summary": "x",
        "parameters": [{"name": "a", "in": "path"}, {"name": "b", "in": "query", "required": True}],
        "responses": {"200": {}, "422": {}},
    }
    assert merge_operation({}, declared) == declared
