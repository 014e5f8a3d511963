"""A network that loses things. It passes on what goes between clients and a server on loopback, until told
to lose an answer (the server has acted then) or a request (it never hears of it); that connection ends.
"""

import select
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

CHUNK = 1 << 16


class Network:
    """`port` is where clients connect to. `lost` counts what was lost."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lost = 0
        self._lock = threading.Lock()
        self._still: dict[str, int] = {}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def lose(self, what: str, after: int = 0) -> None:
        """The next `answer` or `request`, or the one `after` so many."""
        with self._lock:
            self._still[what] = after

    def pass_on_to(self, server_port: int) -> None:
        """Connections to come go there; those that are open stay where they are."""
        self._server_port = server_port

    def _is_lost(self, what: str) -> bool:
        with self._lock:
            still = self._still.pop(what, None)
            if still:
                self._still[what] = still - 1
            lost = still == 0
            self.lost += lost
            return lost

    def _accept(self) -> None:
        with self._listener:
            while not self._stop.is_set():
                if select.select([self._listener], [], [], 0.05)[0]:
                    client, _ = self._listener.accept()
                    self._threads.append(threading.Thread(target=self._pass_on, args=(client,)))
                    self._threads[-1].start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._server_port)) as server:
            other = {client: (server, "request"), server: (client, "answer")}
            while not self._stop.is_set():
                for end in select.select(list(other), [], [], 0.05)[0]:
                    data, (receiver, what) = end.recv(CHUNK), other[end]
                    if not data or self._is_lost(what):
                        return
                    receiver.sendall(data)

    def close(self) -> None:
        self._stop.set()
        while self._threads:
            self._threads.pop().join()


@contextmanager
def lossy_network(server_port: int) -> Generator[Network]:
    made = Network(server_port)
    try:
        yield made
    finally:
        made.close()
