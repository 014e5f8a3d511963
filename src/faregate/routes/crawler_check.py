"""Try from outside what a crawler tries, and say what keeps a seller from being listed. Pays nothing."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib import import_module
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit, urlunsplit

from faregate.checkout.openapi import INFO
from faregate.core.models import Response
from faregate.core.terms import read_prices
from faregate.errors import CommandError, ServiceError
from faregate.merchant.address import is_loopback
from faregate.transports.base import MAX_REPLY_BYTES, build_no_answer
from faregate.x402.json_schema import make_example

Send = Callable[[str, str], Response]
"""Sends a request with this method to this URL, without a body. Raises `ServiceError`."""
Operations = dict[tuple[str, str], Mapping[str, Any]]
"""The operations of a document by method and path."""

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_MAX_CHECKED: Final = 20
_MAX_HEADER: Final = 3_700
"""Characters of an instructions header with which a 402 passes nginx as it is installed."""
_SECONDS: Final = 10.0
_TERMS: Final = ("scheme", "network", "amount", "asset", "payTo")
_REASONS: Final = (
    (range(200, 300), "it is not sold"),
    (range(300, 400), "it redirects, and a crawler follows no redirect"),
    ((400, 415, 422), "the request is checked before its price"),
    ((401, 403), "a login stands in front of the price"),
    ((404, 405), "there is no such route"),
    (range(500, 600), "see the log of the application"),
)


@dataclass(frozen=True, slots=True)
class CrawlerReport:
    """The requests that were found sold, the faults that keep them from being listed, and notes."""

    sold: list[str] = field(default_factory=list[str])
    faults: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def send_request(method: str, url: str) -> Response:
    """Send a request over a new connection. Raises `ServiceError`."""
    parts = urlsplit(url)
    make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = make(parts.netloc, timeout=_SECONDS)
    try:
        connection.request(
            method,
            parts.path or "/",
            headers={"Accept": "application/json, */*;q=0.5", "User-Agent": "faregate"},
        )
        reply = connection.getresponse()
        return Response(reply.status, tuple(reply.getheaders()), reply.read(MAX_REPLY_BYTES))
    except (OSError, HTTPException, ValueError) as error:
        raise build_no_answer(method, url, f"{error or type(error).__name__}") from None
    finally:
        connection.close()


def check_url(url: str, send: Send = send_request) -> CrawlerReport:
    """Check the requests that a seller's document lists; or those to one URL, if it has a path.

    Raises `CommandError` for what is not a URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise CommandError(f"{url!r} is no http(s) URL of a seller, such as https://shop.example.")
    origin = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    report = CrawlerReport()
    report.faults.extend(_check_address(origin))
    operations = _read_operations(origin, send, report)
    requests = _list_requests(origin, parts.path, operations, send)
    if len(requests) > _MAX_CHECKED:
        report.notes.append(f"Of {len(requests)} requests, the first {_MAX_CHECKED} were tried.")
    for method, path in requests[:_MAX_CHECKED]:
        _check_request(method, path, origin, operations, send, report)
    if not requests:
        report.faults.append(f"Nothing for sale was found at {url}: name the URL of something that is sold.")
    _check_llms_text(origin, [path for _, path in requests], send, report)
    return report


def _check_address(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https":
        yield f"{url} is not https: catalogues list no other address."
    if is_loopback(host) or host == "localhost" or re.fullmatch(r"[0-9.]+|.*:.*", host):
        yield f"{url} has no domain name: catalogues refuse it."


def _read_operations(origin: str, send: Send, report: CrawlerReport) -> Operations:
    """Read what the seller's document says of each request."""
    url = f"{origin}/openapi.json"
    try:
        reply = send("GET", url)
    except ServiceError as error:
        report.faults.append(str(error))
        return {}
    document = _read_object(reply.body)
    if reply.status != 200 or not str(document.get("openapi", "")).startswith("3."):
        report.faults.append(
            f"{url} is no OpenAPI document (HTTP {reply.status}): crawlers read prices there."
        )
        return {}
    return {
        (method.upper(), path): operation
        for path, item in _as_object(document.get("paths")).items()
        for method, operation in _as_object(item).items()
        if method.upper() in _METHODS and isinstance(operation, dict)
    }


def _list_requests(origin: str, path: str, operations: Operations, send: Send) -> list[tuple[str, str]]:
    """List the methods and paths to try: those of the document, or those of one path that answer 402."""
    if path in ("", "/"):
        paid = (request for request, operation in operations.items() if INFO in operation)
        return [(method, _fill_path(path, operations[method, path])) for method, path in paid]
    documented = [method for method in _METHODS if _find_operation(method, path, operations) is not None]
    if documented:
        return [(method, path) for method in documented]
    return [(method, path) for method in ("GET", "POST") if _asks_payment(method, origin + path, send)] or [
        ("GET", path)
    ]


def _asks_payment(method: str, url: str, send: Send) -> bool:
    try:
        return send(method, url).status == 402
    except ServiceError:
        return False


def _fill_path(template: str, operation: Mapping[str, Any]) -> str:
    """Put examples in place of the parameters of a path."""

    def fill(parameter: re.Match[str]) -> str:
        parameters: list[Any] = operation.get("parameters", [])
        schemas = (
            described.get("schema") for described in parameters if described.get("name") == parameter[1]
        )
        try:
            return quote(str(make_example(next(schemas, {"type": "string"}))), safe="")
        except (ValueError, TypeError, LookupError):
            return "1"

    return re.sub(r"\{([^{}]+)\}", fill, template)


def _find_operation(method: str, path: str, operations: Operations) -> Mapping[str, Any] | None:
    if (method, path) in operations:
        return operations[method, path]
    for (other, template), operation in operations.items():
        pattern = re.sub(r"\\\{[^{}]+\\\}", "[^/]+", re.escape(template))
        if other == method and re.fullmatch(pattern, path):
            return operation
    return None


def _check_request(
    method: str, path: str, origin: str, operations: Operations, send: Send, report: CrawlerReport
) -> None:
    url = origin + path
    try:
        reply = send(method, url)
        head = send("HEAD", url) if method == "GET" else None
    except ServiceError as error:
        report.faults.append(str(error))
        return
    name, faults = f"{method} {url}", list[str]()
    if reply.status != 402:
        reasons = (reason for statuses, reason in _REASONS if reply.status in statuses)
        reason = next(reasons, "it does not ask for a payment")
        report.faults.append(
            f"{name} is answered with {reply.status}, without parameters, body and payment: {reason}."
        )
        return
    if head is not None and head.status < 300:
        faults.append(f"HEAD {url} is answered with {head.status}: it is not sold, and GET is.")
    if "no-store" not in (reply.first("cache-control") or ""):
        faults.append(f"{name} has a 402 that caches may keep: it needs Cache-Control: no-store.")
    faults.extend(_check_instructions(name, method, url, reply.first("payment-required"), report))
    faults.extend(_check_operation(name, _find_operation(method, path, operations), operations, reply))
    report.faults.extend(faults)
    report.sold.append(name)


def _check_instructions(
    name: str, method: str, url: str, header: str | None, report: CrawlerReport
) -> Iterator[str]:
    if header is None:
        yield f"{name} has a 402 without exactly one PAYMENT-REQUIRED header."
        return
    required = _decode(header)
    if required.get("x402Version") != 2:
        yield f"{name} has a PAYMENT-REQUIRED that is not base64 of JSON of x402 version 2."
        return
    if len(header) > _MAX_HEADER:
        report.notes.append(
            f"{name} has a PAYMENT-REQUIRED of {len(header)} characters: nginx reads 4096 bytes of headers, "
            "unless proxy_buffer_size is higher."
        )
    accepts: Any = required.get("accepts")
    entries = cast("list[object]", accepts) if isinstance(accepts, list) else []
    if not entries or not all(map(_has_terms, entries)):
        yield f"{name} has no terms in PAYMENT-REQUIRED, or some without {', '.join(_TERMS)}."
    if any(price.is_live is False for price in read_prices(header)):
        report.notes.append(f"{name} is paid on a test network: catalogues of real money leave it out.")
    listed = _as_object(required.get("resource")).get("url")
    if listed != url:
        yield f"{name} is listed as {listed}: set FAREGATE_PUBLIC_URL to the address that payers use."
    yield from _check_extension(name, method, _as_object(required.get("extensions")).get("bazaar"), report)


def _has_terms(entry: object) -> bool:
    terms = _as_object(entry)
    has_seconds = isinstance(terms.get("maxTimeoutSeconds"), int)
    return has_seconds and all(isinstance(terms.get(term), str) and terms[term] for term in _TERMS)


def _check_extension(name: str, method: str, extension: object, report: CrawlerReport) -> Iterator[str]:
    if extension is None:
        yield f"{name} has no bazaar extension, by which facilitators list it: set FAREGATE_DISCOVERY=1."
        return
    shown = _as_object(extension)
    info, schema = _as_object(shown.get("info")), _as_object(shown.get("schema"))
    input_info = _as_object(info.get("input"))
    if input_info.get("type") not in ("http", "mcp") or not schema:
        yield f"{name} has a bazaar extension without info.input.type or schema."
    elif input_info["type"] == "http" and input_info.get("method") != method:
        yield f"{name} has a bazaar extension for the method {input_info.get('method')}."
    elif (fault := _find_schema_fault(info, schema, report)) is not None:
        yield f"{name} has a bazaar extension whose schema does not allow its info: {fault:.200}"


def _find_schema_fault(info: object, schema: object, report: CrawlerReport) -> str | None:
    """Find why a catalogue refuses an extension, with the validator that the official package uses."""
    try:
        validator: Any = import_module("jsonschema")
    except ModuleNotFoundError:
        note = "The schemas of bazaar extensions were not validated: pip install jsonschema."
        report.notes.extend([note] if note not in report.notes else [])
        return None
    try:
        validator.validate(instance=info, schema=schema)
    except Exception as error:  # of the schema, of the instance, or of a reference
        return str(getattr(error, "message", error))
    return None


def _check_operation(
    name: str, operation: Mapping[str, Any] | None, operations: Operations, reply: Response
) -> Iterator[str]:
    """Compare a 402 with the document, if there is one."""
    if operation is None:
        if operations:
            yield f"{name} is not in /openapi.json."
        return
    info = _as_object(operation.get(INFO))
    protocols: Any = info.get("protocols")
    names = cast("list[object]", protocols) if isinstance(protocols, list) else []
    if not any("x402" in _as_object(protocol) for protocol in names):
        yield f"{name} has no {INFO} with the protocol x402 in /openapi.json."
        return
    price = _as_object(info.get("price"))
    if not price:
        yield f"{name} has no price in /openapi.json."
        return
    asked_prices = [
        price_asked
        for price_asked in read_prices(reply.first("payment-required") or "")
        if price_asked.scheme != "upto"
    ]
    if asked_prices and not any(_is_within(asking.amount, price) for asking in asked_prices):
        yield f"{name} costs {asked_prices[0].amount} {asked_prices[0].asset}, and {price} in /openapi.json."


def _is_within(amount: str, price: Mapping[str, Any]) -> bool:
    lowest, highest = price.get("amount", price.get("min")), price.get("amount", price.get("max"))
    try:
        return Decimal(str(lowest)) <= Decimal(amount) <= Decimal(str(highest))
    except InvalidOperation:
        return False


def _check_llms_text(origin: str, paths: list[str], send: Send, report: CrawlerReport) -> None:
    url = f"{origin}/llms.txt"
    try:
        reply = send("GET", url)
    except ServiceError as error:
        report.notes.append(str(error))
        return
    if reply.status != 200:
        report.notes.append(f"{url} is answered with {reply.status}: build_llms_text makes one.")
        return
    text = reply.body.decode("utf-8", "replace")
    first = {f"/{path.strip('/').partition('/')[0]}" for path in paths}
    report.notes.extend(f"{url} does not name {path}." for path in sorted(first) if path not in text)


def _decode(header: str) -> Mapping[str, Any]:
    try:
        return _read_object(base64.b64decode(header, validate=True))
    except ValueError:
        return {}


def _read_object(text: bytes) -> Mapping[str, Any]:
    try:
        return _as_object(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _as_object(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
