"""`faregate emulator`: reads the world, listens, says where and with which keys, serves."""

import json
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

from faregate.emulator.emulator import Emulator
from faregate.emulator.goods import Resource
from faregate.emulator.tokens import price_label
from faregate.emulator.world import World
from faregate.errors import Misconfigured


def run_emulator(arguments: Namespace) -> int:
    """Serves until interrupted; 0 then. `Misconfigured` if it cannot begin."""
    from faregate.emulator.server import listen, run, url_of

    emulator = Emulator(
        _world(arguments.world),
        allow_live=arguments.allow_live,
        expose_execution_id=arguments.expose_execution_id,
        mode=arguments.mode,
    )
    listener = listen(arguments.host, arguments.port, allow_remote=arguments.allow_remote)
    describe = _as_json if arguments.json else _as_text
    with suppress(KeyboardInterrupt):
        print(describe(emulator, url_of(listener), allow_live=arguments.allow_live), flush=True)
        run(emulator, listener, control=not arguments.no_control)
    return 0


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
