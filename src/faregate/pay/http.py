"""The HTTP client of `faregate pay`: one request, always the same, sent with or without the payment."""

import httpx

from faregate.core.models import Headers, Response
from faregate.merchant.requests import PROOF
from faregate.pay.payment_file import SavedPayment
from faregate.pay.request import NoResponse, RequestSpec

IDEMPOTENCY_KEY = "Idempotency-Key"
# Minutes may lie between two requests. A seller that closes the idle connection just as the second one is
# written looks like a seller that took the payment and did not respond.
NO_REUSE = httpx.Limits(max_keepalive_connections=0)


class SellerClient:
    """Sends the request. Redirects are not followed, because a payment is for one URL."""

    def __init__(self, request: RequestSpec, timeout: float) -> None:
        self.request = request
        # `identity`, because the body is passed on exactly as it arrived.
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "faregate"}
        self._http = httpx.Client(headers=headers, timeout=timeout, follow_redirects=False, limits=NO_REUSE)

    def send(self, payment: SavedPayment | None = None) -> Response:
        """Return the response with its body undecoded. Raises `NoResponse`."""
        spec = self.request
        headers = [*spec.headers, *build_payment_headers(payment)]
        try:
            with self._http.stream(spec.method, spec.url, headers=headers, content=spec.body) as response:
                body = b"".join(response.iter_raw())
        except httpx.HTTPError as error:
            raise build_no_response(spec, error) from None
        return Response(response.status_code, decode_headers(response), body)

    def close(self) -> None:
        self._http.close()


def build_payment_headers(payment: SavedPayment | None) -> Headers:
    """Build the headers that a request with this payment has beside its own."""
    if payment is None:
        return ()
    key = payment.idempotency_key
    return ((PROOF, payment.proof), *([] if key is None else [(IDEMPOTENCY_KEY, key)]))


def build_no_response(spec: RequestSpec, error: Exception) -> NoResponse:
    # Not the whole URL, which may have a password or a token.
    return NoResponse(f"no response from {spec.host}: {error or type(error).__name__}")


def decode_headers(response: httpx.Response) -> Headers:
    """Decode each header as it arrived, also if there are several of one name."""
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw)
