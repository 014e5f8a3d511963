"""For a seller's own tests: payers for any test client, and an emulator that stands in for the service.

pytest offers them as fixtures (`faregate.pytest_plugin`); other test runners use this module.
"""

from faregate.testing.emulator import use_emulator
from faregate.testing.payers import AsyncPayer, PaidResponse, Payer, PayerSession

__all__ = ["AsyncPayer", "PaidResponse", "Payer", "PayerSession", "use_emulator"]
