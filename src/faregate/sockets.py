"""Open the listening socket of a server, and say its URL."""

import errno
import socket

from faregate.errors import ConfigurationError


def open_listener(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Open a listening socket; port 0 is any free one. `ConfigurationError` if that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A restarted server could otherwise not bind for as long as old connections are in TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1" if host == "localhost" else host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        remedy = ""
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            remedy = ". Stop what listens there, or give another port"
        raise ConfigurationError(f"cannot listen on {host} port {port}: {error}{remedy}") from None
    return listener


def get_url(listener: socket.socket) -> str:
    """Return the URL for clients."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
