"""Direct settlement: the service's own gas account sends the transfers, without a facilitator."""

from faregate.service.chain.direct.backend import DirectPayments
from faregate.service.chain.direct.fees import GasPolicy
from faregate.service.chain.direct.gas_account import GasAccount, GasBalance
from faregate.service.chain.direct.signers import Signer, SigningFailed, make_signer
from faregate.service.chain.direct.upkeep import TransferStore, Upkeep, keep_nonces_moving

__all__ = [
    "DirectPayments",
    "GasAccount",
    "GasBalance",
    "GasPolicy",
    "Signer",
    "SigningFailed",
    "TransferStore",
    "Upkeep",
    "keep_nonces_moving",
    "make_signer",
]
