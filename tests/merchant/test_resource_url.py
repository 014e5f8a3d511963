"""The URL of what is sold, and the log where payers seem to use another address."""

import logging

import pytest

from faregate.merchant.resource_url import ResourceUrls

LOCAL = "http://127.0.0.1:8031"


def urls(public_url: str = "", trust_host: bool = False) -> ResourceUrls:
    return ResourceUrls(public_url, trust_host, "FAREGATE_PUBLIC_URL")


@pytest.mark.parametrize(
    ("origin", "host", "is_forwarded", "hint"),
    [
        (LOCAL, "shop.example", False, "https://shop.example"),
        (LOCAL, "shop.example:8443", True, "https://shop.example:8443"),
        (LOCAL, "127.0.0.1:8031", True, "https://api.example.com"),
        ("https://127.0.0.1:8031", None, True, "https://api.example.com"),
        ("http://[::1]:8031", "localhost", True, "https://api.example.com"),
        ("http://10.0.0.5:8000", "shop.example", False, "https://shop.example"),
        ("http://10.0.0.5:8000", "10.0.0.5", True, "https://10.0.0.5"),
    ],
)
def test_an_address_that_payers_do_not_use_is_logged_once(
    origin: str, host: str | None, is_forwarded: bool, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    built = urls()
    for _ in range(2):
        assert built.build("/report", origin, host, is_forwarded) == f"{origin}/report"
    [record] = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "faregate.settings")
    assert f"payers are offered {origin}," in record.getMessage()
    assert record.getMessage().endswith(
        f"Set FAREGATE_PUBLIC_URL to the address that payers use, such as {hint}"
    )
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize(
    ("origin", "host", "is_forwarded"),
    [
        (LOCAL, "127.0.0.1:8031", False),
        (LOCAL, "localhost:8031", False),
        (LOCAL, "[::1]:8031", False),
        (LOCAL, None, False),
        (LOCAL, "", False),
        ("http://testserver", "testserver", False),
        ("http://testserver", "TestServer:80", False),
        ("https://10.0.0.5", "10.0.0.5:443", True),
        ("http://10.0.0.5:8000", "10.0.0.5:8000", True),
        # What is no host is not logged: a stranger chose it.
        (LOCAL, "shop.example\nERROR: fake", False),
        (LOCAL, "shop.example/x", False),
        (LOCAL, "a" * 300, False),
    ],
)
def test_an_address_that_payers_may_use_is_not_logged(
    origin: str, host: str | None, is_forwarded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert urls().build("/report", origin, host, is_forwarded) == f"{origin}/report"
    assert not caplog.records


def test_a_public_url_is_used_and_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    built = urls("https://api.example.com")
    assert built.build("/r\u00e9port", LOCAL, "shop.example", True) == "https://api.example.com/r%C3%A9port"
    assert built.build("/report", None, None, False) == "https://api.example.com/report"
    assert not caplog.records


def test_a_trusted_host_is_used(caplog: pytest.LogCaptureFixture) -> None:
    built = urls(trust_host=True)
    assert built.build("/report", LOCAL, "shop.example", True) == "http://shop.example/report"
    assert built.build("/report", LOCAL, "shop.example/x", False) == f"{LOCAL}/report"
    assert not caplog.records
    # A proxy that sends its own Host header.
    assert built.build("/report", LOCAL, "127.0.0.1:8031", True) == f"{LOCAL}/report"
    assert len(caplog.records) == 1


def test_a_server_without_an_address_is_one_error(caplog: pytest.LogCaptureFixture) -> None:
    built = urls(trust_host=True)
    for _ in range(2):
        assert built.build("/report", None, "shop.example", True) is None
    [record] = caplog.records
    assert (record.levelno, record.name) == (logging.ERROR, "faregate.settings")
    assert "Set FAREGATE_PUBLIC_URL to" in record.getMessage()
