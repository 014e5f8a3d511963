"""A small shop: two things to buy, one that sometimes goes wrong, one that is free."""

from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException

from faregate.fastapi import Payment, PaywallMiddleware, paid

app = FastAPI()
app.add_middleware(PaywallMiddleware)


@app.get("/report", dependencies=[Depends(paid("daily_report"))])
async def report() -> dict[str, str]:
    return {"report": "Sunny."}


@app.post("/summary")
async def summary(text: str, payment: Annotated[Payment, Depends(paid("text_summary"))]) -> dict[str, str]:
    if not text:
        raise HTTPException(422, "there is nothing to summarize")
    payment.report({"input-tokens": len(text.split())})
    return {"summary": " ".join(text.split()[:3])}


@app.get("/notes", dependencies=[Depends(paid("free_notes"))])
async def notes() -> dict[str, str]:
    return {"notes": "Free for all."}
