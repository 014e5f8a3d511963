"""A payer's header: shaped like a real one and never looked into here, since the upstream always agrees."""

import base64
import json
from itertools import cycle
from pathlib import Path
from typing import Final

from faregate.emulator.wallet import Wallet
from faregate.system import system_clock
from harness.contestants import Contestant
from harness.http import ask
from harness.processes import Server
from harness.proof_template import INSTRUCTIONS, build_payment, build_template

_PAYERS: Final = 256
_SIGNED: Final = 16_000
"""Proofs of one server: enough for its load, and signed for ten minutes."""


def build_proof(server: Server, contestant: Contestant) -> str:
    """Build a proof that this server accepts, or a template, or a file of signed ones.

    x402 compares a proof with its own instructions: these are asked for.
    """
    if contestant.has_signed_proofs:
        return _sign_proofs(server)
    if contestant.has_unique_proofs:
        return build_template(INSTRUCTIONS, "http://127.0.0.1/report")
    reply = ask(server.url + "/report")
    required = json.loads(base64.b64decode(reply.headers["payment-required"]))
    payment = build_payment(required["accepts"][0], required["resource"]["url"], "0x" + "1" * 40)
    return base64.b64encode(json.dumps(payment).encode()).decode()


def _sign_proofs(server: Server) -> str:
    """Sign what one server can sell, by more payers than there are connections: none pays twice at once.

    Return the file of the proofs.
    """
    instructions = ask(server.url + "/report").headers["payment-required"]
    wallets = [Wallet(clock=system_clock) for _ in range(_PAYERS)]
    path = server.folder / "proofs"
    with path.open("w") as file:
        for wallet, _ in zip(cycle(wallets), range(_SIGNED), strict=False):
            print(wallet.pay(instructions), file=file)
    return str(path)


def read_last_proof(path: str) -> str:
    """Return the proof of the file that no load sends."""
    return Path(path).read_text().splitlines()[-1]
