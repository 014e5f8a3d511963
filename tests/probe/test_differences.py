"""The probe against services that decide one thing otherwise: it sees that, and nothing else."""

from argparse import ArgumentParser, Namespace

import pytest

from faregate.emulator import TEST_KEY
from faregate.probe.arguments import add_probe
from faregate.probe.config import Setting
from faregate.probe.fixtures import Visit
from faregate.probe.runner import CHECKS, run_checks
from faregate.probe.verdicts import Finding
from faregate.service.test_payers import TEST_PAYERS
from tests.probe.wrong_answers import LIES
from tests.probe.wrong_services import (
    Liar,
    Lie,
    careless,
    error,
    honest,
    instead,
    silent_after_complete,
    silent_on_complete,
)


def arguments(*words: str) -> Namespace:
    parser = ArgumentParser()
    add_probe(parser)
    return parser.parse_args(["--base-url", "http://service.invalid", *words])


def found(service: Liar, *words: str) -> list[Finding]:
    setting = Setting.of(arguments(*words), {"FAREGATE_API_KEY": TEST_KEY}, transport=service)
    return list(run_checks(Visit(setting.bench(), sleep=lambda _seconds: None)))


def ids(findings: list[Finding], verdict: str) -> list[str]:
    return [one.id for one in findings if one.verdict == verdict]


def test_everything_holds_at_the_emulator() -> None:
    findings = found(Liar(honest))

    assert [(one.id, one.seen) for one in findings if one.verdict != "holds"] == []
    assert len(findings) == len(CHECKS) == len({one.id for one in findings})


def test_there_is_a_wrong_service_for_each_check() -> None:
    assert [check.id for check in CHECKS] == list(LIES)


@pytest.mark.parametrize("check", LIES)
def test_the_one_thing_that_differs_is_seen(check: str) -> None:
    findings = found(Liar(LIES[check]), "--free-resource", "free_notes")

    assert ids(findings, "differs") == [check]


def test_what_was_taken_by_mistake_does_not_spoil_the_other_checks() -> None:
    assert ids(found(Liar(careless)), "differs") == ["complete-no-key"]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_service_that_is_busy_decides_nothing(status: int) -> None:
    findings = found(Liar(instead(lambda call: call.operation == "transactions", error(status))))

    assert ids(findings, "differs") == []
    lists = {"list-no-key", "list-pages", "list-page-size", "list-future", "status-filter"}
    assert set(ids(findings, "not seen")) == {*lists, "status-filter-unknown"}


@pytest.mark.parametrize(
    ("silence", "taken"), [(silent_on_complete, 0), (silent_after_complete, 10_000)], ids=["before", "after"]
)
def test_what_is_not_answered_is_not_seen_and_not_paid_for_again(silence: Lie, taken: int) -> None:
    service = Liar(silence)
    payers = [TEST_PAYERS[name].address for name in ("good", "reads")]
    before = sum(service.emulator.balance(address) for address in payers)

    findings = found(service)

    assert ids(findings, "differs") == []
    assert [one.id for one in findings if one.verdict == "holds" and one.id.startswith("complete-")] == []
    assert before - sum(service.emulator.balance(address) for address in payers) == taken
