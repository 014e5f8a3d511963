"""The seller as a payer reaches it: one request, made as often as needed, always the same."""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx

from faregate.core.models import Headers, Response
from faregate.errors import FaregateError
from faregate.merchant.wire import PROOF
from faregate.operations.app_loader import WrongCall

_FORBIDDEN = frozenset((PROOF.lower(), "x-payment"))


class Unanswered(FaregateError):
    """No whole answer came; whether the seller acted is unknown."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """What is asked for. Headers are those of the user; a payment is never among them."""

    method: str
    url: str
    headers: Headers = field(default=(), repr=False)
    body: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = _parts(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WrongCall("URL is a full http or https address, such as http://127.0.0.1:8000/report.")
        if any(name.lower() in _FORBIDDEN for name, _ in self.headers):
            raise WrongCall("The payment is this command's own header; to send a kept one say --proof FILE.")

    @property
    def shown(self) -> str:
        """The URL without user and password."""
        parts = _parts(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class Shop:
    """Sends it, with or without a payment. No redirect is followed, for a payment is for one URL."""

    def __init__(self, purchase: Purchase, timeout: float) -> None:
        self.purchase = purchase
        plain = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "faregate"}
        # Between two requests the seller may close what it kept open, and that looks like no answer.
        once = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(headers=plain, timeout=timeout, follow_redirects=False, limits=once)

    def ask(self, proof: str | None = None) -> Response:
        """The answer with its body as it travelled. Raises `Unanswered`."""
        wanted = self.purchase
        headers = [*wanted.headers, *([] if proof is None else [(PROOF, proof)])]
        try:
            with self._http.stream(wanted.method, wanted.url, headers=headers, content=wanted.body) as answer:
                return Response(answer.status_code, _pairs(answer), b"".join(answer.iter_raw()))
        except httpx.HTTPError as error:
            raise Unanswered(f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        self._http.close()


def _parts(url: str) -> SplitResult:
    try:
        httpx.URL(url)
        return urlsplit(url)
    except (httpx.InvalidURL, ValueError):
        raise WrongCall("URL cannot be read.") from None


def _pairs(answer: httpx.Response) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers.raw)
