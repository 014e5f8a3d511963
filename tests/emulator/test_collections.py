"""Garbage collections stay short, however many transactions there are."""

import gc
import weakref

import httpx

from faregate.emulator.server import serve, short_collections

from .load import Seller

SALES = 2_000
MOST = 2.5
"""Objects per transaction that the collector visits: one for itself, and its share of lists and indexes."""


def test_few_objects_are_kept_for_a_transaction() -> None:
    seller = Seller.trusted()
    seller.story()
    seller.emulator.reset()
    before = count_tracked()
    for _ in range(SALES):
        seller.story()
    seller.emulator._recorder.clear()  # of these there is a largest number
    assert count_tracked() - before < MOST * SALES


def count_tracked() -> int:
    gc.collect()
    gc.collect()  # tuples are left out once their parts were
    return len(gc.get_objects())


def test_a_reset_frees_what_collections_no_longer_visit() -> None:
    seller = Seller.trusted()
    seller.sell()
    with short_collections(), serve(seller.emulator) as url:
        index = weakref.ref(seller.emulator._service.environments["test"].index)
        gc.collect()
        assert gc.get_freeze_count() > 0
        assert httpx.post(f"{url}/_emulator/tenants/main/reset", json={}).is_success
        gc.collect()
        assert index() is None
    assert gc.get_freeze_count() == 0
