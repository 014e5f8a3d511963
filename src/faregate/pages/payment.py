"""The page that a person gets where a program gets a 402, and who gets it.

The page is one HTML document without scripts, fonts or images of others; its content security policy allows
its own style sheet, by hash, and nothing else. Every value in it is escaped.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from shlex import quote as quote_for_shell

from faregate.core.models import Headers, Response
from faregate.core.terms import PaymentTerms, write_body
from faregate.errors import ConfigurationError
from faregate.pages import hash_style, render, render_style

RenderPage = Callable[[PaymentTerms], str]
"""Makes the page of a 402, as HTML."""
BuildBody = Callable[[PaymentTerms], Mapping[str, object]]
"""Makes the JSON body of a 402."""

# As `(.*?)</style`, and eight times as fast.
_STYLE = re.compile(r"<style[^>]*>([^<]*(?:<(?!/style\s*>)[^<]*)*)</style\s*>", re.IGNORECASE)
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})", re.ASCII)
_WEB_ADDRESS = re.compile(r"(?:https?://|mailto:)[^\s\"'<>]+")
_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.ASCII)
_MAX_ACCEPT = 2048
_SIGNED_UNASKED = 1
"""What `faregate pay` signs without `--max`, in units of the asset."""

_TITLES = {202: "The payment is settling", 402: "Payment required", 409: "This payment cannot be used here"}
_OTHER_TITLE = "Nothing was delivered"


@dataclass(frozen=True, slots=True)
class PaymentPage:
    """The page of a 402, with the seller's name and colour: `Paywall(payment_page=PaymentPage("Acme"))`.

    `seller` is shown above what is sold. `accent` is a colour as `#0a7a5a`. `contact` is a web or `mailto:`
    address for questions, and `note` a sentence of your own, as plain text. Raises `ConfigurationError`.
    """

    seller: str = ""
    accent: str = "#2456e6"
    contact: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if not _COLOUR.fullmatch(self.accent):
            raise ConfigurationError(f"accent={self.accent!r}: write a colour as '#0a7a5a'.")
        if self.contact and not _WEB_ADDRESS.fullmatch(self.contact):
            raise ConfigurationError(
                f"contact={self.contact!r}: write an address that begins with https:// or mailto:."
            )

    def __call__(self, terms: PaymentTerms) -> str:
        """Render the page of a 402."""
        return self._render("payment.html", terms)

    def render_notice(self, terms: PaymentTerms) -> str:
        """Render the page of another status: what happened, and nothing that asks for a payment."""
        return self._render("notice.html", terms)

    def _render(self, template: str, terms: PaymentTerms) -> str:
        return _render(template, terms, self.seller, self.accent, self.contact, self.note)


@lru_cache(maxsize=64)  # most visits are to a few addresses
def _render(template: str, terms: PaymentTerms, seller: str, accent: str, contact: str, note: str) -> str:
    title = _TITLES.get(terms.status, _OTHER_TITLE)
    return render(
        template,
        style=render_style("payment.css", accent=accent),
        title=title,
        seller=seller,
        heading=(terms.description if terms.status == 402 else "") or title,
        terms=terms,
        command=build_command(terms),
        note=note,
        contact=contact,
        contact_name=contact.removeprefix("mailto:").removeprefix("https://"),
    )


def build_command(terms: PaymentTerms) -> str:
    """Build the command that pays, safe to paste into a shell whatever the address holds."""
    options: list[str] = []
    if terms.method not in ("GET", "HEAD"):
        options += ["-X", quote_for_shell(terms.method)]
    if terms.prices and all(price.is_live for price in terms.prices):
        options += ["--live", "--key-file", "your-key.txt"]
    if terms.prices and all(price.atomic != price.amount for price in terms.prices):
        dearest = max((price.amount for price in terms.prices), key=Decimal)
        if Decimal(dearest) > _SIGNED_UNASKED:
            options += ["--max", dearest]
    return " ".join(("faregate pay", *options, quote_for_shell(terms.url)))


def present(
    response: Response, terms: PaymentTerms, accept: str, page: RenderPage | None, body: BuildBody | None
) -> Response:
    """The response as this payer reads it: a page for people, JSON for everybody else.

    The status and every header but those of the content stay as they are. Only the 402 is the seller's to
    shape: a page that asks for a payment must not be shown while one is open.
    """
    is_unpaid = response.status == 402
    if not prefers_html(accept):
        if body is None or not is_unpaid:
            return response
        return _replace_body(response, write_body(terms, body(terms)), ("Content-Type", "application/json"))
    own = page if isinstance(page, PaymentPage) else PaymentPage()
    html = (page or own)(terms) if is_unpaid else own.render_notice(terms)
    return _replace_body(
        response,
        html.encode(),
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Security-Policy", build_policy(html)),
        ("X-Content-Type-Options", "nosniff"),
        ("Vary", "Accept"),
    )


def _replace_body(response: Response, body: bytes, *headers: tuple[str, str]) -> Response:
    kept: Headers = tuple(pair for pair in response.headers if pair[0].lower() != "content-type")
    return Response(response.status, (*headers, *kept), body)


def build_policy(html: str) -> str:
    """Build the content security policy of a page: its own style sheets by their hashes, and no script."""
    styles = " ".join(map(hash_style, _STYLE.findall(html))) or "'none'"
    images = "; img-src 'self' data:" if "<img" in html else ""
    return (
        f"default-src 'none'; style-src {styles}{images}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def prefers_html(accept: str) -> bool:
    """Whether an `Accept` header names HTML, and wants it more than JSON. Browsers that navigate do."""
    # A stranger writes this header: a long one is not parsed.
    if "text/html" not in accept.lower() or len(accept) > _MAX_ACCEPT:
        return False
    qualities = dict(map(_read_range, accept.lower().split(",")))
    html = qualities.get("text/html", 0.0)
    json = next(
        (
            qualities[media_type]
            for media_type in ("application/json", "application/*", "*/*")
            if media_type in qualities
        ),
        0.0,
    )
    return html > json


def _read_range(text: str) -> tuple[str, float]:
    """The media type and its quality, 0 for one that cannot be read."""
    media, *parameters = (part.strip() for part in text.split(";"))
    stated = next((parameter[2:].strip() for parameter in parameters if parameter.startswith("q=")), "1")
    return media, float(stated) if _QUALITY.fullmatch(stated) else 0.0
