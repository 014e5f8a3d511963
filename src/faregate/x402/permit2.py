"""The contracts of the scheme `upto`. Both have the same address on every EVM chain.

The payer allows the scheme's proxy to take up to an amount of a token, once, and names in a witness who
receives it and which facilitator may say how much. `permit_hashes` has what is signed.
Source: `x402.mechanisms.evm` of the x402 package 2.25; the example of the scheme's text has an older proxy.
"""

from typing import Final

PERMIT2: Final = "0x000000000022D473030F116dDEE9F6B43aC78BA3"
"""Moves what a payer has signed. A payer approves it once for each token."""
UPTO_PROXY: Final = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002"
"""Called by the facilitator; asks Permit2 for the transfer."""
