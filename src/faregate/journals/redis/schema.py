"""The version of the keys of a journal, and the script that reads and writes them.

The script is journal.lua with the rules of `faregate.journals.states`, and the columns, in front of it.
"""

from collections.abc import Iterable
from hashlib import sha1
from importlib.resources import files

from faregate.journals.states import COLUMN_RULES, TRANSITIONS, State
from faregate.journals.store import COLUMNS

VERSION = 2
FOUND_COLUMNS = tuple(name for name in COLUMNS if name not in ("key", "result"))
"""In the order in which the script returns them."""


def _lua_set(states: Iterable[State]) -> str:
    """A string: a table would be made with each run of the script."""
    return f"'{' '.join(('', *(state.value for state in states), ''))}'"


def _lua_rules() -> str:
    transitions = ", ".join(
        f"{state.value} = {_lua_set((state, *following))}" for state, following in TRANSITIONS.items()
    )
    column_rules = ", ".join(
        f"{{name = '{rule.name}', column = '{rule.column}', is_null = {str(rule.is_null).lower()}, "
        f"states = {_lua_set(rule.states)}, optional_in = {_lua_set(rule.optional_in)}}}"
        for rule in COLUMN_RULES
    )
    columns = ", ".join(f"'{name}'" for name in FOUND_COLUMNS)
    return (
        f"local function get_rules() return {{{transitions}}}, {{{column_rules}}} end\n"
        f"local function get_columns() return {columns} end\n"
    )


SCRIPT = _lua_rules() + files("faregate.journals.redis").joinpath("journal.lua").read_text("utf-8")
DIGEST = sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""By which Redis finds a script that it was sent before (EVALSHA)."""
