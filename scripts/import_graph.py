"""Draw which folders of src/faregate import which, as the picture in docs/contributing/architecture.md.

Without arguments, writes the picture. With --check, writes nothing: status 1 if the picture is not current.
An arrow that follows from others is left out. Imports inside functions and for type checkers do not count.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "faregate"
PAGE = ROOT / "docs" / "contributing" / "architecture.md"
BEGIN, END = "<!-- import graph: scripts/import_graph.py -->\n", "<!-- end of import graph -->\n"

_GROUPS = {
    **dict.fromkeys(("asgi", "wsgi", "starlette", "fastapi", "flask", "django", "mcp"), "adapters"),
    "pytest_plugin": "testing",
    "offers": "paywall",
    "settings": "paywall",
}
# Small modules that nearly everything imports: their arrows would hide the others.
_LEFT_OUT = (
    "__init__",
    "__main__",
    "commands",
    "configuration",
    "errors",
    "events",
    "frozen",
    "logs",
    "observers",
    "server_config",
)


def find_folder(module: str) -> str:
    """The folder of a module's dotted name: `faregate.core.flow` is in `core`."""
    name = module.removeprefix("faregate").lstrip(".").partition(".")[0]
    return "" if name in _LEFT_OUT else _GROUPS.get(name, name)


def list_imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        for statement in node.body if isinstance(node, ast.Try) else [node]:
            if isinstance(statement, ast.ImportFrom):
                # Only `from faregate import settings` has the module among its names.
                modules = [f"{statement.module}.{alias.name}" for alias in statement.names]
                yield from modules if statement.module == "faregate" else [str(statement.module)]
            elif isinstance(statement, ast.Import):
                yield from (alias.name for alias in statement.names)


def read_graph() -> dict[str, set[str]]:
    """The folders that each folder imports."""
    graph: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        folder = find_folder("faregate." + ".".join(path.relative_to(SOURCE).with_suffix("").parts))
        if not folder:
            continue
        targets = graph.setdefault(folder, set())
        for module in list_imports(ast.parse(path.read_text(encoding="utf-8"))):
            if module.startswith("faregate.") and find_folder(module) not in ("", folder):
                targets.add(find_folder(module))
    return graph


def find_reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - reached
        reached |= new
        waiting.extend(new)
    return reached


def draw() -> str:
    graph = read_graph()
    lines = ["```mermaid", "flowchart TD"]
    for folder, targets in sorted(graph.items()):
        implied = set[str]().union(*(find_reachable(graph, target) for target in targets))
        lines += [f"    {folder} --> {target}" for target in sorted(targets - implied)]
    return "\n".join([*lines, "```", ""])


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    current, _, after = rest.partition(END)
    picture = draw()
    if "--check" in sys.argv[1:]:
        if current != picture:
            print(f"The import graph in {PAGE.name} is not current: run scripts/import_graph.py")
        return int(current != picture)
    PAGE.write_text(f"{before}{BEGIN}{picture}{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
