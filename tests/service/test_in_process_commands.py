"""The commands beside an application that has the service inside: on its database, without a server."""

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from faregate.cli import main
from faregate.emulator.wallet import Wallet
from tests.service.in_process import PAY_TO, Buyer, build_environ
from tests.service.test_in_process import build_fastapi


@pytest.fixture
def _sold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application has sold a report, and has ended."""
    environ = build_environ(tmp_path)
    with TestClient(build_fastapi(environ)) as client:
        assert Buyer(client, Wallet()).buy().status_code == 200
    monkeypatch.chdir(tmp_path)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(list(words)) == 0, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("_sold")
def test_transactions_and_reports_are_read_from_the_database(capsys: pytest.CaptureFixture[str]) -> None:
    listed = run(capsys, "transactions", "--json")
    [sold] = listed["transactions"] if isinstance(listed, dict) else listed
    assert sold["status"] == "succeeded"
    [resource] = run(capsys, "resources", "--json")
    published_at = datetime.fromisoformat(resource["created_at"])
    assert datetime.now(UTC) - published_at < timedelta(hours=1)
    assert resource["updated_at"] == resource["created_at"]
    assert main(["receipt", sold["id"]]) == 0
    assert main(["report"]) == 0
    assert main(["holds", "list"]) == 0


@pytest.mark.usefixtures("_sold")
def test_the_commands_of_the_service_work_on_the_same_database(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["service", "doctor"]) == 0, capsys.readouterr()
    assert "API key" not in capsys.readouterr().out  # the application needs none
    assert main(["service", "export"]) == 0, capsys.readouterr()


@pytest.mark.usefixtures("_sold")
def test_a_doctor_beside_an_application_names_its_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The application has no options, and no configuration file."""
    monkeypatch.setenv("FAREGATE_SERVICE_PAYMENTS", "facilitator")
    for name in ("RPC", "FACILITATOR"):
        monkeypatch.setenv(f"FAREGATE_SERVICE_{name}_TEST", "http://127.0.0.1:9")
    assert main(["service", "doctor"]) == 1
    said = capsys.readouterr().out
    assert "Give a node of chain 84532 as FAREGATE_SERVICE_RPC_TEST." in said
    assert "because FAREGATE_SERVICE_RPC_LIVE is not set" in said
    assert " rpc_" not in said


@pytest.mark.usefixtures("_sold")
def test_reading_needs_no_address_that_is_paid(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FAREGATE_SERVICE_PAY_TO", "FAREGATE_SERVICE_PAYMENTS"):
        monkeypatch.delenv(name)
    assert len(run(capsys, "transactions", "--json")) == 1
    assert main(["report"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["transactions"],
        ["report"],
        ["holds", "list"],
        *(["service", name] for name in ("export", "doctor", "serve", "work")),
    ],
)
def test_a_command_before_the_first_start_says_so(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in build_environ(tmp_path).items():
        monkeypatch.setenv(name, value)
    assert main(words) != 0
    said = "".join(capsys.readouterr())
    assert f"{tmp_path / 'shop.db'} does not exist" in said
    assert "start the application" in said.lower()
    assert list(tmp_path.iterdir()) == []  # in the wrong folder, a command leaves nothing behind


def test_a_start_says_nothing_of_migrations(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with TestClient(build_fastapi(build_environ(tmp_path))) as client:
        assert client.get("/report").status_code == 402
    assert not [one for one in caplog.records if one.name.startswith("alembic")]


@pytest.mark.usefixtures("_sold")
def test_the_commands_of_the_service_mean_the_environment_of_the_application(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An export of real sales must not list those of the test network."""
    monkeypatch.setenv("FAREGATE_ENVIRONMENT", "live")
    for words in (["export"], ["refund", "list"], ["key", "list"]):
        assert main(["service", *words]) == 1
        assert "no seller in live yet" in capsys.readouterr().err
        assert main(["service", *words, "--environment", "test"]) == 0, capsys.readouterr()
    capsys.readouterr()
    monkeypatch.setenv("FAREGATE_ENVIRONMENT", "prod")
    assert main(["service", "export"]) == 1
    assert "FAREGATE_ENVIRONMENT must be test or live, not 'prod'" in capsys.readouterr().err
    monkeypatch.setenv(
        "FAREGATE_BASE_URL", "https://api.example.com"
    )  # another seller's service is elsewhere
    assert main(["service", "export"]) == 0, capsys.readouterr()


@pytest.mark.usefixtures("_sold")
def test_an_error_names_the_database_and_the_environment_and_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no API key and no address: naming them sends an operator the wrong way."""
    assert main(["receipt", f"txn_{'0' * 12}7{'0' * 3}8{'0' * 15}"]) == 1
    said = capsys.readouterr().err
    assert "FAREGATE_ENVIRONMENT, and FAREGATE_SERVICE_DATABASE" in said
    (tmp_path / "other.db").write_text("no database, but a text that is long enough to be read as one\n" * 9)
    monkeypatch.setenv("FAREGATE_SERVICE_DATABASE", f"sqlite:///{tmp_path / 'other.db'}")
    assert main(["transactions"]) == 1
    said += capsys.readouterr().err
    assert "other.db could not be read or written (file is not a database)" in said
    assert "Check FAREGATE_SERVICE_DATABASE." in said
    assert "API" not in said
    assert "BASE_URL" not in said
    assert "invalid" not in said


@pytest.mark.usefixtures("_sold")
def test_a_list_as_of_the_time_that_it_names_has_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """Stamps have microseconds. A shorter time would name an earlier moment."""
    [sold] = run(capsys, "transactions", "--json")
    [again] = run(capsys, "transactions", "--json", "--as-of", sold["settled_at"])
    assert again == sold


@pytest.mark.usefixtures("_sold")
def test_a_doctor_compares_the_address_that_is_paid_with_the_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
    monkeypatch.setenv("FAREGATE_SERVICE_PAY_TO", other)
    assert main(["service", "doctor"]) == 0
    assert f"is paid at {PAY_TO}, and FAREGATE_SERVICE_PAY_TO says {other}" in capsys.readouterr().out
