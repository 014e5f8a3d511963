"""A seller is killed at each step of a payment that resumes an open one; the payer comes back with it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faregate.emulator import Wallet
from tests.crash.resuming_seller import PATH
from tests.support.faulty_service import FaultyService, changes, instructions
from tests.support.identifiers import with_identifier
from tests.support.lines import read_lines
from tests.support.replies import with_fields

STEPS = 25
"""The calls of the new payment's request, before and after each: claim, access, start, two payers, link,
complete, end; claim, look, complete and settlement of the first payment. The last one is not reached."""
SETTLING = changes(with_fields(status="settling"))


def sell(folder: Path, service: str, killed_at: int, *proofs: str) -> list[list[Any]]:
    """Return what payers got, before the seller died if it did."""
    command = [sys.executable, "-m", "tests.crash.resuming_seller", str(folder), service, str(killed_at)]
    done = subprocess.run([*command, *proofs], stdout=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode in (0, -9)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "killed_at",
    [pytest.param(at, marks=() if at % 6 == 1 else pytest.mark.full) for at in range(1, STEPS + 1)],
)
def test_one_execution_and_one_charge_wherever_the_seller_dies(killed_at: int, tmp_path: Path) -> None:
    service, wallet = FaultyService(), Wallet()
    first, second = (wallet.pay(instructions(service.emulator, PATH)) for _ in range(2))
    with service.serving() as url:
        service.fails("complete", SETTLING)
        got = sell(tmp_path, url, killed_at, first, second)
        assert got[0][0] == 202
        assert (len(got) == 1) is (killed_at < STEPS)
        # The one that died is known to be dead: nobody waits for its lease.
        again = [answer for proof in (second, first, second) for answer in sell(tmp_path, url, 0, proof)]
    assert [status for status, *_ in again] == [200] * 3
    assert len({(transaction, result) for _, transaction, result in again}) == 1
    assert len(read_lines(tmp_path / "executions")) == 1
    statuses = sorted(transaction["status"] for transaction in service.list_transactions())
    assert statuses == ["failed", "succeeded"]


DELIVERED_STEPS = 19
"""The same, but that the first payment's result is replayed: claim, access, start, two payers, link,
complete, end, claim. The last one is not reached."""


@pytest.mark.parametrize(
    "killed_at",
    [pytest.param(at, marks=() if at % 6 == 2 else pytest.mark.full) for at in range(1, DELIVERED_STEPS + 1)],
)
def test_a_named_purchase_is_charged_once_after_its_delivery(killed_at: int, tmp_path: Path) -> None:
    service, wallet = FaultyService(), Wallet()
    first, second, third = (
        with_identifier(wallet.pay(instructions(service.emulator, PATH)), "order_0123456789abcdef")
        for _ in range(3)
    )
    with service.serving() as url:
        got = sell(tmp_path, url, killed_at, first, second)
        assert got[0][0] == 200
        assert (len(got) == 1) is (killed_at < DELIVERED_STEPS)
        again = [answer for proof in (second, third) for answer in sell(tmp_path, url, 0, proof)]
    assert [status for status, *_ in again] == [200] * 2
    assert len({(transaction, result) for _, transaction, result in (got[0], *again)}) == 1
    assert len(read_lines(tmp_path / "executions")) == 1
    statuses = sorted(transaction["status"] for transaction in service.list_transactions())
    assert statuses == ["failed", "failed", "succeeded"]
