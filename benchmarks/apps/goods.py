"""The seller's app without a paywall. All contestants sell this one, so that they differ in nothing else."""

from typing import Any

from fastapi import FastAPI

REPORT = {"report": "Sunny, with a chance of receipts."}


def shop(**route: Any) -> FastAPI:
    """One route for sale and one that is not; `route` is what the paid one is declared with."""
    app = FastAPI()

    @app.get("/report", **route)
    async def report() -> dict[str, str]:
        return REPORT

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app
