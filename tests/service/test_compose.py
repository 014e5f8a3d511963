"""The compose file of examples/service: its commands run in its order, without containers."""

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from examples.chain.facilitator import run_facilitator

from tests.service.databases import empty_database
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.forked_commands import write_commands
from tests.support.shell import Terminal

FOLDER = Path(__file__).parents[2] / "examples/service"
RECIPIENT = "0x5e11e75E11e75e11E75E11E75E11e75E11E75E11"
PRICE = 50_000


def read_services() -> dict[str, dict[str, Any]]:
    read: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    services: dict[str, dict[str, Any]] = read["services"]
    assert set(read["secrets"]) == {name for one in services.values() for name in one.get("secrets", ())}
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        # Nobody else's machine reaches a port without a proxy.
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    return services


def build_command(service: Mapping[str, Any]) -> str:
    """What the container runs: the image's entry point is `faregate`."""
    return shlex.join([*service.get("entrypoint", ["faregate"]), *service["command"]])


def build_environment(service: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, str]:
    """The container's variables, with what is elsewhere here."""
    environ = dict(service["environment"])
    for name, value in environ.items():
        for place, ours in places.items():
            if place in value:
                environ[name] = ours
    return environ


def check_health(service: Mapping[str, Any], url: str) -> None:
    """Run the health check of a container at our address; it fails by its exit status."""
    command = [part.replace("python", sys.executable) for part in service["healthcheck"]["test"][1:]]
    subprocess.run([re.sub(r"http://127.0.0.1:\d+", url, part) for part in command], check=True, timeout=30)


@pytest.mark.full
def test_its_commands_sell_and_settle(chain: LocalChain, tmp_path: Path) -> None:
    services = read_services()
    catalog = (FOLDER / "catalog.toml").read_text().replace("0xYOUR_ADDRESS", RECIPIENT)
    (tmp_path / "catalog.toml").write_text(catalog)
    with ExitStack() as stack:
        url = stack.enter_context(empty_database("postgres", tmp_path))
        (tmp_path / "database").write_text(url)
        facilitator = stack.enter_context(run_facilitator(chain.url))
        places = {"/run/secrets/database": "database", "FACILITATOR": facilitator.url, "RPC": chain.url}

        commands = write_commands(tmp_path)

        def start_terminal(name: str, **more: str) -> Terminal:
            return Terminal(tmp_path, build_environment(services[name], places) | more, programs=commands)

        setup = build_command(services["setup"]).replace("/catalog.toml", "catalog.toml")
        assert "daily_report: created" in start_terminal("setup").run(setup)
        served = start_terminal("service", FAREGATE_SERVICE_HOST="127.0.0.1")
        key = served.run("faregate service key create").split()[0]
        command = build_command(services["service"]).replace("0.0.0.0", "127.0.0.1") + " --port 0"
        places["http://service:8402"] = stack.enter_context(served.start(command))
        worker = build_command(services["worker"]).replace("0.0.0.0", "127.0.0.1")
        stack.enter_context(start_terminal("worker").start(worker, re.compile("workers settle payments")))
        for name, ours in (("service", places["http://service:8402"]), ("worker", "http://127.0.0.1:9465")):
            check_health(services[name], ours)
        places |= {"FAREGATE_API_KEY": key, "PUBLIC_URL": "http://127.0.0.1:8000", "sqlite": "memory:"}
        seller = build_command(services["seller"]).replace("0.0.0.0", "127.0.0.1")
        seller = seller.replace("--app-dir seller", f"--app-dir {FOLDER.parent / 'fastapi'}") + " --port 0"
        shop = stack.enter_context(start_terminal("seller").start(seller))

        payer = ChainPayer()
        chain.mint(USDC, payer.address, PRICE)
        paying = Terminal(tmp_path, {"FAREGATE_PAYER_KEY": payer.private_key}, programs=commands)
        bought = paying.run(f"faregate pay {shop}/report")
        [loop] = services["reconcile"]["command"]
        compared = start_terminal("reconcile").run(loop.partition("do ")[2].partition(";")[0])

    assert "receipts" in bought
    assert "settled 0.05 USDC; on the chain 0.05 USDC; no differences." in compared
    assert chain.get_balance(USDC, RECIPIENT) == PRICE


def test_the_image_has_what_it_needs() -> None:
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]

    assert copied
    assert [name for name in copied if not (FOLDER.parents[1] / name).exists()] == []
    kept = (FOLDER / "Dockerfile.dockerignore").read_text()
    assert [name for name in copied if f"!{name}" not in kept] == []
    assert next(line for line in lines if line.startswith("USER")) == "USER faregate"
