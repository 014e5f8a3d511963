"""A test client that pays, for a seller's own tests."""

from typing import TYPE_CHECKING, Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

if TYPE_CHECKING:
    from faregate.emulator import Wallet


class PayingClient(FlaskClient):
    """A `FlaskClient` that can pay: `client.get("/report", pay=True)`.

    app.test_client_class = PayingClient
    client = app.test_client()  # or app.test_client(wallet=Wallet())

    A `402` is paid with the emulator's money and the request repeated once. Give `data` as bytes or a
    dict, not as an open file: the first request reads it.
    """

    def __init__(self, *args: Any, wallet: "Wallet | None" = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wallet = wallet

    @property
    def wallet(self) -> "Wallet":
        """The wallet that pays."""
        if self._wallet is None:
            from faregate.emulator import Wallet

            self._wallet = Wallet()
        return self._wallet

    def open(self, *args: Any, pay: bool = False, **kwargs: Any) -> TestResponse:
        response = super().open(*args, **kwargs)
        if not pay or response.status_code != 402:
            return response
        environ = self.environ_base
        proof = self.wallet.pay(response.headers["PAYMENT-REQUIRED"])
        response.close()
        # Requests can be given in several forms, each with headers of its own. This reaches all of them.
        self.environ_base = {**environ, "HTTP_PAYMENT_SIGNATURE": proof}
        try:
            return super().open(*args, **kwargs)
        finally:
            self.environ_base = environ
