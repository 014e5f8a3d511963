"""Servers that wait long for their open responses when they end."""

import pytest
import uvicorn

GRACE = 120
"""Seconds: more than any test waits."""


def grant_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let uvicorn wait for open responses: then a server ends soon only if they end by themselves."""
    config = uvicorn.Config
    monkeypatch.setattr(
        uvicorn,
        "Config",
        lambda *args, **options: config(*args, **options | {"timeout_graceful_shutdown": GRACE}),
    )
