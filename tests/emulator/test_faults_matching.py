"""Which calls a fault strikes, and how often."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from faregate.core.models import WireRequest
from faregate.emulator import (
    LIVE_KEY,
    READ_ONLY_TEST_KEY,
    TEST_KEY,
    TEST_PAYERS,
    Emulator,
    Fault,
    ManualClock,
    Wallet,
)
from faregate.emulator.faults.active_faults import FaultsState

from .seller import ROOT, ApiClient

PAYER = Wallet.test("good").address


def fault(**told: Any) -> Fault:
    return Fault(kind="status", status=503, **told)


def statuses(emulator: Emulator, calls: int) -> list[int]:
    request = WireRequest("GET", f"{ROOT}/payers", (("Authorization", f"Bearer {TEST_KEY}"),))
    return [emulator.respond(request).status for _ in range(calls)]


READS = {
    "transactions": "/transactions",
    "transaction": "/transactions/txn_x",
    "payers": "/payers?page=1",
    "resources": "/resources",
    "contracts": "/contracts",
}


@pytest.mark.parametrize("operation", READS)
def test_by_operation(api: ApiClient, operation: Any) -> None:
    rule = api.emulator.faults.add(fault(operation=operation, times=None))
    assert [name for name, path in READS.items() if api.get(path).status_code == 503] == [operation]
    assert rule.applied == 1


def test_by_operation_of_the_two_calls(api: ApiClient) -> None:
    bought = api.buy()
    api.emulator.faults.add(fault(operation="complete", times=None))
    assert api.access().status_code == 402
    assert api.complete(bought).status_code == 503
    api.emulator.faults.clear()
    assert api.complete(bought).status_code == 200


def test_by_key(api: ApiClient) -> None:
    api.emulator.faults.add(fault(key=READ_ONLY_TEST_KEY, times=None))
    assert api.get("/payers").status_code == 200
    assert api.get("/payers", key=READ_ONLY_TEST_KEY).status_code == 503


def test_by_environment(api: ApiClient) -> None:
    api.emulator.faults.add(fault(environment="live", times=None))
    assert api.get("/payers").status_code == 200
    assert api.get("/payers", key=LIVE_KEY).status_code == 503
    assert api.get("/payers", key="svc_live_of_nobody").status_code == 401


def test_by_resource_through_all_calls_about_it(api: ApiClient) -> None:
    bought, other = api.buy("text_summary"), api.buy("daily_report")
    api.emulator.faults.add(fault(resource="text_summary", times=None))
    assert api.access("text_summary").status_code == 503
    assert api.complete(bought).status_code == 503
    assert api.get(f"/transactions/{bought.id}").status_code == 503
    assert api.access("daily_report").status_code == 402
    assert api.complete(other).status_code == 200


@pytest.mark.parametrize("address", [PAYER, PAYER.lower(), "0x" + PAYER[2:].upper()])
def test_by_payer_however_the_address_is_written(api: ApiClient, address: str) -> None:
    stranger = api.buy()
    api.wallet = Wallet.test("good", clock=api.clock)
    bought, proof = api.buy(), api.proof()
    api.emulator.faults.add(fault(payer=address, times=None))
    assert api.access(proof=proof).status_code == 503
    assert api.complete(bought).status_code == 503
    assert api.get(f"/transactions/{bought.id}").status_code == 503
    assert api.access().status_code == 402
    assert api.complete(stranger).status_code == 200


def test_by_transaction(api: ApiClient) -> None:
    bought, other = api.buy(), api.buy()
    api.emulator.faults.add(fault(transaction=bought.id, times=None))
    assert api.complete(bought).status_code == 503
    assert api.access(proof=bought.proof).status_code == 503
    assert api.access(proof=other.proof).status_code == 200
    assert api.complete(other).status_code == 200


def test_by_all_that_is_named(api: ApiClient) -> None:
    bought = api.buy("daily_report")
    api.emulator.faults.add(fault(operation="complete", resource="text_summary", times=None))
    assert api.access("text_summary").status_code == 402
    assert api.complete(bought).status_code == 200


@pytest.mark.parametrize(("times", "applied"), [(1, 1), (3, 3), (None, 5)])
def test_so_many_times(times: int | None, applied: int) -> None:
    emulator = Emulator()
    rule = emulator.faults.add(fault(times=times))
    assert statuses(emulator, 5) == [503] * applied + [200] * (5 - applied)
    assert (rule.applied, rule.is_spent) == (applied, times is not None)
    assert len(emulator.faults) == (times is None)
    assert [call.fault for call in emulator.calls()] == ["status-1"] * applied + [None] * (5 - applied)


def test_the_first_that_matches_strikes_alone() -> None:
    emulator = Emulator()
    emulator.faults.add(fault(operation="access"))
    emulator.faults.add(fault(times=2))
    emulator.faults.add(Fault(kind="status", status=429))
    assert statuses(emulator, 4) == [503, 503, 429, 200]
    assert [call.fault for call in emulator.calls()] == ["status-2", "status-2", "status-3", None]


def test_one_that_finds_nothing_to_change_has_not_struck() -> None:
    emulator = Emulator()
    rule = emulator.faults.add(Fault(kind="missing-header", header="PAYMENT-RESPONSE"))
    assert statuses(emulator, 2) == [200, 200]
    assert (rule.applied, len(emulator.faults), emulator.calls()[0].fault) == (0, 1, None)


def test_a_probability_is_the_same_story_for_a_seed() -> None:
    def scenario(seed: int | str) -> list[int]:
        emulator = Emulator()
        emulator.faults.add(fault(probability=0.25, seed=seed))
        return statuses(emulator, 400)

    assert scenario(7) == scenario(7)
    assert len({tuple(scenario(seed)) for seed in (7, 8, "seven")}) == 3
    assert all(60 <= scenario(seed).count(503) <= 140 for seed in range(5))


def test_certainty_and_probability_so_many_times() -> None:
    emulator = Emulator()
    emulator.faults.add(fault(probability=1.0, times=2))
    assert statuses(emulator, 4) == [503, 503, 200, 200]


def test_a_snapshot_goes_on_with_the_same_dice() -> None:
    emulator = Emulator()
    emulator.faults.add(fault(probability=0.5, seed="dice", times=40))
    statuses(emulator, 20)
    state = FaultsState.model_validate_json(emulator.faults.state().model_dump_json())
    before = statuses(emulator, 100)
    emulator.faults.clear()
    emulator.faults.restore(state)
    assert statuses(emulator, 100) == before
    assert before[-1] == 200
    assert emulator.faults.add(fault()).id == "status-2"


def test_faults_are_taken_away_one_by_one() -> None:
    emulator = Emulator()
    first, second = emulator.faults.add(fault()), emulator.faults.add(Fault(kind="status", status=500))
    assert emulator.faults.remove(first.id)
    assert not emulator.faults.remove(first.id)
    assert list(emulator.faults) == [second]
    assert statuses(emulator, 2) == [500, 200]


def test_each_tenant_has_its_own_and_begins_with_the_mode() -> None:
    main = Emulator(mode="double-402", clock=ManualClock())
    main.faults.add(fault(times=None))
    other = main.like("other")
    assert (other.faults.mode, main.faults.mode) == ("double-402", None)
    other.mode("clean")
    assert len(main.faults) == 2


def test_threads_strike_as_often_as_said() -> None:
    emulator = Emulator()
    rules = [emulator.faults.add(fault(times=25)) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        found = [status for many in pool.map(lambda _: statuses(emulator, 20), range(8)) for status in many]
    assert (found.count(503), found.count(200)) == (100, 60)
    assert [rule.applied for rule in rules] == [25] * 4


def test_a_test_payer_is_matched_by_name_and_nobody_by_what_is_no_payer() -> None:
    assert Fault(kind="cut", payer="slow").payer == TEST_PAYERS["slow"].address
    with pytest.raises(ValueError, match="'0x1' is no address and no test payer; these are good, slow"):
        Fault(kind="cut", payer="0x1")
