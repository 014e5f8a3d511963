"""Values that a handler reports, declared beside its price: `paid("key", price=..., values=...)`."""

from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from faregate import ConfigurationError, Offer, Paywall, Usage
from faregate.emulator import Emulator
from faregate.emulator.transports import EmbeddedTransport
from faregate.emulator.wallet import Wallet
from faregate.flask import Faregate, payment
from faregate.offers import offer
from tests.service.in_process import Buyer, build_environ, open_paywall, open_storage_of
from tests.service.test_in_process import CATALOG, count_sales, read_settled
from tests.support.headers import decode_header

VALUES: Any = {"rows": "required", "output-tokens": "optional"}
USAGE = Usage(at_most="0.10 USDC", rates={"rows": "0.001 USDC"})


def build_app(paywall: Paywall, reports: dict[str, object], **options: Any) -> Flask:
    """An application whose handler reports this."""
    app, extension = Flask("seller"), Faregate()
    declared: Any = {"price": "0.05 USDC", "values": VALUES, **options}

    @app.get("/report")
    @extension.paid("daily_report", **declared)
    def report() -> dict[str, str]:
        payment.report(reports)
        return {"report": "sunny"}

    extension.init_app(app, paywall)
    return app


def build_buyer(app: Flask) -> Buyer:
    return Buyer(app.test_client(), Wallet())


@pytest.fixture(params=["service:", "emulator:"])
def environ(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    if request.param == "service:":
        return build_environ(tmp_path)
    # Not the emulator of this process: it would keep the declared price for the tests that follow.
    own = EmbeddedTransport(Emulator(allow_live=False))
    monkeypatch.setattr("faregate.emulator.transports.get_embedded_transport", lambda: own)
    return {"FAREGATE_BASE_URL": "emulator:"}


@pytest.mark.parametrize(
    ("reports", "status"),
    [
        ({"rows": 7}, 200),
        ({"rows": 7, "output-tokens": 3}, 200),
        ({"output-tokens": 3}, 500),
        ({"rows": 7, "pages": 1}, 500),
    ],
)
def test_a_fixed_price_takes_the_declared_values(
    environ: dict[str, str], reports: dict[str, object], status: int
) -> None:
    with open_paywall(environ) as paywall:
        bought = build_buyer(build_app(paywall, reports)).buy()
    assert bought.status_code == status, bought.text
    if status == 200:
        assert read_settled(bought) == "50000"
    else:
        assert bought.json["code"] == "invalid_usage"


def test_a_price_by_use_has_values_without_a_rate(environ: dict[str, str]) -> None:
    values: Any = {"output-tokens": "required"}
    with open_paywall(environ) as paywall:
        app = build_app(paywall, {"rows": 7, "output-tokens": 3}, price=USAGE, values=values)
        assert read_settled(build_buyer(app).buy()) == "7000"
    with open_paywall(environ) as paywall:
        app = build_app(paywall, {"rows": 7}, price=USAGE, values=values)
        assert build_buyer(app).buy().json["code"] == "invalid_usage"


def test_what_a_402_asked_is_sold_by_code_with_other_values(tmp_path: Path) -> None:
    """Of another price, too: the payment keeps its own, and values that its revision lacks are left out."""
    environ = build_environ(tmp_path)
    with open_paywall(environ) as before:
        asked = build_buyer(build_app(before, {}, values=None)).ask()
        with open_paywall(environ) as after:
            buyer = build_buyer(build_app(after, {"rows": 1}, price="0.06 USDC"))
            bought = buyer.pay(asked)
            assert bought.json == {"report": "sunny"}
            assert read_settled(bought) == "50000"
    assert count_sales(environ) == (1, 1)


def test_what_the_new_code_does_not_report_is_asked_anew(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    with open_paywall(environ) as before:
        asked = build_buyer(build_app(before, {"rows": 1})).ask()
        with open_paywall(environ) as after:
            buyer = build_buyer(build_app(after, {}, price="0.06 USDC", values=None))
            refused = buyer.pay(asked)
            assert refused.status_code == 402
            assert decode_header(refused.headers["payment-required"])["accepts"][0]["amount"] == "60000"
    assert count_sales(environ) == (0, 0)


def test_the_same_values_are_published_once(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    for values in (VALUES, None, VALUES):
        with open_paywall(environ, Offer("daily_report", price="0.05 USDC", values=values)):
            pass
    with open_storage_of(environ) as storage, storage.database.read() as connection:
        [count] = connection.execute(text("SELECT count(*) FROM revisions WHERE number > 0")).scalars()
    assert count == 2


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"values": VALUES}, "values= without price="),
        ({"price": "0.05 USDC", "values": ["rows"]}, "write a name and 'required' or 'optional'"),
        ({"price": "0.05 USDC", "values": {"Rows": "required"}}, "'Rows' is no name of a value"),
        ({"price": "0.05 USDC", "values": {"rows": True}}, "'rows' is True: write 'required' or 'optional'"),
        ({"price": USAGE, "values": {"rows": "optional"}}, "rows: what has a rate is always reported"),
        ({"price": "0.05 USDC", "values": {f"v{n}": "optional" for n in range(101)}}, "100 values at most"),
    ],
)
def test_a_bad_declaration_fails_at_import(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        offer("daily_report", **options)


def test_two_handlers_with_other_values_fail_at_start(tmp_path: Path) -> None:
    one, other = (Offer("daily_report", price="0.05 USDC", values=values) for values in (VALUES, None))
    with (
        pytest.raises(ConfigurationError, match=r"values=\{'rows'.* and with values=\{\}: write the same"),
        open_paywall(build_environ(tmp_path), one, other),
    ):
        pass


def test_other_values_than_those_of_the_catalog_fail_at_start(tmp_path: Path) -> None:
    (file := tmp_path / "catalog.toml").write_text(
        CATALOG.format(pay_to=build_environ(tmp_path)["FAREGATE_SERVICE_PAY_TO"]).replace(
            'amount = "50000"', 'amount = "50000"\nvalues = [{name = "rows", required = true}]'
        )
    )
    environ = build_environ(tmp_path, FAREGATE_SERVICE_CATALOG=str(file))
    for values in ({"rows": "required"}, None):
        given: Any = values
        with open_paywall(environ, Offer("daily_report", price="0.05 USDC", values=given)):
            pass
    with (
        pytest.raises(ConfigurationError, match=r"and with \{'rows': 'required'\} in the catalog"),
        open_paywall(environ, Offer("daily_report", price="0.05 USDC", values=VALUES)),
    ):
        pass
