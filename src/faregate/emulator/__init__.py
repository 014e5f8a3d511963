"""The merchant service on one machine: a state machine, its built-in world, and three ways to mount it."""

from faregate.emulator.extra import extra_missing as _extra_missing

try:
    import eth_keys as _eth_keys
except ModuleNotFoundError as _error:
    raise _extra_missing(_error) from None
else:
    del _eth_keys

from faregate.emulator.app import app
from faregate.emulator.clock import WorldClock
from faregate.emulator.delivery import Delivery
from faregate.emulator.diary import RecordedCall
from faregate.emulator.edge import ManualClock
from faregate.emulator.emulator import Emulator
from faregate.emulator.faults import MODES, Fault
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.tenants import Worlds
from faregate.emulator.transport import EmulatorTransport, transport
from faregate.emulator.wallet import Wallet
from faregate.service.builtin import LIVE_KEY, READ_ONLY_TEST_KEY, TEST_KEY
from faregate.service.config import Key, PayerSetup, Seller, World
from faregate.service.goods import Resource, Revision, Settlement, Value
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
    "transport",
]
