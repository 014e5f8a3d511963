"""Check that a contestant sells at all, before anything is timed."""

import json

from harness.contestants import UNPAID, Contestant, Kind
from harness.http import Reply, ask
from harness.processes import Server
from harness.proof_template import fill, make_serial
from harness.proofs import read_last_proof


class InvalidRun(Exception):
    """A contestant did not do what it is being measured for: its figures would mean nothing."""


def check(kind: Kind, contestant: Contestant, server: Server, proof: str) -> None:
    """Make one request of this kind, and look at the whole reply. Raises `InvalidRun`."""
    own = fill(proof, make_serial()) if contestant.has_unique_proofs else proof
    if contestant.has_signed_proofs:
        own = read_last_proof(proof)
    reply = ask(server.url + kind.path, own if kind.paid else None)
    if reply.status != kind.status:
        raise _fault(contestant, kind, reply, f"status {reply.status}")
    if kind.status == 200 and not isinstance(json.loads(reply.body), dict):
        raise _fault(contestant, kind, reply, "no body")
    if kind is UNPAID and not reply.headers["payment-required"]:
        raise _fault(contestant, kind, reply, "no PAYMENT-REQUIRED")
    if kind.paid and contestant.app != "bare":
        if not reply.headers["payment-response"]:
            raise _fault(contestant, kind, reply, "no PAYMENT-RESPONSE")
        if ask(server.url + kind.path).status != 402:
            raise _fault(contestant, kind, reply, "sold without a payment")


def _fault(contestant: Contestant, kind: Kind, reply: Reply, fault: str) -> InvalidRun:
    return InvalidRun(f"{contestant.name}, {kind.name}: {fault}: {reply.body[:300]!r}")
