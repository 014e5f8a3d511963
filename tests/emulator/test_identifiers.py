"""spec: Identifier format; and the same ids at every start for what the seller set up."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from faregate.emulator import CountedIds, Emulator, ManualClock, Wallet
from faregate.emulator.edge import random_id
from faregate.emulator.identifiers import derived_id, shaped_id

from .shop import Json, Shop, is_id

PREFIXES = ("txn", "acr", "res", "pyr", "rex", "prq", "rct", "prc", "org", "rvk")


@given(
    st.sampled_from(PREFIXES),
    st.integers(0, 253_370_764_800_000),
    st.integers(0, (1 << 74) - 1),
)
def test_every_moment_and_any_chance_has_the_shape(prefix: str, milliseconds: int, entropy: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    found = shaped_id(prefix, moment, entropy)
    assert is_id(prefix, found)
    assert int(found[4:16], 16) == milliseconds


def test_different_entropy_gives_different_ids() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    bits = [0, *(1 << place for place in range(74))]
    assert len({shaped_id("txn", moment, entropy) for entropy in bits}) == 75
    assert len({random_id("txn", moment) for _ in range(1000)}) == 1000
    assert is_id("txn", random_id("txn", moment))


def test_derived_ids_are_stable_and_distinct() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert derived_id("res", moment, "test", "a") == derived_id("res", moment, "test", "a")
    assert derived_id("res", moment, "test", "a") != derived_id("res", moment, "live", "a")
    assert derived_id("res", moment, "ab", "c") != derived_id("res", moment, "a", "bc")


def test_the_built_in_ids_are_the_same_at_every_start() -> None:
    assert Emulator().revision_id("text_summary") == "acr_01941f297c0078f7b818ac62579baa6a"
    assert Emulator().resource_id("text_summary") == "res_01941f297c007ce5879deda77804b5ef"
    assert Emulator().revision_id("text_summary", "live") != Emulator().revision_id("text_summary")


def test_every_id_the_service_gives_has_the_pattern(shop: Shop) -> None:
    shop.complete(shop.buy())
    documents: list[Json] = [
        shop.listed(path)
        for path in ("/transactions", "/payers", "/resources", "/contracts?include_integration_key=true")
    ]
    transaction = documents[0]["items"][0]["id"]
    documents.append(shop.listed(f"/transactions/{transaction}"))
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


def test_counted_ids_and_a_still_clock_repeat_a_story(shop: Shop) -> None:
    stories = []
    wallet = Wallet("0x" + "11" * 32, clock=shop.clock)
    for _ in range(2):
        shop.use(Emulator(clock=ManualClock(), ids=CountedIds()))
        proof = wallet.pay(shop.instructions(), nonce="0x" + "22" * 32)
        stories.append(shop.access(proof=proof).json())
    assert stories[0] == stories[1]
    assert is_id("txn", stories[0]["transaction_id"])
