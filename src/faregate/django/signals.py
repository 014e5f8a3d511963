"""`payment_event`: the events of the paywall as a signal, for code that cannot be named in `ON_EVENT`."""

from django.dispatch import Signal

from faregate.events import Event
from faregate.paywall import Paywall

payment_event = Signal()
"""Sent by the class `Paywall` with each event, as `event`. A receiver must not block."""


class SignalObserver:
    """Sends the events of the paywall of this process."""

    def is_listening(self) -> bool:
        return bool(payment_event.receivers)

    def receive(self, event: Event) -> None:
        # Django logs what a receiver raises, and calls the others.
        payment_event.send_robust(Paywall, event=event)
