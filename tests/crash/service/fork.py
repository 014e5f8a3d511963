"""What a node goes on to answer that does not follow a reorganisation."""

from typing import Any

from tests.crash.service.environment import SAFE_BEHIND
from tests.support.chain import LocalChain
from tests.support.rpc_proxy import Change


class Fork:
    """The latest blocks of a chain, with their logs and receipts, as they are now."""

    def __init__(self, chain: LocalChain) -> None:
        head = chain.head
        self._first = max(0, head - SAFE_BEHIND)
        self._blocks: dict[int, Any] = {
            number: chain.call("eth_getBlockByNumber", hex(number), False)
            for number in range(self._first, head + 1)
        }
        span = {"fromBlock": hex(self._first), "toBlock": hex(head)}
        self._logs: list[dict[str, Any]] = chain.call("eth_getLogs", span)
        self._receipts: dict[str, Any] = {
            name: chain.call("eth_getTransactionReceipt", name)
            for name in {log["transactionHash"] for log in self._logs}
        }

    def build_change(self) -> dict[str, Change]:
        """Build the answers of a node that stays on these blocks."""
        return {
            "eth_getBlockByNumber": self._get_block,
            "eth_getTransactionReceipt": lambda params, result: self._receipts.get(params[0], result),
            "eth_getLogs": self._get_logs,
        }

    def _get_block(self, params: list[Any], result: Any) -> Any:
        if params[0] == "latest":
            return self._blocks[max(self._blocks)]
        number = int(params[0], 16) if params[0].startswith("0x") else -1
        return self._blocks.get(number, result)

    def _get_logs(self, params: list[Any], result: Any) -> Any:
        wanted = params[0]
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        own = [log for log in self._logs if first <= int(log["blockNumber"], 16) <= last]
        older = [log for log in result or () if int(log["blockNumber"], 16) < self._first]
        return older + [log for log in own if matches(log, wanted)]


def matches(log: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether `eth_getLogs` with this filter gives the log, whatever its block."""
    addresses = wanted.get("address", log["address"])
    if log["address"].lower() not in {one.lower() for one in _list(addresses)}:
        return False
    topics: list[str] = log["topics"]
    return all(
        want is None or (at < len(topics) and topics[at] in _list(want))
        for at, want in enumerate(wanted.get("topics", ()))
    )


def _list(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given
