"""Who may call: 401 and 403 (spec: Authentication). That access and complete answer alike is a decision."""

from faregate.merchant.api_key import ApiKey
from faregate.probe.discovery import access_body
from faregate.probe.fixtures import Visit
from faregate.probe.verdicts import CannotSee, Check, Seen, refused, shown

_NO_READER = "no key was given that may only read: set FAREGATE_READ_ONLY_KEY"


def _access_without_key(visit: Visit) -> Seen:
    bench = visit.bench
    reply = bench.line.post_without_key("/access", access_body(bench.ware.revision))
    return refused(reply, 401, "unauthenticated")


def _access_with_wrong_key(visit: Visit) -> Seen:
    bench = visit.bench
    wrong = ApiKey(f"svc_{bench.line.environment}_a_key_that_nobody_has")
    return refused(
        bench.line.post("/access", access_body(bench.ware.revision), key=wrong), 401, "unauthenticated"
    )


def _access_forbidden(visit: Visit) -> Seen:
    bench = visit.bench
    reply = bench.line.post("/access", access_body(bench.ware.revision), key=_reader(visit))
    return refused(reply, 403, "forbidden")


def _complete_without_key(visit: Visit) -> Seen:
    bench, bought = visit.bench, visit.bench.still_open()
    reply = bench.line.post_without_key(bought.path, bought.failed(), proof=bought.proof)
    return refused(bench.noted(bought, reply), 401, "unauthenticated")


def _complete_forbidden(visit: Visit) -> Seen:
    bench, bought = visit.bench, visit.bench.still_open()
    reply = bench.line.post(bought.path, bought.failed(), proof=bought.proof, key=_reader(visit))
    return refused(bench.noted(bought, reply), 403, "forbidden")


def _list_without_key(visit: Visit) -> Seen:
    return refused(visit.bench.line.get_without_key("/transactions"), 401, "unauthenticated")


def _reader(visit: Visit) -> ApiKey:
    """The key that may only read, if it can. Raises `CannotSee`."""
    reader = visit.bench.reader
    if reader is None:
        raise CannotSee(_NO_READER)
    reply = visit.bench.line.get("/contracts", key=reader)
    if reply.status != 200:
        raise CannotSee(f"the key that may only read cannot read: {shown(reply)}")
    return reader


CHECKS = (
    Check("list-no-key", "contract", "401 unauthenticated", _list_without_key),
    Check("access-no-key", "decision", "401 unauthenticated", _access_without_key),
    Check("access-wrong-key", "decision", "401 unauthenticated", _access_with_wrong_key),
    Check("access-forbidden", "decision", "a key that may not: 403 forbidden", _access_forbidden),
    Check("complete-no-key", "decision", "401 unauthenticated", _complete_without_key),
    Check("complete-forbidden", "decision", "a key that may not: 403 forbidden", _complete_forbidden),
)
