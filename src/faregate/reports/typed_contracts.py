"""A Python module with a type for the values of each integration key, made from the contracts. Pure.

The module has neither revision ids nor a date: the same contracts give the same text, in test and live.
"""

import keyword
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from faregate.merchant.models import ContractRevision

_HEAD: Final = '''"""What this account sells, and the values to report.

Made by `faregate contracts --python`: do not edit.
"""

from decimal import Decimal
from typing import {imports}

Value = int | Decimal | str
"""A reported value. A string is a decimal, such as "0.25"; a float is refused."""
'''
_WIDTH: Final = 100


def build_module(revisions: Iterable[ContractRevision]) -> str:
    """Build the module's text. Revisions without an integration key are left out."""
    latest = {
        revision.integration_key: revision
        for revision in sorted(revisions, key=lambda revision: revision.revision_number)
        if revision.integration_key is not None
    }
    chosen = sorted(latest.items())
    is_optional = any(set(revision.properties) - set(revision.required) for revision in latest.values())
    imports = [*(["Final"] if chosen else []), "Literal", *(["NotRequired"] if is_optional else [])]
    head = _HEAD.format(imports=", ".join([*imports, *(["TypedDict"] if chosen else [])]))
    keys = ", ".join(f'"{key}"' for key, _ in chosen)
    alias = f"IntegrationKey = Literal[{keys}]" if len(keys) < _WIDTH - 30 else _format_long_alias(chosen)
    parts = [
        head,
        alias if chosen else 'IntegrationKey = Literal[""]  # nothing is sold with an integration key',
    ]
    for key, revision in chosen:
        parts.extend(("", *_build_classes(key, revision)))
    return "\n".join(parts)


def _format_long_alias(chosen: Sequence[tuple[str, ContractRevision]]) -> str:
    return "\n".join(("IntegrationKey = Literal[", *(f'    "{key}",' for key, _ in chosen), "]"))


def _build_classes(key: str, revision: ContractRevision) -> Iterator[str]:
    name = "".join(part.capitalize() for part in key.split("_"))
    yield from _build_values(f"{name}Values", revision)
    yield f"\n\nclass {name}:"
    yield f'    """{_quote(revision.resource_name, revision.resource_description)}"""\n'
    yield f'    SELLS: Final = "{key}"'
    yield f'    ASSET: Final = "{revision.settlement_asset}"'
    yield f"    Values = {name}Values"


def _build_values(name: str, revision: ContractRevision) -> Iterator[str]:
    values = sorted(revision.properties.items(), key=lambda item: (item[1].position, item[0]))
    is_required = set(revision.required)
    if all(name.isidentifier() and not keyword.iskeyword(name) for name, _ in values):
        yield f"\nclass {name}(TypedDict):"
        text = "The values of" if values else "Nothing is reported for"
        yield f'    """{text} {_quote(revision.resource_name)}"""'
        for key, value in values:
            yield f"\n    {key}: {_build_type(key in is_required)}"
            yield f'    """{_quote(value.label, f"a number of {value.unit}")}"""'
        return
    # A name such as input-tokens is not an identifier, so it takes the other syntax.
    yield f"\n{name} = TypedDict("
    yield f'    "{name}",'
    yield "    {"
    for key, value in values:
        yield f"        # {_quote(value.label, f'a number of {value.unit}')}"
        yield f'        "{key}": {_build_type(key in is_required)},'
    yield "    },"
    yield ")"


def _build_type(is_required: bool) -> str:
    return "Value" if is_required else "NotRequired[Value]"


def _quote(title: str, text: str = "") -> str:
    """One line that is safe between triple quotes: the account's texts are not code."""
    line = ": ".join(part for part in (_one_line(title), _one_line(text)) if part).rstrip(".")
    return f"{line}.".replace("\\", "/").replace('"', "'")


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
