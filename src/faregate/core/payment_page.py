"""The page that a person gets where a program gets a 402, and who gets it. Pure.

The page is one HTML document without scripts, fonts or images of others; its content security policy allows
its own style sheet, by hash, and nothing else. Every value in it is escaped.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from html import escape
from shlex import quote as quote_for_shell

from faregate.core.models import Headers, Response
from faregate.core.terms import PaymentTerms, Price, write_body
from faregate.errors import ConfigurationError

RenderPage = Callable[[PaymentTerms], str]
"""Makes the page of a 402, as HTML."""
BuildBody = Callable[[PaymentTerms], Mapping[str, object]]
"""Makes the JSON body of a 402."""

_STYLE = re.compile(r"<style[^>]*>(.*?)</style\s*>", re.DOTALL | re.IGNORECASE)
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})", re.ASCII)
_WEB_ADDRESS = re.compile(r"(?:https?://|mailto:)[^\s\"'<>]+")
_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.ASCII)
_MAX_ACCEPT = 2048
_SIGNED_UNASKED = 1
"""What `faregate pay` signs without `--max`, in units of the asset."""

_CSS = """
:root{color-scheme:light dark;--accent:ACCENT;--ink:#16181d;--soft:#565c68;--line:#dfe2e8;--ground:#fff;
--card:#f6f7f9}
@media (prefers-color-scheme:dark){:root{--ink:#eceef2;--soft:#a4abb8;--line:#343943;--ground:#14161a;
--card:#1d2026}}
*{box-sizing:border-box}
body{margin:0;border-top:4px solid var(--accent);background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;overflow-wrap:anywhere}
main{max-width:42rem;margin:0 auto;padding:clamp(1.5rem,6vw,4rem) 1.25rem}
h1{font-size:clamp(1.4rem,4.5vw,1.9rem);line-height:1.25;margin:.25rem 0 .5rem}
h2{font-size:1rem;margin:2rem 0 .5rem}
p{margin:.5rem 0}
.seller,.soft,footer{color:var(--soft);font-size:.9rem}
.price{margin:1.5rem 0;padding:0;list-style:none;border:1px solid var(--line);border-radius:10px;
background:var(--card)}
.price li{padding:.9rem 1.1rem}
.price li+li{border-top:1px solid var(--line)}
.price strong{font-size:1.5rem;font-variant-numeric:tabular-nums}
pre{margin:.5rem 0;padding:.9rem 1.1rem;border:1px solid var(--line);border-radius:10px;
background:var(--card);white-space:pre-wrap}
pre,code{font:.9rem/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.25rem;font-size:.9rem}
dt{color:var(--soft)}
dd{margin:0}
a{color:inherit}
footer{margin-top:2.5rem;padding-top:1rem;border-top:1px solid var(--line)}
@media (max-width:30rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}}
"""

_TITLES = {202: "The payment is settling", 402: "Payment required", 409: "This payment cannot be used here"}
_KEEP_PAYMENT = "Come back with the same payment; do not pay again."
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
        return self._render(terms, _list_prices(terms) + _describe_paying(terms))

    def render_notice(self, terms: PaymentTerms) -> str:
        """Render the page of another status: what happened, and nothing that asks for a payment."""
        if terms.transaction_id is None:
            return self._render(terms, "")
        told = f"<dl><dt>Transaction</dt><dd><code>{escape(terms.transaction_id)}</code></dd></dl>"
        return self._render(terms, told)

    def _render(self, terms: PaymentTerms, content: str) -> str:
        title = _TITLES.get(terms.status, _OTHER_TITLE)
        heading = (terms.description if terms.status == 402 else "") or title
        seller = f'<p class="seller">{escape(self.seller)}</p>' if self.seller else ""
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            '<meta name="robots" content="noindex">'
            f"<style>{_CSS.replace('ACCENT', self.accent)}</style></head><body><main>{seller}"
            f"<h1>{escape(heading)}</h1>{_explain(terms)}{content}{self._render_footer(terms)}"
            "</main></body></html>"
        )

    def _render_footer(self, terms: PaymentTerms) -> str:
        said = [f"{terms.status} {escape(terms.code)}"] if terms.code else [str(terms.status)]
        if self.note:
            said.insert(0, escape(self.note))
        if self.contact:
            shown = self.contact.removeprefix("mailto:").removeprefix("https://")
            said.append(f'Questions: <a href="{escape(self.contact)}">{escape(shown)}</a>')
        return f"<footer>{' · '.join(said)}</footer>"


def _explain(terms: PaymentTerms) -> str:
    if terms.status != 402:
        # The service's 202 to a completion has no message.
        return f"<p>{escape(terms.message or _KEEP_PAYMENT)}</p>"
    address = f'<p class="soft">{escape(terms.url)}</p>'
    if terms.transaction_id is None:
        return f"{address}<p>This address sells its answer. Opening this page has cost you nothing.</p>"
    return f"{address}<p>{escape(terms.message)}</p>"


def _list_prices(terms: PaymentTerms) -> str:
    if not terms.prices:
        return "<p>The price is in the <code>PAYMENT-REQUIRED</code> header of this response.</p>"
    items = (
        f"<strong>{escape(price.amount)} {escape(price.asset)}</strong> on {escape(price.network_name)}"
        for price in terms.prices
    )
    return f'<ul class="price">{"".join(f"<li>{item}</li>" for item in items)}</ul>'


def _describe_paying(terms: PaymentTerms) -> str:
    # No word on how to install it: payers would give their wallet's key to whoever owns that name.
    return (
        f"<h2>Pay from a terminal</h2><pre>{escape(build_command(terms))}</pre>"
        '<p class="soft">It shows the price, signs one payment and prints the answer. '
        "<code>--dry-run</code> shows the price only.</p>"
        "<h2>Let your agent or program pay</h2>"
        "<p>Give this address to any agent or client that speaks "
        '<a href="https://www.x402.org">x402</a> version 2, such as <code>x402</code> for Python or '
        "<code>@x402/fetch</code> for JavaScript, with a wallet that holds the asset. It reads the "
        "<code>PAYMENT-REQUIRED</code> header of this response, signs, and repeats the request.</p>"
        + "".join(map(_detail_price, terms.prices))
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


def _detail_price(price: Price) -> str:
    told = (("Network", price.network), ("Pay to", price.pay_to), ("Atomic units", price.atomic))
    rows = "".join(f"<dt>{name}</dt><dd><code>{escape(value)}</code></dd>" for name, value in told)
    return f"<h2>{escape(str(price))}</h2><dl>{rows}</dl>"


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
    digests = (b64encode(sha256(css.encode()).digest()).decode() for css in _STYLE.findall(html))
    styles = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
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
        (qualities[one] for one in ("application/json", "application/*", "*/*") if one in qualities), 0.0
    )
    return html > json


def _read_range(text: str) -> tuple[str, float]:
    """The media type and its quality, 0 for one that cannot be read."""
    media, *parameters = (part.strip() for part in text.split(";"))
    stated = next((one[2:].strip() for one in parameters if one.startswith("q=")), "1")
    return media, float(stated) if _QUALITY.fullmatch(stated) else 0.0
