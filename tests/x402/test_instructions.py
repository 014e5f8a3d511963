"""Whether payment instructions are unpredictable: two of them, compared."""

import base64
import random
import secrets
import string
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faregate.x402.instructions import are_unpredictable
from tests.support.headers import encode_header

ROOT = Path(__file__).parents[2]
BASE62 = string.ascii_letters + string.digits
BASE32 = string.ascii_uppercase + "234567"
HEX = "6f1d0c9e8b7a2f3e4d5c6b7a8f9e0d1c"


def entry(extra: Any, **changes: Any) -> dict[str, Any]:
    terms = {"scheme": "exact", "network": "eip155:84532", "amount": "10000", "payTo": "0x" + "11" * 20}
    return {**terms, "extra": extra, **changes}


def header(*entries: Any, **changes: Any) -> str:
    required = {"x402Version": 2, "error": "", "accepts": list(entries), **changes}
    return encode_header(required)


def challenged(value: Any) -> str:
    """Instructions with one entry that carries this value."""
    return header(entry({"name": "USDC", "version": "2", "challenge": value}))


def from_alphabet(letters: str, length: int) -> Callable[[random.Random], str]:
    return lambda chance: "".join(chance.choice(letters) for _ in range(length))


@pytest.mark.parametrize(
    "make",
    [
        from_alphabet("0123456789abcdef", 32),
        from_alphabet("0123456789ABCDEF", 64),
        from_alphabet(BASE62 + "-_", 22),
        from_alphabet(BASE62 + "+/", 43),
        from_alphabet(BASE62, 22),
        from_alphabet(BASE32, 26),
        from_alphabet(string.digits, 39),
        lambda chance: str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        lambda chance: "challenge-of-this-service:" + from_alphabet("0123456789abcdef", 32)(chance),
        lambda chance: chance.getrandbits(128) | 1 << 128,
    ],
    ids=["hex", "HEX", "base64url", "base64", "base62", "base32", "digits", "uuid4", "prefixed", "number"],
)
def test_a_random_value_of_128_bits_is_unpredictable_every_time(make: Callable[[random.Random], Any]) -> None:
    chance = random.Random(7)
    for _ in range(200):
        assert are_unpredictable(challenged(make(chance)), challenged(make(chance)))


@pytest.mark.parametrize(
    "make",
    [
        from_alphabet("0123456789abcdef", 16),
        from_alphabet(BASE62 + "-_", 11),
        from_alphabet(string.digits, 20),
        lambda chance: f"{'a7' * 30}-{chance.randrange(10**9):09}",
        lambda chance: f"2026-01-01T00:00:00.{chance.randrange(10**9):09}Z-of-this-service",
        lambda chance: "challenge-of-this-service:" + from_alphabet("0123456789abcdef", 16)(chance),
        lambda chance: f"{chance.randrange(10**6)}-{'f00dcafe1234' * 4}{HEX}-{chance.randrange(10**6)}",
        lambda chance: "0123456789abcdef" * 4,
        lambda chance: "ab" * chance.randrange(20, 40),
        lambda chance: chance.getrandbits(64),
        lambda chance: True,
        lambda chance: None,
    ],
    ids=[
        "short-hex",
        "short-base64",
        "short-digits",
        "counter",
        "moment",
        "short-prefixed",
        "shifted",
        "constant",
        "repeated",
        "number",
        "true",
        "null",
    ],
)
def test_a_value_with_less_is_not_unpredictable(make: Callable[[random.Random], Any]) -> None:
    chance = random.Random(7)
    for _ in range(200):
        assert not are_unpredictable(challenged(make(chance)), challenged(make(chance)))


def fresh() -> str:
    return secrets.token_hex(32)


def test_the_value_may_have_any_name_and_stand_at_any_depth_of_extra() -> None:
    first, second = (header(entry({"a": {"b": [1, {"c": fresh()}]}})) for _ in range(2))
    assert are_unpredictable(first, second)


def test_every_entry_needs_one() -> None:
    both = [header(entry({"x": fresh()}), entry({"x": fresh()})) for _ in range(2)]
    assert are_unpredictable(*both)
    one = [header(entry({"x": fresh()}), entry({"name": "USDC"})) for _ in range(2)]
    assert not are_unpredictable(*one)
    assert not are_unpredictable(header(), header())
    assert not are_unpredictable(both[0], challenged(fresh()))


def test_it_must_stand_in_the_same_place() -> None:
    assert not are_unpredictable(header(entry({"x": fresh()})), header(entry({"y": fresh()})))
    assert not are_unpredictable(header(entry({"x": [fresh()]})), header(entry({"x": {"0": fresh()}})))


@pytest.mark.parametrize("place", ["payTo", "asset", "memo"])
def test_only_extra_counts_for_other_fields_may_be_on_the_chain(place: str) -> None:
    assert not are_unpredictable(*(header(entry({}, **{place: "0x" + fresh()[:40]})) for _ in range(2)))
    assert not are_unpredictable(*(header(entry({}), **{place: fresh()}) for _ in range(2)))


def test_the_same_instructions_twice_are_not_unpredictable() -> None:
    one = challenged(fresh())
    assert not are_unpredictable(one, one)


DEEP = base64.b64encode(b'{"accepts":[{"extra":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}").decode()
NESTED = base64.b64encode(b'{"accepts":[{"extra":' + b"[" * 12_000).decode()
LONG = base64.b64encode(b'{"accepts":[{"extra":{"x":' + b"9" * 5000 + b"}}]}").decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not base64!",
        "\N{SNOWMAN}",
        "\udcff",
        "AAAA",
        "bnVsbA==",
        base64.b64encode(b"\xff\xfe{}").decode(),
        header(entry(None)),
        header(None, 7, []),
        base64.b64encode(b'{"accepts": 7}').decode(),
        base64.b64encode(b"[]").decode(),
        DEEP,
        NESTED,
        LONG,
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_what_cannot_be_read_is_not_unpredictable_and_raises_nothing(text: str) -> None:
    assert not are_unpredictable(text, text)
    assert not are_unpredictable(challenged(fresh()), text)
    assert not are_unpredictable(text, challenged(fresh()))


CRASH = """
import sys, threading
from tests.x402.test_instructions import DEEP, NESTED
from faregate.x402.instructions import are_unpredictable

sys.setrecursionlimit(1_000_000)
threading.stack_size(256 * 1024)
for text in (DEEP, NESTED):
    threads = [threading.Thread(target=are_unpredictable, args=(text, text)) for _ in range(2)]
    [(thread.start(), thread.join()) for thread in threads]
print("alive")
"""


def test_deep_instructions_do_not_end_the_process() -> None:
    """Some packages raise the recursion limit, such as py_ecc under eth-account: then there is no error."""
    ran = subprocess.run([sys.executable, "-c", CRASH], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "alive\n"), ran.stderr[-500:]


def test_long_instructions_are_not_read() -> None:
    entries = [entry({"challenge": fresh()}) for _ in range(2)]
    most = 16 * 1024
    padded = [header(one, pad="x" * (most * 3 // 4 - 600)) for one in entries]
    assert max(map(len, padded)) < most
    assert are_unpredictable(*padded)
    long = [header(one, pad="x" * most) for one in entries]
    assert not are_unpredictable(*long)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON, JSON)
def test_any_json_in_extra_raises_nothing(first: Any, second: Any) -> None:
    texts = [header(entry(one)) for one in (first, second)]
    assert are_unpredictable(*texts) in (True, False)
    assert not are_unpredictable(texts[0], texts[0])


@given(st.text(), st.text())
def test_any_text_raises_nothing(first: str, second: str) -> None:
    assert not are_unpredictable(first, second)
