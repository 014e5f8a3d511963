"""The Merchant API on one machine, for tests: a simulated ledger, test payers, faults and a control plane."""

from importlib.util import find_spec as _find_spec

for _package in ("eth_keys", "starlette", "uvicorn"):
    if _find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"The emulator needs {_package}: pip install 'faregate[emulator]'", name=_package
        )

from faregate.emulator.asgi import app
from faregate.emulator.calls import RecordedCall
from faregate.emulator.clock import EmulatorClock, ManualClock
from faregate.emulator.delivery import Delivery
from faregate.emulator.emulator import Emulator
from faregate.emulator.faults import MODES, Fault
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.tenants import Tenants
from faregate.emulator.transports import EmulatorTransport, transport
from faregate.emulator.wallet import Wallet
from faregate.rules.account import (
    Account,
    Key,
    PayerSetup,
    Resource,
    Revision,
    Seller,
    SettlementRule,
    Value,
)
from faregate.rules.builtin_account import LIVE_KEY, READ_ONLY_TEST_KEY, TEST_KEY, builtin_account
from faregate.rules.ids import CountedIds, SeededIds
from faregate.rules.published_payers import TEST_PAYERS, TestPayer

__all__ = [
    "LIVE_KEY",
    "MODES",
    "READ_ONLY_TEST_KEY",
    "TEST_KEY",
    "TEST_PAYERS",
    "Account",
    "CountedIds",
    "Delivery",
    "Emulator",
    "EmulatorClock",
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
    "SettlementRule",
    "SimulatedLedger",
    "Tenants",
    "TestPayer",
    "Value",
    "Wallet",
    "app",
    "builtin_account",
    "transport",
]
