"""The merchant service on one machine: a state machine, its built-in world, and three ways to mount it."""

try:
    import eth_account as _eth_account
except ModuleNotFoundError as _error:  # pragma: no cover - needs an environment without the extra
    raise ImportError(
        f"the emulator needs {_error.name}: pip install 'faregate[emulator]'", name=_error.name
    ) from None
else:
    del _eth_account

from faregate.emulator.builtin import LIVE_KEY, READ_ONLY_TEST_KEY, TEST_KEY
from faregate.emulator.edge import ManualClock
from faregate.emulator.emulator import Emulator
from faregate.emulator.identifiers import CountedIds
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.mounts import EmulatorTransport, app, transport
from faregate.emulator.wallet import Wallet
from faregate.emulator.world import Key, PayerSetup, Resource, Revision, Seller, Settlement, Value, World

__all__ = [
    "LIVE_KEY",
    "READ_ONLY_TEST_KEY",
    "TEST_KEY",
    "CountedIds",
    "Emulator",
    "EmulatorTransport",
    "Key",
    "ManualClock",
    "PayerSetup",
    "Resource",
    "Revision",
    "Seller",
    "Settlement",
    "SimulatedLedger",
    "Value",
    "Wallet",
    "World",
    "app",
    "transport",
]
