"""The keys that open a world of its own (see `worlds.py`). Pure."""

import re
from typing import Final

from faregate.service.config import Capability, Key, World

READABLE: Final[tuple[Capability, ...]] = (
    "contracts:read",
    "payers:read",
    "resources:read",
    "transactions:read",
)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_KEY: Final = re.compile(r"svc_(?:test|live)_world_([A-Za-z0-9_-]{1,100})(?:\.readonly)?", re.ASCII)


def is_name(name: str) -> bool:
    """1 to 100 letters, digits, `_` and `-`."""
    return _NAME.fullmatch(name) is not None


def world_name(key: str) -> str | None:
    """The name of the world that this key opens; None if the key is not of this form."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]


def keys_of(name: str) -> tuple[Key, ...]:
    """The keys of the world of this name."""
    return (
        Key(key=f"svc_test_world_{name}"),
        Key(key=f"svc_live_world_{name}"),
        Key(key=f"svc_test_world_{name}.readonly", capabilities=READABLE),
    )


def named(world: World, name: str) -> World:
    """The same resources and payers, to be opened with the keys of this name."""
    return world.model_copy(update={"keys": keys_of(name)})
