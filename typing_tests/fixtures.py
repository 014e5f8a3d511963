"""What a type checker must make of the fixtures. Checked, never run."""

from collections.abc import Coroutine
from typing import Any, assert_type

import httpx

from faregate import Paywall, SweepReport
from faregate.emulator import Emulator, RecordedCall
from faregate.testing import AsyncPayer, PaidResponse, Payer


def blocking(payer: Payer, emulator: Emulator, paywall: Paywall, client: httpx.Client) -> None:
    answer = payer.get(client, "/report", params={"page": 1})
    assert_type(answer, PaidResponse)
    assert_type(payer("slow"), Payer)
    assert_type(payer.another().post(client, "/report", json={}), PaidResponse)
    assert_type(answer.payment, dict[str, Any] | None)
    assert_type(answer.transaction, str | None)
    assert_type(emulator.calls("complete", status=200, fault=None), list[RecordedCall])
    assert_type(emulator.wait_for("complete", resource="daily_report"), list[RecordedCall])
    emulator.expect("access", times=2, payer="slow")
    emulator.check_invariants(payer.answers)
    with emulator.strict():
        assert_type(paywall.sweep(), SweepReport)
    emulator.calls("complete", colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def awaiting(async_payer: AsyncPayer, emulator: Emulator, client: httpx.AsyncClient) -> None:
    coming: Coroutine[Any, Any, PaidResponse] = async_payer.get(client, "/report")
    assert_type(await coming, PaidResponse)
    answer = await async_payer("slow").get(client, "/report")
    assert_type(await async_payer.again(answer), PaidResponse)
    assert_type(await emulator.await_for("complete", count=2), list[RecordedCall])
