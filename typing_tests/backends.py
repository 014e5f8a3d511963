"""What a flow gives has its type, driven either way."""

from typing import assert_type

from faregate import Paywall
from faregate.core.driver import arun, run
from faregate.core.recovery import SweepReport, sweep
from faregate.merchant.backend import AsyncMerchantBackend, MerchantBackend


def block(paywall: Paywall) -> None:
    assert_type(paywall.backend, MerchantBackend)
    assert_type(run(sweep(paywall.backend)), SweepReport)


async def wait(paywall: Paywall) -> None:
    assert_type(paywall.async_backend, AsyncMerchantBackend)
    assert_type(await arun(sweep(paywall.async_backend)), SweepReport)
