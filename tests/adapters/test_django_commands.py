"""Settings, system checks and commands of a Django project."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import django_site

django_site.ready()

from django.core import checks  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.management import CommandError, call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.urls import path  # noqa: E402

from faregate.django import paid  # noqa: E402
from faregate.django.conf import get_config  # noqa: E402
from faregate.django.routes import list_routes  # noqa: E402
from faregate.emulator import READ_ONLY_TEST_KEY, Emulator  # noqa: E402
from faregate.emulator.transports import EmbeddedTransport  # noqa: E402
from faregate.errors import ConfigurationError  # noqa: E402
from faregate.events import Event, Refused  # noqa: E402
from faregate.routes.check import IN_MEMORY, PREDICTABLE, UNPREDICTABLE  # noqa: E402
from tests.adapters.django_kinds import KINDS, SOLD, Classy, content, every_kind  # noqa: E402
from tests.adapters.django_views import COMMON, PAYWALL, project, served  # noqa: E402
from tests.attacks.chain import Predictable  # noqa: E402
from tests.support.command_words import ask_for_text  # noqa: E402


def list_problems(**settings: Any) -> list[str]:
    with project(path("paid", SOLD(content)), **settings):
        ids = (one.id or "" for one in checks.run_checks())
        return sorted(one for one in ids if one.startswith("faregate."))


def test_checks_say_what_is_wrong_and_nothing_else() -> None:
    live = {"API_KEY": f"svc_live_{'x' * 32}", "JOURNAL": "django:", "BASE_URL": "https://service.example"}
    assert list_problems() == []
    assert list_problems(MIDDLEWARE=[]) == ["faregate.E001"]
    assert list_problems(MIDDLEWARE=[PAYWALL, COMMON]) == ["faregate.E007"]
    assert list_problems(MIDDLEWARE=[COMMON, PAYWALL]) == []
    assert list_problems(MIDDLEWARE=[PAYWALL, PAYWALL]) == ["faregate.E005"]
    assert list_problems(FAREGATE={"BASE_URL": ""}) == ["faregate.E002"]
    assert list_problems(FAREGATE={"BASEURL": "x"}) == ["faregate.E002"]
    assert list_problems(FAREGATE={"BASE_URL": "emulator:"}, FAREGATE_OFFERS={"/x": "y"}) == ["faregate.E002"]
    assert list_problems(FAREGATE={"TRUST_HOST": "yes"}) == ["faregate.E002"]
    assert list_problems(FAREGATE=live) == []
    assert list_problems(FAREGATE=live, DEBUG=True) == ["faregate.E003"]
    assert list_problems(FAREGATE={**live, "JOURNAL": "memory:"}) == ["faregate.E004"]
    assert list_problems(FAREGATE={"OFFERS": {"reports": "x"}}) == ["faregate.E002"]


def test_a_live_key_with_debug_fails_the_start() -> None:
    live = {"API_KEY": f"svc_live_{'x' * 32}", "JOURNAL": "django:", "BASE_URL": "https://service.example"}
    with project(FAREGATE=live):
        get_wsgi_application()
    for load in (get_wsgi_application, get_asgi_application):
        with project(FAREGATE=live, DEBUG=True), pytest.raises(ConfigurationError, match="with DEBUG"):
            load()
    with project(DEBUG=True):  # test money
        get_wsgi_application()


def test_a_deploy_check_asks_the_service() -> None:
    with project(path("paid", SOLD(content)), path("x", paid("no_such_thing")(content))):
        errors = [
            one for one in checks.run_checks(include_deployment_checks=True) if one.id == "faregate.E006"
        ]
    assert len(errors) == 1
    assert "no_such_thing" in errors[0].msg


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"BASE_URL": "", "API_KEY": None}, "BASE_URL"), ({"ON_EVENT": "shop.missing"}, r"shop\.missing")],
)
def test_a_mistake_in_the_settings_fails_the_start(settings: dict[str, Any], says: str) -> None:
    with project(FAREGATE=settings), pytest.raises(ConfigurationError, match=says):
        get_wsgi_application()


LIVE = {"BASE_URL": "https://service.example", "API_KEY": "svc_live_x"}
PUBLIC = {**LIVE, "PUBLIC_URL": "https://seller.example"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"API_KEY": "svc_test_x"}, "Set FAREGATE['BASE_URL'] to"),
        ({"BASE_URL": "https://service.example"}, "Set FAREGATE['API_KEY'] to"),
        ({**LIVE, "API_KEY": "x"}, "FAREGATE['API_KEY']: This is no API key"),
        ({**LIVE, "BASE_URL": "merchant"}, "FAREGATE['BASE_URL'] is 'merchant', and has no scheme"),
        ({**LIVE, "BASE_URL": "service"}, "FAREGATE['BASE_URL'] is 'service': use 'service:'"),
        ({"BASE_URL": "ftp://x", "API_KEY": "svc_test_x"}, "FAREGATE['BASE_URL'] is the http(s) address"),
        (LIVE, "set FAREGATE['PUBLIC_URL'], such as"),
        ({**LIVE, "PUBLIC_URL": "x"}, "FAREGATE['PUBLIC_URL'] must be the http(s) address"),
        ({**PUBLIC, "JOURNAL": "memory:"}, "Set FAREGATE['JOURNAL'] to sqlite:"),
        ({**PUBLIC, "JOURNAL": "sqlite:///x"}, "set FAREGATE['JOURNAL_KEY']. Create one"),
        ({**PUBLIC, "API_KEY": "svc_test_x", "JOURNAL": "cloud:"}, "FAREGATE['JOURNAL'] is 'cloud:'"),
        ({"BASE_URL": "emulator:", "TIMEOUT": 60}, "FAREGATE_MAX_REQUEST_SECONDS is 50, and reporting an"),
        ({"BASE_URL": "emulator:", "TIMEOUT": 60}, "or FAREGATE['TIMEOUT'] smaller"),
        ({"BASE_URL": "emulator:", "PUBLIC_URI": "x"}, "no setting 'PUBLIC_URI'. Did you mean PUBLIC_URL?"),
        ({"base_url": "emulator:"}, "no setting 'base_url'. Did you mean BASE_URL?"),
        ({"COLOR": "red"}, "no setting 'COLOR'. It knows API_KEY, BASE_URL, "),
    ],
)
def test_a_message_names_a_setting_as_it_was_typed(
    settings: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAREGATE_MAX_REQUEST_SECONDS", "50")
    with override_settings(FAREGATE=settings), pytest.raises(ConfigurationError, match=re.escape(says)):
        get_config()


def test_settings_are_read_again_when_a_test_changes_them() -> None:
    with project(FAREGATE={"PUBLIC_URL": "https://one.example"}):
        first = get_config().paywall
        assert get_config().paywall is first
        with project(FAREGATE={"PUBLIC_URL": "https://two.example"}):
            assert get_config().paywall.settings.public_url == "https://two.example"
        assert get_config().paywall.settings.public_url == "https://one.example"


def note_event(event: Event) -> None:
    EVENTS.append(event)


EVENTS: list[Event] = []


@pytest.mark.parametrize("listener", [note_event, f"{__name__}.note_event"])
def test_a_listener_of_the_settings_hears_events(listener: Any) -> None:
    EVENTS.clear()
    with served("wsgi", path("paid", SOLD(content)), FAREGATE={"ON_EVENT": listener}) as site:
        assert site.ask("/paid").status_code == 402
    (event,) = EVENTS
    assert isinstance(event, Refused)
    assert (event.status, event.code) == (402, "payment_required")
    assert (event.sale.offer, event.sale.method, event.sale.route) == ("daily_report", "GET", "/paid")


def run_command(command: str, *arguments: str, status: object = 0) -> str:
    """Return what a command prints; `status` is that with which it must exit."""
    out = io.StringIO()
    exit_status: object = 0
    try:
        call_command(*ask_for_text([command, *arguments]), stdout=out)
    except SystemExit as end:
        exit_status = end.code
    assert exit_status == status
    return out.getvalue()


def test_routes_lists_every_kind() -> None:
    with project(*every_kind(), path("open", lambda request: content(request))):
        routes = json.loads(run_command("faregate_routes", "--json"))["routes"]
        table = run_command("faregate_routes")
    access = {(one["path"], method): one["access"] for one in routes for method in one["methods"] or ["any"]}
    for place in KINDS:
        assert "paid" in {access.get((place, "any")), access.get((place, "GET"))}, (place, access)
    assert access["/method", "POST"] == "free"
    assert access["/rest-set", "POST"] == "free"
    assert access["/open", "any"] == "free"
    assert "daily_report" in table
    assert {"Classy", "Rest", "Reports"} <= {one["handler"].rpartition(".")[2] for one in routes}


def test_routes_fails_when_a_prefix_matches_nothing() -> None:
    with project(path("a", content), FAREGATE={"OFFERS": {"/nowhere": "daily_report"}}):
        assert list_routes().unmatched == ("/nowhere",)
        run_command("faregate_routes", status=1)


def test_check_and_sweep_print_sentences() -> None:
    with project(path("paid", SOLD(content))):
        note = IN_MEMORY.format("FAREGATE['JOURNAL']")
        well = f"All is well: 1 offer can be sold.\n{note}\n{UNPREDICTABLE}\n"
        assert run_command("faregate_check") == well
        assert run_command("faregate_sweep") == "Looked at 0 payments.\n"
    with project(path("x", paid("no_such_thing")(content))):
        assert run_command("faregate_check", status=1).startswith("no_such_thing: ")
    with project(FAREGATE={"BASE_URL": "nonsense"}), pytest.raises(CommandError):
        run_command("faregate_check")


def test_check_says_that_instructions_can_be_guessed() -> None:
    transport: Any = Predictable(EmbeddedTransport(Emulator()))
    with project(path("paid", SOLD(content)), FAREGATE={"TRANSPORT": transport}):
        assert PREDICTABLE.format("daily_report") in run_command("faregate_check")


def test_the_journal_is_administered(tmp_path: Path) -> None:
    own = {"JOURNAL": f"sqlite:///{tmp_path}/journal.db"}
    with served("wsgi", path("paid", SOLD(content)), FAREGATE=own) as site:
        assert run_command("faregate_journal", "keys") == "The journal has no rows.\n"
        assert site.buy("/paid").status_code == 200
        [key] = json.loads(run_command("faregate_journal", "keys", "--json"))["keys"]
        assert (key["rows"], key["unfinished"], key["configured"]) == (1, 0, True)
        assert run_command("faregate_journal", "addresses") == "No unfinished payments.\n"
        moved = run_command("faregate_journal", "move", "http://old.example")
        assert moved == "Moved 0 rows to test http://service.example.\n"
        with pytest.raises(CommandError, match="is the current address"):
            run_command("faregate_journal", "move", "http://service.example")
    with project(), pytest.raises(CommandError, match=r"set FAREGATE\['JOURNAL'\]"):
        run_command("faregate_journal", "keys")


def test_check_fails_with_a_key_that_may_not_sell() -> None:
    reader = {"API_KEY": READ_ONLY_TEST_KEY, "LAST_RESORT": "/no/such/folder/file"}
    with project(path("paid", SOLD(content)), FAREGATE=reader):
        output = run_command("faregate_check", status=1)
        assert "may not authorize access, so nothing can be sold" in output
        assert "Set FAREGATE['API_KEY'] to a key" in output
        assert "FAREGATE['LAST_RESORT'] names a file that cannot be written" in output


def test_paid_on_a_class_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="method_decorator"):
        SOLD(Classy)
