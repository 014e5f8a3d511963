"""All worlds of a server as one document: what a state file has in it."""

import json
from collections.abc import Iterator
from typing import Literal

from pydantic import ValidationError

from faregate.emulator.document import StateDocument, place_of
from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Setup, Worlds
from faregate.errors import ConfigurationError
from faregate.service.config import World
from faregate.service.goods import Part


class WorldState(Part):
    name: str
    seed: str | None = None
    world: World | None = None
    state: StateDocument


class SavedWorlds(Part):
    version: Literal[1]
    worlds: tuple[WorldState, ...]


def written(worlds: Worlds) -> Iterator[str]:
    """As JSON, in pieces."""
    yield '{"version":1,"worlds":['
    for number, name in enumerate(worlds.names):
        emulator = worlds.find(name)
        if emulator is not None:
            yield "," if number else ""
            yield from _world(name, worlds.setup(name), emulator)
    yield "]}"


def take_up(worlds: Worlds, text: bytes) -> None:
    """Opens and seeds the worlds that this text names; `ConfigurationError` says what is wrong with it."""
    for one in _read(text).worlds:
        worlds.open(one.name, world=one.world, seed=one.seed).seed(one.state)


def _world(name: str, setup: Setup, emulator: Emulator) -> Iterator[str]:
    world = "null" if setup.world is None else setup.world.model_dump_json()
    yield f'{{"name":{json.dumps(name)},"seed":{json.dumps(setup.seed)},"world":{world},"state":'
    yield from emulator.written()
    yield "}"


def _read(text: bytes) -> SavedWorlds:
    try:
        return SavedWorlds.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place, words = place_of(fault["loc"]) or "the file", fault["msg"].removeprefix("Value error, ")
        raise ConfigurationError(f"this is no state of an emulator: {place}: {words}") from None
