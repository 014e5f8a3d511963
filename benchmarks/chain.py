"""An x402 facilitator and a node of its chain, in one process, that agree to everything at once.

    python benchmarks/chain.py PORT

What was settled stands in a block that is deep enough. `GET /status` counts connections and requests. Nothing
is verified, so its cost is small: a contestant is to be measured, with the calls that it makes.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

CHAIN: Final = "eip155:84532"
TOKEN: Final = "0x036cbd53842c5426634e7929541ec2318f3dcf7e"
USED: Final = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
TRANSFER: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
_BALANCE_OF: Final = "0x70a08231"
_AUTHORIZATION_STATE: Final = "0xe94a0102"
_DEEP: Final = 20
Json = dict[str, Any]


class Chain:
    """What was settled. The hash of a transaction is the nonce of its payment."""

    def __init__(self) -> None:
        self.settled: dict[str, Json] = {}
        self._logs: dict[int, list[Json]] = {}
        self.connections = self.requests = 0

    # The facilitator

    def verify(self, body: Json) -> Json:
        return {"isValid": True, "payer": _get_authorization(body)["from"]}

    def settle(self, body: Json) -> Json:
        payment = _get_authorization(body)
        if payment["nonce"].lower() not in self.settled:
            self.settled[payment["nonce"].lower()] = {"logs": self._write_logs(payment)}
        return {
            "success": True,
            "transaction": payment["nonce"],
            "network": CHAIN,
            "payer": payment["from"],
        }

    def _write_logs(self, payment: Json) -> list[Json]:
        number = _find_head() - _DEEP
        block = self._logs.setdefault(number, [])
        place = {
            "address": TOKEN,
            "blockNumber": hex(number),
            "blockHash": f"0x{number:064x}",
            "transactionHash": payment["nonce"].lower(),
        }
        payer, recipient = (f"0x{payment[name][2:].lower():0>64}" for name in ("from", "to"))
        used = {"topics": [USED, payer, payment["nonce"].lower()], "data": "0x"}
        moved = {"topics": [TRANSFER, payer, recipient], "data": f"0x{int(payment['value']):064x}"}
        written = [{**log, **place, "logIndex": hex(len(block) + n)} for n, log in enumerate((used, moved))]
        block += written
        return written

    def list_kinds(self, _body: Json) -> Json:
        kind = {"x402Version": 2, "scheme": "exact", "network": CHAIN}
        return {"kinds": [kind], "extensions": [], "signers": {}}

    def count(self, _body: Json) -> Json:
        return {"connections": self.connections, "requests": self.requests}

    # The node

    def call(self, body: Json) -> Json:
        result = getattr(self, f"_{body['method']}")(*body["params"])
        return {"jsonrpc": "2.0", "id": body["id"], "result": result}

    def _eth_chainId(self) -> str:  # noqa: N802 - the name of the method
        return hex(84532)

    def _eth_getBlockByNumber(self, at: str, _whole: bool) -> Json:  # noqa: N802
        number = int(at, 16) if at.startswith("0x") else _find_head() - (_DEEP if at == "safe" else 0)
        return {"number": hex(number), "hash": f"0x{number:064x}", "timestamp": hex(int(time.time()))}

    def _eth_call(self, call: Json, _at: str) -> str:
        data: str = call["data"]
        if data.startswith(_BALANCE_OF):
            return f"0x{10**15:064x}"
        assert data.startswith(_AUTHORIZATION_STATE), data
        return f"0x{int('0x' + data[-64:] in self.settled):064x}"

    def _eth_getLogs(self, wanted: Json) -> list[Json]:  # noqa: N802
        blocks = range(int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16) + 1)
        return [
            log for number in blocks for log in self._logs.get(number, ()) if _matches(log, wanted["topics"])
        ]

    def _eth_getTransactionReceipt(self, transaction: str) -> Json | None:  # noqa: N802
        payment = self.settled.get(transaction.lower())
        if payment is None:
            return None
        logs = payment["logs"]
        place = {name: logs[0][name] for name in ("blockNumber", "blockHash", "transactionHash")}
        return {**place, "status": "0x1", "logs": logs}


def _get_authorization(body: Json) -> Json:
    found: Json = body["paymentPayload"]["payload"]["authorization"]
    return found


def _matches(log: Json, topics: list[Any]) -> bool:
    wanted = zip(topics, log["topics"], strict=False)
    return all(want is None or given in ([want] if isinstance(want, str) else want) for want, given in wanted)


def _find_head() -> int:
    return int(time.time()) // 2


class Connection(asyncio.Protocol):
    """HTTP/1.1, as far as its callers speak it: no request before the last was answered."""

    def __init__(self, chain: Chain) -> None:
        self._chain, self._received = chain, bytearray()
        self._paths: dict[bytes, Callable[[Json], Json]] = {
            b"/verify": chain.verify,
            b"/settle": chain.settle,
            b"/supported": chain.list_kinds,
            b"/status": chain.count,
            b"/rpc": chain.call,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._chain.connections += 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, rest = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        _, found, after = head.lower().partition(b"\r\ncontent-length:")
        length = int(after.split(b"\r\n", 1)[0]) if found else 0
        if len(rest) < length:
            return
        self._received = rest[length:]
        self._chain.requests += 1
        answer = self._paths[bytes(head.split(b" ", 2)[1])](json.loads(rest[:length] or b"{}"))
        body = json.dumps(answer).encode()
        start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._transport.write(start % len(body) + body)


async def serve(port: int) -> None:
    chain = Chain()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(chain), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(int(sys.argv[1])))
