"""For a seller's own tests: payers for any test client, and a paywall over an emulator of its own.

pytest has them as fixtures (`faregate.pytest_plugin`); this is for those who make them by themselves.
"""

from faregate.testing.answers import Answer
from faregate.testing.emulator import plugged
from faregate.testing.payers import AsyncPayer, Payer
from faregate.testing.session import Till

__all__ = ["Answer", "AsyncPayer", "Payer", "Till", "plugged"]
