"""The official x402 client, loaded in one place: what of it is used, and which extra brings it."""

try:
    from eth_account import Account
    from x402 import x402ClientSync
    from x402.http.utils import (
        decode_payment_required_header,
        decode_payment_response_header,
        encode_payment_signature_header,
    )
    from x402.mechanisms.evm.exact import ExactEvmScheme  # pyright: ignore[reportMissingTypeStubs]
    from x402.schemas import PaymentRequired, PaymentRequirements, SettleResponse
except ModuleNotFoundError as error:
    raise ImportError(f"paying needs {error.name}: pip install 'faregate[pay]'", name=error.name) from None

__all__ = [
    "Account",
    "ExactEvmScheme",
    "PaymentRequired",
    "PaymentRequirements",
    "SettleResponse",
    "decode_payment_required_header",
    "decode_payment_response_header",
    "encode_payment_signature_header",
    "x402ClientSync",
]
