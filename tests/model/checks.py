"""The rules, asked of one step: what was before it, and what is after it."""

from tests.model.flow_tree import Place
from tests.model.frozen_journal import Frozen, is_owed, row_of, standing_of, was_taken_under_lease
from tests.model.interning import Told
from tests.model.invariants import Facts, check_answer, check_kept, check_known, check_lease, check_raised
from tests.model.replies import transaction

TXN = transaction(1)


def checked(before: Frozen, after: Frozen, facts: Facts, place: Place, later: Place) -> Facts:
    check_lease(was_taken_under_lease(before, after))
    was, now = row_of(before, TXN), row_of(after, TXN)
    check_kept(is_owed(was), now is not None)
    if was is not None and now is None:
        facts = facts._replace(over=True)
    if later.end is not None or not later.knowledge.learned:
        learned = place.knowledge.learned or later.knowledge.learned
        check_known(learned, now is not None or facts.last_resort or facts.over)
    return facts


def check_end(journal: Frozen, told: Told, place: Place) -> None:
    if place.end is None:
        return
    check_raised(place.end.error)
    if place.proof:
        standing = standing_of(journal, TXN, place.proof)
        check_answer(place.end.value or place.end.error, *told, standing)
