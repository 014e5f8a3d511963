"""What a store must do for a journal, left out on purpose."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from faregate.journals.store import Due, Record
from tests.model.dict_store import DictStore
from tests.model.mutants import Mutant


def _written_over(patch: pytest.MonkeyPatch) -> None:
    def replace(shelf: DictStore, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        shelf.before("replace")
        there = shelf.rows.get(key)
        if there is None:
            return False
        shelf._write(cast(Record, {**there, **changes}), there)
        return True

    patch.setattr(DictStore, "replace", replace)


def _claimed_by_two(patch: pytest.MonkeyPatch) -> None:
    def insert(shelf: DictStore, record: Record, candidate_keys: Sequence[bytes], now: float) -> bool:
        shelf.before("insert")
        shelf.rows[record["key"]] = record
        return True

    patch.setattr(DictStore, "insert", insert)


def _taken_by_two(patch: pytest.MonkeyPatch) -> None:
    def take_due(shelf: DictStore, due: Due, changes: Mapping[str, Any]) -> Record | None:
        row = plain(shelf, due, changes)
        if row is not None:
            shelf.rows[row["key"]] = cast(Record, {**row, "lease_until": due.now})
        return row

    plain = DictStore.take_due
    patch.setattr(DictStore, "take_due", take_due)


def _two_rows(patch: pytest.MonkeyPatch) -> None:
    def write(shelf: DictStore, row: Record, before: Record | None) -> None:
        shelf.transactions.pop(row["transaction_id"] or "", None)
        plain(shelf, row, before)

    plain = DictStore._write
    patch.setattr(DictStore, "_write", write)


def _deleted_under_others(patch: pytest.MonkeyPatch) -> None:
    def delete(shelf: DictStore, key: bytes, stamp: int) -> bool:
        shelf.before("delete")
        there = shelf.rows.get(key)
        if there is not None:
            shelf._forget(there)
        return True

    patch.setattr(DictStore, "delete", delete)


def _written_and_lost(patch: pytest.MonkeyPatch) -> None:
    def replace(shelf: DictStore, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        there = shelf.rows.get(key)
        return there is not None and (durable or plain(shelf, key, stamp, changes, durable))

    plain = DictStore.replace
    patch.setattr(DictStore, "replace", replace)


STORES = (
    Mutant("a store writes over what others wrote", _written_over),
    Mutant("a store lets two claim one proof", _claimed_by_two),
    Mutant("a store gives a row to two walks", _taken_by_two),
    Mutant("a store keeps two rows of one payment", _two_rows),
    Mutant("a store deletes what others wrote", _deleted_under_others),
    Mutant("a store says that it wrote, and did not", _written_and_lost),
)
