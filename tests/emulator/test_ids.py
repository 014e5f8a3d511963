"""spec: Identifier format; and the same ids at every start for what the seller set up."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faregate.emulator import (
    TEST_KEY,
    CountedIds,
    Emulator,
    ManualClock,
    SeededIds,
    Tenants,
    Wallet,
    transport,
)
from faregate.errors import ConfigurationError
from faregate.rules.ids import Ids, RewindableIds, build_id, derive_id
from faregate.system import random_id

from .seller import ApiClient, Json, Purchase, is_id

PREFIXES = ("txn", "acr", "res", "pyr", "rex", "prq", "rct", "prc", "org", "rvk")


@given(st.sampled_from(PREFIXES), st.integers(0, 253_370_764_800_000), st.integers(0, (1 << 74) - 1))
def test_every_moment_and_any_chance_has_the_shape(prefix: str, milliseconds: int, entropy: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    found = build_id(prefix, moment, entropy)
    assert is_id(prefix, found)
    assert int(found[4:16], 16) == milliseconds


def test_different_entropy_gives_different_ids() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    bits = [0, *(1 << place for place in range(74))]
    assert len({build_id("txn", moment, entropy) for entropy in bits}) == 75
    assert len({random_id("txn", moment) for _ in range(1000)}) == 1000
    assert is_id("txn", random_id("txn", moment))


def test_derived_ids_are_stable_and_distinct() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert derive_id("res", moment, "test", "a") == derive_id("res", moment, "test", "a")
    assert derive_id("res", moment, "test", "a") != derive_id("res", moment, "live", "a")
    assert derive_id("res", moment, "ab", "c") != derive_id("res", moment, "a", "bc")


def test_the_built_in_ids_are_the_same_at_every_start() -> None:
    assert Emulator().revision_id("text_summary") == "acr_01941f297c0078f7b818ac62579baa6a"
    assert Emulator().resource_id("text_summary") == "res_01941f297c007ce5879deda77804b5ef"
    assert Emulator().revision_id("text_summary", "live") != Emulator().revision_id("text_summary")


def test_every_id_the_service_gives_has_the_pattern(api: ApiClient) -> None:
    api.complete(api.buy())
    documents: list[Json] = [
        api.listed(path)
        for path in ("/transactions", "/payers", "/resources", "/contracts?include_integration_key=true")
    ]
    transaction = documents[0]["items"][0]["id"]
    documents.append(api.listed(f"/transactions/{transaction}"))
    found = {text for document in documents for text in strings(document) if text[:4] in underscored()}
    assert {text[:3] for text in found} == set(PREFIXES) - {"rex"}
    assert all(is_id(text[:3], text) for text in found)


def underscored() -> set[str]:
    return {f"{prefix}_" for prefix in PREFIXES}


def strings(value: object) -> list[str]:
    """Every string in a JSON value, names included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings(part)]
    if isinstance(value, list):
        return [text for part in value for text in strings(part)]
    return []


def scenario(api: ApiClient, ids: Ids, *keys: str) -> list[list[str]]:
    """Every id that one sale gives in the tenant of each of these keys, on a still clock."""
    main = Emulator(clock=ManualClock(), ids=ids)
    with httpx.Client(transport=transport(Tenants(main)), base_url="http://emulator") as http:
        return [sale(replace(api, http=http, service=main, key=key)) for key in keys or (TEST_KEY,)]


def sale(api: ApiClient) -> list[str]:
    """The ids that a sale with always the same payment gives."""
    proof = Wallet("0x" + "11" * 32, clock=api.clock).pay(api.instructions(), nonce="0x" + "22" * 32)
    bought = Purchase(
        api.access(proof=proof).json()["transaction_id"], proof, api.service.revision_id("text_summary")
    )
    receipt = api.complete(bought).json()["receipt"]["id"]
    (payer,) = api.listed("/payers")["items"]
    found = [bought.id, api.transaction(bought)["payment_request_id"], payer["id"], receipt]
    assert all(map(is_id, ("txn", "prq", "pyr", "rct"), found))
    return found


def test_counted_ids_and_a_still_clock_repeat_a_story(api: ApiClient) -> None:
    assert scenario(api, CountedIds()) == scenario(api, CountedIds())


def test_the_same_seed_repeats_a_story_and_another_does_not(api: ApiClient) -> None:
    assert scenario(api, SeededIds(7)) == scenario(api, SeededIds("7"))
    assert not set(scenario(api, SeededIds(7))[0]) & set(scenario(api, SeededIds(8))[0])


def test_seeded_ids_look_like_chance() -> None:
    ids, moment = SeededIds("seed"), datetime(2026, 1, 1, tzinfo=UTC)
    found = [ids("txn", moment) for _ in range(1000)]
    assert len({one[-15:] for one in found}) == 1000
    assert len({one[:16] for one in found}) == 1
    assert all(is_id("txn", one) for one in found)
    ones = sum(int(one[-15:], 16).bit_count() for one in found)
    assert 0.49 < ones / (1000 * 60) < 0.51


@pytest.mark.parametrize("make", [CountedIds, lambda: SeededIds(7)])
def test_what_one_tenant_does_moves_no_ids_of_another(api: ApiClient, make: Callable[[], Ids]) -> None:
    a, b = "svc_test_tenant_a", "svc_test_tenant_b"
    assert scenario(api, make(), a, b) == scenario(api, make(), b, a)[::-1]


def test_tenants_of_one_seed_have_different_ids() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    sources: list[Ids] = [SeededIds(7), SeededIds(7).like("a"), SeededIds(7).like("b")]
    assert len({ids("txn", moment) for ids in sources}) == 3


@pytest.mark.parametrize("make", [CountedIds, lambda: SeededIds(7)])
def test_ids_go_back_to_where_a_snapshot_was(make: Callable[[], RewindableIds]) -> None:
    ids, moment = make(), datetime(2026, 1, 1, tzinfo=UTC)
    ids("txn", moment)
    kept = ids.state()
    first = [ids("txn", moment), ids("rct", moment)]
    ids.restore(kept)
    again = [ids("txn", moment), ids("rct", moment)]
    after_a_restart = make()
    after_a_restart.restore(kept)
    assert first == again == [after_a_restart("txn", moment), after_a_restart("rct", moment)]
    assert isinstance(ids, RewindableIds)
    assert not isinstance(random_id, RewindableIds)


@pytest.mark.parametrize("state", [-1, "1", True, None])
def test_what_is_no_state_of_an_id_source_is_an_error(state: int) -> None:
    with pytest.raises(ConfigurationError, match="is a number of ids, not"):
        SeededIds(7).restore(state)
