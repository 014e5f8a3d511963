"""`faregate sweep`, run as a timer runs it: a process of its own, beside those that sell."""

import json
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from faregate.cli import main
from faregate.cli.sweep import ShutdownSignal
from faregate.maintenance.sweep_loop import jitter
from tests.adapters.asgi import CONTENT
from tests.support.unfinished_payments import UNKNOWN, HangingCall, Seller, selling
from tests.support.waiting import eventually


@pytest.fixture
def seller(tmp_path: Path) -> Generator[Seller]:
    with selling(tmp_path) as seller:
        yield seller


def ended(process: "subprocess.Popen[str]") -> str:
    """What it said, if it ended well and did not complain."""
    said, complaints = process.communicate(timeout=30)
    assert (process.returncode, complaints) == (0, "")
    return said


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_once_is_once_and_says_what_it_came_to(seller: Seller) -> None:
    sale = seller.held()
    assert ended(seller.run("sweep")) == "Looked at 1 payment: 1 settled.\n"
    assert ended(seller.run("sweep")) == "Looked at 0 payments.\n"
    sent = sale.comes_back()
    assert (sent[0]["status"], sent[1]["body"]) == (200, CONTENT.encode())


def test_it_watches_until_it_is_told_to_end(seller: Seller) -> None:
    watching = seller.run("sweep", "--watch", "--every", "0.05")
    assert first_line(watching) == "Looked at 0 payments.\n"
    sale = seller.held()
    assert eventually(lambda: seller.statuses() == {sale.id: "succeeded"}, 20)
    assert eventually(lambda: seller.state(sale) is None)
    watching.send_signal(signal.SIGINT)
    lines = ended(watching).splitlines()
    assert set(lines) <= {"Looked at 0 payments.", "Looked at 1 payment: 1 settled."}
    assert lines.count("Looked at 1 payment: 1 settled.") == 1


def test_what_becomes_stuck_is_named_and_is_no_fault_of_the_sweep(seller: Seller) -> None:
    sale = seller.held()
    seller.service.fails("transaction", UNKNOWN)
    seller.service.fails("complete", UNKNOWN)
    sweeping = seller.run("sweep")
    said, logged = sweeping.communicate(timeout=30)
    assert sweeping.returncode == 0
    assert said == (
        "Looked at 1 payment: 1 stuck.\n"
        f"Stuck: {sale.id} (completion was refused: 404 transaction_not_found).\n"
    )
    assert "faregate holds" in logged


def test_a_full_walk_is_followed_by_the_next_at_once(seller: Seller) -> None:
    for _ in range(3):
        seller.held()
    watching = seller.run("sweep", "--watch", "--every", "3600", "--limit", "1", "--json")
    found = [json.loads(first_line(watching)) for _ in range(4)]
    assert [one["looked_at"] for one in found] == [1, 1, 1, 0]
    assert found[0] == {"looked_at": 1, "settled": 1, "failed": 0, "held": 0, "expired": 0, "stuck": {}}
    watching.send_signal(signal.SIGTERM)
    assert ended(watching) == ""


@pytest.mark.parametrize("options", [(), ("--watch", "--every", "3600")])
def test_a_sigterm_is_heard_between_two_sales(seller: Seller, options: tuple[str, ...]) -> None:
    sales, hanging = [seller.held(), seller.held()], HangingCall()
    seller.service.fails("complete", hanging)
    sweeping = seller.run("sweep", *options)
    assert hanging.reached.wait(30)
    sweeping.send_signal(signal.SIGTERM)
    hanging.goes_on.set()
    assert ended(sweeping) == "Looked at 1 payment: 1 settled.\n"
    assert sorted(seller.statuses().values()) == ["settling", "succeeded"]
    assert sorted(filter(None, map(seller.state, sales))) == ["ok"]


def test_told_twice_a_process_ends_as_it_would_without_us() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    try:
        with ShutdownSignal() as ending:
            assert not ending.requested
            signal.raise_signal(signal.SIGTERM)
            ending.wait(3600)
            assert (ending.requested, heard) == (True, [])
            signal.raise_signal(signal.SIGTERM)
            assert heard == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_several_sweeps_at_once_share_the_work_and_no_sale(seller: Seller) -> None:
    sales = [seller.held() for _ in range(4)]
    completed = seller.service.count("complete")
    sweeps = [seller.run("sweep", "--json") for _ in range(2)]
    found = [json.loads(ended(one)) for one in sweeps]
    assert sum(one["looked_at"] for one in found) == sum(one["settled"] for one in found) == len(sales)
    assert seller.service.count("complete") - completed == len(sales)


def test_a_journal_that_fails_for_a_moment_does_not_end_the_watch(seller: Seller) -> None:
    away = seller.journal.with_suffix(".away")
    watching = seller.run("sweep", "--watch", "--every", "0.02", "--json")
    assert json.loads(first_line(watching))["looked_at"] == 0
    seller.journal.rename(away)
    while "error" not in (told := json.loads(first_line(watching))):
        pass
    assert "was removed" in told["error"]
    away.rename(seller.journal)
    while "error" in json.loads(first_line(watching)):
        pass
    watching.send_signal(signal.SIGTERM)
    ended(watching)


def test_a_journal_that_fails_is_the_end_of_a_single_walk(seller: Seller) -> None:
    seller.journal.write_text("This is no journal, and never was one. " * 20)
    once = seller.run("sweep")
    said, complaint = once.communicate(timeout=30)
    assert (once.returncode, said) == (1, "")
    assert complaint.startswith("faregate: the journal ")


def test_the_memory_of_another_process_cannot_be_swept(
    seller: Seller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (seller.environ | {"FAREGATE_JOURNAL": "memory:"}).items():
        monkeypatch.setenv(name, value)
    assert main(["sweep"]) == 1
    assert capsys.readouterr().err.startswith("faregate: The memory journal is in the seller's own process")


@pytest.mark.parametrize(
    "wrong", [("--every", "0"), ("--every", "inf"), ("--every", "soon"), ("--limit", "0")]
)
def test_a_wrong_call_is_a_usage_error(wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["sweep", *wrong])
    assert end.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_sweeps_do_not_keep_step() -> None:
    pauses = [jitter(8.0) for _ in range(200)]
    assert 6.0 <= min(pauses) < 6.5
    assert 9.5 < max(pauses) <= 10.0
