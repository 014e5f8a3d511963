"""The merchant service on one machine: a state machine, its built-in world, and three ways to mount it.

A map of the modules; a call goes the way of the first four lines.

mounts      transport (httpx), embedded (in a seller's process), mounts, asgi, server, worlds
Emulator    emulator, arranging, rewinding, judging, witness, diary, delivery, signs
service     service, routes, keys, calls, facts, replies: one call, read, allowed, answered
operations  access, complete, executions, reads, lists, queries
payments    payments (the seam), ledger, checks, proofs, instructions, tokens, holds, funding
signatures  signatures (EIP-712), curve (secp256k1)
endings     settling, transitions, receipts: at once, by the clock, after reads, by hand
memory      books, state, register, timeline, clock, identifiers, edge
set-up      world, goods, catalog, builtin, worldfile, worldkeys, payers
for tests   wallet, matching, expectations, invariants, releases
state       document, documentparts, copying, exporting, adopting, restoring, snapshots
on disk     statefile, savedworlds, statelock
command     command, arguments, greeting, extra
beside it   faults/ (what goes wrong on purpose), control/ (the control plane), console/ (its page)
"""

from faregate.emulator.extra import extra_missing as _extra_missing

try:
    import eth_keys as _eth_keys
except ModuleNotFoundError as _error:
    raise _extra_missing(_error) from None
else:
    del _eth_keys

from faregate.emulator.builtin import LIVE_KEY, READ_ONLY_TEST_KEY, TEST_KEY
from faregate.emulator.clock import WorldClock
from faregate.emulator.delivery import Delivery
from faregate.emulator.diary import RecordedCall
from faregate.emulator.edge import ManualClock
from faregate.emulator.emulator import Emulator
from faregate.emulator.faults import MODES, Fault
from faregate.emulator.goods import Resource, Revision, Settlement, Value
from faregate.emulator.identifiers import CountedIds, SeededIds
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.mounts import app
from faregate.emulator.payers import TEST_PAYERS, TestPayer
from faregate.emulator.transport import EmulatorTransport, transport
from faregate.emulator.wallet import Wallet
from faregate.emulator.world import Key, PayerSetup, Seller, World
from faregate.emulator.worlds import Worlds

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
