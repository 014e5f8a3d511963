"""A snapshot of whatever a session or a state may be, and its restoration in place."""

import copy
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel
from starlette.middleware.sessions import Session
from werkzeug.datastructures import CallbackDict

from faregate.checkout.snapshot import LARGE, Snapshot
from tests.attacks.sites.outer_middleware import LazyMapping, SlottedMapping


class Noting(dict[str, Any]):
    """A dict that notes each change, as session classes do."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.changes = 0

    def __setitem__(self, key: str, value: Any) -> None:
        self.changes += 1
        super().__setitem__(key, value)

    def clear(self) -> None:
        self.changes += 1
        super().clear()


class Ordered(OrderedDict[str, Any]):
    changes = 0

    def __setitem__(self, key: str, value: Any) -> None:
        self.changes += 1
        super().__setitem__(key, value)


class Bare(MutableMapping[str, Any]):
    """A mapping whose data is out of reach, as in those that are written in C."""

    __slots__ = ()
    data: dict[str, Any] = {}  # noqa: RUF012

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[key] = value

    def __delitem__(self, key: str) -> None:
        del self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


def filled(mapping: Any) -> Any:
    mapping["kept"], mapping["list"], mapping["deep"] = 1, [1, {"a": {1}}], {"b": deque([1], maxlen=3)}
    return mapping


MAPPINGS: dict[str, Callable[[], Any]] = {
    "dict": dict,
    "Starlette's session": Session,
    "a dict that notes": Noting,
    "OrderedDict": OrderedDict,
    "an OrderedDict that notes": Ordered,
    "defaultdict": lambda: defaultdict(list),
    "CallbackDict": lambda: CallbackDict(on_update=lambda _self: None),
    "a lazy mapping": lambda: LazyMapping({}),
    "one with slots": lambda: SlottedMapping({}),
    "one without attributes": Bare,
}


@pytest.mark.parametrize("into_records", [False, True])
@pytest.mark.parametrize("make", MAPPINGS.values(), ids=MAPPINGS)
def test_a_mapping_is_as_it_was_with_its_order_and_its_flags(
    make: Callable[[], Any], into_records: bool
) -> None:
    mapping = filled(make())
    before, attributes = copy.deepcopy(dict(mapping)), dict(getattr(mapping, "__dict__", {}))
    kept = mapping["list"], mapping["deep"]
    snapshot = Snapshot()
    snapshot.take(mapping, into_records=into_records)
    mapping["list"].append("new")
    mapping["list"][1]["a"].add("new")
    mapping["deep"]["b"].extend("new")
    del mapping["kept"]
    mapping["new"] = "new"
    mapping["kept"] = 2
    mapping["deep"] = "new"
    snapshot.restore()
    assert dict(mapping) == before
    assert [*mapping] == [*before]
    assert (mapping["list"], mapping["deep"]) == kept
    assert mapping["list"] is kept[0]
    assert dict(getattr(mapping, "__dict__", {})) == attributes


def test_what_was_emptied_is_filled_and_what_was_set_anew_is_unset() -> None:
    mapping = LazyMapping({"a": 1})
    data = mapping._data
    namespace: Any = mapping
    snapshot = Snapshot()
    snapshot.take(mapping)
    mapping.clear()
    mapping._data = {"stolen": True}
    namespace.loaded = True
    snapshot.restore()
    assert (dict(mapping), mapping._data is data, vars(mapping)) == (
        {"a": 1},
        True,
        {"_data": {"a": 1}, "modified": False},
    )


@dataclass
class Cart:
    items: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    items: list[str] = field(default_factory=list)


class Model(BaseModel):
    items: list[str] = []


class Struct(msgspec.Struct):
    items: list[str] = []


@pytest.mark.parametrize("record", [Cart, Slotted, Model, Struct, lambda: SimpleNamespace(items=[])])
def test_a_record_in_a_deep_value_is_as_it_was(record: Any) -> None:
    cart, other = record(), record()
    session = {"cart": cart, "more": (other,)}
    snapshot = Snapshot()
    snapshot.take(session, into_records=True)
    items = cart.items
    cart.items.append("new")
    other.items = ["new"]
    snapshot.restore()
    assert (cart.items is items, cart.items, other.items) == (True, [], [])


def test_an_object_of_the_sellers_is_left_alone() -> None:
    class Database:
        def __init__(self) -> None:
            self.rows: list[int] = []

    database = Database()
    for into_records in (False, True):
        snapshot = Snapshot()
        snapshot.take({"database": database}, into_records=into_records)
        database.rows.append(1)
        snapshot.restore()
    assert database.rows == [1, 1]


def test_an_application_is_left_alone_though_it_is_a_mapping() -> None:
    class Application(dict[str, Any]):
        def __call__(self) -> None: ...

    class Other(LazyMapping):
        def __call__(self) -> None: ...

    for application in (Application(), Other({})):
        snapshot = Snapshot()
        snapshot.take({"app": application}, into_records=True)
        application["new"] = 1
        snapshot.restore()
        assert application["new"] == 1


def test_what_is_shared_between_requests_is_left_alone() -> None:
    shared: list[int] = []
    large = dict.fromkeys(range(LARGE + 1))
    state: dict[str, Any] = {"shared": shared, "large": large, "own": []}
    snapshot = Snapshot([shared])
    snapshot.take(state)
    shared.append(1)
    large[-1] = None
    state["own"].append(1)
    snapshot.restore()
    assert (shared, -1 in large, state["own"]) == ([1], True, [])


def test_a_large_session_is_no_exception_and_a_cycle_ends() -> None:
    session: dict[Any, Any] = dict.fromkeys(range(LARGE + 1))
    session["self"] = session
    snapshot = Snapshot()
    snapshot.take(session, into_records=True)
    session["new"] = 1
    snapshot.restore()
    assert "new" not in session


def test_buffers_sets_and_queues() -> None:
    values: list[Any] = [bytearray(b"ab"), {1}, deque([1], maxlen=2), [1]]
    snapshot = Snapshot()
    snapshot.take(values)
    values[0] += b"cd"
    values[1].add(2)
    values[2].append(2)
    values.pop()
    snapshot.restore()
    assert values == [bytearray(b"ab"), {1}, deque([1]), [1]]
    assert values[2].maxlen == 2
