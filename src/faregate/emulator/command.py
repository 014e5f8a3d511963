"""`faregate emulator`: reads the world, listens, says where and with which keys, serves."""

from argparse import Namespace
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from faregate.emulator.clock import WorldClock
from faregate.emulator.edge import system_clock
from faregate.emulator.emulator import Emulator
from faregate.emulator.greeting import as_json, as_text
from faregate.emulator.statefile import StateFile
from faregate.emulator.tenants import Worlds
from faregate.errors import ConfigurationError
from faregate.service.config import World


def run_emulator(arguments: Namespace) -> int:
    """Serves until interrupted; 0 then. `ConfigurationError` if it cannot begin."""
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
    greet = as_json if arguments.json else as_text
    with suppress(KeyboardInterrupt):
        print(greet(emulator, url_of(listener), arguments), flush=True)
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
        raise ConfigurationError(f"{text!r} is no moment, such as 2026-01-01T00:00:00Z") from None


def _world(path: str | None) -> World:
    if path is None:
        return World.builtin()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the world: {error}") from None
    return World.from_toml(text, path)
