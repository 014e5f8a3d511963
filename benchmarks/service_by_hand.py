"""The floor of the service: the four writes of a sale, forced to the disk, behind HTTP. Not fit for use.

    python benchmarks/service_by_hand.py DATABASE_URL

Nothing is read, checked or found again: each access is a new sale, and each completion ends one. What many
callers write at the same time is committed once (`apps/kept_sales.py`). Prints one JSON line with its URL, as
`faregate service serve --json` does.
"""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

sys.path.insert(0, str(Path(__file__).resolve().with_name("apps")))

from kept_sales import open_database, share_commits_in_thread

COMPLETED = json.dumps({"status": "succeeded", "receipt": "x" * 1000}).encode()
"""About as long as an answer of the service."""


class ServiceByHand:
    def __init__(self, database_url: str) -> None:
        self._write = share_commits_in_thread(open_database(database_url))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_more = True
        while is_more:
            is_more = (await receive()).get("more_body", False)
        proof = next(value for name, value in scope["headers"] if name == b"payment-signature").decode()
        headers = [(b"content-type", b"application/json")]
        is_access = scope["path"].endswith("/access")
        if is_access:
            await self._write(proof[-64:], True)  # the authorization
            body = json.dumps({"transaction_id": proof[-64:]}).encode()
        else:
            for _ in range(3):  # the outcome and the attempt; the answer to what was sent; the receipt
                await self._write(proof[-64:], True)
            headers.append((b"payment-response", proof[-64:].encode()))
            body = COMPLETED
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    config = uvicorn.Config(ServiceByHand(sys.argv[1]), lifespan="off", log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
