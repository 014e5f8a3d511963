"""All checks, one after the other, over one visit."""

from collections.abc import Iterator

from faregate.errors import FaregateError
from faregate.probe.checks import access, again, complete, free, keys, reads, refusals
from faregate.probe.fixtures import Visit
from faregate.probe.verdicts import CannotSee, Check, Finding, Seen

CHECKS: tuple[Check[Visit], ...] = (
    *keys.CHECKS,
    *access.CHECKS,
    *again.CHECKS,
    *refusals.CHECKS,
    *complete.CHECKS,
    *free.CHECKS,
    *reads.CHECKS,
)


def run_checks(visit: Visit) -> Iterator[Finding]:
    """Each finding as it is made; at the end nothing is left open."""
    try:
        for check in CHECKS:
            seen = _seen(check, visit)
            yield Finding(check.id, check.source, check.expected, seen.what, seen.verdict)
    finally:
        visit.bench.tidy()


def _seen(check: Check[Visit], visit: Visit) -> Seen:
    try:
        return check.look(visit)
    except CannotSee as error:
        return Seen("not seen", str(error))
    except FaregateError as error:  # no answer proves nothing, one way or the other
        return Seen("not seen", str(error))
