"""What blocks and what awaits cannot be taken for each other."""

from typing import Any, assert_type

from faregate import Paywall
from faregate.core.driver import adrive, arun, drive, run
from faregate.core.recovery import SweepReport, sweep
from faregate.core.steps import Flow
from faregate.merchant.backend import AsyncMerchantBackend, MerchantBackend


def blocking(paywall: Paywall, flow: Flow[Any]) -> None:
    assert_type(paywall.backend, MerchantBackend)
    assert_type(run(sweep(), paywall.backend), SweepReport)
    run(sweep(), paywall.async_backend)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    drive(flow, paywall.async_backend)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


async def awaiting(paywall: Paywall, flow: Flow[Any]) -> None:
    assert_type(paywall.async_backend, AsyncMerchantBackend)
    assert_type(await arun(sweep(), paywall.async_backend), SweepReport)
    await arun(sweep(), paywall.backend)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    await adrive(flow, paywall.backend)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
