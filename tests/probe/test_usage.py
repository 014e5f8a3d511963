"""The checks of a price that follows the use: made where there is one, each seen to fail alone."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from faregate.emulator import Emulator, Resource, Revision
from faregate.probe.checks import CHECKS, USAGE_CHECKS
from faregate.rules.builtin_account import builtin_account
from tests.probe.test_checks import ids, run_probe
from tests.probe.wrong_answers import COMPLETE, FAILED, TRANSACTION
from tests.probe.wrong_services import (
    WrongAnswer,
    WrongService,
    change_matching,
    honest,
    replace_status,
    respond_with,
)
from tests.support.headers import encode_header
from tests.support.replies import Change, with_fields, with_header

_RATED = {"rates": {"pages": "100"}}
_PRICE = Revision.model_validate(
    {"amount": 900_000, "values": [{"name": "pages", "required": True}], "usage": _RATED}
)


def build_emulator() -> Emulator:
    account = builtin_account()
    resources = (*account.resources, Resource(key="by_page", name="By page", revisions=(_PRICE,)))
    return Emulator(account.model_copy(update={"resources": resources}), expose_execution_id=True)


def probe(answer: WrongAnswer) -> dict[str, str]:
    results = run_probe(WrongService(answer, build_emulator()))
    assert [one.id for one in results] == [check.id for check in (*CHECKS, *USAGE_CHECKS)]
    return {one.id: one.verdict for one in results}


def test_every_check_passes_at_the_emulator() -> None:
    found = probe(honest)
    # The probe knows no revision in live of an account that is not the built-in one.
    assert [check for check, verdict in found.items() if verdict != "pass"] == ["access-foreign-revision"]


def test_without_such_a_price_there_are_no_such_checks() -> None:
    assert [one.id for one in run_probe(WrongService(honest))] == [check.id for check in CHECKS]


def _with_text(old: str, new: str) -> Change:
    return lambda reply: replace(reply, body=reply.body.replace(old.encode(), new.encode()))


_USED = '"calculation_mode":"usage"'
_OTHER_AMOUNT = encode_header({"success": True, "amount": "101"})
WRONG: dict[str, WrongAnswer] = {
    "usage-settled": change_matching(200, COMPLETE, with_header("PAYMENT-RESPONSE", _OTHER_AMOUNT), _USED),
    "usage-receipt": change_matching(
        200, COMPLETE, _with_text(_USED, '"calculation_mode":"fixed"'), '"settled_atomic":"100"'
    ),
    "usage-transaction": change_matching(
        200, TRANSACTION, with_fields(settled_atomic="101"), '"settled_atomic":"100"'
    ),
    "usage-other-values": replace_status(
        409, lambda call: call.body.get("values") == {"pages": "2"}, respond_with()
    ),
    "usage-failed": change_matching(
        200, TRANSACTION, with_fields(settled_atomic="1"), '"authorized_atomic":"900000"', FAILED
    ),
}


def test_there_is_a_wrong_service_for_each_check() -> None:
    assert [check.id for check in USAGE_CHECKS] == list(WRONG)


@pytest.mark.parametrize("check", WRONG)
def test_only_the_check_of_the_deviation_fails(check: str) -> None:
    results = run_probe(WrongService(WRONG[check], build_emulator()), "--free-resource", "free_notes")
    assert ids(results, "fail") == [check]


def test_the_page_names_every_check() -> None:
    page = (Path(__file__).parents[2] / "docs" / "probe.md").read_text()
    rows = re.findall(r"^\| `(usage-[a-z-]+)` \| (.+?) \|$", page, re.MULTILINE)
    assert rows == [(check.id, check.expected) for check in USAGE_CHECKS]
