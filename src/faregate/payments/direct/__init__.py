"""Direct settlement: the service's own gas account sends the transfers, without a facilitator."""

from faregate.payments.direct.backend import DirectPayments
from faregate.payments.direct.fees import GasPolicy
from faregate.payments.direct.gas_account import GasAccount, GasBalance
from faregate.payments.direct.signers import Signer, SigningFailed, make_signer
from faregate.payments.direct.upkeep import TransferBooks, Upkeep, keep_nonces_moving

__all__ = [
    "DirectPayments",
    "GasAccount",
    "GasBalance",
    "GasPolicy",
    "Signer",
    "SigningFailed",
    "TransferBooks",
    "Upkeep",
    "keep_nonces_moving",
    "make_signer",
]
