"""The clock of a tenant: frozen, real or scaled, over a clock that the tests move and set back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from faregate.emulator import Emulator, EmulatorClock, ManualClock, SettlementRule, Wallet
from faregate.emulator.clock import END_OF_TIME, MAX_RATE, ClockState
from faregate.errors import ConfigurationError
from faregate.rules.clock import MonotonicClock

from .seller import ApiClient

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECONDS = st.floats(0, 10**6)
RATES = st.floats(0.001, MAX_RATE)


class Source:
    """The clock behind it. It can be set back."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def clock(source: Source) -> EmulatorClock:
    return EmulatorClock(source)


def passed(clock: EmulatorClock) -> float:
    return (clock() - NOON).total_seconds()


def test_it_begins_in_step_with_the_real_one(clock: EmulatorClock, source: Source) -> None:
    source.pass_(5)
    assert (clock(), clock.mode, clock.rate) == (source.now, "real", 1)


def test_it_stands_still_and_runs_on_from_there(clock: EmulatorClock, source: Source) -> None:
    source.pass_(1)
    clock.freeze()
    source.pass_(10)
    assert (passed(clock), clock.mode, clock.rate) == (1, "frozen", 0)
    clock.run()
    source.pass_(10)
    assert (passed(clock), clock.mode, clock.rate) == (11, "real", 1)


@pytest.mark.parametrize("rate", [0.25, 60, MAX_RATE])
def test_it_runs_faster_or_slower(clock: EmulatorClock, source: Source, rate: float) -> None:
    clock.run(rate)
    source.pass_(8)
    assert (passed(clock), clock.mode, clock.rate) == (8 * rate, "scaled", rate)
    clock.run(1)
    source.pass_(8)
    assert passed(clock) == 8 * rate + 8


def test_it_can_stand_still_at_a_moment_to_come(clock: EmulatorClock) -> None:
    clock.freeze((NOON + timedelta(days=1)).astimezone(timezone(timedelta(hours=2))))
    assert clock().isoformat() == "2026-05-02T12:00:00+00:00"
    with pytest.raises(ConfigurationError, match=r"does not run backwards from 2026-05-02T12:00:00.*restore"):
        clock.freeze(NOON)
    assert passed(clock) == 86_400


def test_it_may_begin_at_any_moment_standing_still(source: Source) -> None:
    clock = EmulatorClock(source, frozen_at=datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC))
    source.pass_(1)
    assert clock().year == 1999
    clock.run()
    source.pass_(1)
    assert clock().year == 2000


def test_the_manual_clock_stands_still_and_can_be_told_to_run() -> None:
    assert (ManualClock()(), ManualClock().mode) == (datetime(2026, 1, 1, tzinfo=UTC), "frozen")
    clock = ManualClock(NOON)
    clock.run(MAX_RATE)
    assert any(clock() > NOON for _ in range(10_000))


@pytest.mark.parametrize("seconds", [-1, -0.000001, float("nan"), float("inf"), 1e300, 10**12, 10**11 * 2.4])
def test_other_advances_are_refused(clock: EmulatorClock, seconds: float) -> None:
    with pytest.raises(ConfigurationError, match=r"time (advances|ends)"):
        clock.advance(seconds)
    assert passed(clock) == 0


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), MAX_RATE * 1.01])
def test_other_rates_are_refused(clock: EmulatorClock, rate: float) -> None:
    with pytest.raises(ConfigurationError, match="rate of a clock is above 0 and at most 86400"):
        clock.run(rate)
    assert clock.mode == "real"


def test_a_moment_needs_a_timezone(clock: EmulatorClock) -> None:
    with pytest.raises(ConfigurationError, match="needs a timezone"):
        clock.freeze(NOON.replace(tzinfo=None))


@given(st.sampled_from(["frozen", "real", "scaled"]), RATES, SECONDS, SECONDS, st.booleans())
def test_an_advance_adds_exactly(
    mode: str, rate: float, before: float, seconds: float, set_back: bool
) -> None:
    source = Source()
    clock = EmulatorClock(source)
    if mode == "frozen":
        clock.freeze()
    if mode == "scaled":
        clock.run(rate)
    source.pass_(before)
    shown = clock()
    if set_back:
        source.pass_(-before)
    clock.advance(seconds)
    assert clock() - shown == timedelta(seconds=seconds)
    assert clock.mode == mode or rate == 1


def reload(state: ClockState) -> ClockState:
    """The state after it was written and read."""
    return ClockState.model_validate_json(state.model_dump_json())


class AClock(RuleBasedStateMachine):
    """Whatever is done to it and to the clock behind it, but for a restore, it never runs backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.source = Source()
        self.clock = EmulatorClock(self.source)
        self.seen = NOON
        self.state = self.clock.state()
        self.kept = NOON

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.source.pass_(seconds)

    @rule(seconds=SECONDS)
    def is_set_back(self, seconds: float) -> None:
        self.source.pass_(-seconds)

    @rule(seconds=SECONDS)
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(rate=RATES)
    def run(self, rate: float) -> None:
        self.clock.run(rate)

    @rule()
    def freeze(self) -> None:
        self.clock.freeze()

    @rule()
    def keep(self) -> None:
        self.state, self.kept = reload(self.clock.state()), self.clock()

    @rule()
    def restore(self) -> None:
        self.clock.restore(self.state)
        self.seen = self.kept

    @invariant()
    def never_backwards(self) -> None:
        now = self.clock()
        assert now >= self.seen
        assert now.tzinfo is UTC
        self.seen = now


TestAClock = AClock.TestCase
TestAClock.settings = settings(max_examples=60, stateful_step_count=15)


def test_time_ends_and_nothing_breaks(clock: EmulatorClock, source: Source) -> None:
    clock.run(MAX_RATE)
    source.pass_(10**9)
    assert clock() == END_OF_TIME
    with pytest.raises(ConfigurationError, match="time ends at 9000-01-01"):
        clock.advance(1)
    with pytest.raises(ConfigurationError, match="time ends at 9000-01-01"):
        clock.freeze(END_OF_TIME + timedelta(seconds=1))
    with pytest.raises(ConfigurationError, match="time ends at 9000-01-01"):
        clock.restore(clock.state().model_copy(update={"simulated": END_OF_TIME + timedelta(seconds=1)}))


def test_a_frozen_clock_comes_back_at_its_moment(clock: EmulatorClock, source: Source) -> None:
    clock.freeze()
    kept = clock.state()
    clock.advance(3600)
    clock.run(60)
    source.pass_(60)
    clock.restore(kept)
    assert (passed(clock), clock.mode) == (0, "frozen")


def test_a_running_clock_comes_back_as_far_ahead_as_it_was(clock: EmulatorClock, source: Source) -> None:
    clock.advance(100)
    kept = reload(clock.state())
    clock.advance(3600)
    source.pass_(5)
    clock.restore(kept)
    assert (passed(clock), clock.mode) == (105, "real")
    after_a_restart = EmulatorClock(source)
    after_a_restart.restore(kept)
    assert passed(after_a_restart) == 105


def test_a_scaled_clock_comes_back_as_if_it_had_run_on(clock: EmulatorClock, source: Source) -> None:
    clock.run(60)
    source.pass_(1)
    kept = clock.state()
    clock.freeze()
    source.pass_(1)
    clock.restore(kept)
    assert (passed(clock), clock.rate) == (120, 60)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"simulated": "2026-01-01T00:00:00"}, "simulated"),
        ({"real": 5.5j}, "real"),
        ({"rate": -1.0}, "rate"),
        ({"rate": "1"}, "rate"),
        ({"mode": "frozen"}, "mode"),
    ],
)
def test_what_is_no_state_is_an_error(clock: EmulatorClock, changes: dict[str, object], place: str) -> None:
    state = {**clock.state().model_dump(mode="json"), **changes}
    with pytest.raises(ConfigurationError, match=f"no state document: clock.{place}: "):
        Emulator(clock=clock).load_state({"version": 1, "clock": state})
    assert (passed(clock), clock.mode) == (0, "real")


def test_while_the_clock_behind_it_is_set_back_it_stands_still(clock: EmulatorClock, source: Source) -> None:
    clock.run(MAX_RATE)
    source.pass_(-(10**6))
    assert passed(clock) == 0
    source.pass_(10**6)
    assert passed(clock) == 0


def test_tenants_behind_one_server_have_clocks_of_their_own(clock: EmulatorClock, source: Source) -> None:
    clock.run(60)
    source.pass_(1)
    main = Emulator(clock=clock)
    other = main.like("a")
    assert (passed(other.clock), other.clock.rate) == (60, 60)
    other.clock.advance(10)
    source.pass_(1)
    assert (passed(main.clock), passed(other.clock)) == (120, 130)


def test_the_moments_of_a_tenant_go_back_with_its_clock(source: Source) -> None:
    timeline = MonotonicClock(source)
    began = timeline.tick()
    kept = timeline.state()
    source.pass_(100)
    assert timeline.tick() == timeline.snapshot(None) == source.now
    source.pass_(-90)
    assert timeline.tick() > began + timedelta(seconds=100)
    timeline.restore(*kept)
    assert timeline.tick() == timeline.snapshot(None) == began + timedelta(seconds=10)
    after_a_restart = MonotonicClock(source)
    after_a_restart.restore(*timeline.state())
    assert after_a_restart.tick() > began + timedelta(seconds=10)


def test_a_payment_settles_by_the_clock_of_its_tenant(api: ApiClient, source: Source) -> None:
    clock = EmulatorClock(source)
    api.use(Emulator(clock=clock))
    api.wallet = Wallet(clock=clock)
    api.service.settle_after("text_summary", SettlementRule(after_seconds=120))
    bought = api.buy()
    api.complete(bought)
    clock.run(60)
    source.pass_(1)
    assert api.transaction(bought)["status"] == "settling"
    source.pass_(1)
    found = api.transaction(bought)
    assert found["status"] == "succeeded"
    began = datetime.fromisoformat(found["authorized_at"])
    assert datetime.fromisoformat(found["settled_at"]) - began == timedelta(seconds=120)
