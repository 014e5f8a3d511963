"""The console as one function, `respond(request)`: a few pages, a login and a logout.

Only login and logout are POSTs, and they change nothing but the session. Every page asks the database whether
the session is not over and its key still valid, so that a revoked key ends its sessions at once.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from faregate.core.models import Header, Response, WireRequest, header_values
from faregate.pages import render
from faregate.rules.http import HttpError, ParsedRequest, parse_as_of
from faregate.rules.settlement import settle_due
from faregate.service.console.layout import ROOT, SECTIONS, Viewer, render_document, render_page
from faregate.service.console.lists import View, show_payers, show_payments, show_resources
from faregate.service.console.overview import Watched, show_overview
from faregate.service.console.payment import MOST_ATTEMPTS, show_payment
from faregate.service.database.attempts import list_attempts
from faregate.service.database.attention import list_loose, list_parked
from faregate.service.database.engine import DatabaseError
from faregate.service.database.keys import find_key_owner
from faregate.service.database.payment_rows import find_reconciliation
from faregate.service.database.refunds import list_refunds_of
from faregate.service.database.reorg_records import find_loose
from faregate.service.database.reports import Revenue
from faregate.service.database.sessions import (
    SESSION_SECONDS,
    create_session,
    end_session,
    find_session_owner,
)
from faregate.service.database.sql_store import SqlStore
from faregate.service.environment_payments import PeerStatus
from faregate.service.served_accounts import ServedAccounts
from faregate.service.storage import Storage
from faregate.system import system_clock

LOGIN: Final = f"{ROOT}/login"
COOKIE: Final = "faregate_console"
_READ: Final = "transactions:read"
_MAX_FORM: Final = 4096
_MAX_FIELDS: Final = 10
_LAST_PAGE: Final = 10**9
_MOST_LISTED: Final = 50
# Pages show text of sellers and facilitators, so they run no script and load nothing from elsewhere.
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS: Final[tuple[Header, ...]] = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", _POLICY),
    # Not `no-referrer`: browsers would then hide from the login where its form comes from.
    ("Referrer-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)
_FILES: Final = {
    "style.css": ("service/style.css", "text/css; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
_log = logging.getLogger("faregate.service")


@dataclass(frozen=True, slots=True)
class Opened:
    """The account of a session, and who looks at it."""

    viewer: Viewer
    store: SqlStore


def is_console(path: str) -> bool:
    """Whether this path belongs to the console."""
    return path == ROOT or path.startswith(f"{ROOT}/")


class Console:
    """The pages of all accounts. Thread-safe; it remembers nothing that another process needs."""

    def __init__(
        self,
        storage: Storage,
        accounts: ServedAccounts,
        *,
        is_simulated: bool,
        list_nodes: Callable[[], Sequence[PeerStatus]] = tuple,
    ) -> None:
        self._storage, self._accounts, self._list_nodes = storage, accounts, list_nodes
        self._is_simulated = is_simulated
        self._revenue = Revenue(storage.database, storage.stamps)

    def respond(self, request: WireRequest) -> Response:
        """Return the response to this request. Never raises."""
        try:
            return self._respond(request)
        except HttpError as refusal:
            return _build_message(refusal.problem.status, refusal.message)
        except DatabaseError as error:
            _log.error("%s", error)
            return _build_message(503, "The service's database is away. Try again soon.")
        except Exception:
            _log.exception("the console failed")
            return _build_message(500, "The console failed; the service's log says why.")

    def _respond(self, request: WireRequest) -> Response:
        path, _, query = request.path.partition("?")
        path = path.rstrip("/")
        if request.method == "POST":
            return self._change_session(request, path)
        if request.method not in ("GET", "HEAD"):
            return _build_message(405, "The console only shows.", ("Allow", "GET, HEAD, POST"))
        name = path.removeprefix(f"{ROOT}/")
        if name in _FILES:
            template, kind = _FILES[name]
            return _build_response(200, render(template).encode(), ("Content-Type", kind))
        if path == LOGIN:
            return _build_login(200)
        opened = self._open(request)
        if opened is None:
            return _redirect(LOGIN)
        return self._show(opened, path, query)

    # Sessions

    def _change_session(self, request: WireRequest, path: str) -> Response:
        if not _is_own_form(request):
            # Also a login: a link must not log a person in with another person's key.
            return _build_message(
                403, "This form was sent from another site, or a proxy changes the Host header."
            )
        if path == f"{ROOT}/logout":
            end_session(self._storage.database, _read_cookie(request))
            return _redirect(LOGIN, _build_cookie(request, "", 0))
        if path == LOGIN:
            return self._log_in(request)
        return _build_message(405, "The console only shows.", ("Allow", "GET, HEAD"))

    def _log_in(self, request: WireRequest) -> Response:
        secret = _read_form(request.body or b"").get("key", "").strip()
        owner = find_key_owner(self._storage.database, secret)
        if owner is None or self._accounts.open_store(owner.account) is None:
            return _build_login(401, "This key is not valid here.")
        if _READ not in owner.capabilities:
            return _build_login(403, f"This key lacks the capability {_READ}.")
        session = create_session(self._storage.database, owner, system_clock())
        return _redirect(ROOT, _build_cookie(request, session, SESSION_SECONDS))

    def _open(self, request: WireRequest) -> Opened | None:
        """Open the account of the session; None if there is no session, or no longer."""
        session = _read_cookie(request)
        owner = find_session_owner(self._storage.database, session, system_clock()) if session else None
        if owner is None:
            return None
        store = self._accounts.open_store(owner.account)
        if store is None:
            return None
        viewer = Viewer(store.seller_name, store.environment, self._is_simulated, owner.capabilities)
        return Opened(viewer, store)

    # Pages

    def _show(self, opened: Opened, path: str, query: str) -> Response:
        viewer, store = opened.viewer, opened.store
        section = next((candidate for candidate in SECTIONS if candidate.path == path), None)
        needed = _READ if section is None else section.capability
        if needed not in viewer.capabilities:
            message = f"The key lacks {needed}."
            return _build_page(403, render_page(viewer, "page.html", path, "Not allowed", message=message))
        # What time has settled on the simulated ledger by now, as before every call of the API.
        settle_due(store.now(), self._accounts.build_dependencies(store))
        show = self._find_page(path)
        page = None if show is None else show(opened, query)
        if page is None:
            message = "There is no such page or payment."
            return _build_page(404, render_page(viewer, "page.html", path, "Not found", message=message))
        return _build_page(200, page)

    def _find_page(self, path: str) -> Callable[[Opened, str], bytes | None] | None:
        if path == ROOT:
            return lambda opened, _: self._show_overview(opened)
        if path in _LISTS:
            show = _LISTS[path]
            return lambda opened, query: show(opened.viewer, opened.store, _read_view(opened.store, query))
        head, _, identifier = path.rpartition("/")
        if head == f"{ROOT}/payments":
            return lambda opened, _: self._show_payment(opened, identifier)
        return None

    def _show_overview(self, opened: Opened) -> bytes:
        database, store = self._storage.database, opened.store
        watched = Watched(
            find_reconciliation(database, store.environment),
            list_parked(database, store.account.id, _MOST_LISTED),
            list_loose(database, store.account.id, _MOST_LISTED),
            [node for node in self._list_nodes() if node.environment == store.environment],
        )
        return show_overview(opened.viewer, store, self._revenue, watched)

    def _show_payment(self, opened: Opened, identifier: str) -> bytes | None:
        payment = opened.store.find_transaction(identifier)
        if payment is None:
            return None
        database, account = self._storage.database, opened.store.account.id
        attempts = list_attempts(database, account, payment.id, MOST_ATTEMPTS)
        loose = find_loose(database, account, payment.id)
        refunds = list_refunds_of(database, account, payment.id)
        return show_payment(opened.viewer, payment, attempts, loose, refunds, opened.store.now())


_LISTS: Final = {
    f"{ROOT}/payments": show_payments,
    f"{ROOT}/payers": show_payers,
    f"{ROOT}/resources": show_resources,
}


def _read_view(store: SqlStore, query: str) -> View:
    """Read what of a list is asked for; 422 if its moment cannot be read. One in the future means now."""
    call = ParsedRequest("", query, (), b"")
    parameters = call.parameters()
    as_of = store.fix_snapshot(parse_as_of(call)) or store.fix_snapshot(None) or store.now()
    page = parameters.get("page", "1")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < len(str(_LAST_PAGE)) else 1
    filters = {
        name: parameters[name].strip() for name in ("status", "payer") if parameters.get(name, "").strip()
    }
    return View(as_of, max(1, number), filters)


def _is_own_form(request: WireRequest) -> bool:
    """Whether a form came from the console itself, as far as browsers say. Others need no such protection."""
    site = header_values(request.headers, "sec-fetch-site")
    if site:
        return site[-1] in ("same-origin", "none")
    origin = header_values(request.headers, "origin")
    try:
        return not origin or urlsplit(origin[-1]).netloc in header_values(request.headers, "host")
    except ValueError:  # an address in brackets that is none
        return False


def _read_form(body: bytes) -> dict[str, str]:
    if len(body) > _MAX_FORM:
        return {}
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=_MAX_FIELDS))
    except ValueError:
        return {}


def _read_cookie(request: WireRequest) -> str:
    cookie = SimpleCookie()
    try:
        cookie.load("; ".join(header_values(request.headers, "cookie")))
    except CookieError:
        return ""
    return cookie[COOKIE].value if COOKIE in cookie else ""


def _build_cookie(request: WireRequest, value: str, seconds: int) -> Header:
    """Build the cookie of a session. The form's own origin says whether the browser came by HTTPS."""
    origin = header_values(request.headers, "origin")
    secure = "; Secure" if origin and origin[-1].startswith("https://") else ""
    rules = f"Path={ROOT}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    return "Set-Cookie", f"{COOKIE}={value}; {rules}"


def _build_login(status: int, fault: str | None = None) -> Response:
    return _build_page(status, render_document("login.html", "Log in", fault=fault, capability=_READ))


def _build_message(status: int, message: str, *headers: Header) -> Response:
    page = render_document("message.html", str(status), message=message)
    return _build_page(status, page, *headers)


def _build_page(status: int, page: bytes, *headers: Header) -> Response:
    return _build_response(status, page, ("Content-Type", "text/html; charset=utf-8"), *headers)


def _redirect(path: str, *headers: Header) -> Response:
    return _build_response(303, b"", ("Location", path), *headers)


def _build_response(status: int, body: bytes, *headers: Header) -> Response:
    return Response(status, (*_HEADERS, *headers), body)
