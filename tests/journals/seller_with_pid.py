"""The plain shop of the contract suite, whose every answer says which process gave it."""

import os
from typing import Any

from tests.contract.sellers.asgi_app import app as seller
from tests.journals.simultaneous_payers import PROCESS


async def app(scope: Any, receive: Any, send: Any) -> None:
    async def telling(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {
                **message,
                "headers": [*message["headers"], (PROCESS.encode(), str(os.getpid()).encode())],
            }
        await send(message)

    await seller(scope, receive, telling)
