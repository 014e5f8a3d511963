"""Bytes over a socket, as no HTTP client would send them."""

import contextlib
import socket
import struct
import time

HOST = "127.0.0.1"


def exchange(port: int, request: bytes, quiet: float = 0.4, patience: float = 3.0) -> bytes:
    """All that a server sends, until it closes, is quiet after it spoke, or patience ends."""
    said = b""
    end = time.monotonic() + patience
    with socket.create_connection((HOST, port), timeout=patience) as connection:
        with contextlib.suppress(OSError):  # a server may close while we still speak
            connection.sendall(request)
        with contextlib.suppress(OSError):
            while (left := end - time.monotonic()) > 0:
                connection.settimeout(min(quiet, left) if said else left)
                chunk = connection.recv(65536)
                if not chunk:
                    break
                said += chunk
    return said


def connected(port: int, request: bytes) -> socket.socket:
    """A connection on which this was sent."""
    connection = socket.create_connection((HOST, port), timeout=10)
    connection.sendall(request)
    return connection


def reset(connection: socket.socket) -> None:
    """Hang up without a goodbye: RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def request(
    target: str, *headers: str, method: str = "GET", version: str = "HTTP/1.1", body: str = ""
) -> bytes:
    """One request; a header `Host: ...` among `headers` replaces the usual one."""
    lines = [f"{method} {target} {version}"]
    if not any(header.lower().startswith("host") for header in headers):
        lines.append("Host: seller.example")
    lines += headers
    if not any(header.lower().startswith("connection") for header in headers):
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1")


def status_of(answer: bytes) -> int | None:
    """The status of the last response; None if there was none."""
    heads = [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.")]
    return int(heads[-1].split()[1]) if heads else None
