"""Faregate as its quick start says, on the transport the harness names."""

import os

from fastapi import Depends
from goods import shop

from faregate.fastapi import PaywallMiddleware, paid
from faregate.paywall import Paywall

app = shop(dependencies=[Depends(paid("report"))])
app.add_middleware(
    PaywallMiddleware,
    paywall=Paywall(
        api_key="svc_test_benchmark",
        base_url=os.environ["BENCH_UPSTREAM"],
        transport=os.environ["BENCH_TRANSPORT"],
    ),
)
