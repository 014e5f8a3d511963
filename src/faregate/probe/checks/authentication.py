"""401 and 403 (spec: Authentication). That access and complete use them alike is our decision."""

from faregate.merchant.api_key import ApiKey
from faregate.probe.check import Check, Observation, SkipCheck, describe, judge_error
from faregate.probe.discovery import build_access_body
from faregate.probe.fixtures import ProbeRun


def _check_list_without_key(run: ProbeRun) -> Observation:
    return judge_error(run.session.client.get_without_key("/transactions"), 401, "unauthenticated")


def _check_access_without_key(run: ProbeRun) -> Observation:
    body = build_access_body(run.session.product.revision)
    return judge_error(run.session.client.post_without_key("/access", body), 401, "unauthenticated")


def _check_access_with_wrong_key(run: ProbeRun) -> Observation:
    # Well-formed, and of the right environment: refused for no other reason than being unknown.
    wrong = ApiKey(f"svc_{run.session.client.environment}_a_key_that_nobody_has")
    body = build_access_body(run.session.product.revision)
    return judge_error(run.session.client.post("/access", body, key=wrong), 401, "unauthenticated")


def _check_access_forbidden(run: ProbeRun) -> Observation:
    body = build_access_body(run.session.product.revision)
    response = run.session.client.post("/access", body, key=_get_read_only_key(run))
    return judge_error(response, 403, "forbidden")


def _check_complete_without_key(run: ProbeRun) -> Observation:
    session, transaction = run.session, run.session.get_pending()
    body = transaction.build_failure()
    response = session.client.post_without_key(transaction.path, body, proof=transaction.proof)
    return judge_error(session.track(transaction, response), 401, "unauthenticated")


def _check_complete_forbidden(run: ProbeRun) -> Observation:
    session, transaction = run.session, run.session.get_pending()
    key, body = _get_read_only_key(run), transaction.build_failure()
    response = session.client.post(transaction.path, body, proof=transaction.proof, key=key)
    return judge_error(session.track(transaction, response), 403, "forbidden")


def _get_read_only_key(run: ProbeRun) -> ApiKey:
    """Return the read-only key after checking that it works. Raises `SkipCheck`."""
    key = run.session.read_only_key
    if key is None:
        raise SkipCheck("no read-only key was given: set FAREGATE_READ_ONLY_KEY")
    response = run.session.client.get("/contracts", key=key)
    if response.status != 200:
        raise SkipCheck(f"FAREGATE_READ_ONLY_KEY cannot read the contracts: {describe(response)}")
    return key


CHECKS = (
    Check("list-no-key", "contract", "401 unauthenticated", _check_list_without_key),
    Check("access-no-key", "decision", "401 unauthenticated", _check_access_without_key),
    Check("access-wrong-key", "decision", "401 unauthenticated", _check_access_with_wrong_key),
    Check("access-forbidden", "decision", "403 forbidden for a read-only key", _check_access_forbidden),
    Check("complete-no-key", "decision", "401 unauthenticated", _check_complete_without_key),
    Check("complete-forbidden", "decision", "403 forbidden for a read-only key", _check_complete_forbidden),
)
