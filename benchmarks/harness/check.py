"""Whether a contestant sells at all, before anything is timed."""

import json
import secrets

from harness.contestants import Case, Contestant
from harness.http import Reply, ask
from harness.load import Wrong
from harness.processes import Server


def check(case: Case, contestant: Contestant, server: Server, proof: str) -> None:
    """One request of the case, looked at in full. Raises `Wrong`."""
    own = proof if contestant.takes == "x402" else proof + secrets.token_hex(8)
    reply = ask(server.url + case.path, own if case.paid else None)
    if reply.status != case.status:
        raise _wrong(contestant, case, reply, f"status {reply.status}")
    if case.status == 200 and not isinstance(json.loads(reply.body), dict):
        raise _wrong(contestant, case, reply, "no body")
    if case.paid and case.calls[contestant] and not reply.headers["payment-response"]:
        raise _wrong(contestant, case, reply, "no PAYMENT-RESPONSE")
    if case.paid and contestant.app != "bare" and ask(server.url + case.path).status != 402:
        raise _wrong(contestant, case, reply, "sold without a payment")
    if case.status == 402 and not reply.headers["payment-required"]:
        raise _wrong(contestant, case, reply, "no PAYMENT-REQUIRED")


def _wrong(contestant: Contestant, case: Case, reply: Reply, fault: str) -> Wrong:
    return Wrong(f"{contestant.name}, {case.name}: {fault}: {reply.body[:300]!r}")
