"""The `Payment` that a paid handler receives."""

from collections.abc import Mapping

from faregate.core.usage import as_decimal


class Payment:
    """The payment of one request, for its handler. `transaction_id` is None when access is free.

    The money is taken only after the handler has answered; nothing here is proof of payment.
    """

    __slots__ = ("transaction_id", "values")

    def __init__(self, transaction_id: str | None) -> None:
        self.transaction_id = transaction_id
        self.values: dict[str, str] = {}

    def report(self, values: Mapping[str, object] | None = None, /, **named: object) -> None:
        """Report measured values by their names in the revision; a later report replaces an earlier.

        A value is an int, a Decimal or a decimal string, never a float. Raises `InvalidUsage`. Whether
        the names are the revision's is checked when the handler has answered.
        """
        for name, value in {**(values or {}), **named}.items():
            self.values[name] = as_decimal(name, value)
