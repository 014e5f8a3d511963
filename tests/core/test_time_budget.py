"""How long a sale may take: less than proxies and servers wait."""

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faregate import Paywall
from faregate.errors import ConfigurationError
from faregate.server_config import find_gunicorn_timeout, find_server_timeout

EMULATOR = {"FAREGATE_BASE_URL": "emulator:"}


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ("app:app", 30.0),
        ("-w 4 --bind :80 app:app", 30.0),
        ("-t 90 app:app", 90.0),
        ("--timeout=90 app:app", 90.0),
        ("-t 0 app:app", None),
        ("-k gthread app:app", None),
        ("--worker-class=uvicorn.workers.UvicornWorker app:app", None),
        ("--threads 8 app:app", None),
        ("-c conf.py app:app", None),
        ("-c python:conf app:app", None),
        ("-t soon app:app", None),
    ],
)
def test_what_gunicorn_was_called_with(
    arguments: str, seconds: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf.py").touch()
    assert find_gunicorn_timeout(arguments.split()) == seconds


def test_a_configuration_file_of_gunicorn_may_say_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gunicorn.conf.py").touch()
    assert find_gunicorn_timeout(["app:app"]) is None


def under_gunicorn(monkeypatch: pytest.MonkeyPatch, *arguments: str, variable: str = "") -> None:
    monkeypatch.setitem(sys.modules, "gunicorn.arbiter", SimpleNamespace())
    monkeypatch.setattr(sys, "argv", ["gunicorn", *arguments])
    monkeypatch.setenv("GUNICORN_CMD_ARGS", variable)


def test_a_sale_ends_before_the_server_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Paywall(environ=EMULATOR).settings.max_request_seconds == 55
    under_gunicorn(monkeypatch, "app:app")
    assert Paywall(environ=EMULATOR).settings.max_request_seconds == 25
    under_gunicorn(monkeypatch, "app:app", variable="--timeout 48")
    assert Paywall(environ=EMULATOR).settings.max_request_seconds == 40
    under_gunicorn(monkeypatch, "-t", "300", "app:app", variable="--timeout 48")
    assert Paywall(environ=EMULATOR).settings.max_request_seconds == 55


@pytest.mark.parametrize(("harakiri", "seconds"), [(b"20", 20.0), ("20", 20.0), (b"0", None), (None, None)])
def test_uwsgi_says_it(harakiri: Any, seconds: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {} if harakiri is None else {"harakiri": harakiri}
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(opt=options))
    assert find_server_timeout() == seconds


def test_who_wants_more_than_the_server_gives_is_warned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    under_gunicorn(monkeypatch, "app:app")
    with caplog.at_level(logging.WARNING, "faregate"):
        assert Paywall(environ=EMULATOR, max_request_seconds=90).settings.max_request_seconds == 90
    [said] = caplog.messages
    assert "this server ends a request after 30 s" in said


def test_a_server_that_leaves_no_time_is_refused_by_its_own_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    under_gunicorn(monkeypatch, "-t", "5", "app:app")
    with pytest.raises(
        ConfigurationError, match=r"ends a request after 5 s.*time-out to 18 s or more.*--timeout"
    ):
        Paywall(environ=EMULATOR)
    under_gunicorn(monkeypatch, "-t", "18", "app:app")
    assert Paywall(environ=EMULATOR).settings.max_request_seconds == 15
    under_gunicorn(monkeypatch, "-t", "5", "-k", "gthread", "app:app")
    assert Paywall(environ=EMULATOR).settings.max_request_seconds == 55


def test_a_setting_that_leaves_no_time_is_named_as_it_was_given() -> None:
    with pytest.raises(ConfigurationError, match=r"^FAREGATE_MAX_REQUEST_SECONDS is 10"):
        Paywall(environ={**EMULATOR, "FAREGATE_MAX_REQUEST_SECONDS": "10"})


def test_there_is_time_to_report_an_outcome() -> None:
    with pytest.raises(ConfigurationError, match="make it 15 or more, or FAREGATE_TIMEOUT smaller"):
        Paywall(environ=EMULATOR, max_request_seconds=10)
    assert Paywall(environ=EMULATOR, max_request_seconds=10, timeout=5).settings.completion_seconds == 9


def test_a_long_time_out_of_the_server_is_not_to_blame(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The message advised to raise it to less than it was."""
    monkeypatch.chdir(tmp_path)
    under_gunicorn(monkeypatch, "-t", "600", "app:app")
    with pytest.raises(ConfigurationError, match=r"^FAREGATE_MAX_REQUEST_SECONDS is 55.*or timeout smaller"):
        Paywall(environ=EMULATOR, timeout=60)
