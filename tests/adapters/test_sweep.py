"""What was left open is finished by a sweep, blocking and async, while its payer is away."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from faregate.asgi import PaywallMiddleware
from faregate.core.recovery import SweepReport
from faregate.emulator import Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.journals.memory import MemoryJournal
from faregate.paywall import Paywall
from tests.adapters.asgi import CONTENT, Plain, ask, header
from tests.journals.stores import Clock

SWEEPS: dict[str, Callable[[Paywall], SweepReport]] = {
    "blocking": lambda paywall: paywall.sweep(),
    "async": lambda paywall: asyncio.run(paywall.asweep()),
}


def count_swept(paywall: Paywall, interface: str) -> int:
    """The rows looked at; each of them came to something that was counted."""
    report = SWEEPS[interface](paywall)
    assert report.looked_at == report.settled + report.failed + report.held + len(report.stuck)
    return report.looked_at


@pytest.mark.parametrize("interface", SWEEPS)
def test_a_held_result_is_paid_for_by_the_sweep_and_fetched_later(interface: str) -> None:
    clock, plain, emulator = Clock(), Plain(), Emulator()
    transport: Any = EmbeddedTransport(emulator)
    address, key = "http://service.example", "svc_test_emulator"
    journal = MemoryJournal(clock=clock)
    paywall = Paywall(
        base_url=address, api_key=key, environ={}, settle_wait=0, transport=transport, journal=journal
    )
    app = PaywallMiddleware(plain, paywall, offers={"/": "slow_settlement"})
    proof = Wallet().pay(header(ask(app, "/"), b"payment-required"))
    assert ask(app, "/", proof)[0]["status"] == 202
    assert count_swept(paywall, interface) == 0  # not due yet
    clock.now += 7
    assert count_swept(paywall, interface) == 1  # still settling
    clock.now += 13
    assert count_swept(paywall, interface) == 1  # settled and proven
    clock.now += 3600
    assert count_swept(paywall, interface) == 0
    calls = len(emulator.calls())
    sent = ask(app, "/", proof)
    assert (sent[0]["status"], sent[1]["body"]) == (200, CONTENT.encode())
    assert header(sent, b"payment-response")
    assert (plain.runs, len(emulator.calls())) == (1, calls)
