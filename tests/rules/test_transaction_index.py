"""The register of transactions answers as a walk over all of them would, for every moment and every page."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faregate.rules.records import STATUSES, Status
from faregate.rules.transaction_index import BLOCKS, TemporalIndex

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
SMALL_BLOCKS = (12, 4, 2)
"""Three levels within reach of a short story."""


class Create(NamedTuple):
    after: int


class Move(NamedTuple):
    place: int
    status: Status
    after: int
    told_late_by: int


Story = list[Create | Move]
TICKS = st.integers(0, 2)
MOVES = st.builds(Move, st.integers(0, 10**6), st.sampled_from(STATUSES), TICKS, st.integers(0, 3))
SCENARIOS = st.lists(st.builds(Create, TICKS) | MOVES, max_size=60)


@dataclass
class Record:
    number: int
    created_at: datetime
    history: list[tuple[datetime, Status]]

    def status_at(self, moment: datetime) -> Status:
        return next(status for began, status in reversed(self.history) if began <= moment)

    def move(self, register: TemporalIndex["Record"], status: Status, at: datetime) -> None:
        if status != self.history[-1][1]:
            register.update(self, self.history[-1][1], status, at)
            self.history.append((at, status))


def moment(ticks: int) -> datetime:
    return BEGINNING + timedelta(microseconds=ticks)


def told(story: Story) -> tuple[TemporalIndex[Record], list[Record], int]:
    """The register and the records after this story, and its last tick.

    A change may be told late, as one that fell due by the clock, but never before the record's last one.
    """
    register, records, now = TemporalIndex[Record](SMALL_BLOCKS), list[Record](), 0
    for step in story:
        now += step.after
        if isinstance(step, Create):
            records.append(Record(len(records) + 1, moment(now), [(moment(now), "authorized")]))
            register.add(records[-1])
        elif records:
            record = records[step.place % len(records)]
            at = max(moment(now - step.told_late_by), record.history[-1][0])
            record.move(register, step.status, at)
    return register, records, now


@settings(max_examples=100)
@given(SCENARIOS, st.data())
def test_any_page_of_any_moment_is_that_of_a_walk_over_all(story: Story, data: st.DataObject) -> None:
    register, records, now = told(story)
    for tick in range(-1, now + 2):
        made = [record for record in records if record.created_at <= moment(tick)]
        assert register.newest(moment(tick)) == (made[-1] if made else None)
        for status in (None, *STATUSES):
            fitting = [record for record in made if status in (None, record.status_at(moment(tick)))]
            assert register.count(moment(tick), status) == len(fitting)
            assert register.between(0, len(fitting), moment(tick), status) == fitting
            start = data.draw(st.integers(0, len(fitting)))
            stop = data.draw(st.integers(start, len(fitting)))
            assert register.between(start, stop, moment(tick), status) == fitting[start:stop]


@settings(max_examples=40)
@given(SCENARIOS)
def test_records_taken_over_with_their_past_are_listed_as_those_that_were_watched(story: Story) -> None:
    watching, records, now = told(story)
    taking_over = TemporalIndex[Record](SMALL_BLOCKS)
    for record in records:
        taking_over.add(record)
    for tick in range(-1, now + 2):
        for status in STATUSES:
            count = watching.count(moment(tick), status)
            assert taking_over.count(moment(tick), status) == count
            both = [one.between(0, count, moment(tick), status) for one in (watching, taking_over)]
            assert both[0] == both[1]


def test_records_come_in_the_order_of_their_numbers() -> None:
    register = TemporalIndex[Record]()
    register.add(Record(2, moment(0), [(moment(0), "authorized")]))
    for number in (1, 2):
        with pytest.raises(ValueError, match=f"number {number} comes after 2"):
            register.add(Record(number, moment(0), [(moment(0), "authorized")]))
    assert register.count(moment(0)) == 1


def test_every_block_is_made_of_whole_smaller_ones() -> None:
    assert all(large % small == 0 for large, small in pairwise(BLOCKS))
