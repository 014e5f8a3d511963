"""spec: Access request resource, Limits: every rule of the access body, and that a refusal loses nothing."""

import json
from typing import Any

import pytest

from tests.support.headers import decode_header

from .seller import ApiClient, assert_error

URL = "https://seller.example/a"
MIME = "text/plain"
LONGEST_URL = "https://seller.example/".ljust(2048, "a")

BAD_URLS = [
    # RFC 3986, 3.2.3: a port is digits; and TCP has 65,535 of them
    *("http://h:port/a", "http://h:-1/a", "http://h:+1/a", "http://h:65536/a", "http://h:99999/a"),
    *("http://h:8 0/a", "http://h:80:80/a", "http://h:\u0661/a", "http://h:1e3/a"),
    # 3.2.2: a host is a name or an IP literal, and a name has no character of another part
    *(
        "http://:80/a",
        "http:///a",
        "http://h\\a/b",
        "http://h^/a",
        "http://h|x/a",
        "http://a b/c",
        'http://"h"/a',
    ),
    *("http://[::1/a", "http://::1/a", "http://[::1]x/a", "http://[1::2::3]/a", "http://[::12345]/a"),
    *("http://[127.0.0.1]/a", "http://[::256.0.0.1]/a", "http://[fe80::1%25eth0]/a", "http://[]/a"),
    *("http://[v1.]/a", "http://[v.a]/a", "http://h]/a", "http://h[/a", "http://%zz/a", "http://h%2/a"),
    # 3.3: what is no pchar is percent-encoded, and that is two hex digits
    *(
        "\\",
        '"',
        " ",
        "<",
        ">",
        "^",
        "`",
        "{",
        "}",
        "|",
        "[",
        "]",
        "\t",
        "\x00",
        "\x7f",
        "\u00e9",
        "\u2028",
        "\ud7ff",
    ),
    *("%", "%2g", "%zz", "%0g", "%%41", "%u0041", "%\uff11\uff11"),
]
BAD_URLS = [url if url.startswith("http") else f"{URL}{url}b" for url in BAD_URLS]

GOOD_URLS = [
    *(
        "http://h",
        "http://h/",
        "HTTPS://H/a",
        "https://a_b.example/",
        "https://a-b.example./",
        "http://1.2.3.4/a",
    ),
    *("http://999.1/a", "http://h:/a", "http://h:80", "http://h:65535/a", "http://h:0080/a", "http://%41/a"),
    *(
        "http://[::]/",
        "http://[::1]:8443/a",
        "http://[1:2:3:4:5:6:7:8]/",
        "http://[1::8]/",
        "http://[::ffff:1.2.3.4]",
    ),
    *(
        "http://[1:2:3:4:5:6:7::]/",
        "http://[::2:3:4:5:6:7:8]",
        "http://[v7.a:b]/",
        "http://h//a//",
        "http://h/.",
    ),
    *(
        "http://h/a'b",
        "http://h/!$&'()*+,;=:@-._~",
        "http://h/%41%e9%00",
        "http://h/a@b:c",
        "http://xn--bcher-kva.example/",
    ),
]

BAD_RESOURCES: list[Any] = [
    *({"url": url, "mime_type": MIME} for url in BAD_URLS),
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
    {"url": URL, "mime_type": MIME, "description": "a\0b"},
    {"url": URL + "\0", "mime_type": MIME},
    {"url": URL, "mime_type": MIME + "\0"},
]

GOOD_RESOURCES = [
    *({"url": url, "mime_type": MIME} for url in GOOD_URLS),
    {"url": LONGEST_URL, "mime_type": MIME},
    {"url": "http://h", "mime_type": "x-a/b"},
    {"url": "https://[::1]:8443/a", "mime_type": "application/vnd.a+json"},
    {"url": URL, "mime_type": "text/" + "a" * 250},
    {"url": URL, "mime_type": "model/a!#$&^_.+-"},
    {"url": URL, "mime_type": MIME, "description": "d" * 500},
    {"url": URL, "mime_type": MIME, "description": "\N{GRINNING FACE}" * 500},
]


@pytest.mark.parametrize("resource", BAD_RESOURCES, ids=lambda value: json.dumps(value)[:60])
def test_a_resource_that_breaks_a_rule_is_422(api: ApiClient, resource: Any) -> None:
    proof = api.proof()
    assert_error(api.post("/access", api.access_body(resource=resource), proof), 422, "invalid_request")
    assert api.access(proof=proof).status_code == 200


@pytest.mark.parametrize("resource", GOOD_RESOURCES, ids=lambda value: json.dumps(value)[:60])
def test_a_resource_within_the_rules_is_priced(api: ApiClient, resource: Any) -> None:
    assert api.post("/access", api.access_body(resource=resource)).status_code == 402


@pytest.mark.every_value
def test_u_0000_is_422_on_every_database(api: ApiClient) -> None:
    """PostgreSQL cannot keep it, and the payer would be told that the service is away."""
    proof, null = api.proof(), "a\0b"
    resource = {"url": URL, "mime_type": MIME, "description": null}
    told = assert_error(
        api.post("/access", api.access_body(resource=resource), proof), 422, "invalid_request"
    )
    assert "resource.description: must not contain the character U+0000" in told
    bought = api.buy()
    for change in (
        {"resource_execution": {"response_content_type": null}},
        {"values": {null: "1"}},
        {"values": {"input-tokens": null}},
        {"outcome": null},
        {"revision_id": null},
    ):
        assert_error(api.complete(bought, **change), 422, "invalid_request")
    failure = {"revision_id": bought.revision_id, "outcome": "failed", "failure_code": null}
    path = f"/transactions/{bought.id}/complete"
    assert_error(api.post(path, failure, bought.proof), 422, "invalid_request")
    assert api.complete(bought).status_code == 200


@pytest.mark.every_value
@pytest.mark.parametrize(
    "query", ["as_of", "order", "page", "page_size", "status", "payer_id", "archived", "a%00b"]
)
def test_u_0000_in_a_query_is_422_on_every_database(api: ApiClient, query: str) -> None:
    for path in ("transactions", "payers", "resources", "contracts"):
        assert_error(api.get(f"/{path}?{query}=a%00b"), 422, "invalid_request")


@pytest.mark.every_value
def test_u_0000_in_an_id_names_nothing_on_every_database(api: ApiClient) -> None:
    assert_error(api.get("/transactions/txn_%00"), 404, "transaction_not_found")
    path = "/transactions/txn_%00/complete"
    body = {"revision_id": api.service.revision_id("text_summary"), "outcome": "succeeded", "values": {}}
    assert_error(api.post(path, body, api.proof()), 404, "transaction_not_found")


TOP_LEVEL_TYPES = [
    *("application", "audio", "font", "image", "message", "model", "multipart", "text", "video"),
    *("x-a", "x-0!#$&^_.+-"),
]


@pytest.mark.parametrize("top", TOP_LEVEL_TYPES)
def test_every_top_level_type_of_the_spec_is_taken(api: ApiClient, top: str) -> None:
    body = api.access_body(resource={"url": URL, "mime_type": f"{top}/a"})
    assert api.post("/access", body).status_code == 402


def test_the_description_is_empty_by_default(api: ApiClient) -> None:
    bare = api.post("/access", api.access_body(resource={"url": URL, "mime_type": MIME}))
    given = api.post("/access", api.access_body(resource={"url": URL, "mime_type": MIME, "description": ""}))
    for response in (bare, given):
        assert decode_header(response.headers["payment-required"])["resource"]["description"] == ""


@pytest.mark.parametrize("missing", ["revision_id", "resource", "settlement_asset"])
def test_every_field_is_required(api: ApiClient, missing: str) -> None:
    body = api.access_body()
    del body[missing]
    assert missing in assert_error(api.post("/access", body), 422, "invalid_request")


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
def test_a_field_that_breaks_a_rule_is_422(api: ApiClient, change: dict[str, Any]) -> None:
    assert_error(api.post("/access", api.access_body(**change)), 422, "invalid_request")


@pytest.mark.parametrize("content", [b"[]", b"null", b"1", b'"text"', b"{}"])
def test_json_of_another_shape_is_422(api: ApiClient, content: bytes) -> None:
    assert_error(api.raw("/access", content), 422, "invalid_request")


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
def test_a_body_that_is_not_json_or_too_long_is_400(api: ApiClient, path: str, content: bytes) -> None:
    proof = [("PAYMENT-SIGNATURE", api.proof())]
    assert_error(api.raw(path, content, proof), 400, "invalid_request")


def test_a_body_of_64_kib_is_read_and_a_longer_one_is_not(api: ApiClient) -> None:
    """The same good JSON, with spaces before it: only its length makes the difference."""
    content = json.dumps(api.access_body()).encode()
    assert api.raw("/access", content.rjust(64 * 1024)).status_code == 402
    message = assert_error(api.raw("/access", content.rjust(64 * 1024 + 1)), 400, "invalid_request")
    assert "longer than 65536 bytes" in message


def test_the_content_type_of_the_request_does_not_matter(api: ApiClient) -> None:
    content = json.dumps(api.access_body()).encode()
    headers = {"Authorization": f"Bearer {api.key}", "Content-Type": "text/plain"}
    response = api.http.post("/merchant/v1/access", content=content, headers=headers)
    assert response.status_code == 402
