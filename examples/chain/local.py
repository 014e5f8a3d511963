"""A local chain in a test's hands: mint, mine, stop mining, drop, reorganise, and a stranger who sends."""

import itertools
import json
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from eth_utils.address import to_checksum_address

from examples.chain.anvil import NoAnvil, install_anvil, run_anvil
from examples.chain.node_process import run_node
from examples.chain.token import encode_call, encode_creation, encode_transfer
from faregate.x402.models import SignedPayment
from faregate.x402.permit2 import PERMIT2
from faregate.x402.tokens import CHAINS, TOKENS, Token

_SECONDS: Final = 30.0
_GAS: Final = 1_000_000
"""Given with each transaction: an estimate would refuse the ones that are meant to fail."""


class RpcRefusal(Exception):
    """The node answered with an error."""


class LocalChain:
    """A node that can be told what to do. Accounts of its own are unlocked and have ether.

    It has its own JSON-RPC client of a few lines: what checks our client must not be our client.
    """

    def __init__(self, url: str, engine: str = "anvil") -> None:
        self.url = url
        self.engine: Final = engine
        """What runs it, and why it is not anvil, in words for people."""
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._numbers = itertools.count(1)

    def call(self, method: str, *params: Any) -> Any:
        """Call a JSON-RPC method. Raises `RpcRefusal`."""
        request = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        answer = self._opener.open(
            urllib.request.Request(
                self.url, json.dumps(request).encode(), {"Content-Type": "application/json"}
            ),
            timeout=_SECONDS,
        )
        with answer:
            read = json.load(answer)
        if "error" in read:
            raise RpcRefusal(f"{method}: {read['error']}")
        return read["result"]

    # Tokens

    def place_token(self, token: Token) -> None:
        """Put the token's code at its address."""
        self.call(
            "anvil_setCode", token.address, self.call("eth_call", {"data": encode_creation(token)}, "latest")
        )

    def mint(self, token: Token, address: str, amount: int) -> str:
        return self.send(token.address, encode_call("mint(address,uint256)", address, amount))

    def get_balance(self, token: Token, address: str) -> int:
        return self._read(token, encode_call("balanceOf(address)", address))

    def is_authorization_used(self, token: Token, payer: str, nonce: str) -> bool:
        """Return whether the authorization was used or cancelled."""
        if nonce.isdecimal():
            word, bit = divmod(int(nonce), 256)
            bits = self.call(
                "eth_call",
                {"to": PERMIT2, "data": encode_call("nonceBitmap(address,uint256)", payer, word)},
                "latest",
            )
            return bool(int(bits, 16) >> bit & 1)
        return self._read(token, encode_call("authorizationState(address,bytes32)", payer, nonce)) == 1

    def get_domain_separator(self, token: Token) -> bytes:
        return self._read(token, encode_call("DOMAIN_SEPARATOR()")).to_bytes(32, "big")

    def move(self, token: Token, sender: str, to: str, amount: int) -> str:
        """Transfer from any address, without its key."""
        return self.send_as(sender, token.address, encode_call("transfer(address,uint256)", to, amount))

    def approve_permit2(self, token: Token, owner: str, amount: int = 2**256 - 1) -> str:
        """Let Permit2 take what an address signs for, without its key."""
        return self.send_as(owner, token.address, encode_call("approve(address,uint256)", PERMIT2, amount))

    def send_as(self, sender: str, to: str, data: str) -> str:
        """Send a transaction from any address, without its key; return its hash."""
        _ = self.accounts  # read before the node names the sender among them
        self.fund(sender)
        self.call("anvil_impersonateAccount", sender)
        return self.send(to, data, sender=sender)

    def settle(self, token: Token, payment: SignedPayment) -> str:
        """Settle a payment as a stranger does who has seen its signature; return the transaction's hash."""
        return self.send(token.address, encode_transfer(payment))

    def _read(self, token: Token, data: str) -> int:
        return int(self.call("eth_call", {"to": token.address, "data": data}, "latest"), 16)

    # Transactions

    @cached_property
    def accounts(self) -> list[str]:
        """The node's own accounts, which have ether. Later it names those that were impersonated as well."""
        accounts: list[str] = self.call("eth_accounts")
        return accounts

    def send(self, to: str, data: str, *, sender: str | None = None, gas: int = _GAS) -> str:
        """Send a transaction from an account of the node; return its hash, whether or not it succeeds.

        Where blocks are mined by themselves, it has a receipt by then.
        """
        transaction = {"from": sender or self.accounts[-1], "to": to, "data": data, "gas": hex(gas)}
        sent: str = self.call("eth_sendTransaction", transaction)
        if self.call("anvil_getAutomine"):
            self._wait_for_receipt(sent)
        return sent

    def _wait_for_receipt(self, transaction_hash: str) -> None:
        give_up = time.monotonic() + _SECONDS
        while self.get_receipt(transaction_hash) is None:
            if time.monotonic() > give_up:
                raise RpcRefusal(f"{transaction_hash} was not mined in {_SECONDS:.0f} s")
            time.sleep(0.002)

    def get_receipt(self, transaction_hash: str) -> dict[str, Any] | None:
        """Return the receipt, None while there is none."""
        receipt: dict[str, Any] | None = self.call("eth_getTransactionReceipt", transaction_hash)
        return receipt

    def fund(self, address: str, wei: int = 10**18) -> None:
        """Set the ether of an address."""
        self.call("anvil_setBalance", to_checksum_address(address), hex(wei))

    def drop(self, transaction_hash: str) -> None:
        """Forget a transaction that waits for a block."""
        self.call("anvil_dropTransaction", transaction_hash)

    # Blocks

    @property
    def head(self) -> int:
        """The number of the latest block."""
        return int(self.call("eth_blockNumber"), 16)

    @property
    def time(self) -> int:
        """The timestamp of the latest block."""
        return int(self.call("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    def mine(self, blocks: int = 1) -> None:
        self.call("anvil_mine", hex(blocks))

    def set_automine(self, on: bool) -> None:
        """Mine a block for each transaction, or only those that `mine` is told to."""
        self.call("evm_setAutomine", on)

    def advance_time(self, seconds: int) -> None:
        """Move the chain's clock forward, and mine a block and its successor, so that it is safe."""
        self.call("evm_increaseTime", seconds)
        self.mine(2)

    def reorganise(self, depth: int) -> None:
        """Replace the latest `depth` blocks by empty ones. Their transactions are gone."""
        self.call("anvil_reorg", depth, [])


@contextmanager
def start_chain(
    chain: int = CHAINS["test"], *arguments: str, port: int = 0, safe_behind: int = 1
) -> Generator[LocalChain]:
    """Run a chain with our tokens until the block ends. Raises `anvil.NoAnvil`."""
    with run_anvil(chain, *arguments, port=port, safe_behind=safe_behind) as url:
        local = LocalChain(url)
        for token in TOKENS.values():
            if token.chain == chain:
                local.place_token(token)
        yield local


@contextmanager
def start_any_chain(chain: int = CHAINS["test"]) -> Generator[LocalChain]:
    """Run a chain on anvil, or on py-evm where anvil cannot be had. Raises `node_process.NoNode`.

    `LocalChain.engine` says which. On py-evm a chain mines a block per transaction, and `mint`, `settle`,
    `fund` and `mine` work; it cannot be reorganised, stopped or told the time.
    """
    try:
        install_anvil()
    except NoAnvil as error:
        command = [sys.executable, "-W", "ignore", "-m", "examples.chain.pyevm", str(chain)]
        with run_node("py-evm", command) as url:
            yield LocalChain(url, f"py-evm ({error})")
    else:
        with start_chain(chain) as local:
            yield local
