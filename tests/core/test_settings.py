"""Where settings come from, and that every mistake is a sentence that says what to do."""

import base64
import re
import socket
import sys
from pathlib import Path
from typing import Any
from unittest.mock import NonCallableMock

import pytest
from werkzeug.test import Client

from faregate.core.claim_types import Claimant
from faregate.core.interfaces import Journal
from faregate.core.models import Offer
from faregate.emulator import Emulator
from faregate.emulator.transports import EmbeddedTransport
from faregate.errors import ConfigurationError, NoAnswer
from faregate.journals.event_loops import AsyncJournal
from faregate.journals.memory import MemoryJournal
from faregate.journals.sqlite import SqliteJournal
from faregate.merchant.client import MerchantClient
from faregate.merchant.revisions import RevisionCache
from faregate.offers import offer
from faregate.paywall import Paywall
from faregate.setting_reader import Description
from faregate.settings import OBJECTS, SETTINGS
from faregate.wsgi import PaywallMiddleware
from tests.support.clock import Clock

TEST = {"FAREGATE_API_KEY": "svc_test_x", "FAREGATE_BASE_URL": "https://service.example"}
KEY, OLD_KEY = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
LIVE = {**TEST, "FAREGATE_API_KEY": "svc_live_x", "FAREGATE_PUBLIC_URL": "https://seller.example"}


def test_the_environment_is_enough() -> None:
    settings = Paywall(environ=TEST).settings
    assert (settings.base_url, settings.api_key.environment) == ("https://service.example", "test")
    assert "svc_test_x" not in repr(settings)


def test_arguments_win() -> None:
    settings = Paywall(environ=TEST, base_url="https://other.example", api_key="svc_test_y").settings
    assert settings.base_url == "https://other.example"
    assert settings.api_key.reveal() == "Bearer svc_test_y"


def test_the_emulator_needs_nothing_else() -> None:
    paywall = Paywall(environ={"FAREGATE_BASE_URL": "emulator:"})
    assert paywall.settings.embedded
    assert paywall.settings.api_key.environment == "test"
    assert paywall.sweep().looked_at == 0


@pytest.mark.parametrize(
    ("environ", "arguments", "says"),
    [
        ({}, {}, "Set FAREGATE_BASE_URL"),
        ({"FAREGATE_BASE_URL": "https://service.example"}, {}, "Set FAREGATE_API_KEY"),
        ({**TEST, "FAREGATE_API_KEY": "hunter2"}, {}, "svc_test_"),
        ({**TEST, "FAREGATE_BASE_URL": "ftp://service.example"}, {}, "http"),
        ({**TEST, "FAREGATE_PUBLIC_URL": "seller.example"}, {}, "FAREGATE_PUBLIC_URL must be"),
        ({**TEST, "FAREGATE_PUBLIC_URL": "https://u:p@seller.example"}, {}, "FAREGATE_PUBLIC_URL must be"),
        ({**TEST, "FAREGATE_PUBLIC_URL": "https://seller.example/?q"}, {}, "FAREGATE_PUBLIC_URL must be"),
        ({**TEST, "FAREGATE_PUBLIC_URL": 'https://seller.example/"a"'}, {}, "'\"' must be percent-encoded"),
        ({**TEST, "FAREGATE_PUBLIC_URL": "https://seller.example/a\\b"}, {}, "must be percent-encoded"),
        ({**TEST, "FAREGATE_PUBLIC_URL": "https://seller.example/a b"}, {}, "' ' must be percent-encoded"),
        ({**TEST, "FAREGATE_PUBLIC_URL": "https://seller.example/été"}, {}, "must be percent-encoded"),
        ({**TEST, "FAREGATE_PUBLIC_URL": "https://seller.example/%zz"}, {}, "two hex digits"),
        ({**TEST, "FAREGATE_PUBLIC_URL": "https://seller.example:99999"}, {}, "host or port is not valid"),
        (TEST, {"public_url": "https://seller.example/<a>"}, "public_url must be"),
        ({**LIVE, "FAREGATE_PUBLIC_URL": ""}, {}, "set FAREGATE_PUBLIC_URL"),
        ({**LIVE, "FAREGATE_BASE_URL": "emulator:"}, {}, "Use the test key"),
        (LIVE, {}, "memory journal"),
        ({**TEST, "FAREGATE_JOURNAL": "mysql://somewhere"}, {}, "'memory:', 'sqlite:////absolute/path', "),
        ({**TEST, "FAREGATE_JOURNAL": "sqlite:"}, {}, "which is not a journal"),
        ({**TEST, "FAREGATE_JOURNAL": "redis:somewhere"}, {}, "which is not a journal"),
        ({**TEST, "FAREGATE_JOURNAL": "postgresql:somewhere"}, {}, "which is not a journal"),
        (TEST, {"redeliveries": -1}, "between 0 (off) and 1000"),
        (TEST, {"redelivery_window": 0}, "a number above 0"),
        ({**TEST, "FAREGATE_JOURNAL": "sqlite://host/path"}, {}, "which is not a journal"),
        ({**TEST, "FAREGATE_JOURNAL": "sqlite::memory:"}, {}, "which is not a journal"),
        ({**TEST, "FAREGATE_JOURNAL": "sqlite:///:memory:"}, {}, "which is not a journal"),
        ({**TEST, "FAREGATE_JOURNAL": "sqlite:///x.db?timeout=5"}, {}, "which is not a journal"),
        ({**TEST, "FAREGATE_JOURNAL": "sqlite:x.db"}, {}, "Set it to 'sqlite:///x.db' for a path from"),
        ({**TEST, "FAREGATE_JOURNAL": "sqlite:/srv/x.db"}, {}, "or to 'sqlite:////srv/x.db' for an absolute"),
        (
            {**TEST, "FAREGATE_JOURNAL": "sqlite:////no/such/folder/journal.db"},
            {},
            "make /no/such/folder first",
        ),
        ({**LIVE, "FAREGATE_JOURNAL": "sqlite:////tmp/journal.db"}, {}, "set FAREGATE_JOURNAL_KEY"),
        ({**TEST, "FAREGATE_JOURNAL_KEY": "hunter2"}, {}, "base64 of 32 random bytes"),
        ({**TEST, "FAREGATE_JOURNAL_KEY": f"{KEY},"}, {}, "base64 of 32 random bytes"),
        (TEST, {"journal_key": [KEY, "hunter2"]}, "secrets.token_bytes(32)"),
        (TEST, {"max_work_seconds": 0}, "max_work_seconds must be a number above 0"),
        (TEST, {"timeout": float("nan")}, "timeout must be a number above 0"),
        (LIVE, {"journal": MemoryJournal()}, "Set journal to"),
        (LIVE, {}, "Set FAREGATE_JOURNAL to"),
        ({**TEST, "FAREGATE_API_KEY": "hunter2"}, {}, "FAREGATE_API_KEY: This is no API key"),
        (TEST, {"api_key": "hunter2"}, "api_key: This is no API key"),
        (TEST, {"base_url": "merchant"}, "base_url is 'merchant', and has no scheme"),
        (TEST, {"base_url": "service"}, "base_url is 'service': use 'service:'"),
        (TEST, {"base_url": "service://"}, "base_url is 'service://': use 'service:'"),
        (
            {"FAREGATE_BASE_URL": "service:", "FAREGATE_ENVIRONMENT": "prod"},
            {},
            "FAREGATE_ENVIRONMENT must be",
        ),
        (
            {"FAREGATE_BASE_URL": "service:", "FAREGATE_API_KEY": "svc_live_x"},
            {},
            "The key in FAREGATE_API_KEY is of live, and FAREGATE_ENVIRONMENT is not set, which means test",
        ),
        (
            {**TEST, "FAREGATE_ENVIRONMENT": "live"},
            {},
            "The key in FAREGATE_API_KEY is of test, and FAREGATE_ENVIRONMENT says live",
        ),
        (
            {"FAREGATE_BASE_URL": "emulator:", "FAREGATE_ENVIRONMENT": "live"},
            {},
            "The key of the emulator is of test, and FAREGATE_ENVIRONMENT says live",
        ),
        (TEST, {"base_url": "service.example"}, "use 'https://service.example'"),
        (TEST, {"base_url": "127.0.0.1:8402"}, "use 'http://127.0.0.1:8402'"),
        (TEST, {"base_url": "localhost:8402"}, "use 'http://localhost:8402'"),
        (TEST, {"base_url": "emulator"}, "use 'emulator:'"),
        (TEST, {"base_url": "emulator://"}, "base_url is 'emulator://': use 'emulator:'"),
        ({**TEST, "FAREGATE_BASE_URL": "https:"}, {}, "FAREGATE_BASE_URL is 'https:'"),
        ({**TEST, "FAREGATE_BASE_URL": "ftp://service"}, {}, "FAREGATE_BASE_URL is the http(s) address"),
        (TEST, {"journal": "cloud:"}, "journal is 'cloud:'"),
        ({}, {"base_url": "https://service.example"}, "Set FAREGATE_API_KEY"),
    ],
)
def test_a_mistake_is_a_sentence(environ: dict[str, str], arguments: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)) as caught:
        Paywall(environ=environ, **arguments)
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).endswith(".")


def name_shop_setting(name: str) -> str:
    return f"shop.{name}"


def test_messages_after_the_start_name_a_setting_as_the_framework_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("faregate.settings.find_server_workers", lambda: 2)
    environ = {"FAREGATE_BASE_URL": "emulator:"}
    paywall = Paywall(environ=environ, timeout=5, name_setting=name_shop_setting)
    [warning] = caplog.messages
    assert "Set shop.journal to" in warning
    assert "set FAREGATE_BASE_URL to" in warning
    assert paywall.resource_urls.build("/", None, None, False) is None
    assert "Set shop.public_url to" in caplog.messages[-1]


@pytest.mark.anyio
async def test_a_service_that_does_not_answer_is_named_with_its_setting() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    paywall = Paywall(environ={}, base_url=address, api_key="svc_test_x", name_setting=name_shop_setting)
    sold = offer("daily_report")
    with pytest.raises(NoAnswer, match=r"refused\. Check shop\.base_url, and that the service is running$"):
        paywall.backend.resolve_offer(sold)
    with pytest.raises(NoAnswer, match=r"Check shop\.base_url, "):
        await paywall.async_backend.resolve_offer(sold)  # type: ignore[misc]


class JournalOfAnotherKey(MemoryJournal):
    """Somebody else wrote rows with a key that this process does not have."""

    def has_unknown_keys(self) -> bool:
        return True


def test_a_missing_journal_key_is_named_as_the_framework_names_it(caplog: pytest.LogCaptureFixture) -> None:
    paywall = Paywall(
        environ={},
        base_url="emulator:",
        public_url="https://seller.example",
        journal=JournalOfAnotherKey(),
        name_setting=name_shop_setting,
    )
    app = PaywallMiddleware(lambda _environ, _start: [], paywall, offers={"/": "daily_report"})
    answer = Client(app).get("/", headers={"PAYMENT-SIGNATURE": "bm90aGluZw=="})
    assert answer.status_code == 503
    assert "under a key that this process does not have: check shop.journal_key" in caplog.text


@pytest.mark.parametrize(
    ("absent", "arguments", "says"),
    [
        ("faregate.telemetry", {"otel": True}, "shop.otel needs"),
        (
            "faregate.emulator.transports",
            {"base_url": "emulator:"},
            "shop.base_url is emulator:, which needs",
        ),
        ("faregate.journals.redis", {"journal": "redis://h/0"}, "shop.journal is redis:..., which needs"),
    ],
)
def test_a_missing_package_is_named_with_the_setting_that_needs_it(
    absent: str, arguments: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(ConfigurationError, match=f"^{re.escape(says)}"):
        Paywall(environ=TEST, name_setting=name_shop_setting, **arguments)


def test_a_live_key_may_have_a_journal_of_its_own() -> None:
    journal = NonCallableMock(spec=Journal)
    assert Paywall(environ=LIVE, journal=journal).journal is journal


def test_an_empty_journal_is_a_journal() -> None:
    journal = MemoryJournal()
    assert Paywall(environ=TEST, journal=journal).journal is journal


def test_a_paywall_that_forgets_knows_no_proof_of_before() -> None:
    paywall = Paywall(environ={"FAREGATE_BASE_URL": "emulator:"}, journal=(journal := MemoryJournal()))
    journal.claim("proof", Claimant("GET /"))
    paywall.reset()
    assert len(journal) == 0


def test_a_transport_of_ones_own_takes_the_emulators_place() -> None:
    transport: Any = EmbeddedTransport(own := Emulator())
    paywall = Paywall(environ={"FAREGATE_BASE_URL": "emulator:"}, transport=transport)
    paywall.backend.resolve_offer(offer("daily_report"))
    assert [call.status for call in own.calls("contracts")] == [200]


def test_a_journal_may_be_made_of_its_context() -> None:
    made = Paywall(
        environ=TEST,
        journal=lambda context: MemoryJournal(namespace=context.namespace, policy=context.policy),
    )
    assert isinstance(made.journal, MemoryJournal)
    with pytest.raises(ConfigurationError, match="memory journal"):
        Paywall(environ=LIVE, journal=lambda context: MemoryJournal())


@pytest.mark.parametrize("live", [False, True])
def test_a_journal_in_a_file_is_named_in_the_environment(tmp_path: Path, live: bool) -> None:
    named = {
        "FAREGATE_JOURNAL": f"sqlite:///{tmp_path}/journal.db",
        "FAREGATE_JOURNAL_KEY": f"{KEY}, {OLD_KEY}",
    }
    paywall = Paywall(environ={**(LIVE if live else TEST), **named})
    assert isinstance(paywall.journal, SqliteJournal)
    assert paywall.settings.journal_keys == (b"\1" * 32, b"\2" * 32)
    assert not list(tmp_path.iterdir())
    assert KEY not in repr(paywall.settings)
    assert repr(b"\1" * 32) not in repr(paywall.settings)


def test_a_journals_path_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Paywall(environ=TEST, journal="sqlite:///journal.db", journal_key=KEY).journal
    monkeypatch.chdir("/")
    journal.claim("proof", Claimant("GET /"))
    assert (tmp_path / "journal.db").exists()
    assert isinstance(journal, SqliteJournal)
    journal.disconnect()


def test_a_test_key_is_key_enough_for_its_own_journal(tmp_path: Path) -> None:
    def keys(api_key: str) -> tuple[bytes, ...]:
        return Paywall(environ=TEST, api_key=api_key, journal=f"sqlite:///{tmp_path}/x").settings.journal_keys

    assert keys("svc_test_x") == keys("svc_test_x") != keys("svc_test_y")
    assert [len(key) for key in keys("svc_test_x")] == [32]


def test_what_blocks_is_called_from_loops_in_threads(tmp_path: Path) -> None:
    stored = Paywall(environ=TEST, journal=f"sqlite:///{tmp_path}/journal.db")
    assert stored.backend.journal is stored.journal
    assert isinstance(stored.async_backend.journal, AsyncJournal)
    assert isinstance(stored.journal, SqliteJournal)
    in_memory = Paywall(environ=TEST)
    assert in_memory.async_backend.journal is in_memory.backend.journal is in_memory.journal


def test_leases_outlast_the_calls_made_under_them() -> None:
    journal: Any = Paywall(environ=TEST, timeout=40).journal
    assert journal._policy.claim_lease > 80
    assert journal._policy.completion_lease > 121


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"timeout": "x"}, "timeout must be int or float, not str"),
        ({"timeout": True}, "timeout must be int or float, not bool"),
        ({"redeliveries": "3"}, "redeliveries must be int, not str"),
        ({"trust_host": "no"}, "trust_host must be bool, not str"),
        ({"base_url": 5}, "base_url must be str, not int"),
        ({"journal_key": 5}, "journal_key must be str or list or tuple, not int"),
        ({"journal": object()}, "journal must be .* object has no method claim"),
        ({"journal": lambda _context: None}, "journal must be .* NoneType has no method claim"),
        ({"transport": object()}, "transport"),
        ({"on_event": 5}, "on_event must be a function"),
    ],
)
def test_an_argument_of_another_type_is_named(arguments: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Paywall(environ=TEST, **arguments)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("FAREGATE_URL", "FAREGATE_BASE_URL"),
        ("FAREGATE_KEY", "FAREGATE_API_KEY"),
        ("FAREGATE_JURNAL", "FAREGATE_JOURNAL"),
        ("FAREGATE_BASEURL", "FAREGATE_BASE_URL"),
        ("FAREGATE_WORK_SECONDS", "FAREGATE_MAX_WORK_SECONDS"),
    ],
)
def test_a_misspelt_variable_names_the_one_that_is_meant(variable: str, meant: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Paywall(environ={**TEST, variable: "hunter2"})
    assert str(caught.value) == f"{variable} is not a setting of faregate. Did you mean {meant}?"


def test_an_option_that_does_not_exist_is_no_silent_default() -> None:
    misspelt: Any = {"max_result_byte": 10, "jornal": "sqlite:///journal.db"}
    with pytest.raises(ConfigurationError, match="jornal, max_result_byte: no such option") as caught:
        Paywall(environ=TEST, **misspelt)
    assert str(caught.value).endswith("Did you mean journal? Did you mean max_result_bytes?")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"max_work_second": 3},
            "max_work_second: no such option of an offer. Did you mean max_work_seconds?",
        ),
        (
            {"amount": "0.05"},
            "amount: no such option of an offer. The options are asset, .*, price",
        ),
        ({"billable": 200}, "billable=200: give a set of statuses, such as"),
    ],
)
def test_an_option_that_no_offer_has_is_named(options: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        offer("daily_report", **options)


@pytest.mark.parametrize(
    ("sells", "limits", "says"),
    [
        ("", {}, "Say what is sold"),
        ("text_summary", {"asset": "DOGE"}, "EURC or USDC"),
        ("text_summary", {"mime_type": "Text/Plain; charset=utf-8"}, "mime_type"),
        ("text_summary", {"description": "x" * 501}, "description"),
        ("text_summary", {"description": "half \ud800"}, "description"),
        ("text_summary", {"max_work_seconds": -1}, "above 0"),
        ("text_summary", {"max_work_seconds": float("nan")}, "above 0"),
        ("text_summary", {"max_result_bytes": -1}, "above 0"),
        ("text_summary", {"max_result_bytes": 0}, "above 0"),
        ("text_summary", {"max_work_seconds": 0}, "above 0"),
        ("text_summary", {"max_work_seconds": -0.5}, "above 0"),
        ("text_summary", {"max_work_seconds": float("inf")}, "above 0"),
    ],
)
def test_an_offer_is_checked_where_it_is_made(sells: str, limits: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        offer(sells, **limits)


@pytest.mark.parametrize("asset", ["EURC", "USDC", None])
def test_an_offer_may_name_its_asset(asset: Any) -> None:
    assert offer("text_summary", asset=asset).asset == asset


def test_what_is_billable_may_be_any_collection() -> None:
    limits: Any = {"billable": {200, 404}}
    assert hash(offer("text_summary", **limits))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client() -> MerchantClient:
    transport = EmbeddedTransport(Emulator())
    return MerchantClient("svc_test_emulator", "http://service.example", transport=transport)


def test_an_integration_key_and_a_revision_id_name_the_same_rules(
    clock: Clock, client: MerchantClient
) -> None:
    catalog = RevisionCache(clock)
    by_key = client.send(catalog.build_call(Offer("token_meter")))
    by_id = catalog.resolve(Offer(by_key.revision_id))
    assert by_key == by_id
    assert by_key.required == {"input_tokens"}


def test_what_was_read_is_kept_for_a_while(clock: Clock, client: MerchantClient) -> None:
    catalog = RevisionCache(clock)
    assert catalog.resolve(Offer("token_meter")) is None
    client.send(catalog.build_call(Offer("token_meter")))
    assert catalog.resolve(Offer("token_meter")) is not None
    clock.now = 300
    assert catalog.resolve(Offer("token_meter")) is None


def test_one_request_reads_anew_while_the_others_go_on(clock: Clock, client: MerchantClient) -> None:
    catalog = RevisionCache(clock)
    rules = client.send(catalog.build_call(Offer("token_meter")))
    clock.now = 300
    assert [catalog.resolve(Offer("token_meter")) for _ in range(3)] == [None, rules, rules]
    clock.now = 305
    assert [catalog.resolve(Offer("token_meter")) for _ in range(2)] == [None, rules]


def test_an_unknown_name_says_which_are_known_and_is_asked_again_later(
    clock: Clock, client: MerchantClient
) -> None:
    catalog = RevisionCache(clock)
    with pytest.raises(ConfigurationError, match="daily_report"):
        client.send(catalog.build_call(Offer("no_such_thing")))
    with pytest.raises(ConfigurationError, match=r"in this environment. Did you mean daily_report\?"):
        catalog.resolve(Offer("dayly_report"))
    with pytest.raises(ConfigurationError, match="Nothing is sold as 'no_such_thing'"):
        catalog.resolve(Offer("no_such_thing"))
    clock.now = 5
    assert catalog.resolve(Offer("no_such_thing")) is None


def test_an_asset_that_differs_from_the_revisions_says_so(clock: Clock, client: MerchantClient) -> None:
    with pytest.raises(ConfigurationError, match="settles in USDC"):
        client.send(RevisionCache(clock).build_call(Offer("token_meter", asset="EURC")))
    assert client.send(RevisionCache(clock).build_call(Offer("euro_report", asset="EURC"))).asset == "EURC"


# The documentation


def build_row(variable: str, name: str, description: Description) -> str:
    default = description.default
    plain = f"`{default}`" if isinstance(default, bool) else f"{default:g}" if default is not None else ""
    cells = (variable and f"`{variable}`", f"`{name}`", description.shown or plain, description.text)
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def test_the_documented_table_is_made_from_the_declarations() -> None:
    """Where it fails, replace the rows of docs/settings.md with the expected ones."""
    rows = [build_row(one.variable, one.name, one.description) for one in SETTINGS.values()]
    rows.insert(3, build_row("FAREGATE_JOURNAL", "journal", OBJECTS["journal"]))
    rows += [
        build_row("", name, OBJECTS[name])
        for name in ("on_event", "payment_page", "payment_body", "transport")
    ]
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
    table = page.partition("| Variable | Argument |")[2].partition("\n\n")[0].splitlines()[2:]
    assert table == rows
