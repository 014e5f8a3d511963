"""The emulator's clock: frozen, in step with the real clock, or faster or slower.

It never runs backwards, whatever the real clock does; only `restore` brings an earlier moment back. Moving it
settles nothing by itself: a payment that fell due settles before the next request
(`faregate.rules.settlement.settle_due`).
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field

from faregate.errors import ConfigurationError
from faregate.rules.account import FrozenModel
from faregate.rules.clock import Clock
from faregate.system import system_clock

MAX_RATE: Final = 86_400.0
"""A day in a second."""
END_OF_TIME: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Where time stops: there are dates left for what is planned by then."""
DEFAULT_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
Mode = Literal["frozen", "real", "scaled"]


class ClockState(FrozenModel):
    """The clock showed `simulated` when the real clock showed `real`, and has run at `rate` since."""

    simulated: AwareDatetime
    real: AwareDatetime
    rate: Annotated[float, Field(strict=True, ge=0, le=MAX_RATE)]


@dataclass(slots=True)
class _Segment:
    """A stretch of time at one rate."""

    latest: datetime
    simulated: datetime
    real: datetime
    rate: float

    def at(self, real: datetime) -> datetime:
        # The real clock may be set back; the emulated one must not run backwards.
        self.latest = max(self.latest, self._compute(real))
        return self.latest

    def _compute(self, real: datetime) -> datetime:
        if real <= self.real:
            return self.simulated
        try:
            return min(self.simulated + (real - self.real) * self.rate, END_OF_TIME)
        except OverflowError:
            return END_OF_TIME


class EmulatorClock:
    """A controllable clock in UTC, which runs with `source` until it is changed.

    With `frozen_at` it starts frozen at that moment, past or future.
    """

    def __init__(self, source: Clock, *, frozen_at: datetime | None = None) -> None:
        self._source = source
        real = self._real()
        self._segment = (
            _start_segment(real, real, 1.0)
            if frozen_at is None
            else _start_segment(_to_utc(frozen_at), real, 0.0)
        )

    def __call__(self) -> datetime:
        return self._segment.at(self._real())

    @property
    def rate(self) -> float:
        """Emulated seconds per real second; 0 is frozen."""
        return self._segment.rate

    @property
    def mode(self) -> Mode:
        return "frozen" if self.rate == 0 else "real" if self.rate == 1 else "scaled"

    def freeze(self, at: datetime | None = None) -> None:
        """Freeze the clock, now or at a later moment; `ConfigurationError` for a moment that has passed."""
        real = self._real()
        now = self._segment.at(real)
        moment = now if at is None else _to_utc(at)
        if moment < now:
            raise ConfigurationError(
                f"time does not run backwards from {now.isoformat()}: restore a snapshot"
            )
        _check_range(moment)
        self._segment = _start_segment(moment, real, 0.0)

    def run(self, rate: float = 1.0) -> None:
        """Run on from the current moment at `rate`; 1 is in step with the real clock."""
        if not 0 < rate <= MAX_RATE:
            raise ConfigurationError(f"the rate of a clock is above 0 and at most {MAX_RATE:g}, not {rate}")
        real = self._real()
        self._segment = _start_segment(self._segment.at(real), real, float(rate))

    def advance(self, seconds: float) -> None:
        """Move the clock forward by this many seconds; its rate stays."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ConfigurationError(f"time advances by 0 seconds or more, not by {seconds}")
        real = self._real()
        try:
            later = self._segment.at(real) + timedelta(seconds=seconds)
        except OverflowError:
            raise ConfigurationError(f"time ends before {seconds} seconds from now") from None
        _check_range(later)
        self._segment = _start_segment(later, real, self.rate)

    def copy(self) -> "EmulatorClock":
        """Return an independent clock that shows the same."""
        twin = EmulatorClock(self._source)
        twin.restore(self.state())
        return twin

    def state(self) -> ClockState:
        """Return its state. A running clock is kept as its distance from the real one."""
        real = self._real()
        return ClockState(simulated=self._segment.at(real), real=real, rate=self.rate)

    def restore(self, state: ClockState) -> None:
        """Continue from this state: a frozen clock at its moment, a running one as far ahead as it was.

        `ConfigurationError` if that is after the end of time.
        """
        _check_range(_to_utc(state.simulated))
        self._segment = _start_segment(_to_utc(state.simulated), _to_utc(state.real), state.rate)

    def _real(self) -> datetime:
        return self._source().astimezone(UTC)


class ManualClock(EmulatorClock):
    """A clock that starts frozen, for tests."""

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        super().__init__(system_clock, frozen_at=start)


def _start_segment(simulated: datetime, real: datetime, rate: float) -> _Segment:
    return _Segment(simulated, simulated, real, rate)


def _check_range(moment: datetime) -> None:
    if moment > END_OF_TIME:
        raise ConfigurationError(f"time ends at {END_OF_TIME.isoformat()}, before {moment.isoformat()}")


def _to_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ConfigurationError(f"a moment needs a timezone: {moment.isoformat()}")
    return moment.astimezone(UTC)
