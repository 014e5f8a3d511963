"""`faregate probe` as a command, against services behind real sockets."""

import json
import re
from argparse import ArgumentParser
from collections.abc import Generator
from pathlib import Path

import pytest

from faregate.cli import main
from faregate.commands import fill_parser
from faregate.emulator import LIVE_KEY, TEST_KEY, Account, Emulator, Key, Resource, Revision, Wallet
from faregate.emulator.server import serve
from faregate.merchant.client import MerchantClient
from faregate.probe.checks import CHECKS
from faregate.probe.cli import PROBE
from faregate.rules.published_payers import TEST_PAYERS

PRIVATE_KEY = "0x" + "5a" * 32


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAREGATE_BASE_URL", "FAREGATE_PAYER_KEY", "FAREGATE_READ_ONLY_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    return Emulator(expose_execution_id=True, allow_live=True)


@pytest.fixture(scope="module")
def url(emulator: Emulator) -> Generator[str]:
    with serve(emulator) as served:
        yield served


@pytest.fixture(scope="module")
def small() -> Generator[str]:
    """A service that sells one thing, at once, and nothing else."""
    sold = Resource(key="story", name="A story", revisions=(Revision(amount=2_000_000),))
    with serve(Emulator(Account(keys=(Key(key="svc_test_small"),), resources=(sold,)))) as served:
        yield served


def verdicts(text: str) -> dict[str, str]:
    return {one["id"]: one["verdict"] for one in json.loads(text)["checks"]}


def test_every_check_passes_at_a_served_emulator(
    url: str, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    payers = [TEST_PAYERS[name].address for name in ("good", "reads")]
    before = [emulator.balance(address) for address in payers]

    code = main(["probe", "--base-url", url])

    table, note = capsys.readouterr()
    assert f"{len(CHECKS)} passed, 0 failed, 0 skipped" in table, table
    assert code == 0
    assert "Expected cost: 2 payments (0.02 USDC); at most 4 (0.04 USDC)" in note
    assert TEST_KEY not in table + note
    spent = [was - emulator.balance(address) for was, address in zip(before, payers, strict=True)]
    assert spent == [10_000, 10_000]


def test_no_transaction_is_left_pending(url: str) -> None:
    with MerchantClient(TEST_KEY, url) as client:
        before = client.list_transactions().count
        assert main(["probe", "--base-url", url]) == 0
        assert client.list_transactions().count > before
        assert [one for one in client.iter_transactions() if one.status == "authorized"] == []


def test_json_reports_counts_and_checks(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAREGATE_BASE_URL", url)

    assert main(["probe", "--json", "--resource", "euro_report"]) == 0

    output, note = capsys.readouterr()
    report = json.loads(output)
    assert (report["base_url"], report["counts"]) == (url, {"pass": len(CHECKS)})
    assert set(report["checks"][0]) == {"id", "source", "expected", "observed", "verdict"}
    assert "'Euro report'" in note
    assert "2 payments (0.01 EURC + 0.01 USDC); at most 4 (0.02 EURC + 0.02 USDC)" in note


def test_every_check_passes_for_a_tenant_of_its_own(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAREGATE_API_KEY", "svc_test_tenant_probed")

    assert main(["probe", "--base-url", url]) == 0


def test_checks_for_what_a_service_lacks_are_skipped(
    small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAREGATE_API_KEY", "svc_test_small")
    monkeypatch.setenv("FAREGATE_PAYER_KEY", PRIVATE_KEY)

    assert main(["probe", "--base-url", small, "--json", "--max", "2"]) == 0

    seen = verdicts(capsys.readouterr().out)
    assert {id for id, verdict in seen.items() if verdict == "skipped"} == {
        *("access-forbidden", "complete-forbidden", "access-foreign-revision", "complete-other-revision"),
        *("complete-required-value", "access-again-settling", "complete-settling"),
        *("complete-again-settling", "free-access", "free-execution-id", "execution-closed"),
        *("execution-conflict", "execution-other-revision"),
    }


def test_nothing_is_signed_above_the_limit(
    small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAREGATE_API_KEY", "svc_test_small")

    assert main(["probe", "--base-url", small, "--json", "--max", "1.999999"]) == 0

    output, note = capsys.readouterr()
    assert "nothing is spent" in note
    assert verdicts(output)["access-paid"] == "skipped"
    with MerchantClient("svc_test_small", small) as client:
        assert TEST_PAYERS["good"].address not in [one.identifier for one in client.iter_payers()]


def test_a_payer_without_money_skips_checks_of_payments(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--base-url", url, "--json", "--payer", "poor"]) == 0

    output = capsys.readouterr().out
    seen = verdicts(output)
    assert "fail" not in seen.values()
    assert seen["access-paid"] == seen["complete-succeeded"] == seen["access-again-final"] == "skipped"
    assert "the payer has not enough USDC" in output


def test_a_live_key_is_refused_before_any_call(
    url: str, emulator: Emulator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAREGATE_API_KEY", LIVE_KEY)
    monkeypatch.setenv("FAREGATE_PAYER_KEY", PRIVATE_KEY)
    before = len(emulator.calls())

    assert main(["probe", "--base-url", url]) == 2

    assert "up to four payments" in capsys.readouterr().err
    assert len(emulator.calls()) == before


def test_an_allowed_live_key_announces_its_cost(
    url: str, emulator: Emulator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAREGATE_API_KEY", LIVE_KEY)
    monkeypatch.setenv("FAREGATE_PAYER_KEY", PRIVATE_KEY)
    address = Wallet(PRIVATE_KEY).address
    before = emulator.balance(address, environment="live")

    assert main(["probe", "--base-url", url, "--allow-live", "--json"]) == 0

    output, note = capsys.readouterr()
    assert f"with {address} (live).\nExpected cost: 2 payments (0.02 USDC); at most 4 (0.04 USDC)" in note
    assert before - emulator.balance(address, environment="live") == 20_000
    assert {id for id, one in verdicts(output).items() if one != "pass"} == {
        "access-forbidden",
        "complete-forbidden",
    }
    assert PRIVATE_KEY[2:] not in output + note


@pytest.mark.parametrize("words", [[], ["--payer", "good"]])
def test_a_test_payer_never_pays_live(
    url: str,
    emulator: Emulator,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FAREGATE_API_KEY", LIVE_KEY)
    before = len(emulator.calls())

    assert main(["probe", "--base-url", url, "--allow-live", *words]) == 2
    assert "Live payments need a key of your own" in capsys.readouterr().err
    assert len(emulator.calls()) == before


@pytest.mark.parametrize(
    ("words", "key", "message"),
    [
        ([], TEST_KEY, "--base-url"),
        (["--base-url", "http://127.0.0.1:1"], TEST_KEY, "no answer"),
        (["--base-url", "URL"], "svc_test_of_nobody", "401 unauthenticated"),
        (["--base-url", "URL"], "", "no API key"),
        (["--base-url", "URL", "--resource", "nothing"], TEST_KEY, "integration key 'nothing'"),
        (["--base-url", "URL", "--free-resource", "nothing"], TEST_KEY, "integration key 'nothing'"),
        (["--base-url", "URL", "--revision", "acr_1"], TEST_KEY, "no active revision acr_1"),
        (["--base-url", "URL", "--payer", "nobody"], TEST_KEY, "no test payer 'nobody'"),
    ],
)
def test_a_probe_that_cannot_run_exits_2_and_says_why(
    url: str,
    words: list[str],
    key: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FAREGATE_API_KEY", key)

    assert main(["probe", *[url if word == "URL" else word for word in words]]) == 2

    output, error = capsys.readouterr()
    assert output == ""
    assert message in error


def test_a_named_revision_is_bought(url: str, emulator: Emulator, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--base-url", url, "--revision", emulator.revision_id("daily_report")]) == 0
    assert "'Daily report'" in capsys.readouterr().err


def test_a_slow_payment_that_settles_at_once_is_made_once(
    url: str, emulator: Emulator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAREGATE_PAYER_KEY", "0x" + "5b" * 32)
    address = Wallet("0x" + "5b" * 32).address
    before = emulator.balance(address)

    assert main(["probe", "--base-url", url, "--json", "--slow-resource", "daily_report"]) == 0

    output, note = capsys.readouterr()
    assert verdicts(output)["complete-settling"] == "skipped"
    assert "Expected cost: 2 payments (0.06 USDC)" in note
    assert before - emulator.balance(address) == 60_000


def test_the_page_names_every_check_and_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "probe.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (contract|decision) \| (.+?) \|$", page, re.MULTILINE)
    assert rows == [(check.id, check.source, check.expected) for check in CHECKS]
    parser = ArgumentParser()
    fill_parser(parser, PROBE)
    options = [option for action in parser._actions for option in action.option_strings]
    assert [option for option in options if f"`{option}" not in page and option not in ("-h", "--help")] == []


def test_the_limit_is_an_amount(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["probe", "--max", "-1"])
    assert ended.value.code == 2
    assert "-1" in capsys.readouterr().err
