"""The demo: a seller, the service and a payer, played on this machine. `scripts/demo` runs it."""
