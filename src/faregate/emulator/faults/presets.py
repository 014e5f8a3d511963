"""Named presets of faults ("modes"): payments that succeed and look failed.

They answer the question whether a client retries safely. In each but `clean` the payment is taken and the
answer is easily misread. A mode lasts until another one is set.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from faregate.emulator.faults.models import Fault
from faregate.errors import ConfigurationError

CLEAN: Final = "clean"
MODES: Final[Mapping[str, tuple[Fault, ...]]] = MappingProxyType(
    {
        "accept-then-time-out": (Fault(kind="silence", when="after", operation="complete", times=None),),
        "5xx-after-settle": (
            Fault(kind="status", status=502, when="after", operation="complete", times=None),
        ),
        "double-402": (Fault(kind="second-402", when="after", operation="complete", times=None),),
        "slow-answer": (Fault(kind="latency", seconds=2, operation="complete", times=None),),
        "reconcile-unavailable": (
            Fault(kind="silence", when="after", operation="complete", times=None),
            Fault(kind="status", status=503, operation="transaction", times=None),
            Fault(kind="status", status=503, operation="transactions", times=None),
        ),
        CLEAN: (),
    }
)
"""Faults that belong together, by the name of the mode that `Emulator.inject` and the control API take."""


def get_preset(mode: str) -> tuple[Fault, ...]:
    """Return the faults of this mode; `ConfigurationError` lists the modes."""
    if mode not in MODES:
        raise ConfigurationError(f"there is no mode {mode!r}; there are {', '.join(MODES)}")
    return MODES[mode]
