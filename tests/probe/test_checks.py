"""The probe against services that decide one thing otherwise: it sees that, and nothing else."""

from argparse import ArgumentParser, Namespace

import pytest

from faregate.commands import fill_parser
from faregate.emulator import TEST_KEY
from faregate.probe.check import CheckResult
from faregate.probe.checks import CHECKS, run_checks
from faregate.probe.cli import PROBE
from faregate.probe.config import open_session
from faregate.probe.fixtures import ProbeRun
from faregate.rules.published_payers import TEST_PAYERS
from tests.probe.wrong_answers import WRONG_ANSWERS
from tests.probe.wrong_services import (
    WrongAnswer,
    WrongService,
    careless,
    error,
    honest,
    replace_matching,
    silent_after_complete,
    silent_on_complete,
)


def arguments(*words: str) -> Namespace:
    parser = ArgumentParser()
    fill_parser(parser, PROBE)
    return parser.parse_args(["--base-url", "http://service.invalid", *words])


def run_probe(service: WrongService, *words: str) -> list[CheckResult]:
    with open_session(arguments(*words), {"FAREGATE_API_KEY": TEST_KEY}, transport=service) as session:
        return list(run_checks(ProbeRun(session, sleep=lambda _seconds: None)))


def ids(results: list[CheckResult], verdict: str) -> list[str]:
    return [one.id for one in results if one.verdict == verdict]


def test_every_check_passes_at_the_emulator() -> None:
    results = run_probe(WrongService(honest))

    assert [(one.id, one.observed) for one in results if one.verdict != "pass"] == []
    assert len(results) == len(CHECKS) == len({one.id for one in results})


def test_there_is_a_wrong_services_for_each_check() -> None:
    assert [check.id for check in CHECKS] == list(WRONG_ANSWERS)


@pytest.mark.parametrize("check", WRONG_ANSWERS)
def test_only_the_check_of_the_deviation_fails(check: str) -> None:
    results = run_probe(WrongService(WRONG_ANSWERS[check]), "--free-resource", "free_notes")

    assert ids(results, "fail") == [check]


def test_an_accepted_completion_does_not_spoil_the_other_checks() -> None:
    assert ids(run_probe(WrongService(careless)), "fail") == ["complete-no-key"]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_service_fails_no_check(status: int) -> None:
    results = run_probe(
        WrongService(replace_matching(lambda call: call.operation == "transactions", error(status)))
    )

    assert ids(results, "fail") == []
    lists = {"list-no-key", "list-pages", "list-page-size", "list-future", "status-filter"}
    assert set(ids(results, "skipped")) == {*lists, "status-filter-unknown"}


@pytest.mark.parametrize(
    ("silence", "taken"), [(silent_on_complete, 0), (silent_after_complete, 10_000)], ids=["before", "after"]
)
def test_a_missing_response_skips_the_check_and_pays_only_once(silence: WrongAnswer, taken: int) -> None:
    service = WrongService(silence)
    payers = [TEST_PAYERS[name].address for name in ("good", "reads")]
    before = sum(service.emulator.balance(address) for address in payers)

    results = run_probe(service)

    assert ids(results, "fail") == []
    assert [one.id for one in results if one.verdict == "pass" and one.id.startswith("complete-")] == []
    assert before - sum(service.emulator.balance(address) for address in payers) == taken
