"""One service has one namespace, however its address is spelt (`merchant.address`)."""

import pytest

from faregate.merchant.address import normalize_address


@pytest.mark.parametrize(
    ("spelt", "address"),
    [
        ("http://[0:0:0:0:0:0:0:1]:8000", "http://localhost:8000"),
        ("http://127.0.1.1:8000/", "http://localhost:8000"),
        ("https://[2001:DB8:0::1]/x", "https://[2001:db8::1]/x"),
        ("https://bücher.example/", "https://xn--bcher-kva.example"),
        ("https://192.0.2.1:443", "https://192.0.2.1"),
    ],
)
def test_a_host_has_one_spelling(spelt: str, address: str) -> None:
    assert normalize_address(spelt) == normalize_address(address) == address
