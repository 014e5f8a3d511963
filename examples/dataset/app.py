"""A download that is larger than the paywall's limit: what is sold is a signed link to it.

FAREGATE_BASE_URL=emulator: DATASETS=examples/dataset/files uvicorn --app-dir examples/dataset app:app

DATASETS is the folder to sell. LINK_KEY signs the links. It has at least 32 characters, and is
the same in every process.
"""

import os
import secrets
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse
from itsdangerous import BadSignature, URLSafeTimedSerializer

from faregate.fastapi import PaywallMiddleware, paid

FOLDER = Path(os.environ["DATASETS"])
LINK_SECONDS = 3600
"""Longer than a payer may fetch a paid result again (ten minutes): the link in it still works then."""

key = os.environ.get("LINK_KEY", "")
if not key and os.environ.get("FAREGATE_BASE_URL") == "emulator:":
    key = secrets.token_urlsafe()
if len(key) < 32:
    raise SystemExit(
        "Set LINK_KEY to at least 32 random characters: whoever guesses it downloads without paying."
    )
links = URLSafeTimedSerializer(key, salt="dataset")

app = FastAPI(title="Datasets")
app.add_middleware(PaywallMiddleware)


def find_file(name: str) -> Path:
    """Find a dataset, before anybody pays for it: 404 if there is none."""
    path = FOLDER / name
    if path.parent != FOLDER or name.startswith(".") or not path.is_file():
        raise HTTPException(404, "there is no such dataset")
    return path


@app.get("/datasets/{name}", dependencies=[Depends(paid("daily_report"))])
async def sell(request: Request, path: Annotated[Path, Depends(find_file)]) -> dict[str, Any]:
    """Sell a link to a dataset. Whoever has the link can download for an hour."""
    link = request.url_for("download", token=links.dumps(path.name))
    return {"url": str(link), "bytes": path.stat().st_size, "seconds": LINK_SECONDS}


@app.get("/downloads/{token}")
async def download(token: str) -> FileResponse:
    """Send the file of a link. It is streamed, and can be continued with `Range`."""
    try:
        name = links.loads(token, max_age=LINK_SECONDS)
    except BadSignature as error:
        raise HTTPException(403, "the link is wrong, or older than an hour") from error
    return FileResponse(find_file(name), filename=name)
