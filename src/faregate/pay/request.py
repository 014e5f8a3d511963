"""The request that a payer buys with. Pure."""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx

from faregate.core.models import Headers
from faregate.core.request_headers import CREDENTIAL_HEADERS
from faregate.errors import CommandError, FaregateError
from faregate.merchant.requests import PROOF

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
        parts = split_url(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError("URL must be a full http or https URL, such as http://127.0.0.1:8000/report.")
        if any(name.lower() in _PAYMENT_HEADERS for name, _ in self.headers):
            raise CommandError(
                "faregate sets the payment header itself. To send a kept payment, use --proof FILE."
            )

    @property
    def display_url(self) -> str:
        """The URL without user name and password."""
        parts = split_url(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    @property
    def host(self) -> str:
        """The host, and a port if the URL has one."""
        return split_url(self.display_url).netloc

    @property
    def has_credentials(self) -> bool:
        """Whether a seller can tell this client from others that send the same payment."""
        return any(name.lower().encode() in CREDENTIAL_HEADERS for name, _ in self.headers)

    def find_header(self, name: str) -> str | None:
        """Return the first value of header `name` (lower case)."""
        return next((value for own, value in self.headers if own.lower() == name), None)


def split_url(url: str) -> SplitResult:
    """Split the URL. Raises `CommandError` if it is malformed."""
    try:
        httpx.URL(url)
        return urlsplit(url)
    except (httpx.InvalidURL, ValueError):
        raise CommandError("URL is malformed.") from None
