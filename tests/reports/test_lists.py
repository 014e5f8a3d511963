"""`faregate transactions`, `payers`, `resources`, `contracts` and `receipt`, in a terminal and in a pipe."""

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reports.conftest import DAYS, SALES
from tests.support.terminals import in_pipe, in_terminal

LISTS = {"transactions": SALES, "payers": SALES, "resources": 7, "contracts": 7}
Settings = dict[str, str]


def read(service: Settings, *words: str) -> Any:
    ran = in_pipe(words, service)
    assert (ran.status, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", LISTS)
def test_a_pipe_gets_everything_as_json(service: Settings, name: str) -> None:
    rows = read(service, name)
    assert len(rows) == LISTS[name]
    assert len({row.get("id", row.get("revision_id")) for row in rows}) == LISTS[name]


@pytest.mark.parametrize("name", LISTS)
def test_a_terminal_gets_a_table_of_its_width(service: Settings, name: str) -> None:
    ran = in_terminal([name], service, columns=100)
    assert ran.status == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout)
    assert plain != ran.stdout
    head, *lines = plain.split("\n")
    assert head.isupper()
    assert max(map(len, lines[: lines.index("")])) <= 100
    shown = min(LISTS[name], 50)
    assert lines.index("") == shown
    assert lines[shown + 1].startswith(f"{shown} of {SALES} " if shown < LISTS[name] else f"{shown} ")


def test_contracts_and_resources_have_the_prices_that_the_service_asks(service: Settings) -> None:
    contracts = {row["integration_key"]: row for row in read(service, "contracts")}
    prices = {name: contracts[name]["price"] for name in ("daily_report", "euro_report", "free_notes")}
    assert prices == {"daily_report": "0.05 USDC", "euro_report": "0.01 EURC", "free_notes": "free"}
    resources = {row["id"]: row["price"] for row in read(service, "resources")}
    assert {row["resource_id"]: row["price"] for row in contracts.values()} == resources
    for name in ("contracts", "resources"):
        table = in_terminal([name], {**service, "NO_COLOR": "1"}, columns=160).stdout
        assert " PRICE" in table.split("\n")[0]
        assert "0.05 USDC" in table


def test_a_narrow_terminal_gets_whole_ids_and_fewer_columns(service: Settings) -> None:
    ran = in_terminal(["transactions", "--limit", "2"], {**service, "NO_COLOR": "1"}, columns=64)
    head, first, *_ = ran.stdout.split("\n")
    assert head.split() == ["TRANSACTION", "STATUS", "SETTLED"]
    assert re.fullmatch(r"txn_[0-9a-f]{32}", first.split()[0])
    assert "\x1b" not in ran.stdout


def test_amounts_are_numbers_for_programs_and_prices_for_people(service: Settings) -> None:
    [row] = read(service, "transactions", "--resource", "euro_report", "--limit", "1")
    assert (row["settled_atomic"], row["asset"], row["resource_name"]) == (10000, "EURC", "Euro report")
    table = in_terminal(["transactions", "--resource", "euro_report", "--limit", "1"], service, columns=160)
    assert "0.01 EURC" in table.stdout
    assert "1 transaction." in table.stdout


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--status", "failed"], DAYS),
        (["--status", "authorized"], DAYS),
        (["--resource", "daily_report"], 6 * DAYS),
        (["--since", "2026-03-08"], 36),
        (["--until", "2026-03-08T00:00Z"], 18),
        (["--until", "2026-03-08", "--order", "oldest"], 18),
        (["--since", "2026-03-08", "--until", "2026-03-09", "--status", "succeeded"], 16),
        (["--as-of", "2026-03-08T00:00Z"], 18),
        (["--limit", "7"], 7),
    ],
)
def test_filters(service: Settings, words: list[str], count: int) -> None:
    assert len(read(service, "transactions", *words)) == count


def test_a_payer_is_named_by_id_or_by_address(service: Settings) -> None:
    payer = read(service, "payers", "--limit", "1")[0]
    by_id = read(service, "transactions", "--payer", payer["id"])
    assert by_id == read(service, "transactions", "--payer", payer["identifier"].upper().replace("X", "x", 1))
    assert {row["payer"] for row in by_id} == {payer["identifier"]}


@pytest.mark.parametrize("suffix", ["json", "jsonl", "csv"])
def test_an_export_has_the_same_rows_in_each_format(service: Settings, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"sales.{suffix}"
    ran = in_pipe(["transactions", "--details", "--output", str(path)], service)
    assert ran.stdout.startswith(f"Wrote {SALES} transactions to {path}. As of 2026-03-10T12:00:00")
    rows = load(path)
    assert [row["id"] for row in rows] == [row["id"] for row in read(service, "transactions")]
    assert sum(int(row["settled_atomic"] or 0) for row in rows) == DAYS * (6 * 50000 + 5 * 10000 + 5 * 10000)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def load(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    match path.suffix:
        case ".csv":
            return list(csv.DictReader(text.splitlines()))
        case ".jsonl":
            return [json.loads(line) for line in text.splitlines()]
        case _:
            found: list[dict[str, Any]] = json.loads(text)
            return found


def test_a_receipt_is_a_page_for_people_and_a_document_for_programs(service: Settings) -> None:
    sold = read(service, "transactions", "--status", "succeeded", "--limit", "1")[0]["id"]
    document = read(service, "receipt", sold)
    assert document["transaction_id"] == sold
    assert document["payment"]["settled_atomic"] == 50000
    page = in_terminal(["receipt", sold], service).stdout
    assert f"transaction  {sold}\n" in page
    assert "settled      0.05 USDC\n" in page


NOBODY = "svc_test_nobody"


@pytest.mark.parametrize(
    ("words", "settings", "status", "said"),
    [
        (
            ["payers"],
            {"FAREGATE_API_KEY": NOBODY},
            1,
            "does not know this API key (401). Set FAREGATE_API_KEY",
        ),
        (["payers"], {"FAREGATE_API_KEY": "secret"}, 1, "FAREGATE_API_KEY: This is no API key"),
        (["payers"], {"FAREGATE_API_KEY": ""}, 1, "Set FAREGATE_API_KEY to"),
        (["payers"], {"FAREGATE_BASE_URL": ""}, 1, "Set FAREGATE_BASE_URL to"),
        (
            ["payers"],
            {"FAREGATE_BASE_URL": "emulator:"},
            1,
            "Run `faregate emulator` and set FAREGATE_BASE_URL",
        ),
        (["payers"], {"FAREGATE_BASE_URL": "http://127.0.0.1:1"}, 1, "No answer from http://127.0.0.1:1 ("),
        (["payers"], {"FAREGATE_BASE_URL": "{base}/wrong"}, 1, "is not the Merchant API (404"),
        (
            ["receipt", f"txn_{'0' * 12}7{'0' * 3}8{'0' * 15}"],
            {},
            1,
            "knows no such transaction for this API key",
        ),
        (["receipt", "rct_1"], {}, 2, "is not a transaction"),
        (["transactions", "--payer", "0xabc"], {}, 2, "Nobody has paid from 0xabc"),
        (["transactions", "--resource", "nothing"], {}, 2, "(keys here: daily_report, euro_report,"),
        (["transactions", "--as-of", "2099-01-01"], {}, 1, "as_of is in the future"),
        (["transactions", "--since", "soon"], {}, 2, "'soon' is not a time"),
        (["transactions", "--output", "sales.xls"], {}, 2, "does not say its format"),
        (["transactions", "--output", "/no/such/folder/x.csv"], {}, 2, "cannot be written"),
        (["transactions", "--all", "--limit", "3"], {}, 2, "Use either --all or --limit"),
    ],
)
def test_an_error_is_one_line_with_its_remedy(
    service: Settings, words: list[str], settings: Settings, status: int, said: str
) -> None:
    base = service["FAREGATE_BASE_URL"]
    ran = in_pipe(words, service | {name: text.replace("{base}", base) for name, text in settings.items()})
    assert (ran.status, ran.stdout) == (status, "")
    line = ran.stderr.splitlines()[-1]
    assert said in line
    assert line.startswith("faregate")
    assert status == 2 or ran.stderr.count("\n") == 1
    assert NOBODY not in ran.stderr
    assert "secret" not in ran.stderr


def test_a_table_without_rich_is_plain(service: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    ran = in_terminal(["payers", "--limit", "1"], service)
    assert ran.stdout.startswith("PAYER   ")
    assert "\x1b" not in ran.stdout
