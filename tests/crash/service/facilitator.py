"""The official facilitator in a process that starts at once: forked from one that has imported everything."""

import os
import socket
import sys
import threading
from multiprocessing.connection import wait
from typing import Any, Final, Self

from examples.chain import facilitator

from tests.crash.service.child import end_with_parent
from tests.crash.service.processes import context, one_at_a_time
from tests.servers.store_server import free_port
from tests.support.waiting import eventually

_PATIENCE: Final = "1.0"


class OfficialFacilitator:
    """At one address, however often it is restarted. What it knew is forgotten then.

    It counts the gas nonces of its account by itself, so it settles nothing any more once the chain has lost
    one of its transactions, until somebody restarts it.
    """

    def __init__(self, rpc_url: str) -> None:
        self._rpc_url, self._port = rpc_url, free_port()
        self._process: Any = None
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._port}"

    def restart(self) -> None:
        """Kill it (-9), whatever it is doing, and start it anew."""
        with self._lock:
            self._kill()
            words = [self._rpc_url, "--patience", _PATIENCE, "--port", str(self._port)]
            self._process = context.Process(target=_serve, args=(words,), daemon=True)
            with one_at_a_time:
                self._process.start()
            assert eventually(self._is_listening)

    def __enter__(self) -> Self:
        self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            wait([self._process.sentinel])
            with one_at_a_time:
                self._process.join()

    def _is_listening(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self._port)) == 0


def _serve(words: list[str]) -> None:
    end_with_parent()
    reading, _ = os.pipe()  # it would end with its standard input
    os.dup2(reading, 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["facilitator", *words]
    facilitator.main()
