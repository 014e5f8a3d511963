"""`faregate journal`, and what `holds`, `sweep` and `check` say of keys and addresses."""

import base64
import json
import re
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from faregate.cli import main
from tests.journals.stores import OTHER_KEY
from tests.support.unfinished_payments import KEY, Seller, selling

Run = Callable[..., tuple[int, str]]
MISSING = "The journal has rows of a key that this process does not have"
OTHER = base64.b64encode(OTHER_KEY).decode()
BOTH = f"{OTHER},{base64.b64encode(KEY).decode()}"


@pytest.fixture
def seller(tmp_path: Path) -> Generator[Seller]:
    with selling(tmp_path) as seller:
        yield seller


@pytest.fixture
def run(seller: Seller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`faregate`, in this process: how it ended and what it said."""
    monkeypatch.setattr("faregate.cli.terminal.is_stdout_terminal", lambda: True)

    def run(*words: str, **environ: str) -> tuple[int, str]:
        for name, value in {**seller.environ, **environ}.items():
            monkeypatch.setenv(name, value)
        code = main(words)
        return code, "".join(capsys.readouterr())

    return run


def test_an_empty_journal(run: Run) -> None:
    assert run("journal", "keys") == (0, "The journal has no rows.\n")
    assert run("journal", "addresses") == (0, "No unfinished payments.\n")


def test_which_key_is_needed_for_what(seller: Seller, run: Run) -> None:
    seller.held()
    code, said = run("journal", "keys")
    assert code == 0
    head, row = said.splitlines()
    assert head.split() == ["KEY", "CONFIGURED", "ROWS", "UNFINISHED", "LAST", "EXPIRES"]
    assert re.fullmatch(r"[0-9a-f]{16}  yes +1     1 +- +needed until all rows are finished", row)
    [key] = json.loads(run("journal", "keys", "--json")[1])["keys"]
    assert (key["rows"], key["unfinished"], key["last_expiry"], key["configured"]) == (1, 1, None, True)


def test_when_a_key_may_go(seller: Seller, run: Run) -> None:
    sale = seller.held()
    assert sale.paywall.sweep().looked_at == 1
    assert run("journal", "keys", FAREGATE_JOURNAL_KEY=BOTH)[1].splitlines()[1].split()[1:4] == [
        "yes",
        "1",
        "0",
    ]
    assert re.search(r"no longer needed after 20\d\d-\d\d-\d\dT", run("journal", "keys")[1])


def test_rows_of_a_missing_key_are_shown_as_that(seller: Seller, run: Run) -> None:
    sale = seller.held()
    code, said = run("holds", "list", FAREGATE_JOURNAL_KEY=OTHER)
    assert code == 0
    assert MISSING in said
    assert re.search(rf"{sale.id} .* its journal key is not configured here\n", said)
    [shown] = json.loads(run("holds", "list", "--json", FAREGATE_JOURNAL_KEY=OTHER)[1])["holds"]
    assert shown["readable"] is False
    assert "not configured" not in run("holds", "list", FAREGATE_JOURNAL_KEY=BOTH)[1]


def test_a_sweep_without_a_key_says_so_and_keeps_nobody_waiting(
    seller: Seller, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    sale = seller.held()
    code, said = run("sweep", FAREGATE_JOURNAL_KEY=OTHER)
    assert code == 1
    assert f"{sale.id}: a journal row is encrypted with a key that is not among this journal's" in said
    assert [message for message in caplog.messages if MISSING in message]
    assert sale.comes_back()[0]["status"] == 200


@pytest.mark.parametrize(("words", "status"), [((), 409), (("--unpaid",), 402)])
def test_a_payment_whose_key_is_lost_is_ended_by_a_person(
    seller: Seller, run: Run, words: tuple[str, ...], status: int
) -> None:
    sale = seller.held()
    code, said = run("holds", "retry", sale.id, FAREGATE_JOURNAL_KEY=OTHER)
    assert (code, "encrypted with a key that is not among this journal's" in said) == (1, True)
    code, said = run("holds", "discard", sale.id, *words, "--yes", FAREGATE_JOURNAL_KEY=OTHER)
    assert (code, said.splitlines()[-1]) == (0, "Discarded.")
    assert "add it as FAREGATE_JOURNAL_KEY=NEW,OLD instead" in said
    assert f"notes it as {'not charged' if words else 'paid'}" in said
    assert run("sweep", FAREGATE_JOURNAL_KEY=OTHER)[0] == 0
    assert run("holds", "list", FAREGATE_JOURNAL_KEY=OTHER)[1].splitlines()[0] == "No unfinished payments."
    # So does a process that has the key after all: whose payment was paid is not asked to pay again.
    assert sale.comes_back()[0]["status"] == status


def test_rows_follow_a_service_that_moves(seller: Seller, run: Run) -> None:
    sale = seller.held()
    here = seller.environ["FAREGATE_BASE_URL"]
    moved = here.replace("127.0.0.1", "service.example")
    code, said = run("holds", "list", FAREGATE_BASE_URL=moved)
    address = here.replace("127.0.0.1", "localhost")
    assert code == 0
    assert f"The journal has 1 unfinished row under another address, {address}." in said
    assert f"run `faregate journal move {address}`" in said
    assert run("journal", "addresses")[1] == f"UNFINISHED  ADDRESS\n1           test {address}\n"
    assert run("journal", "move", here, FAREGATE_BASE_URL=moved) == (0, f"Moved 1 row to test {moved}.\n")
    assert run("journal", "move", here, FAREGATE_BASE_URL=moved) == (0, f"Moved 0 rows to test {moved}.\n")
    assert sale.id in run("holds", "list", FAREGATE_BASE_URL=moved)[1]
    assert "another address" not in run("holds", "list", FAREGATE_BASE_URL=moved)[1]


def test_the_address_of_now_is_not_moved(run: Run, seller: Seller) -> None:
    here = seller.environ["FAREGATE_BASE_URL"] + "/"
    code, said = run("journal", "move", here)
    assert (code, said) == (1, f"faregate: {here} is the current address: FAREGATE_BASE_URL names it.\n")


@pytest.mark.parametrize(
    "spelt", ["http://LOCALHOST:{port}", "http://127.0.0.1:{port}/", "http://localhost.:{port}"]
)
def test_one_address_spelt_otherwise_is_one_journal(seller: Seller, run: Run, spelt: str) -> None:
    sale = seller.held()
    port = seller.environ["FAREGATE_BASE_URL"].rpartition(":")[2]
    assert sale.id in run("holds", "list", FAREGATE_BASE_URL=spelt.format(port=port))[1]


def test_a_memory_journal_has_none_of_it(run: Run) -> None:
    code, said = run("journal", "keys", FAREGATE_JOURNAL="memory:")
    assert code == 1
    assert "The memory journal is in the seller's own process" in said
