"""Mine a block a second; make trouble with chain, nodes, strangers and database in between."""

import itertools
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final

from faregate.service.chain.abi import encode_call
from tests.crash.service.environment import SAFE_BEHIND, Environment
from tests.crash.service.fork import Fork
from tests.support.chain import RpcRefusal
from tests.support.rpc_proxy import Change

BLOCK_SECONDS: Final = 1.0
_BLOCKS_BETWEEN_HEALINGS: Final = 8
TROUBLES: Final = {
    "none": 70,
    "stuck": 4,
    "dropped": 12,
    "reorganised": 6,
    "loosened": 8,
    "down": 5,
    "behind": 6,
    "hanging": 4,
    "lagging": 4,
    "lying": 4,
    "forked": 4,
    "half_open": 3,
    "database": 3,
    "restored": 5,
}
"""How often each happens. `loosened`: a reorganisation that takes back payments that have succeeded.

`hanging`, `lagging`, `lying` and `forked` are troubles of one node. A lying node denies that anything was
received; a forked one goes on showing what a reorganisation has replaced.
"""
_DOWN_SECONDS: Final = 2.0
_BEHIND: Final = 3
_HANGING_SECONDS: Final = 6.0
_WRONG_SECONDS: Final = 6.0
"""For so long one node is behind, lies, or is on a fork."""
_UNUSED: Final = "0x" + "00" * 32
_USE: Final = encode_call("authorizationState(address,bytes32)", _UNUSED[:42], _UNUSED)[:10]
_USE_OF_PERMIT2: Final = encode_call("nonceBitmap(address,uint256)", _UNUSED[:42], 0)[:10]
"""How the calls begin that ask whether an authorization was used."""
_HALF_OPEN: Final = 300
"""Connections that send the half of a head."""
_OLDEST_COPY: Final = 5
"""Blocks between a copy of the database and its return."""
_FIRST_BLOCKS: Final = 10
"""Which are not replaced: they have the contracts, the first money and the approvals of it."""
_START_SECONDS: Final = 10.0
"""A process that was starting while PostgreSQL was away has ended by then."""


class Trouble(threading.Thread):
    """Mines until `end`; makes trouble until `heal`: by chance or `names` by turns, and none of `avoids`."""

    def __init__(
        self, environment: Environment, seed: int, names: Sequence[str] = (), avoids: Sequence[str] = ()
    ) -> None:
        super().__init__(daemon=True)
        self._environment, self._chance = environment, random.Random(seed)
        self._weights = {name: weight for name, weight in TROUBLES.items() if name not in avoids}
        self._names = itertools.cycle([name for name in names if name in self._weights]) if names else None
        self._restores_in = 0
        """Blocks until the copy of the database is put back; 0 if there is none."""
        self._heal, self._end = threading.Event(), threading.Event()
        self.made: Counter[str] = Counter()

    def heal(self) -> None:
        self._heal.set()

    def end(self) -> None:
        self._end.set()
        self.join()

    def run(self) -> None:
        self._environment.chain.set_automine(False)
        blocks_healed = 0
        while not self._end.wait(BLOCK_SECONDS):
            if not self._heal.is_set():
                self._make_trouble()
            else:
                # What waits with a gap before it would wait for ever. A settlement that is under way just now
                # may leave another gap, so this is repeated, as an operator would.
                if blocks_healed % _BLOCKS_BETWEEN_HEALINGS == 0:
                    self._environment.chain.call("anvil_dropAllTransactions")
                    self._restart_facilitator()
                blocks_healed += 1
            self._environment.chain.mine()

    def _make_trouble(self) -> None:
        if self._restores_in:
            self._restores_in -= 1
            if not self._restores_in:
                self._put_back()
        name = self._choose()
        if name == "none" or (name == "database" and self._environment.postgres is None):
            return
        if getattr(self, f"_be_{name}")() is not False:
            self.made[name] += 1

    def _choose(self) -> str:
        if self._names is not None:
            # Not before something is sold.
            return next(self._names) if self._environment.chain.head > _FIRST_BLOCKS else "none"
        return self._chance.choices(list(self._weights), list(self._weights.values()))[0]

    def _be_stuck(self) -> None:
        self._heal.wait(4.0)

    def _be_dropped(self) -> bool:
        """Forget a waiting transaction: of each sender but ours the last one, for others leave no gap."""
        pending: dict[str, dict[str, Any]] = self._environment.chain.call("txpool_content")["pending"]
        sender = self._chance.choice(sorted(pending)) if pending else None
        if sender is None:
            return False
        last = max(pending[sender].items(), key=lambda one: int(one[0]))
        chosen = self._chance.choice(list(pending[sender].items())) if self._environment.is_direct else last
        self._environment.chain.drop(chosen[1]["hash"])
        self._restart_facilitator()
        return True

    def _be_reorganised(self) -> bool:
        """Replace the latest block by an empty one, and forget what waits: it would leave gaps."""
        return self._reorganise(1)

    def _be_loosened(self) -> bool:
        """Replace all blocks that are not safe, with the transfers of payments that have succeeded."""
        is_done = self._reorganise(SAFE_BEHIND)
        self._environment.loosened += is_done
        return is_done

    def _reorganise(self, depth: int) -> bool:
        if self._environment.chain.head < _FIRST_BLOCKS:
            return False
        try:
            self._environment.chain.reorganise(depth)
        except RpcRefusal:
            return False
        self._environment.chain.call("anvil_dropAllTransactions")
        # Anvil goes on from the time of the block that is gone. Behind by minutes after many, it would never
        # prove in time that an authorization has expired.
        self._environment.chain.call("evm_setTime", int(time.time()))
        self._restart_facilitator()
        return True

    def _restart_facilitator(self) -> None:
        """The official one does not find back by itself once the chain has lost its transactions."""
        if self._environment.real is not None:
            self._environment.real.restart()

    def _be_down(self) -> None:
        for node in self._environment.nodes:
            node.status = 503
        self._heal.wait(_DOWN_SECONDS)
        for node in self._environment.nodes:
            node.status = 200

    def _be_hanging(self) -> None:
        """The preferred node takes requests and does not answer."""
        preferred, _ = self._environment.nodes
        preferred.answers.clear()
        threading.Timer(_HANGING_SECONDS, preferred.answers.set).start()

    def _be_half_open(self) -> None:
        """A stranger opens connections, and ends none of the requests that it begins."""
        connections: list[socket.socket] = []
        for _ in range(_HALF_OPEN):
            connection = socket.socket()
            connection.settimeout(0.2)
            with suppress(OSError):
                connection.connect(self._environment.listener.getsockname())
                connection.sendall(b"POST /merchant/v1/access HTTP/1.1\r\nHost: service\r\n")
            connections.append(connection)
        threading.Timer(_HANGING_SECONDS, _close, [connections]).start()

    def _be_restored(self) -> bool:
        """Copy the database. Some blocks later it takes the place of what was sold meanwhile."""
        if not self._restores_in:
            self._environment.copies.copy()
            self._restores_in = self._chance.randint(1, _OLDEST_COPY)
        return False  # counted when it is put back

    def _put_back(self) -> None:
        with self._environment.gate.closed():
            self._environment.copies.put_back()
        self.made["restored"] += 1

    def _be_behind(self) -> None:
        """The nodes know no block of the last few seconds."""
        for node in self._environment.nodes:
            node.change = self._stand_still()
        threading.Timer(_DOWN_SECONDS, self._catch_up).start()

    def _be_lagging(self) -> None:
        """One node knows no block of the last few seconds."""
        self._change_one(self._stand_still())

    def _be_lying(self) -> None:
        """One node denies that anything was received, and that any authorization was used.

        Sometimes it does not deny the nonces of Permit2, as one that has lost its logs and receipts.
        """
        uses = self._chance.choice(((_USE,), (_USE, _USE_OF_PERMIT2)))
        self._change_one(
            {
                "eth_getLogs": lambda _params, _result: [],
                "eth_getTransactionReceipt": lambda _params, _result: None,
                "eth_call": lambda params, result: _UNUSED if _asks(params, uses) else result,
            }
        )

    def _be_forked(self) -> bool:
        """A reorganisation takes back what has succeeded, and one node does not follow."""
        if self._environment.chain.head < _FIRST_BLOCKS:
            return False
        change = Fork(self._environment.chain).build_change()
        self._change_one(change)
        return self._be_loosened()

    def _change_one(self, change: dict[str, Change]) -> None:
        self._chance.choice(self._environment.nodes).change = change
        threading.Timer(_WRONG_SECONDS, self._catch_up).start()

    def _stand_still(self) -> dict[str, Change]:
        """Answer as of some blocks ago, when asked for the latest one."""
        chain = self._environment.chain
        behind = max(0, chain.head - _BEHIND)

        def hide_blocks(params: list[Any], result: Any) -> Any:
            if params[0] != "latest":
                return result
            return chain.call("eth_getBlockByNumber", hex(behind), False)

        return {
            "eth_getBlockByNumber": hide_blocks,
            "eth_blockNumber": lambda _params, _result: hex(behind),
        }

    def _catch_up(self) -> None:
        for node in self._environment.nodes:
            node.change = {}

    def _be_database(self) -> None:
        """PostgreSQL is killed, and started again."""
        assert self._environment.postgres is not None
        self._environment.database_back_at = inf
        self._environment.postgres.kill()
        time.sleep(0.3)
        self._environment.postgres.start()
        self._environment.database_back_at = time.monotonic() + _START_SECONDS


def _close(connections: list[socket.socket]) -> None:
    for connection in connections:
        connection.close()


def _asks(params: list[Any], calls: tuple[str, ...]) -> bool:
    data: str = params[0].get("data", "")
    return data.startswith(calls)
