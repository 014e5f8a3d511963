"""`faregate probe`: finds out whom to ask and who pays, says what it may cost, makes the checks."""

import os
import sys
from argparse import Namespace
from contextlib import closing

from faregate.cli.command import CommandError
from faregate.errors import FaregateError
from faregate.pay.cli import suggest_extra


def run_probe(arguments: Namespace) -> int:
    """0 if nothing differs, 1 if something does. Raises `CommandError` if it could not run."""
    try:
        return _run(arguments)
    except (FaregateError, ImportError) as error:
        raise CommandError(str(error)) from None


def _run(arguments: Namespace) -> int:
    with suggest_extra():
        from faregate.probe.config import Setting
        from faregate.probe.cost import cost
        from faregate.probe.fixtures import Visit
        from faregate.probe.report import as_json, as_table
        from faregate.probe.runner import run_checks

    setting = Setting.of(arguments, os.environ)
    with closing(setting.line):
        bench = setting.bench()
        told = cost(bench.taken, bench.taken_at_most, bench.wallet.address, setting.line.environment)
        print(told, file=sys.stderr, flush=True)
        findings = list(run_checks(Visit(bench)))
    print(as_json(setting.base_url, findings) if arguments.json else as_table(findings))
    return 1 if any(one.verdict == "differs" for one in findings) else 0
