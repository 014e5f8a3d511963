"""`payment_event`: the events of a paywall as a signal, for code that cannot pass `on_event`."""

import logging
from dataclasses import dataclass

from blinker import Namespace

from faregate.events import Event
from faregate.logs import log
from faregate.paywall import Paywall

payment_event = Namespace().signal("payment-event")
"""Sent by a `Paywall` with each of its events, as `event`. A receiver must not block."""


@dataclass(frozen=True)
class SignalObserver:
    """Sends the events of this paywall. Several apps may share one: each event is sent once."""

    paywall: Paywall

    def is_listening(self) -> bool:
        return bool(payment_event.receivers)

    def receive(self, event: Event) -> None:
        # Not `send`: the first receiver that raises would keep the event from the others.
        for receiver in payment_event.receivers_for(self.paywall):
            try:
                receiver(self.paywall, event=event)
            except Exception as error:
                kind = type(event).__name__
                log("events", logging.ERROR, "a receiver of payment_event failed for %s", kind, error=error)
