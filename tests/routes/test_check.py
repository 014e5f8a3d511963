"""`faregate check`: what the key may do, and whether a stranger could rebuild a settled payment."""

from contextlib import closing

import pytest

from faregate.checkout.path_rules import PathRules
from faregate.core.models import Offer
from faregate.emulator import READ_ONLY_TEST_KEY, TEST_KEY, Emulator, Fault, Key
from faregate.emulator.server import serve
from faregate.paywall import Paywall
from faregate.routes import RouteInfo, RouteTable
from faregate.routes.check import check, describe_instructions
from faregate.routes.pricing import apply_path_rules
from faregate.rules.account import CAPABILITIES, Capability
from faregate.rules.builtin_account import builtin_account
from faregate.rules.routes import Operation

PREDICTABLE = Fault(kind="predictable-instructions", times=None)
UNPREDICTABLE = "Payment instructions are unpredictable: every 402 carries a fresh value in accepts[].extra."


def described(emulator: Emulator, *sells: str) -> list[str]:
    """What is said of this service by an app that sells these things."""
    routes = [RouteInfo(f"/{one}", ("GET",), "shop.a", Offer(one), "paid") for one in sells]
    with serve(emulator) as url, closing(Paywall(api_key=TEST_KEY, base_url=url, environ={})) as paywall:
        return describe_instructions(
            apply_path_rules(RouteTable(tuple(routes)), PathRules(), paywall=lambda: paywall)
        )


def test_fresh_instructions_are_said_to_be_unpredictable() -> None:
    assert described(Emulator(), "daily_report", "text_summary") == [UNPREDICTABLE]


def test_predictable_instructions_are_named_with_what_to_do() -> None:
    emulator = Emulator()
    emulator.faults.add(PREDICTABLE)
    [line] = described(emulator, "daily_report", "text_summary")
    assert line.startswith("Payment instructions can be guessed: two 402s for daily_report are alike.")
    assert line.endswith("Ask the operator of the merchant service for a fresh value in accepts[].extra.")


def test_a_resource_that_is_free_says_nothing_and_leaves_nothing_open() -> None:
    emulator = Emulator(expose_execution_id=True)
    assert described(emulator, "free_notes", "daily_report") == [UNPREDICTABLE]
    executions = emulator.export()["test"]["executions"]
    assert [one["metadata"]["response_size_bytes"] for one in executions] == [0, 0]


@pytest.mark.parametrize("sells", ["free_notes", "no_such_thing", "text_summary"])
def test_what_nobody_could_see_is_said_so(sells: str) -> None:
    emulator = Emulator()
    emulator.faults.add(Fault(kind="status", status=503, resource="text_summary", times=None))
    assert described(emulator, sells) == [
        "Whether payment instructions can be guessed is unknown: no offer was answered with 402."
    ]


def test_nobody_is_asked_without_a_paywall_or_without_an_offer() -> None:
    emulator = Emulator()
    assert describe_instructions(RouteTable(())) == []
    assert described(emulator) == []
    assert emulator.calls() == []


# What the key may do


def faults_of(emulator: Emulator, key: str, *sells: str) -> list[str]:
    routes = [RouteInfo(f"/{one}", ("GET",), "shop.a", Offer(one), "paid") for one in sells]
    with serve(emulator) as url, closing(Paywall(api_key=key, base_url=url, environ={})) as paywall:
        return check(apply_path_rules(RouteTable(tuple(routes)), PathRules(), paywall=lambda: paywall))


def test_a_key_that_may_only_read_is_named_for_each_thing_it_may_not_do() -> None:
    faults = faults_of(Emulator(), READ_ONLY_TEST_KEY, "daily_report", "text_summary")
    assert [fault.partition(",")[0].partition(":")[0] for fault in faults] == [
        "The API key may not authorize access",
        "The API key may not complete transactions",
        "The API key may not complete free executions",
    ]
    assert all("403 forbidden" in fault and "Set api_key to" in fault for fault in faults)
    assert not any(READ_ONLY_TEST_KEY in fault for fault in faults)


NEEDED: dict[Capability, str] = {
    "access": "authorize access",
    "transactions:complete": "complete transactions",
    "transactions:read": "read transactions",
    "executions:complete": "complete free executions",
}


@pytest.mark.parametrize("missing", CAPABILITIES)
def test_each_missing_right_that_selling_needs_is_found(missing: Capability) -> None:
    rights = tuple(right for right in CAPABILITIES if right != missing)
    account = builtin_account().model_copy(update={"keys": (Key(key="svc_test_some", capabilities=rights),)})
    faults = faults_of(Emulator(account), "svc_test_some", "daily_report")
    match missing:
        case "contracts:read":
            assert [fault.partition(":")[0] for fault in faults] == [
                "The merchant service does not say what is sold"
            ]
        case "payers:read" | "resources:read":
            assert faults == []
        case _:
            [fault] = faults
            assert fault.startswith(f"The API key may not {NEEDED[missing]}")


@pytest.mark.parametrize("sells", ["daily_report", "free_notes"])
def test_a_check_leaves_nothing_open_and_authorizes_nothing(sells: str) -> None:
    emulator = Emulator(expose_execution_id=True)
    assert faults_of(emulator, TEST_KEY, sells) == []
    books = emulator.export()["test"]
    assert books["transactions"] == []
    assert [one["metadata"] is not None for one in books["executions"]] == [True] * (sells == "free_notes")


@pytest.mark.parametrize("operation", ["access", "complete", "transaction", "execution"])
def test_what_a_service_answers_besides_403_says_nothing_of_the_key(operation: Operation) -> None:
    emulator = Emulator()
    emulator.faults.add(Fault(kind="status", status=503, operation=operation, times=None))
    assert faults_of(emulator, TEST_KEY, "daily_report") == []
