"""Reads `specification.txt` (what the contract says) and `decisions.txt` (what we say where it is silent)."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ID = "type=string pattern=^{}_[0-9a-f]{{12}}7[0-9a-f]{{3}}[89ab][0-9a-f]{{15}}$"


class Transcription:
    """The facts of a file; shapes and groups of an earlier file are known in a later one."""

    def __init__(self, name: str, before: "Transcription | None" = None) -> None:
        self._shapes: dict[str, str] = dict(before._shapes) if before else {}
        self._groups: dict[str, list[str]] = dict(before._groups) if before else {}
        self.facts: set[str] = set()
        for line in (HERE / name).read_text().splitlines():
            self._read(line)

    def _read(self, line: str) -> None:
        if not line or line.startswith("#"):
            return
        if " := " in line:
            name, rules = line.split(" := ")
            self._shapes[name] = rules
        elif " == " in line:
            name, places = line.split(" == ")
            self._groups[name] = places.split(" | ")
        else:
            pattern, rules = line.split(" : ", 1)
            new = {f"{place} : {rule}" for place in self._places(pattern) for rule in self._rules(rules)}
            assert not new & self.facts, f"said twice: {new & self.facts}"
            self.facts |= new

    def _places(self, pattern: str) -> Iterator[str]:
        choice = re.search(r"<([^>]+)>", pattern)
        if choice is None:
            yield pattern
            return
        for one in self._groups.get(choice[1]) or choice[1].split("|"):
            yield from self._places(pattern[: choice.start()] + one + pattern[choice.end() :])

    def _rules(self, rules: str) -> Iterator[str]:
        for rule in rules.split(" "):
            if identifier := re.fullmatch(r"@id\((\w+)\)", rule):
                yield from ID.format(identifier[1]).split(" ")
            elif rule.startswith("@"):
                yield from self._shapes[rule[1:]].split(" ")
            else:
                yield rule

    def schemas(self) -> set[str]:
        """The names of the schemas that are spoken of."""
        named = {fact.split(" : ")[0] for fact in self.facts}
        return {place for place in named if re.fullmatch(r"[A-Z]\w+", place)}


@cache
def specification() -> Transcription:
    return Transcription("specification.txt")


@cache
def decisions() -> Transcription:
    return Transcription("decisions.txt", before=specification())
