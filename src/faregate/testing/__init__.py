"""For a seller's own tests: payers for any test client, and an emulator that stands in for the service.

pytest offers them as fixtures (`faregate.pytest_plugin`); other test runners use this module.
"""

from faregate.testing.emulator import plugged
from faregate.testing.payers import Answer, AsyncPayer, Payer, Till

__all__ = ["Answer", "AsyncPayer", "Payer", "Till", "plugged"]
