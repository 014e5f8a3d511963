"""`faregate report`: on a terminal, in a pipe, and as a page in a browser."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page

from faregate.errors import CommandError
from faregate.reports.page import build_page
from faregate.reports.records import TableRow
from faregate.reports.summary import Interval, summarize
from tests.console.browser import CHROMIUM_MISSING, chromium
from tests.servers.shared import need
from tests.support.terminals import in_pipe, in_terminal

WORDS = ["report", "--since", "2026-03-01", "--until", "2026-03-10T12:00Z"]
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def test_a_pipe_gets_the_sums_as_json(service: dict[str, str]) -> None:
    found = json.loads(in_pipe([*WORDS, "--by", "day"], service).stdout)
    assert (found["succeeded"], found["failed"], found["pending"]) == (48, 3, 3)
    assert found["revenue_atomic"] == {"EURC": 150000, "USDC": 1050000}
    starts = {one["start"][:10]: one["succeeded"] for one in found["periods"]}
    assert starts == {"2026-03-07": 16, "2026-03-08": 16, "2026-03-09": 16, "2026-03-10": 0}
    assert [(one["name"], one["succeeded"]) for one in found["resources"]] == [
        ("Daily report", 18),
        ("Euro report", 15),
        ("Text summary", 15),
    ]


def test_a_terminal_gets_bars(service: dict[str, str]) -> None:
    ran = in_terminal([*WORDS, "--by", "day"], service, columns=90)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout)
    assert "1.05 USDC + 0.15 EURC from 48 payers\n" in plain
    assert "48 of 51 finished transactions succeeded (94 %), 3 failed. 3 pending.\n" in plain
    assert re.search(r"2026-03-08 +16 +1 +1  █+ 0\.35 USDC \+ 0\.05 EURC\n", plain)
    assert max(map(len, plain.split("\n"))) <= 90


def test_a_report_can_be_repeated(service: dict[str, str]) -> None:
    words = [*WORDS, "--as-of", "2026-03-08T18:00Z"]
    ran = in_pipe(words, service)
    assert json.loads(ran.stdout)["succeeded"] == 32
    assert in_pipe(words, service).stdout == ran.stdout


def test_time_without_end_is_refused(service: dict[str, str]) -> None:
    ran = in_pipe(["report", "--since", "2026-03-10", "--until", "2026-03-01"], service)
    assert (ran.status, ran.stderr) == (2, "faregate: --since is not before --until.\n")


def sale(moment: datetime, name: str = "Daily report") -> TableRow:
    return {
        "status": "succeeded",
        "created_at": moment,
        "payer": "0x1",
        "settled_atomic": 10_000,
        "asset": "USDC",
        "resource_name": name,
    }


@pytest.mark.parametrize(
    ("interval", "starts"),
    [
        ("day", ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]),
        ("week", ["2026-02-23", "2026-03-02"]),
        ("month", ["2026-02-01", "2026-03-01"]),
    ],
)
def test_periods_have_no_gaps(interval: Interval, starts: list[str]) -> None:
    rows = [sale(datetime(2026, 2, 27, 23, 59, tzinfo=UTC)), sale(datetime(2026, 3, 2, 0, 0, tzinfo=UTC))]
    found = summarize(
        rows, datetime(2026, 1, 1, tzinfo=UTC), NOON - timedelta(days=8, hours=1), NOON, interval
    )
    assert [f"{one.start:%Y-%m-%d}" for one in found.periods] == starts
    assert (found.periods[0].totals.succeeded, found.periods[-1].totals.succeeded) == (1, 1)


def test_too_many_periods_are_refused() -> None:
    with pytest.raises(CommandError, match="use a longer --by"):
        summarize(
            [sale(datetime(2020, 1, 1, tzinfo=UTC))], datetime(2019, 1, 1, tzinfo=UTC), NOON, NOON, "hour"
        )


def test_the_page_needs_nothing_and_fits_a_phone(service: dict[str, str], tmp_path: Path) -> None:
    need("chromium", CHROMIUM_MISSING)
    from axe_playwright_python.sync_playwright import Axe

    path = tmp_path / "report.html"
    assert in_pipe([*WORDS, "--by", "day", "--html", str(path)], service).status == 0
    with chromium() as browser:
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": 360, "height": 800}, color_scheme="dark" if scheme == "dark" else "light"
            )
            page = context.new_page()
            said, asked = list[str](), list[str]()
            _listen(page, said, asked)
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") == 360
            assert page.locator("svg[role=img]").count() == 3
            assert page.locator("rect title").first.text_content() == "2026-03-07: 0.05 EURC"
            assert (said, asked) == ([], [path.as_uri()])
            context.close()
            # axe runs as a script, which the page's own policy does not allow.
            checked = browser.new_context(
                bypass_csp=True, color_scheme="dark" if scheme == "dark" else "light"
            )
            page = checked.new_page()
            page.goto(path.as_uri())
            assert Axe().run(page).response["violations"] == []
            checked.close()


@pytest.mark.parametrize("words", [[], ["--html", "march.html"]])
def test_the_page_is_shown_in_a_browser(
    words: list[str], service: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\nprintf %s "$1" > shown\n')
    browser.chmod(0o755)
    name = words[-1] if words else "faregate-report.html"
    ran = in_pipe([*WORDS, "--open", *words], {**service, "BROWSER": str(browser)})
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"Wrote {name}: ")
    assert (tmp_path / "shown").read_text() == (tmp_path / name).as_uri()
    ran = in_pipe([*WORDS, "--open"], {**service, "BROWSER": "none", "PATH": "", "DISPLAY": ""})
    assert (ran.status, ran.stdout.splitlines()[-1]) == (0, "No web browser was found. Open the file in one.")


def _listen(page: Page, said: list[str], asked: list[str]) -> None:
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))


def test_a_name_is_text_in_the_page() -> None:
    summary = summarize(
        [sale(NOON, "<script>alert(1)</script>")], NOON, NOON + timedelta(hours=1), NOON, None
    )
    page = build_page(summary, "test")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
