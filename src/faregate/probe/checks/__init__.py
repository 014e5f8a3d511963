"""The checks of the probe, in order."""

from collections.abc import Iterator

from faregate.errors import FaregateError
from faregate.probe.check import Check, CheckResult, Observation, SkipCheck
from faregate.probe.checks import access, authentication, complete, free, reads, usage
from faregate.probe.fixtures import ProbeRun

CHECKS: tuple[Check[ProbeRun], ...] = (
    *authentication.CHECKS,
    *access.CHECKS,
    *complete.CHECKS,
    *free.CHECKS,
    *reads.CHECKS,
)

USAGE_CHECKS: tuple[Check[ProbeRun], ...] = usage.CHECKS
"""Made after the others, where a price follows the use."""


def run_checks(run: ProbeRun) -> Iterator[CheckResult]:
    """Yield each result as it is made; afterwards fail the transactions that are still pending."""
    try:
        for check in (*CHECKS, *(USAGE_CHECKS if run.session.catalog.used else ())):
            seen = _run_check(check, run)
            yield CheckResult(check.id, check.source, check.expected, seen.text, seen.verdict)
    finally:
        run.session.cleanup()


def _run_check(check: Check[ProbeRun], run: ProbeRun) -> Observation:
    try:
        return check.observe(run)
    # FaregateError: the service did not respond, which proves nothing either way.
    except (SkipCheck, FaregateError) as error:
        return Observation("skipped", str(error))
