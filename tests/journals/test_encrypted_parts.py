"""Large results are encrypted while they are written: what stands there then is what `encrypt` gives."""

import os
import tracemalloc
from pathlib import Path

import pytest

from faregate.core.models import Response, WorkSucceeded
from faregate.errors import JournalUnreadable
from faregate.journals.codec import LARGE
from faregate.journals.keyring import Keyring
from tests.core.flow_script import RECEIPT, TXN
from tests.journals.rows import HERE, started
from tests.journals.sqlite_file import asked, written
from tests.journals.stores import Clock, sqlite

ROW = b"r" * 32
RESPONSE = "cGFpZA=="


@pytest.mark.parametrize("size", [0, 1, 15, 16, 63, 64, 65, 1000, 4096, 4097])
@pytest.mark.parametrize("field", ["result", "sixteen letters."])
def test_parts_decrypt_as_a_whole(size: int, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faregate.journals.keyring._CHUNK", 64)
    keyring = Keyring([b"k" * 32])
    first, second = os.urandom(size), os.urandom(21)
    parts = keyring.encrypt_parts(ROW, field, (first, second))
    encrypted = b"".join(parts)
    assert keyring.decrypt(ROW, field, encrypted) == first + second
    assert len(parts) == len(encrypted) == len(keyring.encrypt(ROW, field, first + second))
    assert b"".join(parts) == encrypted
    with pytest.raises(JournalUnreadable):
        keyring.decrypt(ROW, "receipt", encrypted)
    with pytest.raises(JournalUnreadable):
        keyring.decrypt(ROW, field, encrypted[:-1] + bytes([encrypted[-1] ^ 1]))


def test_each_value_has_a_nonce_of_its_own() -> None:
    keyring = Keyring([b"k" * 32])
    assert b"".join(keyring.encrypt_parts(ROW, "f", [b"a"])) != b"".join(
        keyring.encrypt_parts(ROW, "f", [b"a"])
    )


def test_a_result_in_parts_is_handed_out_and_gone_with_its_row(tmp_path: Path, clock: Clock) -> None:
    journal = sqlite(tmp_path, clock)
    result = WorkSucceeded(Response(200, (("a", "1"),), os.urandom((5 << 20) + LARGE)), (("tokens", "3"),), 7)
    lease = started(journal)
    assert journal.record_outcome(lease, result)
    count = asked(journal, "SELECT count(*) FROM large")
    assert isinstance(count, int)
    assert count > 5
    journal.schedule_retry(lease)
    hold = journal.lease_hold(TXN)
    assert hold is not None
    assert hold.outcome == result
    written(journal, "DELETE FROM large WHERE number = 3")
    with pytest.raises(JournalUnreadable):
        journal.lease_hold(TXN)
    journal.record_settlement(hold.lease, RESPONSE, RECEIPT, True)
    clock.now += 1e6
    journal.claim("another", HERE)
    assert asked(journal, "SELECT count(*) FROM large") == 0
    journal.disconnect()


MINE = "key = (SELECT key FROM journal WHERE transaction_id = 'txn_mine')"
FROM_OTHER = (
    "result = (SELECT other.result FROM large AS other WHERE other.number = large.number AND NOT other."
)


@pytest.mark.parametrize(
    "change",
    [
        f"DELETE FROM large WHERE {MINE}",
        f"DELETE FROM large WHERE {MINE} AND number = (SELECT max(number) FROM large)",
        f"UPDATE large SET number = 99 WHERE {MINE} AND number = 1",
        f"UPDATE large SET {FROM_OTHER}{MINE}) WHERE {MINE} AND number = 1",
        f"UPDATE large SET {FROM_OTHER}{MINE}) WHERE {MINE}",
        f"INSERT INTO large SELECT namespace, key, 99, x'00' FROM journal WHERE {MINE}",
    ],
    ids=["gone", "cut", "in another order", "one of another row", "all of another row", "one too many"],
)
def test_a_result_whose_parts_were_changed_is_unreadable(tmp_path: Path, clock: Clock, change: str) -> None:
    journal = sqlite(tmp_path, clock)
    for name in ("txn_mine", "txn_other"):
        lease = started(journal, name, name)
        assert journal.record_outcome(lease, WorkSucceeded(Response(200, (), os.urandom(3 << 20)), (), 7))
        journal.schedule_retry(lease)
    written(journal, change)
    with pytest.raises(JournalUnreadable):
        journal.lease_hold("txn_mine")
    assert journal.lease_hold("txn_other")
    journal.disconnect()


def test_a_large_result_is_not_copied_as_a_whole(tmp_path: Path, clock: Clock) -> None:
    journal = sqlite(tmp_path, clock)
    lease = started(journal)
    result = WorkSucceeded(Response(200, (), bytes(20 << 20)), (), 0)
    tracemalloc.start()
    try:
        assert journal.record_outcome(lease, result)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.3 * len(result.result.body)
    journal.disconnect()
