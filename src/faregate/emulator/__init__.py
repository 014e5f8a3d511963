"""The Merchant API on one machine, for tests: a simulated ledger, test payers, faults and a control plane."""

from importlib.util import find_spec as _find_spec

for _package in ("eth_keys", "starlette", "uvicorn"):
    if _find_spec(_package) is None:
        raise ImportError(f"the emulator needs {_package}: pip install 'faregate[emulator]'", name=_package)

from faregate.emulator.app import app
from faregate.emulator.calls import RecordedCall
from faregate.emulator.clock import ManualClock, WorldClock
from faregate.emulator.delivery import Delivery
from faregate.emulator.emulator import Emulator
from faregate.emulator.faults import MODES, Fault
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.tenants import Worlds
from faregate.emulator.transports import EmulatorTransport, transport
from faregate.emulator.wallet import Wallet
from faregate.service.builtin import LIVE_KEY, READ_ONLY_TEST_KEY, TEST_KEY, builtin_world
from faregate.service.config import Key, PayerSetup, Resource, Revision, Seller, Settlement, Value, World
from faregate.service.identifiers import CountedIds, SeededIds
from faregate.service.test_payers import TEST_PAYERS, TestPayer

__all__ = [
    "LIVE_KEY",
    "MODES",
    "READ_ONLY_TEST_KEY",
    "TEST_KEY",
    "TEST_PAYERS",
    "CountedIds",
    "Delivery",
    "Emulator",
    "EmulatorTransport",
    "Fault",
    "Key",
    "ManualClock",
    "PayerSetup",
    "RecordedCall",
    "Resource",
    "Revision",
    "SeededIds",
    "Seller",
    "Settlement",
    "SimulatedLedger",
    "TestPayer",
    "Value",
    "Wallet",
    "World",
    "WorldClock",
    "Worlds",
    "app",
    "builtin_world",
    "transport",
]
