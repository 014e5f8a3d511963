"""What a sale with the service inside costs at least: its calls and its commits, and nothing else.

    .venv-faregate/bin/python benchmarks/sale_floor.py

A facilitator and a node (`chain.py`) are called seven times over the transport of faregate, and a row of
SQLite is written eight times, two of them synced, in the order of a sale. No rule, signature or thread.
"""

import json
import secrets
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from faregate.transports.http1 import Http1Transport

HERE: Final = Path(__file__).resolve().parent
SALES: Final = 500
_JSON: Final = (("Content-Type", "application/json"),)
_USED, _BALANCE = "0xe94a0102", "0x70a08231"


class Floor:
    """The calls and the commits of sales, one after the other."""

    def __init__(self, url: str, folder: str) -> None:
        self._url, self._transport = url, Http1Transport()
        self._database = sqlite3.connect(f"{folder}/sales.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("CREATE TABLE sales (nonce TEXT PRIMARY KEY, row TEXT)")

    def sell(self) -> None:
        nonce = f"0x{secrets.token_hex(32)}"
        authorization = {"from": f"0x{1:040x}", "to": f"0x{2:040x}", "value": "10000", "nonce": nonce}
        payment = {
            "paymentPayload": {"payload": {"authorization": authorization, "signature": "0x" + "5a" * 65}}
        }
        self._write("INSERT INTO sales (row, nonce) VALUES (?, ?)", nonce)  # the claim
        self._ask("eth_call", {"data": f"{_USED}{0:064x}{nonce[2:]}"}, "latest")
        self._ask("eth_call", {"data": _BALANCE}, "latest")
        self._call("/verify", payment)
        self._update(nonce)  # the authorization
        self._update(nonce, is_synced=True)  # the transaction's id, before work begins
        self._update(nonce)  # the outcome, before the completion
        self._update(nonce, is_synced=True)  # the outcome and the attempt, before something is sent
        self._call("/settle", payment)
        self._update(nonce)  # the answer
        receipt = self._ask("eth_getTransactionReceipt", nonce)
        self._ask("eth_getBlockByNumber", "latest", False)
        self._ask("eth_getBlockByNumber", receipt["blockNumber"], False)
        self._update(nonce)  # the receipt
        self._update(nonce)  # the settlement

    def close(self) -> None:
        self._transport.close()
        self._database.close()

    def _call(self, path: str, body: Any) -> Any:
        given = json.dumps(body).encode()
        return json.loads(self._transport.send("POST", self._url + path, _JSON, given, 5).body)

    def _ask(self, method: str, *params: Any) -> Any:
        return self._call("/rpc", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})["result"]

    def _update(self, nonce: str, *, is_synced: bool = False) -> None:
        self._write("UPDATE sales SET row = ? WHERE nonce = ?", nonce, is_synced=is_synced)

    def _write(self, statement: str, nonce: str, *, is_synced: bool = False) -> None:
        self._database.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
        self._database.execute(statement, (secrets.token_hex(300), nonce))


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("chain.py did not start")


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    chain = subprocess.Popen([sys.executable, str(HERE / "chain.py"), str(port)])
    try:
        _wait_for(port)
        with tempfile.TemporaryDirectory() as folder:
            floor = Floor(f"http://127.0.0.1:{port}", folder)
            for _ in range(100):
                floor.sell()
            cpu, began = time.process_time(), time.perf_counter()
            for _ in range(SALES):
                floor.sell()
            cpu, took = time.process_time() - cpu, time.perf_counter() - began
            floor.close()
        print(
            f"{SALES / took:,.0f} sales/s, {took / SALES * 1000:.2f} ms, {cpu / SALES * 1e6:,.0f} us of CPU"
        )
    finally:
        chain.terminate()
        chain.wait()


if __name__ == "__main__":
    main()
