"""The version of the keys of a journal, and the script that reads and writes them.

The script is journal.lua with the rules of `faregate.journals.states` in front of it.
"""

from collections.abc import Iterable
from hashlib import sha1
from importlib.resources import files

from faregate.journals.states import COLUMN_RULES, TRANSITIONS, State

VERSION = 2


def _lua_set(states: Iterable[State]) -> str:
    return "{" + ", ".join(f"{state.value} = true" for state in states) + "}"


def _lua_rules() -> str:
    transitions = ", ".join(
        f"{state.value} = {_lua_set((state, *following))}" for state, following in TRANSITIONS.items()
    )
    column_rules = ", ".join(
        f"{{name = '{rule.name}', column = '{rule.column}', is_null = {str(rule.is_null).lower()}, "
        f"states = {_lua_set(rule.states)}, optional_in = {_lua_set(rule.optional_in)}}}"
        for rule in COLUMN_RULES
    )
    return f"local function get_rules() return {{{transitions}}}, {{{column_rules}}} end\n"


SCRIPT = _lua_rules() + files("faregate.journals.redis").joinpath("journal.lua").read_text("utf-8")
DIGEST = sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""By which Redis finds a script that it was sent before (EVALSHA)."""
