"""A snapshot of mutable values, and how they are restored in place.

For what a handler writes beside its response: middleware around the paywall holds the very same
objects, so they are changed back instead of being replaced.

Rules
1. Builtin containers and mappings of any class are taken. Of a class of its own the attributes are taken,
   too: there sessions keep their data and their flags.
2. Other objects are left alone: a database session or a client cannot be changed back from outside. With
   `into_records`, dataclasses, namespaces and models are taken, too.
3. What is `shared` between requests is left alone. So is a container of more than `LARGE` entries, which no
   request makes for itself; unless it is taken with `into_records` or `is_own`.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, MutableMapping
from functools import lru_cache, partial
from types import MemberDescriptorType, SimpleNamespace
from typing import Any, TypeVar, cast

LARGE = 1000
"""Entries beyond which a container is taken to be shared between requests."""

_MAX_CLASSES = 4096
"""How many classes are remembered."""
_ATOMS: frozenset[type] = frozenset((str, int, float, bool, bytes, type(None)))
_RECORD_MARKS = ("__dataclass_fields__", "__pydantic_fields__", "__struct_fields__", "__attrs_attrs__")
_UNSET = object()
_get_type: Callable[[object], type[Any]] = type  # typed: of a value that can be anything


F = TypeVar("F", bound=Callable[..., Any])


def _cache(look: F) -> F:
    """Remember what `look` returns for a class. Typed: to type checkers, a class may have no hash."""
    return cast(F, lru_cache(maxsize=_MAX_CLASSES)(look))


class Snapshot:
    """The contents of mutable values at one moment. `restore` puts them back."""

    def __init__(self, shared: Iterable[object] = ()) -> None:
        self._restorers: list[Callable[[], object]] = []
        # The values are kept, so that no other gets the id of one.
        self._seen: dict[int, object] = {id(value): value for value in shared}

    def take(self, value: Any, *, into_records: bool = False, is_own: bool = False) -> None:
        """Remember what `value` holds, at any depth; see the rules of this module.

        `is_own` says that `value` is made for this request, so it may be of any size: a
        client that sends a thousand headers makes it large.
        """
        kind = _get_type(value)
        if _LEFT_ALONE[into_records][kind] or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if issubclass(kind, _CONTAINERS):
            if into_records or is_own or len(value) <= LARGE:
                self._take_contents(value, into_records)
                if kind not in _CONTAINERS:
                    self._take_attributes(value, into_records)
        elif into_records and issubclass(kind, tuple | frozenset):
            self.take_all(value, into_records=into_records)
        elif _is_mapping(kind) or (into_records and _is_record(kind)):
            has_attributes = self._take_attributes(value, into_records)
            if not has_attributes:
                self._take_items(value, into_records)

    def restore(self) -> None:
        """Put everything back."""
        for restore in self._restorers:
            restore()

    def _take_contents(self, value: Any, into_records: bool) -> None:
        kind = _get_type(value)
        copy, refill = _find_methods(kind)
        held = copy(value)
        self._restorers.append(partial(refill, value, held))
        self.take_all(held.values() if issubclass(kind, dict) else held, into_records=into_records)

    def _take_attributes(self, value: Any, into_records: bool) -> bool:
        """Take its attributes. Return whether it has any."""
        kind = _get_type(value)
        namespace = _find_namespace(value)
        if namespace is not None:
            self._take_contents(namespace, into_records)
        slots = list(_find_slots(kind))
        for slot in slots:
            held = _read_slot(slot, value)
            self._restorers.append(partial(_write_slot, slot, value, held))
            self.take(held, into_records=into_records)
        return namespace is not None or bool(slots)

    def _take_items(self, value: Any, into_records: bool) -> None:
        kind = _get_type(value)
        if issubclass(kind, MutableMapping):
            held: dict[Any, Any] = dict(value)
            self._restorers.append(partial(_refill_mapping, value, held))
            self.take_all(held.values(), into_records=into_records)

    def take_all(self, values: Collection[Any], *, into_records: bool = False) -> None:
        """`take` for each of the values; mostly all of them are of classes that are left alone."""
        kinds = set(map(_get_type, values)) - _ATOMS
        left_alone = _LEFT_ALONE[into_records]
        if all(map(left_alone.__getitem__, kinds)):
            return
        for value in values:
            if not left_alone[_get_type(value)]:
                self.take(value, into_records=into_records)

    def take_items(self, mapping: Mapping[str, Any], left_alone: Container[str]) -> None:
        """`take` for each of the values whose name is not to be left alone."""
        is_left_alone = _LEFT_ALONE[False]
        # By their names first: most of a scope is the protocol's.
        for name, value in mapping.items():
            if name not in left_alone and not is_left_alone[_get_type(value)]:
                self.take(value)


# Containers: by the methods of the builtin class, for those of a subclass may count as changes

_ORDEREDDICT: Any = OrderedDict
_DICT: Any = dict
_LIST: Any = list
_SET: Any = set
_DEQUE: Any = deque


def _refill_dict(value: Any, held: dict[Any, Any]) -> None:
    _DICT.clear(value)
    _DICT.update(value, held)


def _refill_ordered(value: Any, held: dict[Any, Any]) -> None:
    _ORDEREDDICT.clear(value)
    for key, member in held.items():
        _ORDEREDDICT.__setitem__(value, key, member)


def _refill_set(value: Any, held: list[Any]) -> None:
    _SET.clear(value)
    _SET.update(value, held)


def _refill_queue(value: Any, held: list[Any]) -> None:
    _DEQUE.clear(value)
    _DEQUE.extend(value, held)


def _refill_sequence(kind: Any, value: Any, held: Any) -> None:
    kind.__setitem__(value, slice(None), held)


_METHODS: tuple[tuple[type[Any], Callable[[Any], Any], Callable[[Any, Any], None]], ...] = (
    (OrderedDict, lambda value: dict(_ORDEREDDICT.items(value)), _refill_ordered),
    (dict, lambda value: dict(_DICT.items(value)), _refill_dict),
    (list, lambda value: list(_LIST.__iter__(value)), partial(_refill_sequence, _LIST)),
    (set, lambda value: list(_SET.__iter__(value)), _refill_set),
    (deque, lambda value: list(_DEQUE.__iter__(value)), _refill_queue),
    (bytearray, bytes, partial(_refill_sequence, bytearray)),
)
_CONTAINERS = tuple(kind for kind, _, _ in _METHODS)


@_cache
def _find_methods(kind: type[Any]) -> tuple[Callable[[Any], Any], Callable[[Any, Any], None]]:
    if kind is dict:
        return _DICT.copy, _refill_dict  # quicker; of a subclass it may ask for the keys
    return next((copy, refill) for base, copy, refill in _METHODS if issubclass(kind, base))


# Mappings of other classes, and records


class _LeftAlone(dict[type[Any], bool]):
    """Whether values of a class are not taken, by class: kept in a dict, because each request asks."""

    def __init__(self, into_records: bool) -> None:
        super().__init__()
        self._into_records = into_records

    def __missing__(self, kind: type[Any]) -> bool:
        if len(self) >= _MAX_CLASSES:
            self.clear()
        is_left_alone = self[kind] = _is_left_alone(kind, self._into_records)
        return is_left_alone


_LEFT_ALONE = (_LeftAlone(into_records=False), _LeftAlone(into_records=True))


def _is_left_alone(kind: type[Any], into_records: bool) -> bool:
    if kind in _ATOMS or any("__call__" in vars(base) for base in kind.__mro__):
        return True  # what can be called is an application or a class, whatever else it is
    if issubclass(kind, _CONTAINERS) or _is_mapping(kind):
        return False
    return not (into_records and (issubclass(kind, tuple | frozenset) or _is_record(kind)))


def _is_mapping(kind: type[Any]) -> bool:
    return issubclass(kind, MutableMapping) or (hasattr(kind, "__setitem__") and hasattr(kind, "__delitem__"))


def _is_record(kind: type[Any]) -> bool:
    return issubclass(kind, SimpleNamespace) or any(hasattr(kind, mark) for mark in _RECORD_MARKS)


def _refill_mapping(value: Any, held: dict[Any, Any]) -> None:
    if list(value) != list(held) or any(value[key] is not member for key, member in held.items()):
        value.clear()
        value.update(held)


def _find_namespace(value: Any) -> Any:
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _find_slots(kind: type[Any]) -> Iterator[MemberDescriptorType]:
    for base in kind.__mro__:
        if "__slots__" in vars(base):
            yield from (slot for slot in vars(base).values() if isinstance(slot, MemberDescriptorType))


def _read_slot(slot: MemberDescriptorType, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _UNSET


def _write_slot(slot: MemberDescriptorType, value: Any, held: Any) -> None:
    if held is not _UNSET:
        slot.__set__(value, held)
    elif _read_slot(slot, value) is not _UNSET:
        slot.__delete__(value)
