"""What surrounds the service: a chain, a node in front of it, a facilitator, a database, a key."""

import random
import socket
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.chain.facilitator import GAS_KEYS
from examples.chain.permit2 import deploy_upto

from faregate.service.commands.setup import apply_catalog
from faregate.service.database.keys import create_key
from faregate.service.database.upgrade import upgrade
from faregate.service.settings import make_settings
from faregate.service.storage import open_storage
from faregate.system import system_clock
from tests.crash.service.copies import Copies, PostgresCopies, SqliteCopies
from tests.crash.service.facilitator import OfficialFacilitator
from tests.crash.service.processes import Gate
from tests.servers.postgres import PostgresServer
from tests.support.chain import USDC, ChainPayer, LocalChain, start_chain
from tests.support.faulty_facilitator import (
    SETTLE_FAULTS,
    Fault,
    FaultyFacilitator,
    forgets,
    is_down,
    says_valid,
)
from tests.support.rpc_proxy import RpcProxy, serve_rpc_proxy

DATABASES = ("sqlite", "postgres")
PAYMENTS = ("official", "faulty", "direct", "inside")
"""How payments settle. `inside`: as with `faulty`, by the service inside an application's process."""
PRICE = 5
MAXIMUM = 100
"""What a payer authorizes where the price follows the use; a unit costs one."""
SHORT = 12
"""Seconds that a short authorization is valid."""
CONFIRMATIONS = 2
SAFE_BEHIND = 6
"""Blocks that a reorganisation may replace. More than the confirmations, so succeeded payments come loose."""
_SHARE_OF_FAULTS = 0.6


@dataclass
class Environment:
    """Everything but the service's processes. `settings` are theirs."""

    chain: LocalChain
    nodes: tuple[RpcProxy, RpcProxy]
    """The first one is preferred."""
    listener: socket.socket
    settings: dict[str, Any]
    pay_to: str
    key: str
    copies: Copies
    gate: Gate
    """Closed while an older copy of the database takes its place."""
    real: OfficialFacilitator | None = None
    faulty: FaultyFacilitator | None = None
    postgres: PostgresServer | None = None
    database_back_at: float = 0.0
    """Until then processes may not start, because the database was away (monotonic)."""
    loosened: int = 0
    """Reorganisations that took back what may have succeeded."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    @property
    def is_inside(self) -> bool:
        return "pay_to" in self.settings

    @property
    def is_direct(self) -> bool:
        return bool(self.settings["payments"] == "direct")

    def heal(self) -> None:
        """Let facilitator and node be well from now on."""
        for node in self.nodes:
            node.status, node.change = 200, {}
            node.answers.set()
        if self.faulty is not None:
            self.faulty.heal()


@contextmanager
def open_environment(database: str, payments: str, folder: Path, seed: int) -> Generator[Environment]:
    """Start what surrounds a service with this database and these payments."""
    with ExitStack() as stack:
        chain = stack.enter_context(start_chain(safe_behind=SAFE_BEHIND))
        deploy_upto(chain)
        nodes = (
            stack.enter_context(serve_rpc_proxy(chain.url)),
            stack.enter_context(serve_rpc_proxy(chain.url)),
        )
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        postgres = PostgresServer() if database == "postgres" else None
        copies: Copies
        if postgres is None:
            copies = SqliteCopies(folder / "service.db")
        else:
            stack.enter_context(postgres.serving())
            copies = PostgresCopies(postgres, folder / "copy.dump")
        faulty, real = None, None
        settings: dict[str, Any] = {
            "database": copies.url,
            "rpc_test": tuple(node.url for node in nodes),
            "confirmations": CONFIRMATIONS,
            "complete_seconds": 0.5,
            "port": 1,
            "log_level": "warning",
            "threads": 24,
            "pool_size": 10,
            "rate_limit": 0,
            "anonymous_rate_limit": 0,
        }
        if payments == "direct":
            gas_key = f"file:{folder / 'gas.key'}"
            settings |= {"payments": "direct", "gas_key": gas_key, "max_fee_gwei": 500}
            (folder / "gas.key").write_text(GAS_KEYS[1])
            (folder / "gas.key").chmod(0o600)
        else:
            real = stack.enter_context(OfficialFacilitator(chain.url))
            settings |= {"payments": "facilitator", "facilitator_test": (real.url,)}
            if payments != "official":
                # The hash is one of somebody else's transactions, for a fault that names one.
                faulty = FaultyFacilitator(real.url, real.restart, hashes=[chain.mint(USDC, real_payer(), 0)])
                settings["facilitator_test"] = (stack.enter_context(faulty.serving()),)
                faulty.faults["settle"] = _draw(random.Random(seed))
                faulty.faults["verify"] = _draw_verify(random.Random(seed))
        pay_to = ChainPayer().address
        if payments == "inside":
            settings["pay_to"] = pay_to
        key = _set_up(settings, folder, pay_to)
        yield Environment(
            chain, nodes, listener, settings, pay_to, key, copies, Gate(), real, faulty, postgres
        )


def real_payer() -> str:
    """An address of somebody else."""
    return ChainPayer().address


def _draw(chance: random.Random) -> Iterator[Any]:
    """The faults of settlements, without end; None is no fault."""
    faults: list[Fault] = [*SETTLE_FAULTS, *SETTLE_FAULTS, *SETTLE_FAULTS, forgets]
    while True:
        yield chance.choice(faults) if chance.random() < _SHARE_OF_FAULTS else None


def _draw_verify(chance: random.Random) -> Iterator[Any]:
    while True:
        yield chance.choice((is_down, says_valid, *[None] * 18))


def _set_up(settings: dict[str, Any], folder: Path, pay_to: str) -> str:
    upgrade(settings["database"])
    catalog = folder / "catalog.toml"
    catalog.write_text(f"""\
[seller]
name = "Shop"
pay_to = "{pay_to}"

[[resources]]
key = "long"
name = "Long"
max_timeout_seconds = 3600
revisions = [{{amount = {PRICE}}}]

[[resources]]
key = "short"
name = "Short"
max_timeout_seconds = {SHORT}
revisions = [{{amount = {PRICE}}}]

[[resources]]
key = "usage"
name = "Usage"
max_timeout_seconds = 3600

[[resources.revisions]]
amount = {MAXIMUM}
values = [{{ name = "units", required = true }}]
usage = {{ rates = {{ units = "1" }} }}
""")
    made = make_settings(settings)
    with open_storage(made) as storage:
        apply_catalog(storage, made, str(catalog))
        account = storage.find_account("test", None)
        with storage.database.write() as connection:
            return create_key(connection, account, system_clock(), name="crash").secret
