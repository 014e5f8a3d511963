"""Find the application in a folder by reading its source. Nothing is imported or run."""

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CLASSES: Final = {
    ("fastapi", "FastAPI"): "fastapi",
    ("starlette.applications", "Starlette"): "starlette",
    ("flask", "Flask"): "flask",
    ("mcp.server", "MCPServer"): "mcp",
    ("mcp.server.mcpserver", "MCPServer"): "mcp",
}
_SKIPPED: Final = {"__pycache__", "build", "dist", "node_modules", "site-packages", "test", "tests"}
_MAX_DEPTH: Final = 3
_SETTINGS_MODULE: Final = re.compile(r"""DJANGO_SETTINGS_MODULE["'],\s*["']([\w.]+)["']""")
_FAREGATE: Final = re.compile(r"^\s*(?:from|import) faregate\b|[\"']faregate\.django", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class App:
    """An application: its file, relative to the folder, and the name by which a test can import it.

    `name` is a factory's if `is_factory`; of Django, `module` is that of the settings and `name` is empty.
    Elsewhere `name` is empty if the application is made where no import reaches it.
    """

    framework: str
    path: Path
    module: str
    name: str = ""
    is_factory: bool = False
    has_paywall: bool = False


def find_apps(folder: Path) -> list[App]:
    """The applications of FastAPI, Starlette, Flask, Django and MCP below a folder, sorted by file."""
    apps = [_read_app(folder, path) for path in sorted(list_sources(folder))]
    return [app for app in apps if app is not None]


def list_sources(folder: Path) -> Iterator[Path]:
    """Python files below `folder`, relative to it; without tests and environments."""
    for place, folders, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        is_deep = len(inside.parts) >= _MAX_DEPTH
        folders[:] = [] if is_deep else [name for name in folders if _may_have_sources(Path(place, name))]
        yield from (
            inside / name
            for name in names
            if name.endswith(".py") and name != "conftest.py" and not name.startswith("test_")
        )


def _may_have_sources(folder: Path) -> bool:
    name = folder.name
    return name.isidentifier() and name not in _SKIPPED and not (folder / "pyvenv.cfg").exists()


def _read_app(folder: Path, path: Path) -> App | None:
    try:
        source = (folder / path).read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return None
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    has_paywall = _FAREGATE.search(source) is not None
    if path == Path("manage.py") and (settings := _SETTINGS_MODULE.search(source)):
        return _describe_project(folder, settings[1])
    constructors = _find_constructors(tree)
    for node in tree.body:
        framework = _find_framework(node, constructors)
        if framework and (name := _get_name(node)):
            return App(framework, path, module, name, isinstance(node, ast.FunctionDef), has_paywall)
    framework = _find_framework(tree, constructors)
    return App(framework, path, module, has_paywall=has_paywall) if framework else None


def _describe_project(folder: Path, settings: str) -> App:
    path = Path(*settings.split(".")).with_suffix(".py")
    try:
        has_paywall = _FAREGATE.search((folder / path).read_text(encoding="utf-8")) is not None
    except (OSError, ValueError):  # a package of settings, for example
        has_paywall = False
    return App("django", path, settings, has_paywall=has_paywall)


def _find_constructors(tree: ast.Module) -> dict[str, str]:
    """The framework by the expression that makes its application, such as `FastAPI` or `flask.Flask`."""
    frameworks: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if framework := _CLASSES.get((node.module or "", alias.name)):
                    frameworks[alias.asname or alias.name] = framework
        elif isinstance(node, ast.Import):
            for alias in node.names:
                for (module, name), framework in _CLASSES.items():
                    if alias.name == module:
                        frameworks[f"{alias.asname or module}.{name}"] = framework
    return frameworks


def _find_framework(tree: ast.AST, constructors: dict[str, str]) -> str:
    """The framework whose application is made somewhere in `tree`; empty if none is."""
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return next((constructors[called] for called in calls if called in constructors), "")


def _get_name(node: ast.stmt) -> str:
    """What a statement of a module names: a variable, or a function that needs no arguments."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.FunctionDef(name=name, args=arguments):
            has_defaults = len(arguments.defaults) >= len(arguments.posonlyargs) + len(arguments.args)
            return name if has_defaults and None not in arguments.kw_defaults else ""
        case _:
            return ""
