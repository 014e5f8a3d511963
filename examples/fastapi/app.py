"""A seller's app. FAREGATE_API_KEY and FAREGATE_BASE_URL are all it needs:

FAREGATE_BASE_URL=emulator: uvicorn --app-dir examples/fastapi app:app
"""

import os
from typing import Annotated

import anyio
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel

from faregate.fastapi import Payment, PaywallMiddleware, paid

app = FastAPI(title="A seller")
app.add_middleware(PaywallMiddleware)

WORKED: dict[str, int] = {}
"""How often each route's work was run, for the demo to check."""


def worked(route: str) -> None:
    WORKED[route] = WORKED.get(route, 0) + 1


class Text(BaseModel):
    text: str


@app.get("/report", dependencies=[Depends(paid("daily_report"))])
async def report() -> dict[str, str]:
    """Paid: the result leaves only when the payment is proven."""
    worked("report")
    return {"report": "Sunny, with a chance of receipts."}


@app.post("/summary")
async def summary(body: Text, payment: Annotated[Payment, Depends(paid("token_meter"))]) -> dict[str, str]:
    """Paid, and reports what it measured."""
    worked("summary")
    words = body.text.split()
    payment.report(input_tokens=len(words))
    return {"summary": " ".join(words[:5])}


@app.get("/euro", dependencies=[Depends(paid("euro_report"))])
async def euro() -> dict[str, str]:
    """Paid in EURC, which stock clients refuse until the payer allows it."""
    worked("euro")
    return {"report": "Bewölkt, mit Aussicht auf Quittungen."}


@app.get("/slow", dependencies=[Depends(paid("slow_settlement"))])
async def slow() -> dict[str, str]:
    """Paid, with a payment that settles late."""
    worked("slow")
    return {"result": "worth the wait"}


@app.get("/patient", dependencies=[Depends(paid("daily_report"))])
async def patient() -> dict[str, str]:
    """Paid, and takes a moment."""
    worked("patient")
    await anyio.sleep(0.5)
    return {"result": "done once"}


@app.get("/broken", dependencies=[Depends(paid("daily_report"))])
async def broken() -> dict[str, str]:
    """Fails: the payer is not charged."""
    worked("broken")
    raise HTTPException(503, "the printer is out of paper")


@app.get("/notes", dependencies=[Depends(paid("free_notes"))])
async def notes() -> dict[str, str]:
    """For sale, but free as long as the seller's require-payment setting is off."""
    worked("notes")
    return {"notes": "free today"}


@app.get("/health")
async def health() -> dict[str, object]:
    """Not for sale at all."""
    return {"status": "ok", "process": os.getpid(), "worked": WORKED}
