"""The state machine touches nothing: no I/O, framework, clock, chance or thread in its modules."""

import ast
from pathlib import Path

import pytest

from faregate.emulator import service

FORBIDDEN = {
    *("anyio", "asyncio", "httpx", "os", "pathlib", "random", "secrets", "socket", "starlette"),
    *("subprocess", "sys", "threading", "time", "uvicorn"),
}
EDGE = {
    *("__init__", "arranging", "asgi", "command", "edge", "embedded", "emulator", "greeting", "judging"),
    *("mounts", "rewinding", "savedworlds", "server", "statefile", "statelock", "transport", "wallet"),
    *("witness", "worlds"),
}
HERE = Path(service.__file__).parent
PURE = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in EDGE)


def imported(module: str) -> set[str]:
    """Everything a module imports, dotted."""
    tree = ast.parse((HERE / f"{module}.py").read_text())
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_imports_nothing_forbidden(module: str) -> None:
    names = imported(module)
    assert not {name.split(".")[0] for name in names} & FORBIDDEN
    assert not names & {f"faregate.emulator.{edge}" for edge in EDGE}


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_does_not_ask_for_the_time(module: str) -> None:
    text = (HERE / f"{module}.py").read_text()
    for call in ("datetime.now", "datetime.utcnow", "date.today", "uuid"):
        assert call not in text
