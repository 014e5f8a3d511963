"""What holds for every stored journal: sealed, bounded, and shared by many writers."""

import threading
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faregate.core.claim_types import AlreadyFailed, AlreadyUsed, Claimed, InProgress, Replayable
from faregate.core.models import Response, WorkFailed, WorkSucceeded
from faregate.errors import ConfigurationError, JournalError, JournalFull, JournalUnreadable
from faregate.journals import quota
from faregate.journals.durations import JournalPolicy
from faregate.journals.persistent import PersistentJournal
from faregate.journals.row_rules import Row
from faregate.journals.store import ENCRYPTED, Record
from tests.core.flow_script import ACR, OTHER_TXN, RECEIPT, TXN
from tests.journals.rows import (
    GOOD,
    HERE,
    LEASE,
    WORK_SECONDS,
    decided,
    fresh,
    owed,
    released,
    started,
    take_in_threads,
)
from tests.journals.stores import (
    JOURNALS,
    KEY,
    OTHER_KEY,
    STORED,
    Clock,
    disconnect,
    find_class,
    sqlite,
    tamper,
)
from tests.support.products import spread
from tests.support.threads import run_in_threads

Open = Callable[..., PersistentJournal]
TERMS = JournalPolicy()


@pytest.fixture(params=spread("open_one", STORED, find_class), name="open_one")
def _open_one(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Generator[Open]:
    """Opens the journal anew, as another process would: same place, other options."""
    made: list[Any] = []

    def open_one(**options: Any) -> Any:
        made.append(JOURNALS[request.param](tmp_path, clock, **options))
        return made[-1]

    yield open_one
    for journal in made:
        disconnect(journal)


def record_of(journal: PersistentJournal, proof: str = "proof") -> Record:
    found = journal._store.find(list(journal._keyring.lookup_keys(proof, HERE)))
    assert found is not None
    return {**found, "result": journal._store.find_result(found["key"])}


# It lasts, and is shared


def test_rows_survive_the_journal_object(open_one: Open, clock: Clock) -> None:
    slow = WorkSucceeded(Response(200, (("a", "\xe9"), ("A", "2")), bytes(range(256))), (("tokens", "3"),), 7)
    decided(open_one(), slow)
    clock.now += LEASE
    entry = owed(open_one().claim("proof", HERE))
    assert (entry.outcome, entry.proof, entry.transaction_id, entry.revision_id) == (slow, "proof", TXN, ACR)


def test_a_failed_outcome_is_stored_unchanged(open_one: Open, clock: Clock) -> None:
    decided(open_one(), WorkFailed("status_500"))
    clock.now += LEASE
    entry = open_one().lease_next()
    assert entry is not None
    assert entry.outcome == WorkFailed("status_500")


def test_concurrent_redeliveries_are_counted_exactly(open_one: Open) -> None:
    released(open_one())
    answers = together(8, lambda: open_one().claim("proof", HERE))
    assert sum(isinstance(answer, Replayable) for answer in answers) == TERMS.redeliveries
    assert sum(answer == AlreadyUsed(TXN) for answer in answers) == 8 - TERMS.redeliveries


def test_one_of_many_claims_gets_a_transaction(open_one: Open) -> None:
    journal = open_one()
    tickets = [fresh(journal.claim(f"encoded {number} times", HERE)) for number in range(8)]
    answers = together(8, lambda: open_one().record_transaction(tickets.pop(), TXN, ACR, WORK_SECONDS))
    assert sorted(answers) == [False] * 7 + [True]


@pytest.mark.every_value
def test_eight_threads_take_different_rows(open_one: Open, clock: Clock) -> None:
    journal = open_one()
    take_in_threads(journal, clock, 40, at_end=journal.disconnect)


def together(count: int, act: Callable[[], Any]) -> list[Any]:
    answers: list[Any] = []
    barrier = threading.Barrier(count)

    def run() -> None:
        from django.conf import settings
        from django.db import connections

        barrier.wait()
        answers.append(act())
        if settings.configured:
            connections.close_all()

    run_in_threads(*[run] * count)
    return answers


def test_a_conflicting_write_is_decided_again(open_one: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else has decided since it was read: the second outcome is refused, not written over."""
    journal = open_one()
    lease = started(journal)
    taken_over(journal, monkeypatch, lambda: open_one().record_outcome(lease, GOOD))
    assert not journal.record_outcome(lease, WorkFailed("second thoughts"))
    assert record_of(journal)["state"] == "ok"


def test_a_late_process_does_not_overwrite_a_sweep(
    open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_one()
    lease = started(journal)
    clock.now += LEASE
    taken_over(journal, monkeypatch, lambda: open_one().lease_next())
    assert not journal.record_outcome(lease, GOOD)
    assert record_of(journal)["state"] == "running"


def test_a_conflicting_claim_is_read_again(open_one: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_one()
    taken_over(journal, monkeypatch, lambda: fresh(open_one().claim("proof", HERE)))
    assert journal.claim("proof", HERE) == InProgress()


def test_a_conflicting_settlement_is_still_recorded(
    open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_one()
    lease = decided(journal)
    clock.now += LEASE
    taken_over(journal, monkeypatch, lambda: owed(open_one().claim("proof", HERE)))
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)


def test_an_abandoned_claim_that_was_taken_over_stays(
    open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_one()
    lease = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    taken_over(journal, monkeypatch, lambda: fresh(open_one().claim("proof", HERE)))
    journal.abandon_claim(lease)
    assert journal.claim("proof", HERE) == InProgress()


def taken_over(journal: PersistentJournal, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Let somebody else `act` right before this journal's next write."""

    def act_first(write: Callable[..., bool], *arguments: Any) -> bool:
        monkeypatch.undo()
        act()
        return write(*arguments)

    for name in ("insert", "replace", "delete"):
        monkeypatch.setattr(journal._store, name, partial(act_first, getattr(journal._store, name)))


def test_transaction_and_outcome_are_written_durably(open_one: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut takes neither that work starts, what it gave, nor that a payment is watched or given up."""
    journal = open_one()
    replace, forced = journal._store.replace, []

    def watched(key: bytes, stamp: int, changes: Any, durable: bool) -> bool:
        forced.extend([changes["state"]] if durable else [])
        return replace(key, stamp, changes, durable)

    monkeypatch.setattr(journal._store, "replace", watched)
    decided(journal)
    journal.record_pending(fresh(journal.claim("another", HERE)), OTHER_TXN, ACR)
    assert journal.record_resumption(fresh(journal.claim("a third", HERE)), "txn_3", ACR, TXN)
    assert forced == ["running", "ok", "waiting", "failed"]


def test_a_write_that_was_repeated_counts_as_done(open_one: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first reply was lost: the row is there, or has changed, by this very write."""
    journal = open_one()

    def repeated(write: Callable[..., bool], *arguments: Any) -> bool:
        write(*arguments)
        return write(*arguments)

    for name in ("insert", "replace"):
        monkeypatch.setattr(journal._store, name, partial(repeated, getattr(journal._store, name)))
    released(journal)
    assert record_of(journal)["state"] == "settled"


def test_a_refusal_is_the_answer_of_the_row_as_it_is(open_one: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write whose reply was lost is there, and the lease does not know of it."""
    journal = open_one()
    lease = fresh(journal.claim("proof", HERE))
    replace = journal._store.replace

    def lost(*arguments: Any) -> bool:
        replace(*arguments)
        raise JournalError("lost")

    with monkeypatch.context() as patched:
        patched.setattr(journal._store, "replace", lost)
        with pytest.raises(JournalError, match="lost"):
            journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    assert journal.record_outcome(lease, GOOD)


def test_endless_conflicts_are_an_error(open_one: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_one()
    lease = started(journal)
    monkeypatch.setattr(journal._store, "replace", lambda *_: False)
    with pytest.raises(JournalError, match="others wrote the same"):
        journal.record_outcome(lease, GOOD)


# Keys


def test_keys_can_be_rotated(open_one: Open, clock: Clock) -> None:
    decided(open_one(keys=[KEY]))
    both = open_one(keys=[OTHER_KEY, KEY])
    assert both.claim("proof", HERE) == InProgress()
    fresh(both.claim("new", HERE))
    clock.now += LEASE
    assert owed(both.claim("proof", HERE)).outcome == GOOD
    assert isinstance(open_one(keys=[OTHER_KEY]).claim("new", HERE), Claimed)  # its lease is over
    assert isinstance(open_one(keys=[KEY]).claim("new", HERE), Claimed)  # not to be found: as if never seen


def test_a_payment_under_a_missing_key_is_not_served_twice(open_one: Open) -> None:
    started(open_one(keys=[KEY]))
    forgetful = open_one(keys=[OTHER_KEY])
    assert not forgetful.record_transaction(fresh(forgetful.claim("proof", HERE)), TXN, ACR, WORK_SECONDS)


def test_a_person_ends_a_row_under_a_missing_key(open_one: Open, clock: Clock) -> None:
    mine, forgetful = open_one(keys=[KEY]), open_one(keys=[OTHER_KEY])
    decided(mine)
    started(mine, "another", OTHER_TXN)
    assert not forgetful.end_unreadable(TXN, True, "discarded")  # another process is working on it
    clock.now += LEASE
    assert not mine.end_unreadable(TXN, True, "discarded")  # it can complete the payment instead
    assert not forgetful.end_unreadable("txn_unknown", True, "discarded")
    assert forgetful.end_unreadable(TXN, True, "discarded")
    assert forgetful.end_unreadable(OTHER_TXN, False, "discarded")
    assert (forgetful.list_holds(10), forgetful.lease_next()) == ([], None)
    assert not forgetful.end_unreadable(TXN, False, "discarded")  # a person cannot take it back
    assert (mine.claim("proof", HERE), mine.claim("another", HERE)) == (AlreadyUsed(TXN), AlreadyFailed())
    [record] = [dict(one) for one in mine._store.iterate() if one["transaction_id"] == TXN]
    assert [name for name in ENCRYPTED if record[name] is not None] == []
    assert record["size"] == 0


def test_a_row_under_a_missing_key_blocks_no_other_and_is_reported(open_one: Open, clock: Clock) -> None:
    started(open_one(keys=[KEY]))
    journal = open_one(keys=[OTHER_KEY])
    started(journal, "another", OTHER_TXN)
    clock.now += LEASE
    entry = journal.lease_next()
    assert entry is not None
    assert entry.transaction_id == OTHER_TXN
    for _ in range(2):
        with pytest.raises(JournalUnreadable, match="put the older key back"):
            journal.lease_next()
        assert journal.lease_next() is None  # it was put off
        journal.record_outcome(entry.lease, GOOD)
        journal.record_final(entry.lease, False)
        clock.now += TERMS.max_backoff - 1
        assert journal.lease_next() is None
        clock.now += 1


@pytest.mark.parametrize("keys", [[], [b"short"], [KEY, b"short"]])
def test_keys_are_long_enough(open_one: Open, keys: list[bytes]) -> None:
    with pytest.raises(ConfigurationError, match="32 random bytes"):
        open_one(keys=keys)


def test_keys_are_not_shown(open_one: Open) -> None:
    journal = open_one()
    assert repr(KEY) not in repr(journal.__dict__)
    assert "canary" not in repr(Row(b"", "", "", "canary", "canary", 1, 0.0, 0.0, None))


@pytest.mark.parametrize(
    ("here", "there"),
    [("proof", "proof"), ("result", "result"), ("result", "proof"), ("payment_response", "result")],
)
def test_an_encrypted_value_that_was_moved_does_not_decrypt(
    open_one: Open, clock: Clock, here: str, there: str
) -> None:
    journal = open_one()
    if here == "payment_response":
        released(journal)
    else:
        decided(journal)
    lease = started(journal, "another", OTHER_TXN)
    journal.record_outcome(lease, GOOD)
    record: Any = record_of(journal)
    victim = record_of(journal, "another") if here == there else record
    tamper(journal, victim, {there: record[here]})
    clock.now += LEASE  # a result is decrypted only to be handed out
    with pytest.raises(JournalUnreadable, match=f"the {there} of a journal row was changed, or moved"):
        journal.claim("another" if here == there else "proof", HERE)


@pytest.mark.parametrize(
    "change", [lambda sealed: sealed[:-1] + bytes([sealed[-1] ^ 1]), lambda sealed: sealed[:9]]
)
def test_a_result_that_was_changed_does_not_decrypt(open_one: Open, change: Callable[[Any], bytes]) -> None:
    journal = open_one()
    released(journal)
    record = record_of(journal)
    tamper(journal, record, {"result": change(record["result"])})
    with pytest.raises(JournalUnreadable, match="the result of a journal row was changed"):
        journal.claim("proof", HERE)


EARLIER = {
    "key": "ec24849c95d7de86230e969d4f7e7efab1c0aadab99bd27ebe032d3800fc4eb1",
    "proof": "c5f998ca8d42b8125e5499f49bebddc9f04e007b229a7ba32a49105261b16cf5312711a4f820c568a8",
    "result": "c5f998ca8d42b81254871937815db4707b195fb9d8163b7b9ceb7547c3001094036196f3cf33e6d3944bac388c2a"
    "ca7493959a7a8201ff90123fa2e3a898f3a9af202f9632486b8b69d7a732b8a32217fc7aa9f11a7082c37cdb8673"
    "b6e3141180cf0354958af21a472721c58f2fd223745f210a311854064d4c94424a35fb7bcc3a157342c4",
}


def test_rows_of_an_earlier_version_are_found_and_decrypted(tmp_path: Path, clock: Clock) -> None:
    """Another derivation or form, and all that is owed would be lost, and used proofs taken for new ones."""
    sealed = {name: bytes.fromhex(value) for name, value in EARLIER.items()}
    journal = sqlite(tmp_path, clock)
    decided(journal)
    record = record_of(journal)
    assert record["key"] == sealed.pop("key")
    assert record["request"] == "5ea6297a008103de50bbda5dfbc43aae127ea8266199778cd5c3de24b8d98f64"
    tamper(journal, record, sealed)
    clock.now += LEASE
    entry = owed(journal.claim("proof", HERE))
    assert (entry.proof, entry.outcome) == ("proof", GOOD)
    disconnect(journal)


@pytest.mark.parametrize("changes", [{"state": "novel"}, {"result": b"{}"}, {"result": b'{"status":200}'}])
def test_a_row_of_a_newer_version_is_reported_as_such(
    open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    journal = open_one()
    decided(journal)
    clock.now += LEASE
    record: Any = record_of(journal)
    if "result" in changes:
        head = changes["result"]
        framed = len(head).to_bytes(4) + head
        changes = {"result": journal._keyring.encrypt(record["key"], "result", framed)}
    monkeypatch.setattr(journal._store, "find", lambda _: {**record, **changes})
    monkeypatch.setattr(journal._store, "find_result", lambda _: {**record, **changes}["result"])
    with pytest.raises(JournalUnreadable, match="version of faregate"):
        journal.claim("proof", HERE)


def test_equal_values_encrypt_differently(open_one: Open) -> None:
    journal = open_one()
    decided(journal)
    journal.record_outcome(started(journal, "another", OTHER_TXN), GOOD)
    one, other = record_of(journal), record_of(journal, "another")
    assert one["result"] != other["result"]
    assert one["request"] != other["request"]


def test_proof_and_result_are_deleted_when_no_longer_needed(open_one: Open) -> None:
    journal = open_one()
    released(journal)
    journal.record_final(decided_again(journal), False)
    assert record_of(journal)["proof"] is None
    closed = record_of(journal, "another")
    assert (closed["proof"], closed["result"], closed["size"]) == (None, None, 0)


def decided_again(journal: PersistentJournal) -> Any:
    lease = started(journal, "another", OTHER_TXN)
    assert journal.record_outcome(lease, GOOD)
    return lease


# Bounds


@pytest.mark.parametrize("open_one", JOURNALS, indirect=True)
def test_it_refuses_rather_than_evicts_when_full(open_one: Open) -> None:
    journal = open_one(max_rows=2)
    first = fresh(journal.claim("one", HERE))
    journal.claim("two", HERE)
    with pytest.raises(JournalFull):
        journal.claim("three", HERE)
    journal.abandon_claim(first)
    fresh(journal.claim("three", HERE))


def test_rows_of_other_processes_are_counted(open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(max_rows=3), open_one()
    mine.claim("one", HERE)
    theirs.claim("two", HERE)
    theirs.claim("three", HERE)
    clock.now += 10
    with pytest.raises(JournalFull):
        mine.claim("four", HERE)


@pytest.mark.parametrize("open_one", JOURNALS, indirect=True)
def test_results_are_limited_in_bytes_and_freed(open_one: Open, clock: Clock) -> None:
    journal = open_one(max_bytes=10)
    lease = started(journal)
    journal.record_outcome(lease, WorkSucceeded(Response(200, (), b"x" * 10)))
    with pytest.raises(JournalFull):
        journal.claim("two", HERE)
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    assert isinstance(journal.claim("proof", HERE), Replayable)
    clock.now += TERMS.redelivery_window
    fresh(journal.claim("two", HERE))


def test_a_claim_deletes_a_few_expired_rows(open_one: Open, clock: Clock) -> None:
    journal = open_one()
    decided(journal)
    for number in range(20):
        journal.claim(f"abandoned {number}", HERE)
    clock.now += 2 * TERMS.claim_lease
    for number in range(4):
        journal.claim(f"new {number}", HERE)
    assert journal._store.measure() == (1 + 4, len(b"result") + 4)


def test_a_sweep_deletes_expired_rows(open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "PURGE_BATCH", 3)
    journal = open_one()
    journal.mark_stuck(decided(journal), "a person has to look")
    kept = journal._store.measure()
    for number in range(20):
        journal.claim(f"abandoned {number}", HERE)
    clock.now += 2 * TERMS.claim_lease
    assert journal.lease_next() is None
    assert journal._store.measure() == kept
    monkeypatch.setattr(quota, "MAX_PURGE_BATCHES", 1)
    for number in range(20):
        journal.claim(f"more {number}", HERE)
    clock.now += 2 * TERMS.claim_lease
    journal.lease_next()  # a sweep is bounded
    assert journal._store.measure() == (1 + 20 - 3, kept[1])


def test_namespaces_do_not_answer_for_each_other(open_one: Open) -> None:
    started(open_one(namespace="test https://service.example"))
    other = open_one(namespace="live https://service.example")
    assert other.lease_next() is None
    assert other.record_transaction(fresh(other.claim("proof", HERE)), TXN, ACR, WORK_SECONDS)
