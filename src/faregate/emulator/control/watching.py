"""What changed in a world since a page last looked. Pure.

A look at a world in which nothing happened compares a few numbers. A page has the newest transactions and
calls; of the others it knows sums. A world that is older than the page is taken in piece by piece.
"""

from datetime import datetime
from typing import Any, Final

from faregate.emulator.control import picture
from faregate.emulator.control.rules import rules
from faregate.emulator.control.story import Story
from faregate.emulator.control.threads import Threads
from faregate.emulator.diary import Diary
from faregate.merchant.types import Environment
from faregate.service.app import Service
from faregate.service.records import PayerRecord
from faregate.service.state import Books

PAYERS: Final = 40
"""Payers that a page has: those who paid last."""

Json = dict[str, Any]


class Watch:
    """One page's look at one environment of a world."""

    def __init__(self, environment: Environment) -> None:
        self._environment: Environment = environment
        self._story: Story | None = None
        self._threads = Threads(environment)
        self._told: Json = {}

    def look(self, service: Service, diary: Diary) -> Json | None:
        """The parts of the picture that changed; None means that there is more to take in: look again.

        `whole` is there if all that was told before is void: at first, after a reset or a restore.
        """
        story = self._current(service.books[self._environment], diary)
        now = story.books.timeline.now()
        if not (story.take_in(now) and self._threads.take_in(diary)):
            return None
        whole = {} if self._told else {"whole": True}
        parts = {**_sections(story, now), "about": _about(service, self._environment)}
        return {**whole, **self._news(story), **self.changed(parts)}

    def changed(self, sections: Json) -> Json:
        """Those of these parts that differ from what was told last."""
        found = {name: value for name, value in sections.items() if self._told.get(name) != value}
        self._told.update(found)
        return found

    def _current(self, books: Books, diary: Diary) -> Story:
        if self._story is None or not (self._story.goes_on(books) and self._threads.go_on(diary)):
            self._story, self._threads, self._told = Story(books), Threads(self._environment), {}
        return self._story

    def _news(self, story: Story) -> Json:
        calls, touched = self._threads.news()
        moved = {record.id: record for record in (*story.moved(), *story.shown_of(touched))}
        records = sorted(moved.values(), key=lambda one: one.number)
        entries = [picture.transaction(one, *self._threads.of(one.id)) for one in records]
        news = {"transactions": entries, "calls": calls}
        return {name: found for name, found in news.items() if found}


def _sections(story: Story, now: datetime) -> Json:
    books = story.books
    return {
        "counts": picture.counts(books, now),
        "money": picture.money(story.tally),
        "payers": [picture.payer(books, one, now) for one in _payers(story)],
        "rules": rules(books),
    }


def _about(service: Service, environment: Environment) -> Json:
    """Test keys are made to be shown; a live one never is."""
    keys = [key.key for key in service.keys.values() if key.environment == environment == "test"]
    return {"environment": environment, "key": next(iter(keys), None), "live": service.allow_live}


def _payers(story: Story) -> list[PayerRecord]:
    """Who paid last comes first."""
    found: dict[str, PayerRecord] = {}
    for record in reversed(story.shown):
        found.setdefault(record.payer.id, record.payer)
        if len(found) == PAYERS:
            break
    return list(found.values())
