"""Each case of the runbook: the commands of its page, in its order, and what it says that they do."""

import re
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from examples.chain.facilitator import GAS_KEYS, FacilitatorProcess

from faregate.emulator import Wallet
from faregate.system import system_clock
from faregate.x402.eip712 import derive_address
from tests.servers.postgres import POSTGRES_MISSING, PostgresServer
from tests.servers.shared import need
from tests.service.runbook import PRICE, RECIPIENT, Site, open_site
from tests.support.chain import USDC, ChainPayer, LocalChain, chain, payer
from tests.support.facilitators import run_facilitator
from tests.support.rpc_proxy import serve_rpc_proxy
from tests.support.waiting import eventually

__all__ = ["chain", "payer"]
ID = "txn_..."
KEY = "key_..."
OTHER = "0x1111111111111111111111111111111111111111"
STATE = "0xe94a0102"
"""The selector of `authorizationState`."""


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    need("postgres", POSTGRES_MISSING)
    made = PostgresServer()
    with made.serving():
        yield made


@pytest.fixture
def facilitator(chain: LocalChain) -> Generator[FacilitatorProcess]:
    with run_facilitator(chain.url) as process:
        yield process


@pytest.fixture
def site(
    tmp_path: Path,
    chain: LocalChain,
    payer: ChainPayer,
    server: PostgresServer,
    facilitator: FacilitatorProcess,
) -> Generator[Site]:
    """A service that settles through the official facilitator."""
    settings = {"payments": "facilitator", "facilitator_test": facilitator.url}
    with open_site(tmp_path, chain, payer, server, **settings) as site:
        yield site


@pytest.fixture
def direct(tmp_path: Path, chain: LocalChain, payer: ChainPayer, server: PostgresServer) -> Generator[Site]:
    """A service that settles from its own gas account."""
    write_key(tmp_path / "gas.key", GAS_KEYS[1])
    with open_site(tmp_path, chain, payer, server, payments="direct", gas_key="file:gas.key") as site:
        yield site


def write_key(file: Path, key: str) -> str:
    """Write the key of an account, and return its address."""
    file.write_text(key)
    file.chmod(0o600)
    return derive_address(bytes.fromhex(key.removeprefix("0x").strip()))


def test_postgres_is_restored(site: Site) -> None:
    title = "Restore PostgreSQL"
    kept = site.sell()
    unfinished, proof = site.authorize()
    site.play(title)
    site.shop.complete(unfinished, proof)
    assert site.shop.wait_for_end(unfinished)["status"] == "succeeded"
    lost = site.sell()

    said = site.play(title, 1)

    assert "is ready." in said
    assert "error" not in said
    hashes = re.findall(r"DIFFERENT (0x\w+): not in the books: 0.05 USDC", said)
    assert len(hashes) == 1
    assert f"DIFFERENT {unfinished}: 0.05 USDC, authorized in the books; settled on the chain by 0x" in said
    sums = "settled 0.05 USDC; on the chain 0.15 USDC"
    assert f"{sums}; differences: 1 missing (+0.05 USDC), 1 charged (+0.05 USDC)." in said
    assert site.shop.read(kept)["status"] == "succeeded"
    assert site.shop.call("GET", f"/transactions/{lost}").status_code == 404
    # Its seller completes it again: the chain proves it, and nothing is sent.
    assert site.shop.complete(unfinished, proof).json()["status"] == "succeeded"
    assert site.received == 3
    site.sell()
    assert site.run("faregate service reconcile --all").endswith("differences: 1 missing (+0.05 USDC).\n")


def test_an_api_key_is_replaced(site: Site) -> None:
    title, old = "An API key is lost", site.shop.key
    sold, proof = site.authorize()
    said = site.play(title)
    [new] = re.findall(r"(svc_test_\w+)\n", said)
    [old_id] = re.findall(rf"(key_\w+)  svc_test_…{old[-4:]}", said)
    site.shop.key = new
    site.play(title, 1, **{KEY: old_id})
    assert site.shop.complete(sold, proof).json()["status"] == "succeeded"
    site.shop.key = old
    assert site.shop.call("GET", "/contracts").status_code == 401


def test_a_gas_account_is_replaced(direct: Site) -> None:
    chain = direct.chain
    direct.sell()
    chain.set_automine(False)
    sold, proof = direct.authorize()
    assert direct.shop.complete(sold, proof).status_code == 202
    direct.stop()
    chain.call("anvil_dropAllTransactions")
    (direct.folder / "gas.key").unlink()
    refused = "gas_key: the file gas.key cannot be read: No such file or directory"
    assert refused in direct.run("faregate service serve --port 0")
    assert refused in direct.run("faregate service doctor")

    chain.set_automine(True)
    direct.settings["FAREGATE_SERVICE_GAS_KEY"] = "file:gas-2.key"
    # The account needs its ether before the commands that follow its key.
    make, _, rest = direct.find_commands("The gas key is lost").partition("faregate service doctor")
    direct.run_all(make)
    address = write_key(direct.folder / "gas-2.key", (direct.folder / "gas-2.key").read_text())
    chain.fund(address)
    said = direct.run_all("faregate service doctor" + rest)

    assert f"ok      gas account {address} in test: has 1.000000 ETH" in said
    assert direct.shop.wait_for_end(sold)["status"] == "succeeded"
    assert direct.received == 2


def test_a_console_session_ends_with_its_key(site: Site) -> None:
    title = "A stranger was at the console"
    block = site.find_commands(title).splitlines()
    key = re.findall(r"svc_test_\w+", site.run(block[2]))[0]
    with httpx.Client(base_url=site.shop.url, trust_env=False) as browser:
        logged_in = browser.post("/console/login", data={"key": key}, headers={"Origin": site.shop.url})
        assert (logged_in.status_code, browser.get("/console").status_code) == (303, 200)
        [key_id] = re.findall(rf"(key_\w+)  svc_test_…{key[-4:]}", site.run(block[0]))
        site.run(block[1].replace(KEY, key_id))
        assert browser.get("/console").headers["location"] == "/console/login"


def test_a_node_that_lies_is_found(
    tmp_path: Path,
    chain: LocalChain,
    payer: ChainPayer,
    server: PostgresServer,
    facilitator: FacilitatorProcess,
) -> None:
    title = "A node lies"
    with serve_rpc_proxy(chain.url) as liar:
        settings = {"payments": "facilitator", "facilitator_test": facilitator.url}
        urls = f"{liar.url},{chain.url}"
        with open_site(tmp_path, chain, payer, server, rpc_test=urls, **settings) as site:
            settled = site.sell()
            liar.change["eth_getLogs"] = lambda _params, _result: []
            liar.change["eth_getTransactionReceipt"] = lambda _params, _result: None
            liar.change["eth_call"] = lambda params, result: (
                "0x" + "00" * 32 if params[0]["data"].startswith(STATE) else result
            )
            disputed, proof = site.authorize()
            assert site.shop.complete(disputed, proof).status_code == 202
            assert eventually(lambda: site.shop.read(disputed)["status"] == "reconciling")
            chain.advance_time(60)
            places = {"https://node-a.example": liar.url, "https://node-b.example": chain.url}
            said = site.play(title, 0, **places)
            assert f"DIFFERENT {settled}: 0.05 USDC, succeeded in the books by 0x" in said
            by_liar, by_honest = (line for line in said.splitlines() if line.startswith("test, "))
            assert "on the chain nothing; differences: 1 unpaid (-0.05 USDC)." in by_liar
            assert "2 payments, 1 open" in by_honest
            assert "on the chain 0.05 USDC; no differences." in by_honest
            site.settings["FAREGATE_SERVICE_RPC_TEST"] = chain.url
            # A worker that is stopped in an attempt keeps its lease for a minute.
            assert eventually(
                lambda: "lease_until" not in site.run(f"faregate service payment show {disputed}")
            )
            site.play(title, 1)
            assert site.shop.wait_for_end(disputed)["status"] == "succeeded"
            assert "on the chain 0.10 USDC; no differences." in site.run("faregate service reconcile --all")
    assert site.received == 2


def test_another_facilitator_takes_over(site: Site, facilitator: FacilitatorProcess) -> None:
    title = "The facilitator is gone"
    sold, proof = site.authorize()
    facilitator.kill()
    asked = site.shop.access()
    signed = Wallet(site.payer.private_key, clock=system_clock).pay(asked.headers["PAYMENT-REQUIRED"])
    assert site.shop.access(signed).status_code == 503
    assert site.shop.complete(sold, proof).status_code == 202
    said = site.play(title, 0, **{ID: sold})
    assert "no answer: ConnectionRefusedError: Errno 111 Connection refused. Start it, mend its URL" in said
    assert re.search(r"attempt +number 1, .*, answer .*: no answer: ConnectionRefusedError", said)
    with run_facilitator(site.chain.url, gas_key=GAS_KEYS[2]) as other:
        site.settings["FAREGATE_SERVICE_FACILITATOR_TEST"] = f"{facilitator.url},{other.url}"
        said = site.play(title, 1)
        assert f"{other.url.removeprefix('http://')}: settles on eip155:84532" in said
        assert site.shop.wait_for_end(sold)["status"] == "succeeded"
        assert site.shop.access(signed).status_code == 200


def test_the_gas_account_is_filled(direct: Site) -> None:
    title, address = "Gas is empty", derive_address(bytes.fromhex(GAS_KEYS[1][2:]))
    sold, proof = direct.authorize()
    direct.chain.fund(address, 10**12)
    assert direct.shop.complete(sold, proof).status_code == 202
    said = direct.play(title, 0, **{ID: sold})
    assert f"error   gas account {address} in test: the gas account {address} has 0.000001 ether" in said
    assert re.search(r"attempt +number 1, .*a transfer may take 0\.\d+: send it some", said)
    direct.chain.fund(address)
    retry, reconcile = direct.find_commands(title, 1).splitlines()
    said = direct.run(retry.replace(ID, sold))
    # The service tries again by itself: it may be at it, or have ended the payment, before the command is.
    assert sold in said
    assert direct.shop.wait_for_end(sold)["status"] == "succeeded"
    assert "on the chain 0.05 USDC; no differences." in direct.run(reconcile)


def test_a_seller_is_paid_elsewhere(site: Site) -> None:
    title, catalog = "A seller's address changes", site.folder / "catalog.toml"
    sold, proof = site.authorize()
    asked = site.shop.access()
    catalog.write_text(catalog.read_text().replace(RECIPIENT, OTHER))
    said = site.play(title)
    assert f"test  the seller: changed (My shop, paid to {OTHER} instead of {RECIPIENT}, id my-shop)" in said
    assert "give --yes" in said
    assert site.shop.access().headers["PAYMENT-REQUIRED"]
    said = site.play(title, 1)
    assert f"is paid at {OTHER}" in said

    signed = Wallet(site.payer.private_key, clock=system_clock).pay(asked.headers["PAYMENT-REQUIRED"])
    refused = site.shop.access(signed)
    assert (refused.status_code, refused.json()["message"]) == (402, f"accepted.payTo must be {OTHER}")
    assert site.shop.complete(sold, proof).json()["status"] == "succeeded"
    site.sell()
    assert (site.received, site.chain.get_balance(USDC, OTHER)) == (1, PRICE)
    assert "on the chain 0.10 USDC; no differences." in site.run("faregate service reconcile --all")


def test_tables_are_upgraded_while_the_service_sells(site: Site) -> None:
    """The page tells of two versions. Here both are this one."""
    sold, proof = site.authorize()
    said = site.play("Upgrade with two versions running")
    assert "is ready." in said
    assert site.shop.complete(sold, proof).json()["status"] == "succeeded"
    site.sell()
