"""The campaign's own talk with the service's process (`tests.crash.points.service`), about one trial."""

import http.client
import json
from typing import Any


class ServiceAt:
    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self._place = f"/control/{name}"
        self.url = f"http://127.0.0.1:{port}/{name}"

    def begin(self, faults: dict[str, list[str]], settlement: dict[str, Any] | None) -> str:
        """What a payer is to sign."""
        return str(self._ask("PUT", "", {"faults": faults, "settlement": settlement}))

    def kill_when_acted(self, operation: str, visit: int, pid: int) -> None:
        self._ask("POST", "/death", {"operation": operation, "visit": visit, "pid": pid})

    def spare(self) -> None:
        """Nobody is killed any more."""
        self._ask("POST", "/death", {})

    def heal(self) -> None:
        self._ask("POST", "/heal")

    def statuses(self) -> dict[str, str]:
        """Every transaction there is, and how it stands."""
        found: dict[str, str] = self._ask("GET", "/statuses")
        return found

    def records(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET", "")
        return found

    def forget(self) -> None:
        self._ask("DELETE", "")

    def _ask(self, method: str, what: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, self._place + what, json.dumps(body))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()
