"""What campaigns found, as tables."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from faregate.service.reconciliation import KINDS
from tests.crash.service.checker import WRONGS
from tests.crash.service.trouble import TROUBLES

Found = dict[str, Any]


def markdown(found: Sequence[Found]) -> str:
    """Three tables: what was done, what was wrong, and how often processes died where."""
    names = [one["name"] for one in found]
    head = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    wrongs = [Counter(wrong for wrong, _ in one["wrongs"]) for one in found]
    kinds = list(dict.fromkeys(kind for one in found for kind in sorted(one["deaths of"])))
    rows = [
        _row("deaths at points", [sum(one["deaths"].values()) for one in found]),
        *(_row(f"of {kind}", [one["deaths of"].get(kind, 0) for one in found]) for kind in kinds),
        _row("points", [sum(1 for times in one["deaths"].values() if times) for one in found]),
        _row("fewest deaths at a point", [min(one["deaths"].values()) for one in found]),
        _row("killed elsewhere", [one["killed elsewhere"] for one in found]),
        _row("payments", [sum(one["payments"].values()) for one in found]),
        _row("succeeded", [one["statuses"].get("succeeded", 0) for one in found]),
        _row("failed", [one["statuses"].get("failed", 0) for one in found]),
        *(
            _row(f"trouble: {name}", [one["trouble"].get(name, 0) for one in found])
            for name in TROUBLES
            if name != "none"
        ),
        _row("unknown after a restore", [one["unknown after a restore"] for one in found]),
        *(
            _row(f"loose payments {state}", [one["loose"].get(state, 0) for one in found])
            for state in ("settled again", "lost")
        ),
        *(
            _row(f"audit: {kind}", [one["audit"].get("differences", {}).get(kind, 0) for one in found])
            for kind in KINDS
        ),
        _row("faults of the facilitator", [sum(one["faults"].values()) for one in found]),
        *(_row(wrong, [counted[wrong] for counted in wrongs]) for wrong in WRONGS),
    ]
    points = sorted({point for one in found for point in one["deaths"]})
    deaths = [_row(f"`{point}`", [one["deaths"].get(point, "") for one in found]) for point in points]
    examples = [f"{one['name']}: {wrong}: {what}" for one in found for wrong, what in one["wrongs"][:20]]
    return "\n".join([*head, *rows, "", *head, *deaths, "", *examples])


def _row(name: str, cells: Sequence[object]) -> str:
    return f"| {name} | " + " | ".join(map(str, cells)) + " |"
