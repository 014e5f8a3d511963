"""One seller for each framework, as its own server runs it."""

import logging

# As docs/observability.md has it: a line for each sale.
logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
logging.getLogger("faregate.sale").setLevel(logging.INFO)
