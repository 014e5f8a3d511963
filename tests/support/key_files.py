"""Leave out what `eth_account` imports for key files only, which no test has.

The official x402 packages import it. These modules take 0.3 s of CPU in each process that does.
"""

import sys
from unittest.mock import MagicMock

for _name in ("py_ecc", "py_ecc.bls", "py_ecc.bls12_381", "py_ecc.secp256k1"):
    sys.modules[_name] = MagicMock(name=_name)
