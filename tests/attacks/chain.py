"""What everybody can read of a settled payment, and the header that a stranger rebuilds from it."""

from typing import Any

from eth_utils.address import to_checksum_address
from x402.http.utils import decode_payment_required_header, encode_payment_signature_header
from x402.schemas import PaymentPayload, PaymentRequired

from faregate.core.models import Headers, Response
from faregate.emulator import Wallet
from tests.support.headers import decode_header, encode_header

WORDS = ("from", "to", "value", "validAfter", "validBefore", "nonce")
"""The arguments of `transferWithAuthorization`, before the signature (EIP-3009)."""


def read_calldata(proof: str) -> bytes:
    """The call that settles this payment, as it stands on the chain."""
    inner = decode_header(proof)["payload"]
    words = [inner["authorization"][name] for name in WORDS]
    numbers = [int(word, 16) if word.startswith("0x") else int(word) for word in words]
    signature = bytes.fromhex(inner["signature"][2:])
    return b"".join(number.to_bytes(32, "big") for number in numbers) + signature


def rebuild_proof(calldata: bytes, instructions: str) -> str:
    """The header that the official client would have sent, from what is public."""
    number = {name: int.from_bytes(calldata[32 * n : 32 * n + 32], "big") for n, name in enumerate(WORDS)}
    authorization = {
        "from": _checksum(number["from"]),
        "to": _checksum(number["to"]),
        **{name: str(number[name]) for name in ("value", "validAfter", "validBefore")},
        "nonce": f"0x{number['nonce']:064x}",
    }
    required = decode_payment_required_header(instructions)
    assert isinstance(required, PaymentRequired)
    payload = PaymentPayload(
        x402_version=2,
        payload={"authorization": authorization, "signature": "0x" + calldata[192:].hex()},
        accepted=required.accepts[0],
        resource=required.resource,
        extensions=required.extensions or None,
    )
    return encode_payment_signature_header(payload)


def _checksum(number: int) -> str:
    return str(to_checksum_address(number.to_bytes(20, "big")))


class Predictable:
    """A transport to a service whose instructions are the same for everybody."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._first: dict[str, Any] = {}

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        return self._repeat(self._transport.send(method, url, headers, body, seconds))

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        return self._repeat(await self._transport.asend(method, url, headers, body, seconds))

    def _repeat(self, reply: Response) -> Response:
        """The reply with the `accepts` of the first instructions."""
        header = reply.first("payment-required")
        if header is None:
            return reply
        required = decode_header(header)
        required["accepts"] = self._first.setdefault(required["resource"]["url"], required["accepts"])
        repeated = encode_header(required)
        kept = tuple(pair for pair in reply.headers if pair[0].lower() != "payment-required")
        return Response(reply.status, (*kept, ("PAYMENT-REQUIRED", repeated)), reply.body)

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


def pay(wallet: Wallet, instructions: str) -> str:
    """A proof of this wallet, written as the official client writes it."""
    return rebuild_proof(read_calldata(wallet.pay(instructions)), instructions)
