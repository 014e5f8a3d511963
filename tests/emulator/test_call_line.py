"""`faregate emulator` prints a line for each call, without secrets."""

import signal
import subprocess
import sys

import httpx
import pytest

from faregate.core.models import WireRequest
from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.cli import format_call
from faregate.emulator.delivery import Delivery
from faregate.emulator.tenants import Tenants

from .seller import bearer


def test_a_sale_is_logged_line_by_line() -> None:
    lines = list[str]()
    emulator = Emulator(seed=1)
    served = Tenants(emulator, lambda request, delivery: lines.append(format_call(request, delivery)))

    def call(method: str, path: str, body: object = None, proof: str = "") -> httpx.Response:
        payment = {"PAYMENT-SIGNATURE": proof} if proof else {}
        asked = httpx.Request(method, f"http://x{path}", json=body, headers={**bearer(TEST_KEY), **payment})
        headers = tuple((name, value) for name, value in asked.headers.items())
        found = served.deliver(WireRequest(method, path, headers, asked.read())).response
        return httpx.Response(found.status, headers=list(found.headers), content=found.body)

    revision = emulator.revision_id("daily_report")
    access = {
        "revision_id": revision,
        "settlement_asset": "USDC",
        "resource": {"url": "https://shop.example/report", "mime_type": "text/plain"},
    }
    unpaid = call("POST", "/merchant/v1/access", access)
    proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
    transaction = call("POST", "/merchant/v1/access", access, proof).json()["transaction_id"]
    done = {"revision_id": revision, "outcome": "succeeded", "values": {}}
    call("POST", f"/merchant/v1/transactions/{transaction}/complete", done, proof)
    call("GET", "/merchant/v1/payers?page_size=5")
    call("POST", "/merchant/v1/access", access, "bm9uc2Vuc2U=")
    call("GET", "/merchant/v1/nothing?secret=1")

    assert lines[:4] == [
        "POST /merchant/v1/access  402  payment required",
        f"POST /merchant/v1/access  200  granted  {transaction}",
        f"POST /merchant/v1/transactions/{transaction}/complete  200  succeeded",
        "GET  /merchant/v1/payers  200  1 of 1",
    ]
    assert lines[4].startswith("POST /merchant/v1/access  402  payment refused")
    assert lines[5].startswith("GET  /merchant/v1/nothing  404  ")
    told = "\n".join(lines)
    assert TEST_KEY not in told
    assert proof not in told
    assert "secret" not in told


def test_an_answer_that_does_not_arrive_says_so() -> None:
    emulator = Emulator(seed=1)
    request = WireRequest("GET", "/merchant/v1/payers", (("Authorization", f"Bearer {TEST_KEY}"),))
    line = format_call(request, Delivery(emulator.respond(request), ending="reset"))
    assert line == "GET  /merchant/v1/payers  200  the answer is not delivered (reset)"


@pytest.mark.parametrize(
    ("flags", "told"),
    [([], "GET  /merchant/v1/payers  200  0 of 0\n"), (["--quiet"], "")],
    ids=["calls", "quiet"],
)
def test_the_command_prints_them_on_stderr_unless_it_is_quiet(flags: list[str], told: str) -> None:
    command = [sys.executable, "-m", "faregate", "emulator", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[6]
        httpx.get(f"{url}/merchant/v1/payers", headers=bearer(TEST_KEY), trust_env=False)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert errors == told
