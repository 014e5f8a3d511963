"""A seller with the service inside its process: prices in the code, payments on the chain.

FAREGATE_BASE_URL=service: FAREGATE_SERVICE_PAYMENTS=simulated uvicorn --app-dir examples/one_process app:app
"""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import anyio
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel

from faregate import Usage
from faregate.fastapi import Payment, PaywallMiddleware, paid

app = FastAPI(title="A seller in one process")
app.add_middleware(PaywallMiddleware)

WORK_LOG = Path(os.environ.get("WORK_LOG", os.devnull))
"""Where each run of a handler is written down, by all workers, for the demo to check."""


def log_work(route: str) -> None:
    with WORK_LOG.open("a", encoding="utf-8") as file:
        file.write(f"{route} {os.getpid()}\n")


class Text(BaseModel):
    text: str


@app.get("/report", dependencies=[Depends(paid("daily_report", price="0.05 USDC"))])
async def report() -> dict[str, str]:
    """Paid: the result leaves only when the payment is proven."""
    log_work("report")
    return {"report": "Sunny, with a chance of receipts."}


@app.post("/summary", dependencies=[Depends(paid("summary", price="0.01 USDC"))])
async def summary(body: Text) -> dict[str, str]:
    """Paid, at another price."""
    log_work("summary")
    return {"summary": " ".join(body.text.split()[:5])}


@app.get("/patient", dependencies=[Depends(paid("daily_report", price="0.05 USDC"))])
async def patient() -> dict[str, str]:
    """Paid, and takes a moment."""
    log_work("patient")
    await anyio.sleep(0.5)
    return {"result": "done once"}


@app.get("/broken", dependencies=[Depends(paid("daily_report", price="0.05 USDC"))])
async def broken() -> dict[str, str]:
    """Fails: the payer is not charged."""
    log_work("broken")
    raise HTTPException(503, "the printer is out of paper")


BY_USE = Usage(at_most="0.50 USDC", rates={"output-tokens": "0.00001 USDC"})


@app.get("/chat")
async def chat(
    payment: Annotated[Payment, Depends(paid("chat", price=BY_USE))], tokens: int = 0
) -> dict[str, str]:
    """Paid by use: the payer authorizes the maximum, and pays for the tokens of the answer."""
    log_work("chat")
    await anyio.sleep(0.5)
    if tokens == 0:
        raise HTTPException(503, "the model is away")
    payment.report({"output-tokens": tokens})
    return {"result": "done once"}


@app.get("/health")
async def health() -> dict[str, object]:
    """Not for sale: how often each route has worked, in all workers, and the process that worked last."""
    lines = WORK_LOG.read_text(encoding="utf-8").splitlines()
    return {
        "status": "ok",
        "worked": Counter(line.split()[0] for line in lines),
        "last_process": int(lines[-1].split()[1]) if lines else None,
    }
