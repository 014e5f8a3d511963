"""`faregate service doctor`."""

import json
from argparse import Namespace
from collections.abc import Iterator

from faregate.selfhosted.books import read_command_settings
from faregate.selfhosted.doctor.database import check_database
from faregate.selfhosted.doctor.findings import Finding, Level
from faregate.selfhosted.doctor.payments import check_payments
from faregate.selfhosted.settings import Settings


def run_doctor(arguments: Namespace) -> int:
    """Print a line for each check as it ends; return 1 if there is an error."""
    settings = read_command_settings(arguments)
    found: list[Finding] = []
    for finding in _check(settings):
        found.append(finding)
        if not arguments.json:
            print(finding, flush=True)
    if arguments.json:
        print(json.dumps({"findings": [_to_json(finding) for finding in found]}))
    return int(any(finding.level is Level.ERROR for finding in found))


def _check(settings: Settings) -> Iterator[Finding]:
    yield from check_database(settings)
    yield from check_payments(settings)


def _to_json(finding: Finding) -> dict[str, str]:
    return {
        "level": finding.level.value,
        "subject": finding.subject,
        "text": finding.text,
        "remedy": finding.remedy,
    }
