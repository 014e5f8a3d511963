"""Prices that a seller writes."""

import pytest

from faregate import ConfigurationError, Offer, Price
from faregate.offers import offer
from faregate.x402.prices import AssetAmount, parse_price


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0.05 USDC", AssetAmount(50_000, "USDC")),
        ("0.05 USD", AssetAmount(50_000, "USDC")),
        ("0.05 EURC", AssetAmount(50_000, "EURC")),
        ("1 EUR", AssetAmount(1_000_000, "EURC")),
        ("0.000001 USDC", AssetAmount(1, "USDC")),
        ("0.0500000000 USDC", AssetAmount(50_000, "USDC")),
        ("123456789.123456 USDC", AssetAmount(123_456_789_123_456, "USDC")),
    ],
)
def test_a_price_is_exact(text: str, amount: AssetAmount) -> None:
    assert parse_price(text) == amount
    assert parse_price(str(amount)) == amount


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write an amount and an asset, such as '0.05 USDC'"),
        ("0.05", "write an amount and an asset"),
        ("0.05USDC", "write an amount and an asset"),
        ("$0.01", "such as '0.01 USDC'"),
        ("-1 USDC", "write an amount and an asset"),
        ("1e-2 USDC", "write an amount and an asset"),
        ("0,05 USDC", "write an amount and an asset"),
        (".05 USDC", "write an amount and an asset"),
        ("٣ USDC", "write an amount and an asset"),
        ("0.05 USDC\n", "write an amount and an asset"),
        ("nan USDC", "write an amount and an asset"),
        ("0.05 DAI", "DAI is no asset of the service: write USDC or EURC"),
        ("0.0000001 USDC", "USDC has 6 decimals"),
        ("0 USDC", "a price is above 0"),
        ("0.00 EURC", "a price is above 0"),
        (f"{10**24} USDC", "more than the service takes"),
        ("9" * 61 + " USDC", "write an amount and an asset"),
    ],
)
def test_bad_text_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_price(text)
    with pytest.raises(ConfigurationError, match=message):
        Offer("report", price=text)


def test_an_offer_keeps_its_price_in_one_spelling() -> None:
    assert offer("report", price="0.05 USD") == Offer("report", price="0.0500 USDC")
    assert Offer("report", price="0.05 USD").amount == AssetAmount(50_000, "USDC")
    assert Offer("report").amount is None
    asked = Price("0.05", "USDC", "eip155:84532", "Base Sepolia", "0x", "50000")
    assert Offer("report", price=asked) == Offer("report", price="0.05 USDC")


@pytest.mark.parametrize("price", [0.05, 5, True, b"0.05 USDC", ("0.05", "USDC")])
def test_a_number_is_no_price(price: object) -> None:
    with pytest.raises(ConfigurationError, match="write it as text"):
        Offer("report", price=price)  # type: ignore[arg-type]


def test_a_price_beside_another_asset_or_a_revision_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="leave the asset out"):
        Offer("report", asset="EURC", price="0.05 USDC")
    with pytest.raises(ConfigurationError, match="is a published revision, which has a price"):
        Offer("acr_1", price="0.05 USDC")
    assert Offer("report", asset="USDC", price="0.05 USDC").asset == "USDC"
