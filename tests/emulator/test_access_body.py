"""spec: Access request resource, Limits: every rule of the access body, and that a refusal loses nothing."""

import json
from typing import Any

import pytest

from .shop import Shop, assert_error

URL = "https://seller.example/a"
MIME = "text/plain"
LONGEST_URL = "https://seller.example/" + "a" * (2048 - 23)

BAD_RESOURCES: list[Any] = [
    None,
    "https://seller.example/a",
    [],
    {},
    {"url": URL},
    {"mime_type": MIME},
    {"url": URL, "mime_type": MIME, "extra": 1},
    {"url": "", "mime_type": MIME},
    {"url": LONGEST_URL + "a", "mime_type": MIME},
    {"url": "/a", "mime_type": MIME},
    {"url": "seller.example/a", "mime_type": MIME},
    {"url": "ftp://seller.example/a", "mime_type": MIME},
    {"url": "https://", "mime_type": MIME},
    {"url": "https://[::1", "mime_type": MIME},
    {"url": "https://user@seller.example/a", "mime_type": MIME},
    {"url": "https://user:secret@seller.example/a", "mime_type": MIME},
    {"url": URL + "?a=1", "mime_type": MIME},
    {"url": URL + "?", "mime_type": MIME},
    {"url": URL + "#part", "mime_type": MIME},
    {"url": URL + "#", "mime_type": MIME},
    {"url": URL + " b", "mime_type": MIME},
    {"url": URL + "\n", "mime_type": MIME},
    {"url": 7, "mime_type": MIME},
    {"url": URL, "mime_type": ""},
    {"url": URL, "mime_type": "a/"},
    {"url": URL, "mime_type": "Text/plain"},
    {"url": URL, "mime_type": "text/Plain"},
    {"url": URL, "mime_type": "text"},
    {"url": URL, "mime_type": "text/plain; charset=utf-8"},
    {"url": URL, "mime_type": "text/plain\n"},
    {"url": URL, "mime_type": "chemical/x-pdb"},
    {"url": URL, "mime_type": "x-/a"},
    {"url": URL, "mime_type": "text/" + "a" * 251},
    {"url": URL, "mime_type": 7},
    {"url": URL, "mime_type": MIME, "description": "d" * 501},
    {"url": URL, "mime_type": MIME, "description": None},
    {"url": URL, "mime_type": MIME, "description": 7},
]

GOOD_RESOURCES = [
    {"url": LONGEST_URL, "mime_type": MIME},
    {"url": "http://h", "mime_type": "x-a/b"},
    {"url": "https://[::1]:8443/a", "mime_type": "application/vnd.a+json"},
    {"url": URL, "mime_type": "text/" + "a" * 250},
    {"url": URL, "mime_type": "model/a!#$&^_.+-"},
    {"url": URL, "mime_type": MIME, "description": "d" * 500},
    {"url": URL, "mime_type": MIME, "description": "\N{GRINNING FACE}" * 500},
]


def test_the_longest_url_is_2048() -> None:
    assert len(LONGEST_URL) == 2048


@pytest.mark.parametrize("resource", BAD_RESOURCES, ids=lambda value: json.dumps(value)[:60])
def test_a_resource_that_breaks_a_rule_is_422(shop: Shop, resource: Any) -> None:
    proof = shop.proof()
    assert_error(shop.post("/access", shop.access_body(resource=resource), proof), 422, "invalid_request")
    assert shop.access(proof=proof).status_code == 200


@pytest.mark.parametrize("resource", GOOD_RESOURCES, ids=lambda value: json.dumps(value)[:60])
def test_a_resource_within_the_rules_is_priced(shop: Shop, resource: Any) -> None:
    assert shop.post("/access", shop.access_body(resource=resource)).status_code == 402


@pytest.mark.parametrize("top", ["application", "audio", "font", "image", "message", "model", "multipart"])
def test_every_top_level_type_of_the_spec_is_taken(shop: Shop, top: str) -> None:
    body = shop.access_body(resource={"url": URL, "mime_type": f"{top}/a"})
    assert shop.post("/access", body).status_code == 402


def test_the_description_is_empty_by_default(shop: Shop) -> None:
    bare = shop.post("/access", shop.access_body(resource={"url": URL, "mime_type": MIME}))
    given = shop.post(
        "/access", shop.access_body(resource={"url": URL, "mime_type": MIME, "description": ""})
    )
    assert bare.headers["payment-required"] == given.headers["payment-required"]


@pytest.mark.parametrize("missing", ["revision_id", "resource", "settlement_asset"])
def test_every_field_is_required(shop: Shop, missing: str) -> None:
    body = shop.access_body()
    del body[missing]
    assert missing in assert_error(shop.post("/access", body), 422, "invalid_request")


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"revision_id": None},
        {"revision_id": 7},
        {"revision_id": ""},
        {"revision_id": "acr_1"},
        {"revision_id": "acr_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f\n"},
        {"revision_id": "acr_0193E1F0A1B27C3D8E4F5A6B7C8D9E0F"},
        {"revision_id": "acr_0193e1f0a1b24c3d8e4f5a6b7c8d9e0f"},
        {"revision_id": "acr_0193e1f0a1b27c3d1e4f5a6b7c8d9e0f"},
        {"revision_id": "txn_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f"},
        {"settlement_asset": "usdc"},
        {"settlement_asset": "USDT"},
        {"settlement_asset": None},
        {"settlement_asset": ["USDC"]},
    ],
    ids=json.dumps,
)
def test_a_field_that_breaks_a_rule_is_422(shop: Shop, change: dict[str, Any]) -> None:
    assert_error(shop.post("/access", shop.access_body(**change)), 422, "invalid_request")


@pytest.mark.parametrize("content", [b"[]", b"null", b"1", b'"text"', b"{}"])
def test_json_of_another_shape_is_422(shop: Shop, content: bytes) -> None:
    assert_error(shop.raw("/access", content), 422, "invalid_request")


NOT_JSON = [
    b"",
    b"{",
    b"revision_id=acr",
    b"\xff\xfe",
    b"{'a': 1}",
    b'{"a": 1,}',
    b'{"a": "\xe9"}',
    b'{"a": "\\ud800"}',
    b"[" * 60_000,
    b" " * 70_000 + b"{}",
]


@pytest.mark.parametrize("content", NOT_JSON, ids=lambda value: repr(value[:12]))
@pytest.mark.parametrize(
    "path",
    [
        "/access",
        "/transactions/txn_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f/complete",
        "/resource-executions/rex_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f/complete",
    ],
)
def test_a_body_that_is_not_json_or_too_long_is_400(shop: Shop, path: str, content: bytes) -> None:
    proof = [("PAYMENT-SIGNATURE", shop.proof())]
    assert_error(shop.raw(path, content, proof), 400, "invalid_request")


def test_the_content_type_of_the_request_does_not_matter(shop: Shop) -> None:
    content = json.dumps(shop.access_body()).encode()
    headers = {"Authorization": f"Bearer {shop.key}", "Content-Type": "text/plain"}
    response = shop.http.post("/merchant/v1/access", content=content, headers=headers)
    assert response.status_code == 402
