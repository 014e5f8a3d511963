"""Werkzeug's own server: `python -m tests.contract.werkzeug_server PORT MODULE:NAME`."""

import importlib
import logging
import sys

from werkzeug.serving import run_simple

if __name__ == "__main__":
    port, app = sys.argv[1:]
    module, _, name = app.partition(":")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    run_simple("127.0.0.1", int(port), getattr(importlib.import_module(module), name), threaded=True)
