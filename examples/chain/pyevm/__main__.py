"""A node for the demo where anvil cannot be had: py-evm behind JSON-RPC, a block per transaction.

`python -m examples.chain.pyevm CHAIN` serves it, and says where it listens. The node knows what
facilitators, the service and `LocalChain` ask for, and no more: it cannot be stuck, reorganised or told the
time.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from examples.chain.pyevm.node import Node, build_node


def serve(node: Node) -> None:
    """Serve until the process ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.dumps(node.answer(self.rfile.read(int(self.headers["Content-Length"])))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"Listening on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(build_node(int(sys.argv[1])))
