"""What is copied from the console runs as it is: curl in a shell, a case in pytest."""

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from faregate.emulator import Account
from faregate.emulator.tenants import Tenants
from tests.servers.shared import need
from tests.support.preloaded import run_preloaded

from .browser import CURL_MISSING
from .purchases import Purchases

OWN = """
keys = [{ key = "svc_test_own" }]
resources = [{ key = "text_summary", name = "A longer summary", revisions = [{ amount = 20_000 }] }]
"""
CONFTEST = f"""
import pytest
from faregate.emulator import Account

@pytest.fixture(scope="session")
def emulator_account():
    return Account.from_toml({OWN!r})
"""


def copy_text(page: Page, identifier: str, button: str) -> str:
    page.locator(f'[data-id="{identifier}"][aria-expanded="false"]').click()
    page.locator(".actions").first.get_by_role("button", name=button).click()
    expect(page.locator("#toast")).to_contain_text("Copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.parametrize(
    ("payer", "status"), [("good", "succeeded"), ("rejected", "failed"), ("expires", "settling")]
)
def test_curl_reads_the_transaction(page: Page, purchases: Purchases, payer: str, status: str) -> None:
    need("curl", CURL_MISSING)
    identifier = purchases.buy(payer)
    answer = subprocess.run(
        ["sh", "-c", copy_text(page, identifier, "Copy as curl")], capture_output=True, check=True
    )
    assert json.loads(answer.stdout)["id"] == identifier
    assert json.loads(answer.stdout)["status"] == status


def test_curl_completes_again_with_an_own_proof(page: Page, purchases: Purchases) -> None:
    need("curl", CURL_MISSING)
    bought = purchases.authorize()
    assert purchases.fail(bought, "it:was.late").status_code == 200
    page.locator("#calls button", has_text="complete").click()
    page.locator("#detail summary", has_text="complete 200").click()
    page.locator("#detail details[open]").get_by_role("button", name="Copy as curl").click()
    expect(page.locator("#toast")).to_contain_text("Copied")
    command = str(page.evaluate("navigator.clipboard.readText()"))
    without = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "a new proof, from a payer" in without.stderr
    again = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        check=True,
        text=True,
        env={"PROOF": bought.proof, **os.environ},
    )
    assert "200 OK" in again.stdout
    assert json.loads(again.stdout.splitlines()[-1])["status"] == "failed"


def test_curl_repeats_a_list_with_its_query(page: Page, purchases: Purchases) -> None:
    need("curl", CURL_MISSING)
    purchases.http.get("/transactions?status=failed&order=oldest")
    page.locator("#calls button", has_text="transactions").click()
    page.locator("#detail").get_by_role("button", name="Copy as curl").click()
    expect(page.locator("#toast")).to_contain_text("Copied")
    command = str(page.evaluate("navigator.clipboard.readText()"))
    answer = subprocess.run(["sh", "-c", command], capture_output=True, check=True, text=True)
    assert json.loads(answer.stdout.splitlines()[-1])["items"] == []
    assert "status=failed&order=oldest" in command


def test_curl_repeats_a_call(page: Page, purchases: Purchases) -> None:
    need("curl", CURL_MISSING)
    purchases.authorize(description="it's a 'quoted' $HOME `thing`")
    page.locator("#calls button", has_text="402").click()
    page.locator("#detail").get_by_role("button", name="Copy as curl").click()
    expect(page.locator("#toast")).to_contain_text("Copied")
    command = str(page.evaluate("navigator.clipboard.readText()"))
    answer = subprocess.run(["sh", "-c", command], capture_output=True, check=True, text=True)
    assert "402 Payment Required" in answer.stdout
    first, *_, last = (call for call in purchases.emulator.calls("access") if not call.proof)
    assert last.request.body == first.request.body


def copy_test_of_another_tenant(page: Page, tenants: Tenants, url: str) -> str:
    with httpx.Client(base_url=f"{url}/merchant/v1", trust_env=False) as http:
        http.headers["Authorization"] = "Bearer svc_test_tenant_own"
        identifier = Purchases(http, tenants.get_or_create("own", account=Account.from_toml(OWN))).buy()
    page.locator("#tenant").select_option("own")
    case = copy_text(page, identifier, "Copy as pytest test")
    tenants.delete("own")
    assert "# The built-in account does not sell this" in case
    return case


def test_copied_pytest_tests_have_the_same_outcome(
    page: Page, purchases: Purchases, tenants: Tenants, url: str, tmp_path: Path
) -> None:
    """Taken at once, late, not at all, still open, ended by hand; work that failed, and reported values.

    That of another tenant fails without it, and passes with it.
    """
    emulator = purchases.emulator
    metered = purchases.authorize("good", "token_meter")
    purchases.complete(metered, values={"input_tokens": "812"})
    broken = purchases.authorize("good", "euro_report")
    purchases.fail(broken)
    late = purchases.buy("slow")
    emulator.clock.advance(2)
    expired, stopped = purchases.buy("expires"), purchases.buy("reads")
    emulator.fail(stopped)
    emulator.clock.advance(120)
    dead, left = purchases.authorize(), purchases.authorize()
    emulator.fail(dead.id)
    transactions = [
        purchases.buy(),
        metered.id,
        broken.id,
        late,
        purchases.buy("rejected"),
        purchases.buy("reconciles"),
    ]
    transactions += [expired, stopped, dead.id, left.id]
    for number, identifier in enumerate(transactions):
        case = copy_text(page, identifier, "Copy as pytest test")
        (tmp_path / f"test_{number}.py").write_text(case)
        assert "emulator_account" not in case
    (tmp_path / "test_other.py").write_text(case.replace("== before", "!= before"))
    own = tmp_path / "own"
    own.mkdir()
    (own / "conftest.py").write_text(CONFTEST)
    case = copy_test_of_another_tenant(page, tenants, url)
    (own / "test_with_its_account.py").write_text(case)
    (tmp_path / "test_without_it.py").write_text(case)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    result = run_preloaded(words, dict(os.environ), tmp_path)
    assert f"2 failed, {len(transactions) + 1} passed" in result.stdout, result.stdout
    for name in ("test_other.py", "test_without_it.py"):
        assert f"FAILED {name}" in result.stdout
