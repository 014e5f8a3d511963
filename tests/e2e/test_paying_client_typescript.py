"""`examples/payer/typescript`: the official client for fetch, with a fetch that keeps its payment."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from examples.chain.typescript_payer import NoTypeScript, install_client

from faregate.core.models import Response
from faregate.rules.published_payers import TEST_PAYERS
from tests.e2e.example_seller import Market
from tests.pay.seller import build_json_reply, deliver, require_payment, run_seller
from tests.servers.shared import need
from tests.support.preloaded import ROOT

SETTLING = build_json_reply(202, "payment_settling", ("Retry-After", "0"), transaction_id="txn_1")
GATEWAY = Response(502, (), b"<h1>Bad Gateway</h1>")


@pytest.fixture(scope="module")
def installed() -> Path:
    try:
        return install_client(ROOT / "examples/payer/typescript")
    except NoTypeScript as error:
        need("npm", str(error))
        raise


def buy(installed: Path, url: str, file: Path, payer: str = "good") -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "PAYER_KEY": TEST_PAYERS[payer].private_key}
    words = ["node", "buy.mjs", url, str(file)]
    return subprocess.run(words, cwd=installed, env=environ, capture_output=True, text=True, timeout=120)


def read_result(ran: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert ran.returncode == 0, ran.stderr
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


@pytest.mark.parametrize("payer", ["good", "reads", "slow"])
@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_a_payment_is_charged_once_however_late_it_settles(
    installed: Path, seller: Market, payer: str, tmp_path: Path
) -> None:
    result = read_result(buy(installed, f"{seller.seller}/report", tmp_path / "payment", payer))

    assert "Sunny" in result["body"]
    assert [one.status for one in seller.transactions()] == ["succeeded"]
    assert not (tmp_path / "payment").exists()


def test_the_next_program_continues_with_the_kept_payment(installed: Path, tmp_path: Path) -> None:
    kept = tmp_path / "payment"
    with run_seller() as seller:
        seller.script_replies(
            require_payment(), SETTLING, GATEWAY, None, build_json_reply(409, "proof_already_used")
        )
        stopped = buy(installed, seller.url, kept)
        assert "may be charged" in stopped.stderr
        [first] = {*seller.proofs}
        assert kept.read_text() == f"{first}\n"
        assert kept.stat().st_mode & 0o777 == 0o600

        seller.script_replies(deliver())
        assert read_result(buy(installed, seller.url, kept))["body"] == "the result"
        assert seller.proofs == [first]
        assert not kept.exists()


def test_a_402_never_leads_to_a_second_payment_unless_nothing_was_charged(
    installed: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "payment"
    with run_seller() as seller:
        seller.script_replies(require_payment(), SETTLING, require_payment())
        assert "may be charged" in buy(installed, seller.url, kept).stderr
        [first] = {*seller.proofs}

        seller.script_replies(build_failed(), require_payment(), deliver())
        assert read_result(buy(installed, seller.url, kept))["body"] == "the result"
        again, second = seller.proofs
        assert again == first
        assert second != first


def build_failed() -> Response:
    header = require_payment().first("payment-required") or ""
    return build_json_reply(402, "payment_required", ("PAYMENT-REQUIRED", header), transaction_id="txn_1")


def test_a_file_that_was_half_written_was_never_sent(installed: Path, tmp_path: Path) -> None:
    kept = tmp_path / "payment"
    kept.write_text("eyJ4NDAy")
    with run_seller() as seller:
        seller.script_replies(require_payment(), deliver())
        assert read_result(buy(installed, seller.url, kept))["body"] == "the result"


def test_the_docs_show_the_file() -> None:
    shown = (ROOT / "docs/paying-client.md").read_text()
    assert (ROOT / "examples/payer/typescript/keep.mjs").read_text() in shown
