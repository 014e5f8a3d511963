"""Calls of commands that print JSON in a pipe, by tests that read their text."""

from collections.abc import Iterable


def ask_for_text(words: Iterable[str]) -> list[str]:
    """Add `--text` where the words ask for neither form."""
    given = [*words]
    has_forms = {"routes", "check", "keys", "addresses"} & {word.removeprefix("faregate_") for word in given}
    return [*given, "--text"] if has_forms and not {"--json", "--help"} & {*given} else given
