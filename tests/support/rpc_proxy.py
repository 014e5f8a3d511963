"""A JSON-RPC node in front of a real one, which can be down, slow, behind, or wrong."""

import json
import sys
import threading
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Change = Callable[[list[Any], Any], Any]
"""Makes an answer's `result` from the params and the true result."""
NO_ANSWER = object()
"""As a result: the connection is closed without an answer."""


class RpcFault(Exception):
    """Raised by a `Change`: the node answers with this JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def fail_with(code: int, message: str) -> Change:
    """Answer with this error."""

    def change(params: list[Any], result: Any) -> Any:
        raise RpcFault(code, message)

    return change


class RpcProxy:
    """`change[method]` makes the answers of a method. `status` and `raw` replace every answer."""

    def __init__(self, target: str) -> None:
        self.change: dict[str, Change] = {}
        self.status = 200
        self.raw: bytes | None = None
        self.answers = threading.Event()
        """Cleared, the node takes requests and does not answer them."""
        self.answers.set()
        self.calls: list[tuple[str, list[Any]]] = []
        self.heads: list[dict[str, str]] = []
        self._target = target
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.url = ""

    def answer(self, body: bytes) -> bytes | None:
        """Return the answer to a request; None for none at all."""
        asked = json.loads(body)
        method, params = asked["method"], asked["params"]
        self.calls.append((method, params))
        self.answers.wait()
        if self.raw is not None:
            return self.raw
        answer = self._ask(body)
        if method in self.change:
            try:
                answer = {"jsonrpc": "2.0", "id": asked["id"], "result": self._change(method, params, answer)}
            except RpcFault as fault:
                error = {"code": fault.code, "message": str(fault)}
                answer = {"jsonrpc": "2.0", "id": asked["id"], "error": error}
            if answer.get("result") is NO_ANSWER:
                return None
        return json.dumps(answer).encode()

    def _change(self, method: str, params: list[Any], answer: dict[str, Any]) -> Any:
        return self.change[method](params, answer.get("result"))

    def _ask(self, body: bytes) -> dict[str, Any]:
        request = urllib.request.Request(self._target, body, {"Content-Type": "application/json"})
        with self._opener.open(request, timeout=30) as answer:
            read: dict[str, Any] = json.load(answer)
        return read

    def count(self, method: str) -> int:
        return sum(name == method for name, _ in self.calls)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that was killed is no news
            super().handle_error(request, client_address)


@contextmanager
def serve_rpc_proxy(target: str, path: str = "/") -> Generator[RpcProxy]:
    """Serve a proxy until the block ends. `path` is appended to its URL, as a key would be."""
    proxy = RpcProxy(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            proxy.heads.append(dict(self.headers) | {":path": self.path})
            body = proxy.answer(self.rfile.read(int(self.headers["Content-Length"])))
            if body is None:
                self.close_connection = True
                return
            self.send_response(proxy.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    proxy.url = f"http://127.0.0.1:{server.server_port}{path}"
    try:
        yield proxy
    finally:
        proxy.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()
