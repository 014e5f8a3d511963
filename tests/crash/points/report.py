"""What a campaign found, in numbers."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.crash.points.checker import WRONGS

Said = dict[str, Any]


def summary(said: Sequence[Said], kinds: Sequence[str], points: Sequence[str]) -> dict[str, Any]:
    """Everything that is told, as data."""
    return {
        "journals": {kind: _of([each for each in said if kind_of(each) == kind]) for kind in kinds},
        "points": {point: {kind: _deaths(said, kind, point) for kind in kinds} for point in points},
        "failures": [_failure(each) for each in said if has_failed(each)],
    }


def has_failed(said: Said) -> bool:
    return bool(said["wrongs"]) or "error" in said


def line(said: Sequence[Said]) -> str:
    """How far it is."""
    kills, failures = sum(len(each["deaths"]) for each in said), sum(map(has_failed, said))
    return f"{kills} kills, {failures} failures in {len(said)}"


def markdown(found: dict[str, Any]) -> str:
    """Two tables: what never happened, and where processes died."""
    kinds = list(found["journals"])
    head = ["| | " + " | ".join(kinds) + " |", "|---|" + "---:|" * len(kinds)]
    rows = [_row(name, [each[name] for each in found["journals"].values()]) for name in _COUNTED]
    rows += [_row(name, [_share(each, name) for each in found["journals"].values()]) for name in WRONGS]
    points = [_row(f"`{name}`", list(deaths.values())) for name, deaths in found["points"].items()]
    points_head = ["", "| killed, or stopped, at | " + " | ".join(kinds) + " |", *head[1:]]
    return "\n".join([*head, *rows, *points_head, *points])


_COUNTED = ("trials", "with a confirmed kill", "kills", "rows left to people", "errors")


def _of(said: Sequence[Said]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    wrongs: Counter[str] = Counter(dict.fromkeys(WRONGS, 0))
    for each in said:
        counts.update(each["counts"])
        wrongs.update(each["wrongs"])
    return {
        "trials": len(said),
        "with a confirmed kill": sum(_point(each) in each["deaths"] for each in said),
        "kills": sum(len(each["deaths"]) for each in said),
        "rows left to people": counts["stuck"],
        "errors": sum("error" in each for each in said),
        **{name: {"found": wrongs[name], "of": counts[of]} for name, of in WRONGS.items()},
    }


def _deaths(said: Sequence[Said], kind: str, point: str) -> int:
    return sum(kind_of(each) == kind and _point(each) == point and point in each["deaths"] for each in said)


def _failure(said: Said) -> dict[str, Any]:
    return {name: said.get(name) for name in ("trial", "seed", "wrongs", "error") if said.get(name)}


def _share(of_kind: dict[str, Any], name: str) -> str:
    return f"{of_kind[name]['found']} of {of_kind[name]['of']}"


def _row(name: str, cells: Sequence[object]) -> str:
    return f"| {name} | " + " | ".join(map(str, cells)) + " |"


def kind_of(said: Said) -> str:
    return str(said["trial"]).partition(":")[0]


def _point(said: Said) -> str:
    return str(said["trial"]).partition(":")[2].rpartition(":")[0]
