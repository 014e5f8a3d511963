"""Describe the public surface: signatures of what `__all__` names, and the public methods of its classes.

    python -m tests.support.public_surface    # renew tests/public_surface.txt

All is text of the source, which no version of Python writes differently: parameters, their kinds, defaults
and annotations. Methods that a class inherits are those of its base.
"""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, get_overloads

FILE = Path(__file__).parents[1] / "public_surface.txt"
MODULES = tuple(
    f"faregate{name}"
    for name in ("", ".asgi", ".wsgi", ".starlette", ".fastapi", ".flask", ".django", ".mcp", ".pay")
)
COMMAND = "python -m tests.support.public_surface"


def describe() -> str:
    """All modules. A name that several export is described where it comes first."""
    lines, seen = list[str](), dict[int, str]()
    for module in MODULES:
        lines += [*([""] if lines else []), f"# {module}"]
        loaded = importlib.import_module(module)
        for name in sorted(loaded.__all__):
            lines += _describe_name(f"{module}.{name}", name, getattr(loaded, name), seen)
    return "\n".join(lines) + "\n"


def _describe_name(path: str, name: str, value: Any, seen: dict[int, str]) -> Iterator[str]:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        yield f"{name}: {type(value).__name__}"
    elif id(value) in seen:
        yield f"{name}: {seen[id(value)]}"
    else:
        seen[id(value)] = path
        yield from _describe_overloads(value)
        yield from _describe_node(_parse(value))


def _describe_overloads(value: Any) -> Iterator[str]:
    for one in get_overloads(value) if inspect.isfunction(value) else ():
        yield from _describe_node(_parse(one))


def _describe_node(node: ast.AST) -> Iterator[str]:
    """A function, a field, or a class with those of its own that are public."""
    match node:
        case ast.ClassDef():
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            yield f"class {node.name}({bases})" if bases else f"class {node.name}"
            for one in node.body:
                yield from (f"    {line}" for line in _describe_node(one) if _is_public(one))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (
                f"@{decorator.id}" for decorator in node.decorator_list if isinstance(decorator, ast.Name)
            )
            word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            yield f"{word} {node.name}({ast.unparse(node.args)}){returns}"
        case ast.AnnAssign():
            yield ast.unparse(node)
        case _:
            return


def _is_public(node: ast.AST) -> bool:
    name = ast.unparse(node.target) if isinstance(node, ast.AnnAssign) else getattr(node, "name", "")
    return name in ("__init__", "__call__") or not name.startswith("_")


def _parse(value: Any) -> ast.AST:
    return ast.parse(dedent(inspect.getsource(value))).body[0]


if __name__ == "__main__":
    FILE.write_text(describe())
