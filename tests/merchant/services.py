"""A merchant service that misbehaves on purpose: raw sockets on loopback, one thread per connection."""

import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.support.threads import join_threads

FREE = b'{"transaction_id":null}'


@dataclass
class Seen:
    """One request as it arrived: `connection` counts from 1."""

    connection: int
    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]


Reply = Callable[[socket.socket, Seen], None]


@dataclass
class Service:
    url: str
    requests: list[Seen] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    """Connections that the client has not closed."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


def ok(*headers: str, body: bytes = FREE, status: str = "200 OK") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers)
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


def says(reply: bytes, *, then_close: bool = False) -> Reply:
    """Always the same bytes."""

    def answer(connection: socket.socket, _seen: Seen) -> None:
        connection.sendall(reply)
        if then_close:
            raise ConnectionAbortedError

    return answer


def drips(whole: bytes, at_once: bytes = b"", seconds: float = 0.3) -> Reply:
    """Some bytes, then one byte per `seconds`."""

    def answer(connection: socket.socket, _seen: Seen) -> None:
        connection.sendall(at_once)
        for byte in whole:
            connection.sendall(bytes([byte]))
            time.sleep(seconds)

    return answer


class Holding:
    """Each reply waits until it is let go; then it is the path that was asked for."""

    def __init__(self, *let_through: str) -> None:
        self._let_through = let_through
        self._lock = threading.Lock()
        self._let_go = threading.Event()
        self.now = 0
        """Requests that wait for their reply."""
        self.most = 0

    def __call__(self, connection: socket.socket, seen: Seen) -> None:
        path = seen.line.split()[1]
        if not path.endswith(self._let_through or ("never",)):
            with self._lock:
                self.now += 1
                self.most = max(self.most, self.now)
            self._let_go.wait(60)
            with self._lock:
                self.now -= 1
        connection.sendall(ok(body=path.encode()))

    def let_go(self) -> None:
        self._let_go.set()


def eventually(check: Callable[[], bool], what: str) -> None:
    """Wait for what other threads do. Fails after half a minute."""
    end = time.monotonic() + 30
    while not check():
        assert time.monotonic() < end, f"never came about: {what}"
        time.sleep(0.001)


def reset(connection: socket.socket) -> None:
    """Close with RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise ConnectionAbortedError


@contextmanager
def unaccepting(host: str = "127.0.0.1", port: int = 0) -> Generator[int]:
    """A port on which connections are neither accepted nor refused."""
    with socket.socket() as listener:
        listener.bind((host, port))
        listener.listen(0)
        with socket.create_connection(listener.getsockname()):
            yield listener.getsockname()[1]


@contextmanager
def service(
    reply: Reply, tls: ssl.SSLContext | None = None, *, at: tuple[str, int] = ("127.0.0.1", 0)
) -> Generator[Service]:
    """Serve until the block ends."""
    with socket.create_server(at, backlog=512) as listener:
        scheme = "https" if tls else "http"
        found = Service(f"{scheme}://{at[0]}:{listener.getsockname()[1]}")
        open_now: set[socket.socket] = set()
        threads: list[threading.Thread] = []

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with found.lock:
                    found.connections += 1
                    found.open += 1
                open_now.add(connection)
                arguments = (connection, found, reply, tls, found.connections)
                threads.append(threading.Thread(target=_serve, args=arguments))
                threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield found
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for connection in open_now:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            join_threads(threads)


def _serve(
    plain: socket.socket, found: Service, reply: Reply, tls: ssl.SSLContext | None, number: int
) -> None:
    try:
        with (
            suppress(OSError),
            plain,
            tls.wrap_socket(plain, server_side=True) if tls else plain as connection,
        ):
            pending = b""
            while (read := _read(connection, pending)) is not None:
                head, body, pending = read
                line, *rest = head.split("\r\n")
                pairs = [(name, value.strip()) for name, _, value in (one.partition(":") for one in rest)]
                seen = Seen(number, line, pairs, body)
                found.requests.append(seen)
                reply(connection, seen)
    finally:
        with found.lock:
            found.open -= 1


def _read(connection: socket.socket, data: bytes) -> tuple[str, bytes, bytes] | None:
    """Head, body, and what came after."""
    while b"\r\n\r\n" not in data:
        if not (piece := connection.recv(65536)):
            return None
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    declared = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    length = int(declared[1]) if declared else 0
    while len(rest) < length:
        if not (piece := connection.recv(65536)):
            return None
        rest += piece
    return head.decode("latin-1"), rest[:length], rest[length:]
