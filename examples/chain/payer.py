"""A payer on the local chain: signs authorizations, and takes them back."""

import secrets
import time
from dataclasses import replace
from typing import Final

from eth_utils.crypto import keccak

from examples.chain.local import LocalChain
from examples.chain.token import encode_call
from faregate.x402.eip712 import TypedData, build_typed_data, derive_address, sign
from faregate.x402.models import SignedPayment
from faregate.x402.permit2 import PERMIT2
from faregate.x402.tokens import Token

_APPROVAL_GAS: Final = 100_000
_CANCEL: Final = keccak(text="CancelAuthorization(address authorizer,bytes32 nonce)")


class ChainPayer:
    """A key pair. `faregate.emulator.Wallet(payer.private_key)` answers a seller's 402 with it."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self.address = derive_address(self._key)

    @property
    def private_key(self) -> str:
        return "0x" + self._key.hex()

    def authorize(
        self,
        token: Token,
        to: str,
        value: int,
        *,
        valid_before: int | None = None,
        valid_after: int = 0,
        nonce: str | None = None,
        facilitator: str | None = None,
    ) -> SignedPayment:
        """Sign an authorization, for five minutes by default. It has no header.

        With a facilitator it is one of the scheme `upto`.
        """
        new = str(secrets.randbits(256)) if facilitator else "0x" + secrets.token_hex(32)
        payment = SignedPayment(
            payer=self.address.lower(),
            to=to.lower(),
            value=value,
            valid_after=valid_after,
            valid_before=int(time.time()) + 300 if valid_before is None else valid_before,
            nonce=nonce or new,
            signature="",
            header="",
            facilitator=facilitator and facilitator.lower(),
        )
        return replace(payment, signature=sign(self._key, build_typed_data(payment, token)))

    def approve_permit2(self, chain: LocalChain, token: Token) -> str:
        """Let Permit2 take what this payer signs for: once for each token. It needs ether."""
        from eth_account import Account

        transaction = {
            "chainId": token.chain,
            "nonce": int(chain.call("eth_getTransactionCount", self.address, "latest"), 16),
            "to": token.address,
            "data": encode_call("approve(address,uint256)", PERMIT2, 2**256 - 1),
            "gas": _APPROVAL_GAS,
            "maxFeePerGas": 2 * int(chain.call("eth_gasPrice"), 16),
            "maxPriorityFeePerGas": 1,
        }
        raw = Account.sign_transaction(transaction, self._key).raw_transaction
        sent: str = chain.call("eth_sendRawTransaction", "0x" + raw.hex())
        return sent

    def cancel(self, chain: LocalChain, token: Token, nonce: str) -> str:
        """Cancel an authorization on the chain; return the transaction's hash."""
        body = keccak(_CANCEL + bytes.fromhex(self.address[2:]).rjust(32, b"\0") + bytes.fromhex(nonce[2:]))
        message = TypedData(b"\x01", chain.get_domain_separator(token), body)
        signature = bytes.fromhex(sign(self._key, message)[2:])
        call = encode_call(
            "cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)",
            *(self.address, nonce, signature[64], signature[:32], signature[32:64]),
        )
        return chain.send(token.address, call)
