"""What is copied from the console runs as it is: curl in a shell, a case in pytest."""

import json
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.houses.shared import need

from .browser import CURL_MISSING
from .buying import Buying


def copied(page: Page, identifier: str, button: str) -> str:
    page.locator(f'[data-id="{identifier}"][aria-expanded="false"]').click()
    page.locator(".actions").first.get_by_role("button", name=button).click()
    expect(page.locator("#toast")).to_contain_text("Copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_curl_reads_the_transaction(page: Page, buying: Buying) -> None:
    need("curl", CURL_MISSING)
    identifier = buying.buy()
    answer = subprocess.run(
        ["sh", "-c", copied(page, identifier, "Copy as curl")], capture_output=True, check=True
    )
    assert json.loads(answer.stdout)["id"] == identifier
    assert json.loads(answer.stdout)["status"] == "succeeded"


def test_curl_makes_a_call_again(page: Page, buying: Buying) -> None:
    need("curl", CURL_MISSING)
    buying.authorize(description="it's a 'quoted' $HOME `thing`")
    page.locator("#calls button", has_text="402").click()
    page.locator("#detail").get_by_role("button", name="Copy as curl").click()
    expect(page.locator("#toast")).to_contain_text("Copied")
    command = str(page.evaluate("navigator.clipboard.readText()"))
    answer = subprocess.run(["sh", "-c", command], capture_output=True, check=True, text=True)
    assert "402 Payment Required" in answer.stdout
    first, *_, last = (call for call in buying.emulator.calls("access") if not call.proof)
    assert last.request.body == first.request.body


def test_a_pytest_case_tells_the_same_story(page: Page, buying: Buying, tmp_path: Path) -> None:
    """Taken at once, late, not at all, still open; work that failed, and reported values."""
    emulator = buying.emulator
    metered = buying.authorize("good", "token_meter")
    buying.complete(metered, values={"input_tokens": "812"})
    broken = buying.authorize("good", "euro_report")
    buying.fail(broken)
    late = buying.buy("slow")
    emulator.clock.advance(2)
    stories = [buying.buy(), metered.id, broken.id, late, buying.buy("rejected"), buying.buy("reconciles")]
    for number, identifier in enumerate(stories):
        case = copied(page, identifier, "Copy as pytest case")
        (tmp_path / f"test_{number}.py").write_text(case)
    (tmp_path / "test_other.py").write_text(case.replace("== before", "!= before"))
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert f"1 failed, {len(stories)} passed" in result.stdout, result.stdout
