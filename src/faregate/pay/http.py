"""The HTTP client of a payer: one request, always the same, sent with or without the payment."""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx

from faregate.core.models import Headers, Response
from faregate.errors import CommandError, FaregateError
from faregate.merchant.calls import PROOF

_PAYMENT_HEADERS = frozenset((PROOF.lower(), "x-payment"))


class NoResponse(FaregateError):
    """No complete response came. Whether the seller acted on the request is unknown."""


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """The request to buy with. `headers` are the user's own and never contain a payment.

    Raises `CommandError` for a URL that is not http(s), and for a payment header.
    """

    method: str
    url: str
    headers: Headers = field(default=(), repr=False)
    body: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = _split_url(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError("URL must be a full http or https URL, such as http://127.0.0.1:8000/report.")
        if any(name.lower() in _PAYMENT_HEADERS for name, _ in self.headers):
            raise CommandError(
                "faregate sets the payment header itself. To send a kept payment, use --proof FILE."
            )

    @property
    def display_url(self) -> str:
        """The URL without user name and password."""
        parts = _split_url(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class SellerClient:
    """Sends the request. Redirects are not followed, because a payment is for one URL."""

    def __init__(self, request: RequestSpec, timeout: float) -> None:
        self.request = request
        # `identity`, because the body is passed on exactly as it arrived.
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "faregate"}
        # Minutes may lie between two requests. A seller that closes the idle connection just as the second
        # one is written looks like a seller that took the payment and did not respond.
        no_reuse = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(headers=headers, timeout=timeout, follow_redirects=False, limits=no_reuse)

    def send(self, proof: str | None = None) -> Response:
        """Return the response with its body undecoded. Raises `NoResponse`."""
        spec = self.request
        headers = [*spec.headers, *([] if proof is None else [(PROOF, proof)])]
        try:
            with self._http.stream(spec.method, spec.url, headers=headers, content=spec.body) as response:
                body = b"".join(response.iter_raw())
        except httpx.HTTPError as error:
            # Not the whole URL, which may have a password or a token.
            host = _split_url(spec.display_url).netloc
            raise NoResponse(f"no response from {host}: {error or type(error).__name__}") from None
        pairs = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw)
        return Response(response.status_code, tuple(pairs), body)

    def close(self) -> None:
        self._http.close()


def _split_url(url: str) -> SplitResult:
    try:
        httpx.URL(url)
        return urlsplit(url)
    except (httpx.InvalidURL, ValueError):
        raise CommandError("URL is malformed.") from None
