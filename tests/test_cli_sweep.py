"""`faregate sweep`, run as a timer runs it: a process of its own, beside those that sell."""

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faregate.asgi import PaywallMiddleware
from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.server import serve
from faregate.errors import JournalError
from faregate.journals.sqlite import SqliteJournal
from faregate.merchant.client import MerchantClient
from faregate.paywall import Paywall
from faregate.sweeping import keep_sweeping
from tests.doors.conftest import eventually
from tests.doors.test_prefixes import Plain, ask
from tests.doors.test_starlette import CONTENT, header

KEY = bytes(range(32))


@pytest.fixture
def environ(tmp_path: Path) -> Generator[dict[str, str]]:
    with serve(Emulator()) as service:
        yield {
            "FAREGATE_API_KEY": TEST_KEY,
            "FAREGATE_BASE_URL": service,
            "FAREGATE_JOURNAL": f"sqlite:{tmp_path / 'journal.db'}",
            "FAREGATE_JOURNAL_KEY": base64.b64encode(KEY).decode(),
        }


def sweep(environ: dict[str, str], *options: str) -> "subprocess.Popen[str]":
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("FAREGATE_")}
    return subprocess.Popen(
        [sys.executable, "-m", "faregate.cli", "sweep", *options],
        env=inherited | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def a_held_sale(environ: dict[str, str], path: Path) -> tuple[Any, str]:
    """The shop, and the proof of a sale that it held a while ago."""
    long_ago = partial(SqliteJournal, path, keys=[KEY], clock=lambda: time.time() - 60)
    paywall = Paywall(journal=lambda name, terms: long_ago(namespace=name, terms=terms), environ=environ)
    app = PaywallMiddleware(Plain(), paywall, offers={"/": "slow_settlement"})
    proof = Wallet().pay(header(ask(app, "/"), b"payment-required"))
    assert ask(app, "/", proof)[0]["status"] == 202
    return app, proof


def statuses(environ: dict[str, str]) -> list[str]:
    with MerchantClient(TEST_KEY, environ["FAREGATE_BASE_URL"]) as client:
        return [one.status for one in client.iter_transactions()]


def test_what_a_payer_left_open_is_finished_and_waits_for_him(
    environ: dict[str, str], tmp_path: Path
) -> None:
    app, proof = a_held_sale(environ, tmp_path / "journal.db")
    assert statuses(environ) == ["settling"]
    watching = sweep(environ, "--watch", "--every", "0.1")
    # It settles when it has been looked at; the second look of a sweep comes five seconds later.
    assert eventually(lambda: statuses(environ) == ["succeeded"], 15)
    time.sleep(0.3)
    watching.send_signal(signal.SIGINT)
    said, complaints = watching.communicate(timeout=10)
    assert (watching.returncode, complaints) == (0, "")
    assert said.startswith("Looked at 1 sale.\nLooked at 0 sales.\n")
    sent = ask(app, "/", proof)
    assert (sent[0]["status"], sent[1]["body"]) == (200, CONTENT.encode())


def test_once_is_once(environ: dict[str, str]) -> None:
    once = sweep(environ)
    assert once.communicate(timeout=20) == ("Looked at 0 sales.\n", "")
    assert once.returncode == 0


def test_the_memory_of_another_process_cannot_be_swept(environ: dict[str, str]) -> None:
    wrong = sweep(environ | {"FAREGATE_JOURNAL": "memory:"})
    said, complaint = wrong.communicate(timeout=20)
    assert (wrong.returncode, said) == (1, "")
    assert complaint.startswith("faregate: The memory journal is in the seller's own process")


def test_a_journal_that_fails_does_not_end_the_watch() -> None:
    class Failing:
        walks = 0

        def sweep(self) -> int:
            self.walks += 1
            if self.walks == 1:
                raise JournalError("locked")
            if self.walks == 3:
                raise KeyboardInterrupt
            return 2

    told: list[str] = []
    failing: Any = Failing()
    with pytest.raises(KeyboardInterrupt):
        keep_sweeping(failing, 0.0, told.append)
    assert told == ["The journal failed: locked", "Looked at 2 sales."]
