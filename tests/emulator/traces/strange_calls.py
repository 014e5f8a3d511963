"""Chapters of what is refused: endpoints, keys, queries, bodies and payments that break a rule."""

import json
from collections.abc import Iterator
from contextlib import suppress

from faregate.emulator import Wallet
from faregate.rules.builtin_account import LIVE_KEY, READ_ONLY_TEST_KEY
from faregate.x402.tokens import TOKENS
from tests.support.headers import decode_header, encode_header

from .seller import UNKNOWN, Json, Seller


def call_what_is_no_endpoint(seller: Seller) -> None:
    for method, path in (
        ("GET", "/nothing"),
        ("GET", ""),
        ("GET", "/access"),
        ("PUT", "/access"),
        ("POST", "/contracts"),
        ("DELETE", "/transactions"),
        ("HEAD", "/transactions"),
        ("OPTIONS", "/payers"),
        ("GET", "/transactions/"),
        ("GET", "/transactions/a/b"),
        ("POST", f"/transactions/txn_{UNKNOWN}"),
        ("GET", f"/transactions/txn_{UNKNOWN}/complete"),
        ("GET", "/Transactions"),
        ("GET", "/transactions%2F"),
        ("GET", "/transactions/%00"),
        ("GET", "/transactions/%FF"),
        ("GET", f"/transactions/txn_{UNKNOWN.upper()}"),
        ("GET", f"/transactions/{'a' * 3000}"),
    ):
        seller.call(method, path)


def come_without_a_good_key(seller: Seller) -> None:
    for key in (None, "svc_test_other", "svc_test_emulator  x", LIVE_KEY, "svc_test_emulator%20"):
        seller.get("/contracts", key=key)
    for value in (
        "Basic abc",
        "Bearer",
        "bearer svc_test_emulator",
        "BEARER  svc_test_emulator",
        "svc_test_emulator",
    ):
        seller.get("/payers", key=None, headers=[("authorization", value)])
    seller.get("/payers", headers=[("authorization", "Bearer svc_test_emulator")])
    for path in ("/contracts", "/resources", "/payers", "/transactions", f"/transactions/txn_{UNKNOWN}"):
        seller.get(path, key=READ_ONLY_TEST_KEY)
    for path in (
        "/access",
        f"/transactions/txn_{UNKNOWN}/complete",
        f"/resource-executions/rex_{UNKNOWN}/complete",
    ):
        seller.call("POST", path, {}, key=READ_ONLY_TEST_KEY)


def read_what_is_sold(seller: Seller) -> None:
    for query in ("", "?include_integration_key=true", "?include_integration_key=false"):
        seller.get(f"/contracts{query}")
    for query in ("=TRUE", "=1", "=", "", "=true&include_integration_key=true"):
        seller.get(f"/contracts?include_integration_key{query}")
    seller.get("/contracts?as_of=2026-01-01T00:00:00Z")
    for query in ("", "?archived=true", "?archived=false&order=oldest", "?archived=yes", "?archived=%00"):
        seller.get(f"/resources{query}")


def ask_for_strange_pages(seller: Seller) -> None:
    for path in ("/resources", "/payers", "/transactions"):
        for query in (
            *(
                f"page_size={size}"
                for size in ("0", "1", "100", "101", "-1", "1.0", "%2B1", "01", "", "%D9%A3", "9" * 5000)
            ),
            *(f"page={page}" for page in ("0", "2", "1e3", "9" * 18, "9" * 400, "%00", "x")),
            *(f"order={order}" for order in ("newest", "oldest", "NEWEST", "")),
            "page=1&page=1",
            "limit=5",
            "order=oldest&page_size=2&page=1",
            "&".join(f"p{number}=1" for number in range(60)),
            "%FF=1",
        ):
            seller.get(f"{path}?{query}")


def ask_for_strange_moments(seller: Seller) -> None:
    for moment in (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00z",
        "2026-01-01t00:00:00.123456789Z",
        "2026-01-01T00:00Z",
        "20260101T000000Z",
        "2026-01-01T01:00:00%2B01:00",
        "2026-01-01T01:00:00+01:00",
        "2026-01-01T00:00:00%2B00:60",
        "2026-01-01T00:00:00%2B00:59",
        "2026-01-01T00:00:00-00:60",
        "2026-01-01T00:00:00%2B0060",
        "2026-01-01T00:00:00%2B24:00",
        "2025-12-31T23:59:60Z",
        "2025-12-31T23:59:61Z",
        "2026-01-01T00:00:00",
        "2026-01-01",
        "2026-W01-1T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "1767225600",
        "2026-01-01T00:00:00Z%00",
        "",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00%2B23:59",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-23:59",
        "2024-12-31T00:00:00Z",
        "2030-01-01T00:00:00Z",
        "1969-12-31T23:59:59.5Z",
    ):
        seller.get(f"/transactions?as_of={moment}")
    for path in ("/payers", "/resources"):
        for moment in (
            "2024-12-31T00:00:00Z",
            "2030-01-01T00:00:00Z",
            "2026-01-01T00:00:00%2B00:60",
            "0001-01-01T00:00:00Z",
        ):
            seller.get(f"{path}?as_of={moment}")


def ask_for_access_badly(seller: Seller) -> None:
    for content in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"revision_id": NaN}',
        b"[" * 5000,
        b'{"a":"' + b"a" * 65_000 + b'"}',
        b'{"a":"' + b"a" * 66_000 + b'"}',
        json.dumps({"revision_id": UNKNOWN}).encode("utf-16"),
        json.dumps(seller.body()).replace('"USDC"', '"EURC", "settlement_asset": "USDC"').encode(),
    ):
        seller.call("POST", "/access", content=content)
    for name in seller.body():
        seller.call("POST", "/access", {key: value for key, value in seller.body().items() if key != name})
    for changes in _list_access_faults(seller):
        seller.call("POST", "/access", seller.body(**changes))
    good = seller.body()["resource"]
    for change in _list_resource_faults():
        seller.call("POST", "/access", seller.body(resource={**good, **change}))


def _list_access_faults(seller: Seller) -> Iterator[Json]:
    yield {"more": 1}
    yield {"resource": {}}
    yield {"resource": None}
    for asset in ("EURC", "usdc", "DAI", None, 1, "USDC\0"):
        yield {"settlement_asset": asset}
    for revision in (
        "",
        "acr_1",
        f"acr_{UNKNOWN}",
        f"rvk_{UNKNOWN}",
        f"ACR_{UNKNOWN.upper()}",
        7,
        "acr_\0",
    ):
        yield {"revision_id": revision}


def _list_resource_faults() -> Iterator[Json]:
    for url in (
        "https://seller.example/a?b=1",
        "https://seller.example/a#b",
        "https://user@seller.example/a",
        "https://user:secret@seller.example/a",
        "ftp://seller.example/a",
        "/a",
        "",
        "https://",
        "https://seller.example/a b",
        "https://seller.example/\0",
        "https://seller.example/\u00e9",
        "HTTPS://SELLER.example:443/a",
        "https://seller.example/" + "a" * 2025,
        "https://seller.example/" + "a" * 2026,
        "https://[::1]/a",
        "https://seller.example:99999/a",
        None,
    ):
        yield {"url": url}
    for kind in (
        "text/plain; charset=utf-8",
        "Text/plain",
        "text",
        "x-a/b",
        "chemical/x-pdb",
        "text/" + "a" * 251,
        "a/",
        "text/pla\0in",
        1,
    ):
        yield {"mime_type": kind}
    for text in (
        "",
        "a" * 500,
        "a" * 501,
        "a\0b",
        "\0",
        "\ud800",
        "\u202e\u0007",
        "\U0001f600" * 500,
        None,
        5,
    ):
        yield {"description": text}
    yield {"more": 1}


def show_bad_payments(seller: Seller) -> None:
    good = seller.sign()
    for proof in ("", "%%%", "e30=", "e30", "bnVsbA==", "W10=", "a" * 20_000, good[:-4], good + "!"):
        seller.access(proof=proof)
    seller.call(
        "POST", "/access", seller.body(), headers=[("payment-signature", good), ("payment-signature", good)]
    )
    seller.access(proof=seller.sign(payer="poor"))
    for change in (
        {"from": "0x" + "0" * 40},
        {"to": "0x" + "1" * 40},
        {"value": "9999"},
        {"value": "0"},
        {"value": "1" * 31},
        {"value": "-1"},
        {"validAfter": "4102444800"},
        {"validBefore": "0"},
        {"validBefore": "4102444800"},
        {"validBefore": "9" * 78},
        {"nonce": "0x1"},
    ):
        seller.access(proof=_resign(seller, good, change))
    seller.access(proof=_tamper(good, "signature", "0x" + "11" * 65))
    seller.access(proof=_tamper(good, "signature", "0x"))
    seller.access("daily_report", good)
    seller.access("euro_report", good)
    body = seller.body()
    for change in ({"description": "a\0b"}, {"description": "\ud800"}, {"mime_type": "text/pla\0in"}):
        # With a payment that is good, it would be written down.
        seller.call("POST", "/access", {**body, "resource": {**body["resource"], **change}}, proof=good)
    seller.access(proof=good)
    seller.call("POST", "/access", seller.body("euro_report", settlement_asset="USDC"))


def _resign(seller: Seller, proof: str, change: dict[str, str]) -> str:
    """Change the payment and sign it again, if that can be signed."""
    payment = decode_header(proof)
    authorization = {**payment["payload"]["authorization"], **change}
    signature = payment["payload"]["signature"]
    # Others cannot be encoded for a signature.
    with suppress(ValueError, OverflowError):
        signature = Wallet.test("good", clock=seller.clock).sign(authorization, TOKENS["test", "USDC"])
    return encode_header({**payment, "payload": {"authorization": authorization, "signature": signature}})


def _tamper(proof: str, name: str, value: object) -> str:
    payment = decode_header(proof)
    return encode_header({**payment, "payload": {**payment["payload"], name: value}})
