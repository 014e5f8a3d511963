"""What was found, for people and for machines. Pure."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from faregate.probe.verdicts import Finding


def as_table(findings: Sequence[Finding]) -> str:
    """One line for each: verdict, source, id, what was expected, what was seen."""
    widths = [max(len(_row(one)[column]) for one in findings) for column in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(_row(one), widths, strict=True)), one.seen])
        for one in findings
    ]
    return "\n".join([*lines, "", summary(findings)])


def as_json(base_url: str, findings: Sequence[Finding]) -> str:
    counts = Counter(one.verdict for one in findings)
    told = {"base_url": base_url, "counts": dict(counts), "checks": [asdict(one) for one in findings]}
    return json.dumps(told, indent=2)


def summary(findings: Sequence[Finding]) -> str:
    counts = Counter(one.verdict for one in findings)
    return f"{counts['holds']} hold, {counts['differs']} differ, {counts['not seen']} not seen"


def _row(one: Finding) -> tuple[str, str, str, str]:
    return one.verdict, one.source, one.id, one.expected
