"""`faregate emulator`: reads the world, listens, says where and with which keys, serves."""

import json
from argparse import Namespace
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from faregate.emulator.clock import WorldClock
from faregate.emulator.edge import system_clock
from faregate.emulator.emulator import Emulator
from faregate.emulator.goods import Resource
from faregate.emulator.statefile import StateFile
from faregate.emulator.tokens import price_label
from faregate.emulator.world import World
from faregate.emulator.worlds import Worlds
from faregate.errors import Misconfigured


def run_emulator(arguments: Namespace) -> int:
    """Serves until interrupted; 0 then. `Misconfigured` if it cannot begin."""
    from faregate.emulator.server import listen, run, url_of

    emulator = Emulator(
        _world(arguments.world),
        clock=_clock(arguments.freeze, arguments.rate),
        seed=arguments.seed,
        allow_live=arguments.allow_live,
        expose_execution_id=arguments.expose_execution_id,
        mode=arguments.mode,
    )
    worlds = Worlds(emulator)
    state = None if arguments.state is None else StateFile(arguments.state)
    if state is not None:
        state.begin(worlds)
    listener = listen(arguments.host, arguments.port, allow_remote=arguments.allow_remote)
    describe = _as_json if arguments.json else _as_text
    with suppress(KeyboardInterrupt):
        print(describe(emulator, url_of(listener), allow_live=arguments.allow_live), flush=True)
        run(worlds, listener, control=not arguments.no_control, state=state)
    return 0


def _clock(freeze: str | None, rate: float) -> WorldClock:
    clock = WorldClock(system_clock, frozen_at=None if freeze is None else _moment(freeze))
    if freeze is None:
        clock.run(rate)
    return clock


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise Misconfigured(f"{text!r} is no moment, such as 2026-01-01T00:00:00Z") from None


def _world(path: str | None) -> World:
    if path is None:
        return World.builtin()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"cannot read the world: {error}") from None
    return World.from_toml(text, path)


def _as_json(emulator: Emulator, url: str, *, allow_live: bool) -> str:
    """One line: `url`, `test_key`, and `live_key` only if live keys are let in."""
    told = {"url": url, "test_key": emulator.world.first_key("test")}
    if allow_live:
        told["live_key"] = emulator.world.first_key("live")
    return json.dumps(told)


def _as_text(emulator: Emulator, url: str, *, allow_live: bool) -> str:
    keys = [key for key in emulator.world.keys if allow_live or key.environment == "test"]
    return "\n".join(
        (
            f"The merchant service is emulated at {url} (stop it with Ctrl-C).",
            "\nKeys:",
            *(f"  {key.key}  ({', '.join(key.capabilities)})" for key in keys),
            "\nFor your app:",
            f"  export FAREGATE_BASE_URL={url}",
            f"  export FAREGATE_API_KEY={keys[0].key if keys else ''}\n",
            *_table(emulator),
        )
    )


def _table(emulator: Emulator) -> list[str]:
    rows = [
        ("resource", "price", "revision (test)"),
        *(_row(emulator, one) for one in emulator.world.resources),
    ]
    return [f"  {key:<26}{price:<14}{revision}" for key, price, revision in rows]


def _row(emulator: Emulator, resource: Resource) -> tuple[str, str, str]:
    rules = resource.revisions[-1]
    price = price_label(rules.amount, rules.asset)
    if resource.archived:
        price = "archived"
    elif not resource.require_payment:
        price = "free"
    revision = emulator.revision_id(resource.key) if "test" in resource.environments else "-"
    return resource.key, price, revision
