"""A seller that is killed at the n-th step of one request: before or after a call of journal or service.

    python -m tests.crash.resuming_seller FOLDER SERVICE KILLED_AT PROOF...

Buys with each proof in turn, the last one with the death at `KILLED_AT` (0: it lives), sweeps, and prints the
status, the transaction and the body of each response.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from flask import Flask

from faregate import Paywall
from faregate.core import completion
from faregate.emulator import TEST_KEY
from faregate.flask import Faregate
from faregate.journals.sqlite import SqliteJournal
from faregate.journals.urls import JournalContext
from faregate.transports.http1 import Http1Transport
from tests.crash.points.kill_wrappers import DyingJournal, DyingTransport, Kills
from tests.support.lines import append_line

PATH = "/report"


class Steps(Kills):
    """Counts every point since it was armed."""

    def __init__(self) -> None:
        super().__init__(None, 0)
        self.steps_left = 0

    def reach(self, point: str) -> None:
        if self.steps_left:
            self.steps_left -= 1
            if not self.steps_left:
                os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, service: str, killed_at: int, proofs: list[str]) -> None:
    completion.COMPLETE_PAUSES = (0.01, 0.03)
    steps = Steps()

    def open_journal(context: JournalContext) -> Any:
        journal = SqliteJournal(folder / "journal.db", keys=[b"k" * 32], namespace=context.namespace)
        return DyingJournal(journal, steps)

    app = Flask(__name__)
    paywall = Paywall(
        api_key=TEST_KEY,
        base_url=service,
        public_url="https://seller.example",
        environ={},
        settle_wait=0,
        payment_identifier="optional",
        journal=open_journal,
        transport=DyingTransport(Http1Transport(), steps),
    )
    seller = Faregate()
    seller.init_app(app, paywall)

    @app.get(PATH)
    @seller.paid("daily_report")
    def report() -> dict[str, str]:
        append_line(folder / "executions", pid=os.getpid())
        return {"result": os.urandom(8).hex()}

    for number, proof in enumerate(proofs, 1):
        steps.steps_left = killed_at if number == len(proofs) else 0
        response = app.test_client().get(PATH, headers={"PAYMENT-SIGNATURE": proof})
        print(
            json.dumps([response.status_code, response.headers.get("Faregate-Transaction"), response.text]),
            flush=True,
        )
    steps.steps_left = 0
    paywall.sweep()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
