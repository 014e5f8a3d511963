"""The adapter that the docs write from nothing sells, on a real socket, as the others do."""

import threading
from collections.abc import Generator
from http.server import ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.server import serve
from faregate.merchant.client import MerchantClient
from tests.support.snippets import ROOT, run

PAGE = ROOT / "docs" / "adapters" / "your-own.md"


def load_adapter() -> Any:
    _, _, rest = PAGE.read_text().partition("<!-- an adapter from nothing -->\n```python\n")
    code, fence, _ = rest.partition("\n```\n")
    assert fence
    return run(code)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    with serve(Emulator()) as url:
        monkeypatch.setenv("FAREGATE_BASE_URL", url)
        monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)
        yield url


@pytest.fixture
def seller(service: str) -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), load_adapter().Seller)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def proof_for(url: str) -> dict[str, str]:
    unpaid = httpx.get(url)
    assert unpaid.status_code == 402
    return {"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])}


def statuses(service: str) -> list[str]:
    with MerchantClient(TEST_KEY, service) as client:
        return [transaction.status or "" for transaction in client.iter_transactions()]


def test_it_sells_and_gives_the_same_again(seller: str, service: str) -> None:
    proof = proof_for(f"{seller}/report")
    first, again = (httpx.get(f"{seller}/report", headers=proof) for _ in range(2))
    assert (first.status_code, first.content) == (200, b"Sunny.")
    assert (again.content, again.headers["PAYMENT-RESPONSE"]) == (
        b"Sunny.",
        first.headers["PAYMENT-RESPONSE"],
    )
    assert statuses(service) == ["succeeded"]


def test_failed_work_is_not_charged(seller: str, service: str) -> None:
    answer = httpx.get(f"{seller}/broken", headers=proof_for(f"{seller}/broken"))
    assert (answer.status_code, "PAYMENT-RESPONSE" in answer.headers) == (500, False)
    assert statuses(service) == ["failed"]


@pytest.mark.parametrize(("method", "status"), [("HEAD", 402), ("OPTIONS", 204)])
def test_other_methods_run_nothing(seller: str, method: str, status: int) -> None:
    answer = httpx.request(method, f"{seller}/report")
    assert (answer.status_code, answer.content) == (status, b"")


def test_two_proofs_are_none(seller: str) -> None:
    proof = proof_for(f"{seller}/report")["PAYMENT-SIGNATURE"]
    doubled = [("PAYMENT-SIGNATURE", proof), ("PAYMENT-SIGNATURE", proof)]
    assert httpx.get(f"{seller}/report", headers=doubled).status_code == 400


def test_what_is_free_is_free(seller: str) -> None:
    assert httpx.get(f"{seller}/").text == "free"
