"""What `faregate emulator` says when it begins: where it is, with which keys, what it sells, who pays."""

import json
from argparse import Namespace
from collections.abc import Iterable

from faregate.emulator.emulator import Emulator
from faregate.service.goods import Resource
from faregate.service.test_payers import TEST_PAYERS
from faregate.x402.tokens import price_label


def as_json(emulator: Emulator, url: str, arguments: Namespace) -> str:
    """One line: `url`, `test_key`, and `live_key` only if live keys are let in."""
    told = {"url": url, "test_key": emulator.world.first_key("test")}
    if arguments.allow_live:
        told["live_key"] = emulator.world.first_key("live")
    return json.dumps(told)


def as_text(emulator: Emulator, url: str, arguments: Namespace) -> str:
    keys = [key for key in emulator.world.keys if arguments.allow_live or key.environment == "test"]
    page = "" if arguments.no_control else f"To look at it, open {url}/ in a browser.\n"
    return "\n".join(
        (
            f"The merchant service is emulated at {url} (stop it with Ctrl-C).",
            f"{page}\nKeys:",
            *(f"  {key.key}  ({', '.join(key.capabilities)})" for key in keys),
            "\nFor your app:",
            f"  export FAREGATE_BASE_URL={url}",
            f"  export FAREGATE_API_KEY={keys[0].key if keys else ''}\n",
            *_table(emulator),
            "\nPayers, for faregate pay URL --payer NAME:",
            *_payers(),
        )
    )


def _payers() -> Iterable[str]:
    return (f"  {payer.name:<18}{payer.about}" for payer in TEST_PAYERS.values())


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
