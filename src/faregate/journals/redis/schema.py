"""The version of the keys of a journal, and the script that reads and writes them.

The script is journal.lua with the rules of `faregate.journals.states`, and the columns, in front of it.
"""

from collections.abc import Iterable
from hashlib import sha1
from importlib.resources import files

from faregate.journals.states import (
    COLUMN_RULES,
    HAS_REASON,
    MAY_HAVE_REASON,
    TRANSITIONS,
    ColumnRule,
    RowState,
)
from faregate.journals.store import COLUMNS

VERSION = 7
FOUND_COLUMNS = tuple(name for name in COLUMNS if name not in ("key", "result"))
"""In the order in which the script returns them."""


def _lua_states(states: Iterable[RowState]) -> str:
    """A string: a table would be made with each run of the script."""
    return f"'{' '.join(('', *(state.value for state in states), ''))}'"


def _lua_check(rule: ColumnRule) -> str:
    """`state` is that of the row, between spaces."""
    expected = "" if rule.is_null else "not "
    broken = f"(row.{rule.column} ~= nil) == {expected}is_in({_lua_states(rule.states)}, state)"
    return (
        f"  if {broken} and not is_in({_lua_states(rule.optional_in)}, state) then return '{rule.name}' end\n"
    )


def _lua_rules() -> str:
    transitions = ", ".join(
        f"{state.value} = {_lua_states((state, *following))}" for state, following in TRANSITIONS.items()
    )
    columns = ", ".join(f"'{name}'" for name in FOUND_COLUMNS)
    return (
        f"local function get_columns() return {columns} end\n"
        f"local function get_transitions() return {{{transitions}}} end\n"
        "local function is_in(states, state) return string.find(states, state, 1, true) ~= nil end\n"
        f"local function find_broken_column_rule(row, state)\n{''.join(map(_lua_check, COLUMN_RULES))}end\n"
        "local function has_wrong_reason(reason, state)\n"
        f"  if is_in({_lua_states(MAY_HAVE_REASON)}, state) then return false end\n"
        f"  return (reason ~= '') ~= is_in({_lua_states(HAS_REASON)}, state)\n"
        "end\n"
    )


SCRIPT = _lua_rules() + files("faregate.journals.redis").joinpath("journal.lua").read_text("utf-8")
DIGEST = sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""By which Redis finds a script that it was sent before (EVALSHA)."""
