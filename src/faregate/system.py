"""What the operating system gives: the real clock, randomness and listening sockets.

The service is given them, it never uses them itself.
"""

import errno
import socket
import ssl
from datetime import UTC, datetime

from faregate.errors import ConfigurationError
from faregate.rules.ids import build_id


class PortTaken(ConfigurationError):
    """Another program listens on the port."""


def system_clock() -> datetime:
    return datetime.now(UTC)


# `ssl.RAND_bytes`, because `os.urandom` releases the interpreter's lock, and under load threads switch then.


def random_challenge() -> str:
    """Return a challenge of 256 random bits."""
    return ssl.RAND_bytes(32).hex()


def random_id(prefix: str, moment: datetime, /) -> str:
    """Return a new id: the milliseconds, then 74 random bits."""
    return build_id(prefix, moment, int.from_bytes(ssl.RAND_bytes(10), "big") >> 6)


def open_listener(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Open a listening socket; port 0 is any free one. Raises `PortTaken`, `ConfigurationError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A restarted server could otherwise not bind for as long as old connections are in TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1" if host == "localhost" else host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        fault = f"cannot listen on {host} port {port}: {error}"
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise PortTaken(f"{fault}. Stop what listens there, or give another port") from None
        raise ConfigurationError(fault) from None
    return listener


def get_url(listener: socket.socket) -> str:
    """Return the URL for clients."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
