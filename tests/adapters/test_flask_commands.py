"""Settings of a Flask app, the routes that it lists, and the commands of `flask faregate`."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from flask import Blueprint, Flask

from faregate.emulator import Emulator, Fault
from faregate.emulator.transports import EmbeddedTransport
from faregate.errors import ConfigurationError
from faregate.events import Authorized, Event, Refused, Released, Settled, Worked
from faregate.flask import Faregate, PayingClient, list_routes, payment
from faregate.routes.check import IN_MEMORY, PREDICTABLE, UNPREDICTABLE
from tests.adapters.flask_app import (
    CONTENT,
    ByDecorators,
    ByMethod,
    Seller,
    content,
    is_sold,
    paywall,
    run,
    weather,
)
from tests.attacks.chain import Predictable

pytestmark = pytest.mark.usefixtures("no_logs")


@pytest.fixture
def seller() -> Seller:
    """Not `TESTING`: Flask answers errors itself, as in production."""
    return Seller(Flask("seller"))


# Settings


def test_two_apps_in_one_process_have_settings_of_their_own() -> None:
    extension = Faregate()

    def create_app(**config: Any) -> Flask:
        app = Flask("seller")
        app.config.from_mapping(FAREGATE_BASE_URL="emulator:", **config)
        app.add_url_rule("/paid", view_func=extension.paid("daily_report")(lambda: payment.values))
        app.test_client_class = PayingClient
        extension.init_app(app)
        return app

    first = create_app(FAREGATE_PUBLIC_URL="https://first.example", FAREGATE_MAX_RESULT_BYTES=1)
    second = create_app(FAREGATE_PUBLIC_URL="https://second.example", FAREGATE_TIMEOUT=3)
    asked = [app.extensions["faregate"].paywall.settings for app in (first, second)]
    assert [settings.public_url for settings in asked] == ["https://first.example", "https://second.example"]
    assert [settings.timeout for settings in asked] == [10, 3]
    client: Any = first.test_client()
    assert client.get("/paid", pay=True).get_json()["code"] == "result_too_large"
    other: Any = second.test_client()
    assert other.get("/paid", pay=True).status_code == 200
    assert vars(extension) == {}


def test_the_environment_speaks_where_the_config_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAREGATE_BASE_URL", "http://environment.example")
    monkeypatch.setenv("FAREGATE_API_KEY", "svc_test_environment")
    app = Flask("seller")
    app.config["FAREGATE_BASE_URL"] = "http://config.example"
    Faregate(app)
    settings = app.extensions["faregate"].paywall.settings
    assert (settings.base_url, settings.api_key) == ("http://config.example", settings.api_key)
    assert settings.api_key.reveal() == "Bearer svc_test_environment"
    assert app.config["FAREGATE_API_KEY"] is None  # a key of the environment is not copied around


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, "FAREGATE_BASE_URL"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_TRUST_HOST": "false"}, "TRUST_HOST.* must be bool"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_TIMEOUT": "5"}, "TIMEOUT .* int or float, not str"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_OFFERS": {"x": "y"}}, "starts with a slash"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_JOURNAL": "cloud:"}, "FAREGATE_JOURNAL in .* is"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_PUBLIC_URL": "x"}, "FAREGATE_PUBLIC_URL in .* must be"),
        ({"FAREGATE_BASE_URL": "https://service.example"}, "Set FAREGATE_API_KEY in the app's config to"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_TIMEOUT": 90}, "FAREGATE_TIMEOUT in the .* smaller"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_OFFER": {"/x": "y"}}, "mean FAREGATE_OFFERS"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_REFUSED": ["/x"]}, "config is not a setting"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_REFUSE": "/x"}, r"write \['/x'\]"),
        ({"FAREGATE_BASE_URL": "emulator:", "FAREGATE_OFFERS": ["/x"]}, "offers maps path prefixes"),
    ],
)
def test_a_mistake_in_the_config_fails_when_the_app_is_made(
    config: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAREGATE_BASE_URL", raising=False)
    app = Flask("seller")
    app.config.update(config)
    with pytest.raises(ConfigurationError, match=says):
        Faregate(app)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {"FAREGATE_OFFERS": {"/reports": "daily_report"}},
            "FAREGATE_OFFERS in the app's config was set after",
        ),
        ({"FAREGATE_REFUSE": ["/reports"]}, "FAREGATE_REFUSE"),
        ({"FAREGATE_PUBLIC_URL": "https://seller.example"}, "FAREGATE_PUBLIC_URL"),
        ({"FAREGATE_OFFER": {"/reports": "daily_report"}}, "mean FAREGATE_OFFERS"),
    ],
)
def test_a_setting_that_comes_too_late_gives_nothing_away(config: dict[str, Any], says: str) -> None:
    app = Flask("seller")
    app.config.update(FAREGATE_BASE_URL="emulator:")
    Faregate(app)
    app.add_url_rule("/reports", view_func=lambda: CONTENT, endpoint="report")
    app.config.update(config)
    assert any(says in fault for fault in list_routes(app).faults)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=says):
            app.test_client().get("/reports")


def test_a_prefix_that_is_added_too_late_gives_nothing_away() -> None:
    app = Flask("seller")
    app.config.update(FAREGATE_BASE_URL="emulator:", FAREGATE_OFFERS={"/weather": "daily_report"})
    Faregate(app)
    app.config["FAREGATE_OFFERS"]["/reports"] = "daily_report"
    with pytest.raises(ConfigurationError, match="FAREGATE_OFFERS"):
        app.test_client().get("/reports")


def test_an_app_has_one_paywall(seller: Seller) -> None:
    with pytest.raises(ConfigurationError, match="once"):
        paywall.init_app(seller.app)


def test_a_listener_of_the_config_hears_events() -> None:
    told: list[Event] = []
    app = Flask("seller")
    app.config.update(FAREGATE_BASE_URL="emulator:", FAREGATE_ON_EVENT=told.append)
    app.add_url_rule("/paid", view_func=paywall.paid("daily_report")(content()))
    Faregate(app)
    app.test_client_class = PayingClient
    client: Any = app.test_client()
    assert client.get("/paid", pay=True).data == CONTENT
    assert [type(event) for event in told] == [Refused, Authorized, Worked, Settled, Released]


def test_prefixes_of_the_config_are_sold_and_closed() -> None:
    app = Flask("seller")
    app.config.update(FAREGATE_OFFERS={"/reports": "daily_report"}, FAREGATE_REFUSE=["/drafts"])
    app.add_url_rule("/reports/<name>", view_func=lambda name: CONTENT, endpoint="report")
    app.add_url_rule("/drafts/<name>", view_func=lambda name: CONTENT, endpoint="draft")
    seller = Seller(app)
    assert is_sold(seller, "/reports/today")
    assert seller.ask("/drafts/today").status_code == 403


# Commands


def listed(seller: Seller) -> dict[str, tuple[str, str]]:
    routes = list_routes(seller.app).routes
    return {f"{','.join(route.methods)} {route.path}": (route.access, route.sells) for route in routes}


def test_every_route_is_listed(seller: Seller) -> None:
    outer, _ = weather()
    paywall.paid_all(outer, "daily_report")
    seller.app.register_blueprint(outer, url_prefix="/weather")
    seller.app.add_url_rule("/by/<int:id>", view_func=ByMethod.as_view("by_method"))
    seller.app.add_url_rule("/all", view_func=ByDecorators.as_view("by_decorators"))
    seller.app.add_url_rule("/open", view_func=content())
    assert listed(seller) == {
        "GET /static/<path:filename>": ("free", ""),
        "GET /weather/view": ("paid", "daily_report"),
        "GET /weather/open": ("free", ""),
        "GET /weather/inner/view": ("paid", "daily_report"),
        "GET /weather/inner/open": ("free", ""),
        "GET /by/<int:id>": ("paid", "daily_report"),
        "POST /by/<int:id>": ("paid", "text_summary"),
        "DELETE /by/<int:id>": ("free", ""),
        "GET,POST /all": ("paid", "daily_report"),
        "GET /open": ("free", ""),
    }
    code, table = run(seller, "routes")
    assert (code, "5 paid, 5 free, 0 refused" in table) == (0, True)
    code, said = run(seller, "routes", "--json")
    assert (code, '"sells": "text_summary"' in said) == (0, True)


def test_what_is_declared_for_nothing_fails_the_command() -> None:
    app = Flask("seller")
    app.config["FAREGATE_OFFERS"] = {"/reprots": "daily_report"}
    app.add_url_rule("/reports", view_func=content())
    code, table = run(Seller(app), "routes")
    assert (code, "/reprots" in table) == (1, True)


def test_mistakes_are_listed_as_refused(seller: Seller) -> None:
    two = Blueprint("two", "two")
    two.add_url_rule("/two", view_func=paywall.paid("daily_report")(content()))
    paywall.paid_all(two, "text_summary")
    seller.app.register_blueprint(two)
    misplaced = seller.app.get("/misplaced")(lambda: CONTENT)
    paywall.paid("daily_report")(misplaced)
    empty = Blueprint("empty", "empty")
    paywall.paid_all(empty, "daily_report")
    seller.app.register_blueprint(empty)
    code, table = run(seller, "routes")
    assert code == 1
    assert [listed(seller)[f"GET /{name}"][0] for name in ("two", "misplaced")] == ["refused", "refused"]
    for said in ("'daily_report' and 'text_summary'", "put @app.route above", "Blueprint 'empty'"):
        assert said in table, said


def test_check_asks_the_service_for_every_key(seller: Seller) -> None:
    seller.sells(content())
    note = IN_MEMORY.format("FAREGATE_JOURNAL")
    well = f"All is well: 1 offer can be sold.\n{note}\n{UNPREDICTABLE}\n"
    assert run(seller, "check") == (0, well)
    seller.app.add_url_rule("/x", endpoint="x", view_func=paywall.paid("no_such_thing")(content()))
    code, said = run(seller, "check")
    assert (code, "Nothing is sold as 'no_such_thing'" in said) == (1, True)


def test_check_fails_with_a_key_that_may_not_sell(seller: Seller) -> None:
    seller.sells(content())
    seller.emulator.faults.add(Fault(kind="status", status=403, operation="access", times=None))
    code, said = run(seller, "check")
    assert (code, "All is well" in said) == (1, False)
    assert said.startswith("The API key may not authorize access, so nothing can be sold: 403")


def test_check_writes_to_the_journal(seller: Seller, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = seller.app.extensions["faregate"].paywall.journal

    def full(*_: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr(journal, "claim", full)
    code, said = run(seller, "check")
    assert (code, said.splitlines()[0]) == (1, "The journal cannot be written: no space left")


def test_check_says_that_instructions_can_be_guessed() -> None:
    transport: Any = Predictable(EmbeddedTransport(Emulator()))
    seller = Seller(Flask("seller"), transport=transport)
    seller.sells(content())
    code, said = run(seller, "check")
    assert (code, PREDICTABLE.format("daily_report") in said) == (0, True)


def test_the_journal_is_administered(tmp_path: Path) -> None:
    seller = Seller(Flask("seller"), journal=f"sqlite:///{tmp_path}/journal.db")
    seller.sells(content())
    assert run(seller, "journal", "keys") == (0, "The journal has no rows.\n")
    assert seller.buy("/paid").status_code == 200
    [key] = json.loads(run(seller, "journal", "keys", "--json")[1])["keys"]
    assert (key["rows"], key["unfinished"], key["configured"]) == (1, 0, True)
    assert run(seller, "journal", "addresses") == (0, "No unfinished payments.\n")
    moved = run(seller, "journal", "move", "http://old.example")
    assert moved == (0, "Moved 0 rows to test http://service.example.\n")
    code, said = run(seller, "journal", "move", "http://service.example")
    assert (code, "is the current address" in said) == (1, True)
    assert run(seller, "journal")[0] == 2


def test_a_journal_in_memory_cannot_be_administered(seller: Seller) -> None:
    code, said = run(seller, "journal", "keys")
    assert (code, "set FAREGATE_JOURNAL" in said) == (1, True)


def test_the_sweep_finishes_what_is_held(seller: Seller, monkeypatch: pytest.MonkeyPatch) -> None:
    seller.app.add_url_rule("/late", view_func=paywall.paid("slow_settlement")(content()))
    journal = seller.app.extensions["faregate"].paywall.journal
    assert seller.buy("/late").status_code == 202
    assert run(seller, "sweep") == (0, "Looked at 0 payments.\n")  # it was held a moment ago
    for later, came_to in ((7, "held"), (27, "settled")):
        monkeypatch.setattr(journal, "_clock", lambda later=later: time.monotonic() + later)
        assert run(seller, "sweep") == (0, f"Looked at 1 payment: 1 {came_to}.\n")
    assert seller.statuses == ["succeeded"]


def test_an_app_without_a_paywall_cannot_be_listed() -> None:
    with pytest.raises(ConfigurationError, match="no paywall"):
        list_routes(Flask("seller"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("paid", "@paywall.paid("),
        ("require_payment", "@paywall.paid("),
        ("PaywallMiddleware", "Faregate(app)"),
        ("Paywall", "init_app(app, Paywall(...))"),
    ],
)
def test_a_name_of_another_adapter_is_answered_with_what_to_write(name: str, says: str) -> None:
    with pytest.raises(ImportError) as told:
        __import__("faregate.flask", fromlist=[name])  # as `from faregate.flask import ...` does
    assert says in str(told.value)
