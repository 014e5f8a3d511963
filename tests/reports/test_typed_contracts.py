"""`faregate contracts --python`: a misspelt name of a value fails in the editor, by mypy and by pyright."""

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from faregate.core.reported_values import Payment
from faregate.emulator import Wallet
from faregate.merchant.models import ContractRevision
from faregate.reports.typed_contracts import build_module
from faregate.starlette import paid
from tests.servers.http import serving
from tests.support.snippets import ROOT, run
from tests.support.terminals import in_pipe, in_terminal

RIGHT = """
from decimal import Decimal

from contracts import IntegrationKey, TextSummary, TextSummaryValues, TokenMeter, TokenMeterValues
from faregate.core.reported_values import Payment


def handle(payment: Payment[TextSummaryValues], plain: Payment, sells: str) -> None:
    payment.report({"input-tokens": 7, "output-tokens": Decimal("1.5")})
    payment.report({})
    values: TokenMeterValues = {"input_tokens": "12"}
    plain.report(values)
    plain.report(TokenMeter.Values(input_tokens=12))
    plain.report({"anything": 1}, other=2)
    typed: Payment[TokenMeterValues] = plain
    typed.report(values)
    handle(payment, plain, TextSummary.SELLS)
    key: IntegrationKey = TextSummary.SELLS
    print(key)
"""
WRONG = """
from contracts import IntegrationKey, TextSummary, TextSummaryValues, TokenMeter, TokenMeterValues
from faregate.core.reported_values import Payment


def handle(payment: Payment[TextSummaryValues], meter: Payment[TokenMeterValues]) -> None:
    payment.report({"imput-tokens": 7})
    payment.report({"input-tokens": 0.5})
    payment.report({"input-tokens": 7}, output_tokens=2)
    meter.report({"output_tokens": 1})
    TokenMeter.Values(input_token=1)
    TextSummary.SELS
    key: IntegrationKey = "text_sumary"
    print(key)
"""
WRONG_LINES = {7, 8, 9, 10, 11, 12, 13}


@pytest.fixture(scope="module")
def folder(service: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("seller")
    ran = in_pipe(["contracts", "--python", "--output", str(made / "contracts.py")], service)
    assert (ran.status, ran.stdout) == (0, f"Wrote {made / 'contracts.py'}.\n")
    (made / "right.py").write_text(RIGHT)
    (made / "wrong.py").write_text(WRONG)
    return made


@pytest.mark.full  # without a cache it takes five times as long as pyright
def test_mypy_accepts_the_right_names_and_no_others(folder: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".cache", "--no-color-output"]
    ran = subprocess.run(
        [*command, "contracts.py", "right.py", "wrong.py"], cwd=folder, capture_output=True, text=True
    )
    found = [line.split(":")[:2] for line in ran.stdout.splitlines() if ": error:" in line]
    assert {(name, int(line)) for name, line in found} == {("wrong.py", line) for line in WRONG_LINES}, (
        ran.stdout
    )


def test_pyright_accepts_the_right_names_and_no_others(folder: Path) -> None:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    (folder / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportUnusedExpression": false}'
    )
    ran = subprocess.run([*command], cwd=folder, capture_output=True, text=True)
    errors = [line.strip().split(" - error")[0] for line in ran.stdout.splitlines() if " - error" in line]
    found = {(Path(error.split(":")[0]).name, int(error.split(":")[1])) for error in errors}
    assert found == {("wrong.py", line) for line in WRONG_LINES}, ran.stdout


def test_the_module_works_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "contracts", raising=False)
    contracts = __import__("contracts")
    payment = Payment("txn_1")
    payment.report(contracts.TextSummary.Values({"input-tokens": 7}))
    assert payment.values == {"input-tokens": "7"}

    @paid(contracts.TextSummary.SELLS)
    async def endpoint(request: object) -> None: ...

    assert endpoint is not None
    monkeypatch.delitem(sys.modules, "contracts")


def test_the_docs_sell_with_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("FAREGATE_BASE_URL", "emulator:")
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/commands.md").read_text(), re.DOTALL)
    with serving(run(code).app) as seller:
        url = f"{seller}/summary?text=one+two"
        unpaid = httpx.get(url)
        proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
        paid_for = httpx.get(url, headers={"PAYMENT-SIGNATURE": proof})
    assert (unpaid.status_code, paid_for.status_code) == (402, 200)


def test_a_terminal_gets_the_same_module(service: dict[str, str], folder: Path) -> None:
    ran = in_terminal(["contracts", "--python"], service, columns=40)
    assert ran.stdout.rstrip("\n") == (folder / "contracts.py").read_text().rstrip("\n")
    assert in_pipe(["contracts", "--python"], service).stdout == (folder / "contracts.py").read_text()


def test_texts_of_the_account_are_not_code() -> None:
    revision = ContractRevision.model_validate(
        {
            "title": "x",
            "properties": {
                "class": {
                    "description": "",
                    "x-svc-label": 'a"""\nimport os  # \\',
                    "x-svc-unit": "\u2028",
                    "x-svc-position": 0,
                }
            },
            "required": [],
            "x-svc-settlement-asset": "USDC",
            "x-svc-revision-id": f"acr_{'0' * 12}7{'0' * 3}8{'0' * 15}",
            "x-svc-revision-number": 1,
            "x-svc-revision-name": "r",
            "x-svc-resource-id": f"res_{'0' * 12}7{'0' * 3}8{'0' * 15}",
            "x-svc-resource-name": 'b"""\nimport sys\\',
            "x-svc-resource-description": '"',
            "x-svc-resource-integration-key": "some_key",
        }
    )
    found: dict[str, object] = {}
    exec(compile(build_module([revision]), "contracts.py", "exec"), found)
    assert "os" not in found
    assert "sys" not in found
    assert "SomeKey" in found
    exec(compile(build_module([]), "contracts.py", "exec"), {})
