"""All worlds of a server as one document: what a state file has in it."""

from typing import Literal

from pydantic import ValidationError

from faregate.emulator.document import StateDocument, place_of
from faregate.emulator.emulator import Emulator
from faregate.emulator.goods import Part
from faregate.emulator.world import World
from faregate.emulator.worlds import Setup, Worlds
from faregate.errors import Misconfigured


class WorldState(Part):
    name: str
    seed: str | None = None
    world: World | None = None
    state: StateDocument


class SavedWorlds(Part):
    version: Literal[1]
    worlds: tuple[WorldState, ...]


def written(worlds: Worlds) -> dict[str, object]:
    """As plain JSON."""
    found = [(name, worlds.setup(name), worlds.find(name)) for name in worlds.names]
    return {
        "version": 1,
        "worlds": [_world(name, setup, emulator) for name, setup, emulator in found if emulator],
    }


def take_up(worlds: Worlds, text: bytes) -> None:
    """Opens and seeds the worlds that this text names; `Misconfigured` says what is wrong with it."""
    for one in _read(text).worlds:
        worlds.open(one.name, world=one.world, seed=one.seed).seed(one.state)


def _world(name: str, setup: Setup, emulator: Emulator) -> dict[str, object]:
    return {
        "name": name,
        "seed": setup.seed,
        "world": None if setup.world is None else setup.world.model_dump(mode="json"),
        "state": emulator.export(),
    }


def _read(text: bytes) -> SavedWorlds:
    try:
        return SavedWorlds.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place, words = place_of(fault["loc"]) or "the file", fault["msg"].removeprefix("Value error, ")
        raise Misconfigured(f"this is no state of an emulator: {place}: {words}") from None
