"""Every pattern and limit of the spec, from both sides of its edge (spec: Shared value types, Limits)."""

from datetime import UTC, datetime
from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from faregate.merchant import types
from faregate.x402 import tokens

TAIL = "0123456789ab7cde89abcdef01234567"


def accepts(kind: Any, value: object) -> bool:
    try:
        TypeAdapter[Any](kind).validate_python(value)
    except ValidationError:
        return False
    return True


IDS = {
    "txn": types.TransactionId,
    "acr": types.RevisionId,
    "res": types.ResourceId,
    "pyr": types.PayerId,
    "rex": types.ResourceExecutionId,
    "prq": types.PaymentRequestId,
    "rct": types.ReceiptId,
    "prc": types.PriceId,
    "org": types.OrganizationId,
    "rvk": types.RevisionKey,
}


@pytest.mark.parametrize("prefix", IDS)
def test_an_id_is_its_prefix_and_32_hex_digits(prefix: str) -> None:
    good = f"{prefix}_{TAIL}"
    assert accepts(IDS[prefix], good)
    for variant in "89ab":
        assert accepts(IDS[prefix], f"{prefix}_0123456789ab7cde{variant}9abcdef01234567")
    bad = [
        *(good + "\n", good + " ", " " + good, good + "0", good[:-1], good.upper(), ""),
        *(f"{prefix}_0123456789ab4cde89abcdef01234567", f"{prefix}_0123456789ab7cdec9abcdef01234567"),
        *(f"{prefix}-{TAIL}", TAIL, f"xxx_{TAIL}", f"{prefix}_{TAIL[:-1]}g", f"{prefix}_{TAIL[:-1]}٣"),
        *(good.encode(), 7, None),
    ]
    assert [value for value in bad if accepts(IDS[prefix], value)] == []


def test_no_prefix_passes_for_another() -> None:
    passing = [
        (name, prefix) for name, kind in IDS.items() for prefix in IDS if accepts(kind, f"{prefix}_{TAIL}")
    ]
    assert passing == [(name, name) for name in IDS]


AMOUNT: TypeAdapter[int] = TypeAdapter(types.AtomicAmount)


@pytest.mark.parametrize(
    ("wire", "value"),
    [("0", 0), ("1", 1), ("10000", 10_000), ("9" * 30, 10**30 - 1), (0, 0), (10**30 - 1,) * 2],
)
def test_an_amount_is_an_int_here_and_a_string_on_the_wire(wire: object, value: int) -> None:
    found = AMOUNT.validate_python(wire)
    assert (found, type(found)) == (value, int)
    assert AMOUNT.dump_json(found) == f'"{value}"'.encode()


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "01",
        "-1",
        "+1",
        "1.0",
        "1e3",
        " 1",
        "1\n",
        "1_000",
        "٣",
        "²",
        "9" * 31,
        -1,
        10**30,
        1.0,
        True,
        None,
        b"1",
    ],
)
def test_no_other_amount(wrong: object) -> None:
    assert not accepts(types.AtomicAmount, wrong)


@given(st.integers(0, 10**30 - 1))
def test_an_amount_comes_back_from_the_wire(amount: int) -> None:
    assert AMOUNT.validate_json(AMOUNT.dump_json(amount)) == amount


def test_addresses_networks_and_hashes() -> None:
    address = "0x" + "aB" * 20
    assert accepts(types.EvmAddress, address)
    for wrong in (address + "\n", address[:-1], address + "0", "0X" + "ab" * 20, "ab" * 20, "0x" + "g" * 40):
        assert not accepts(types.EvmAddress, wrong)
    assert accepts(types.NetworkIdentifier, "eip155:84532")
    assert accepts(types.NetworkIdentifier, "a:" + "b" * 98)
    for wrong in ("a:" + "b" * 99, "EIP155:1", "eip155", "eip155:", ":1", "eip155:1\n", "a:b c"):
        assert not accepts(types.NetworkIdentifier, wrong)
    assert accepts(types.TransactionHash, "0x" + "0aF" * 21)
    for wrong in ("0x", "aa", "0xgg", "0xaa\n"):
        assert not accepts(types.TransactionHash, wrong)
    assert accepts(types.PayerIdentifier, "p" * 255)
    assert not accepts(types.PayerIdentifier, "")
    assert not accepts(types.PayerIdentifier, "p" * 256)


def test_enums_pages_and_moments() -> None:
    for kind, good in (
        (tokens.Currency, ("EUR", "USD")),
        (tokens.SettlementAsset, ("EURC", "USDC")),
        (types.ListOrder, ("newest", "oldest")),
    ):
        assert all(accepts(kind, value) for value in good)
        assert not any(accepts(kind, value) for value in ("", good[0].lower() + "x", good[0] + "\n", None))
    assert [n for n in (0, 1, 100, 101) if accepts(types.PageSize, n)] == [1, 100]
    assert [n for n in (0, 1, 10**9) if accepts(types.PageNumber, n)] == [1, 10**9]
    assert accepts(types.SnapshotTimestamp, "2026-01-02T03:04:05Z")
    assert accepts(types.SnapshotTimestamp, "2026-01-02T03:04:05+02:00")
    assert not accepts(types.SnapshotTimestamp, "2026-01-02T03:04:05")
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert TypeAdapter(types.Moment).dump_json(moment) == b'"2026-01-02T03:04:05.678Z"'
    assert TypeAdapter(types.Moment).validate_json(b'"2026-01-02T05:04:05.678+02:00"') == moment


def test_a_next_page_starts_with_a_slash() -> None:
    assert accepts(types.NextPageUrl, "/merchant/v1/payers?page=2")
    for wrong in ("", "merchant", "http://other.example/", "?page=2"):
        assert not accepts(types.NextPageUrl, wrong)


URL = "https://seller.example/"


def test_a_resource_url_is_full_http_without_anything_else() -> None:
    for good in (
        URL,
        "http://a",
        "https://seller.example:8443/a/b%20c",
        "http://[::1]:1/x",
        URL + "a" * (2048 - len(URL)),
    ):
        assert accepts(types.ResourceUrl, good), good
    for wrong in (
        *(
            "",
            "/path",
            "seller.example/a",
            "ftp://seller.example/",
            "https://",
            "https:///a",
            "//seller.example",
        ),
        *(
            URL + "?",
            URL + "?a=1",
            URL + "#",
            URL + "#a",
            "https://user@seller.example/",
            "https://u:p@seller.example/",
        ),
        *(URL + "a b", URL + "\n", URL + "\t", " " + URL, URL + "a" * (2049 - len(URL))),
    ):
        assert not accepts(types.ResourceUrl, wrong), wrong


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("/a", "full http or https URL"),
        ("ftp://h/a", "full http or https URL"),
        ("http://user@h/a", "no username, password, query string or fragment"),
        ("http://h/a?b", "no username, password, query string or fragment"),
        ('http://h/a"b', "'\"' must be percent-encoded"),
        ("http://h/a\\b", r"'\\\\' must be percent-encoded"),
        ("http://h/\u00e9", r"'\\xe9' must be percent-encoded"),
        ("http://h/%zz", "% must be followed by two hex digits"),
        ("http://h:99999/", "host or port is not valid"),
        ("http://[::1/", "host or port is not valid"),
        ("http:///a", "host or port is not valid"),
    ],
)
def test_what_is_wrong_with_a_resource_url_is_said(url: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TypeAdapter(types.ResourceUrl).validate_python(url)


@given(st.ip_addresses(v=6))
def test_every_ipv6_address_is_a_host(address: IPv6Address) -> None:
    for text in (str(address), address.exploded, address.exploded.upper()):
        assert accepts(types.ResourceUrl, f"http://[{text}]/")
    assert not accepts(types.ResourceUrl, f"http://[{address.exploded}:0]/")
    assert not accepts(types.ResourceUrl, f"http://{address}/")


@given(st.text("0123456789abcdef:.", max_size=24))
def test_what_is_no_ipv6_address_is_no_literal(text: str) -> None:
    try:
        IPv6Address(text)
    except ValueError:
        known = False
    else:
        known = True
    assert accepts(types.ResourceUrl, f"http://[{text}]/") == known


@given(st.integers(0, 200_000))
def test_a_port_is_one_of_tcp(port: int) -> None:
    assert accepts(types.ResourceUrl, f"http://h:{port}/") == (port <= 65535)


def test_a_mime_type_is_lower_case_and_bare() -> None:
    top = [
        "application",
        "audio",
        "font",
        "image",
        "message",
        "model",
        "multipart",
        "text",
        "video",
        "x-a",
        "x-9.b+c",
    ]
    for good in (
        *[name + "/x" for name in top],
        "application/vnd.api+json",
        "text/a!#$&^_.+-",
        "text/" + "a" * 250,
    ):
        assert accepts(types.MimeType, good), good
    for wrong in (
        *(
            "",
            "a/",
            "text",
            "text/",
            "/json",
            "Text/plain",
            "text/Plain",
            "text/plain; charset=utf-8",
            "text/plain;",
        ),
        *(
            "chemical/x",
            "x-/a",
            "x/a",
            "text/-a",
            "text/a b",
            "text/plain\n",
            "text/a/b",
            "text/" + "a" * 251,
        ),
    ):
        assert not accepts(types.MimeType, wrong), wrong


def test_short_texts() -> None:
    assert accepts(types.Description, "")
    assert accepts(types.Description, "ü" * 500)
    assert not accepts(types.Description, "d" * 501)
    for good in ("a", "A.z_0:9-", "x" * 100):
        assert accepts(types.FailureCode, good)
    for wrong in ("", "x" * 101, "a b", "a\n", "ä", "a/b"):
        assert not accepts(types.FailureCode, wrong)
    for good in ("a", "0", "input-tokens", "a_b-c", "x" * 100):
        assert accepts(types.ValueName, good)
    for wrong in ("", "A", "-a", "a-", "a--b", "a b", "a\n", "x" * 101, "é"):
        assert not accepts(types.ValueName, wrong)
    for good in ("a", "text_summary", "a1_2", "x" * 100):
        assert accepts(types.IntegrationKey, good)
    for wrong in ("", "1a", "_a", "a_", "a__b", "a-b", "A", "a\n", "x" * 101):
        assert not accepts(types.IntegrationKey, wrong)


def test_a_reported_value_is_a_decimal_string() -> None:
    for good in ("0", "7", "0.5", "0.000000000001", "9" * 18, "9" * 18 + "." + "9" * 12, "10.00"):
        assert accepts(types.DecimalValue, good), good
    for wrong in (
        "",
        "01",
        "-1",
        "+1",
        ".5",
        "1.",
        "1e3",
        "1\n",
        " 1",
        "1,5",
        "9" * 19,
        "0." + "0" * 13,
        "٣",
        1,
        1.5,
        True,
    ):
        assert not accepts(types.DecimalValue, wrong), wrong
