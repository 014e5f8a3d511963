"""Watch what the gas accounts hold, and warn when it is low."""

import logging
from collections.abc import Mapping

from faregate.selfhosted.payment_lines import PaymentLine
from faregate.x402.tokens import Environment

_WEI_PER_ETH = 10**18
_log = logging.getLogger("faregate.service")


class GasWatch:
    """The latest balances of the gas accounts. Read now and then, not when somebody looks at the metrics."""

    def __init__(self, lines: Mapping[Environment, PaymentLine]) -> None:
        self._accounts = {
            name: line.gas_account for name, line in lines.items() if line.gas_account is not None
        }
        self._balances: dict[str, float] = {}

    def get_balances(self) -> Mapping[str, float]:
        """Return ETH by environment, as it was read last."""
        return self._balances

    def read(self) -> None:
        """Read the balances. Raises `PaymentsUnavailable`."""
        for name, account in self._accounts.items():
            balance = account.read_balance()
            self._balances = {**self._balances, name: balance.wei / _WEI_PER_ETH}
            if balance.is_low:
                _log.warning(
                    "the gas account %s has %.6f ETH, less than gas_alarm_eth: send it some",
                    balance.address,
                    balance.wei / _WEI_PER_ETH,
                )
