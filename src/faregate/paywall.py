"""The `Paywall`: settings, client, journal and offers, for all adapters."""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from inspect import isclass, iscoroutinefunction
from typing import Any, TypeVar, Unpack, cast
from urllib.parse import quote

from faregate import settings as config
from faregate.core.driver import arun, run
from faregate.core.interfaces import Journal
from faregate.core.models import (
    DEFAULT_MIME_TYPE,
    FindOperation,
    HasPayerLeft,
    Offer,
    PaidRequest,
    Request,
    Response,
)
from faregate.core.recovery import BATCH, SweepReport, never, sweep
from faregate.core.service_price import ask_price
from faregate.core.terms import Price, read_prices, read_terms
from faregate.errors import ConfigurationError, FaregateError, ServiceError, is_unavailable
from faregate.events import UNKNOWN_SALE, Sale
from faregate.journals.durations import JournalPolicy
from faregate.journals.memory import MemoryJournal
from faregate.journals.urls import JournalContext, as_async, journal_from_url
from faregate.logs import log
from faregate.merchant.backend import AsyncMerchantBackend, MerchantBackend
from faregate.merchant.requests import Call
from faregate.merchant.resource_url import NOT_FOR_SALE, PATH_SAFE, ResourceUrls
from faregate.merchant.revisions import RevisionCache
from faregate.merchant.sender import AsyncSender, Sender
from faregate.observers import EventDispatcher, GuardedInstrumentation, Listener, Observer, watch_sweep
from faregate.pages.payment import BuildBody, RenderPage, prefers_html, present
from faregate.setting_reader import NameSetting

T = TypeVar("T")

_URL_SAFE = f"{PATH_SAFE}%?"

FindRoute = Callable[[], str | None]
"""Finds the pattern of the path that the framework routed a request by; None if it has none."""

PRICE_SECONDS = 300.0
"""How long the service is not asked for the same price again."""

SOONEST_LEAVE = 0.1
"""In seconds. A quicker sale looks only once whether the payer has left: just before the result leaves."""

MakeJournal = Callable[[JournalContext], Journal]
"""Makes the journal of a paywall."""


class Paywall:
    """One seller's paywall. Starts nothing and connects to nothing before the first paid request.

    The arguments are those of `faregate.settings.Arguments`. `journal` is a name as in `FAREGATE_JOURNAL`,
    a `Journal`, or a function that makes a `Journal` from a `JournalContext`. One paywall serves any number
    of threads and event loops. `on_event` is called with every event (`faregate.events`); it must not block.
    `payment_page` makes the HTML page of a 402, `payment_body` its JSON body (docs/payment-page.md). Adapters
    that read a framework's settings pass `name_setting`, which turns `public_url` into
    `FAREGATE['PUBLIC_URL']`: messages name a setting as the seller wrote it.
    Raises `ConfigurationError`.
    """

    def __init__(
        self,
        *,
        journal: str | Journal | MakeJournal | None = None,
        on_event: Listener | None = None,
        payment_page: RenderPage | None = None,
        payment_body: BuildBody | None = None,
        environ: Mapping[str, str] | None = None,
        transport: Any = None,
        name_setting: NameSetting | None = None,
        **arguments: Unpack[config.Arguments],
    ) -> None:
        environ = self._environ = _check_environ(os.environ if environ is None else environ)
        self.settings = config.read_settings(environ, journal, arguments, name_setting)
        self._has_own_journal = not isinstance(journal, str | None)
        self._embedded: Any = None
        client = self._build_client_arguments(transport)
        self.journal: Journal = self._make_journal(journal)
        if self.settings.base_url == config.SERVICE and self._embedded is not None:
            self._embedded.share_journal(self.journal)
        self.resource_urls = ResourceUrls(
            self.settings.public_url, self.settings.trust_host, self.settings.name_setting("public_url")
        )
        self._client = Sender(**client)
        self._async_client = AsyncSender(**client)
        self._revisions = RevisionCache(time.monotonic, self.settings.embedded, self._hint_at_prices())
        self._instructions: dict[str, str] = {}
        self._priced_at: dict[str, float] = {}
        self._events = EventDispatcher(on_event, self.settings.last_resort)
        self._work_and_access_seconds = self.settings.max_request_seconds - self.settings.completion_seconds
        self._payment_page = _check_plain("payment_page", payment_page)
        self._payment_body = _check_plain("payment_body", payment_body)
        self.instrumentation = self._instrument() if self.settings.otel else None
        shared = (
            self._revisions,
            time.monotonic,
            self._events,
            self.instrumentation,
            self.settings.name_setting,
        )
        self.backend = MerchantBackend(self._client, self.journal, *shared)
        self.async_backend = AsyncMerchantBackend(self._async_client, as_async(self.journal), *shared)
        if self.settings.base_url == config.EMULATOR and self._embedded is not None:
            self._embedded.paywalls.add(self)

    def _hint_at_prices(self) -> str:
        if self.settings.base_url != config.SERVICE:
            return ""
        return (
            " Write its price beside it, as in paid('name', price='0.05 USDC'), or name a catalog that has "
            "it in FAREGATE_SERVICE_CATALOG."
        )

    def _instrument(self) -> GuardedInstrumentation:
        telemetry = _import_telemetry(self.settings.name_setting("otel")).Telemetry(self.journal)
        self._events.add(telemetry.observer)
        return GuardedInstrumentation(telemetry)

    def reset(self) -> None:
        """Reset the paywall, for tests: empty a journal in memory, and forget the revisions."""
        self._revisions.forget()
        self._instructions.clear()
        self._priced_at.clear()
        if isinstance(self.journal, MemoryJournal):
            self.journal.clear()

    def _make_journal(self, journal: str | Journal | MakeJournal | None) -> Journal:
        settings = self.settings
        context = JournalContext(settings.namespace, settings.seller, self._make_policy())
        if journal is None or isinstance(journal, str):
            config.check_journal(settings)
            return journal_from_url(
                settings.journal, settings.journal_keys, context, settings.name_setting("journal")
            )
        # A class is callable too, and would be called with a context as its first argument.
        if isclass(journal):
            raise ConfigurationError("journal is a class: give an object of it, such as MemoryJournal().")
        own = _check_journal(journal(context) if callable(journal) else journal)
        if isinstance(own, MemoryJournal):
            config.check_memory(self.settings)
        return own

    def _make_policy(self) -> JournalPolicy:
        return replace(
            JournalPolicy.for_calls_of(self.settings.timeout),
            redeliveries=self.settings.redeliveries,
            redelivery_window=self.settings.redelivery_window,
        )

    def _build_client_arguments(self, transport: Any) -> dict[str, Any]:
        address, typed_name = self.settings.base_url, self.settings.name_setting("base_url")
        if self.settings.embedded:
            if transport is None:
                transport = self._embedded = self._load_service(typed_name)
            address = config.IN_PROCESS[address]
            typed_name = ""  # there is no address that could be wrong
        return {
            "api_key": self.settings.api_key,
            "base_url": address,
            "setting": typed_name,
            "transport": transport,
            "timeout": self.settings.timeout,
        }

    def _load_service(self, typed_name: str) -> Any:
        """Load the service that runs inside this process. Raises `ConfigurationError`."""
        if self.settings.base_url == config.EMULATOR:
            return _load_emulator(typed_name)
        lacking = config.find_lacking(self.settings, self._has_own_journal)
        service = config.load_service(typed_name)
        journal = "" if self._has_own_journal else self.settings.journal
        return service.open_in_process(self.environment, self._environ, lacking, journal)

    def build_request(
        self,
        offer: Offer,
        request: Request,
        resource_url: str,
        is_chosen: bool = False,
        find_route: FindRoute | None = None,
        prefix_host: str | None = None,
        settle_wait: float = 0.0,
        request_start: float = 0.0,
        find_operation: FindOperation | None = None,
        has_payer_left: HasPayerLeft | None = None,
    ) -> PaidRequest:
        """Build the paid request that the flow serves.

        `resource_url` is one of `resource_urls`. `find_route` is called only if a listener is set.
        `prefix_host` is the Host header, or empty, if a path prefix is sold; None if a handler is sold.
        `settle_wait` is how many seconds the adapter can wait for a payment to settle, in a request that
        began at `request_start`. `find_operation` is called only for the 402 of a seller who asks to be
        listed.
        """
        settings = self.settings
        is_observed = self._events.is_listening()
        return PaidRequest(
            offer,
            request,
            resource_url,
            offer.max_work_seconds or self.settings.max_work_seconds,
            offer.max_result_bytes or self.settings.max_result_bytes,
            is_observed,
            is_chosen,
            self._describe_sale(offer, request, find_route) if is_observed else UNKNOWN_SALE,
            prefix_host,
            min(settle_wait, settings.settle_wait),
            request_start + settings.max_request_seconds - settings.timeout - 1,
            find_operation if settings.discovery else None,
            settings.resume_open_payments and offer.resume_open_payments,
            has_payer_left,
            settings.identifier_use,
            # The request's `public_url` is empty without either setting: the URL is then the address at which
            # this process listens, and other processes have another one.
            resource_url if settings.public_url or settings.trust_host else "",
            request_start + SOONEST_LEAVE,
        )

    def render_response(
        self, answer: Response, request: Request, accept: str, resource_url: str, offer: Offer | None
    ) -> Response:
        """Render the paywall's own response for this payer: a page for people, JSON for everybody else.

        `resource_url` is empty for a request that was refused before its offer was found. An error of the
        seller's own functions is logged, and the answer is sent as if the seller had given no functions.
        """
        page, body = self._payment_page, self._payment_body
        if body is None and not prefers_html(accept):
            return answer
        path, mark, query = request.url.partition("?")
        url = (resource_url or quote(path, safe=_URL_SAFE)) + mark + quote(query, safe=_URL_SAFE)
        description = mime_type = ""
        if offer is not None:
            description, mime_type = offer.description or "", offer.mime_type or DEFAULT_MIME_TYPE
        terms = read_terms(answer, request.method, url, description, mime_type)
        try:
            return present(answer, terms, accept, page, body)
        except Exception as error:
            failed = "payment_page or payment_body failed, and the default is sent"
            log("sale", logging.ERROR, failed, error=error)
        try:
            return present(answer, terms, accept, None, None)
        except Exception as error:
            # An upgrade of this package replaces templates while older processes still run.
            log("sale", logging.ERROR, "the page for people failed, and the JSON is sent", error=error)
            return answer

    def _describe_sale(self, offer: Offer, request: Request, find_route: FindRoute | None) -> Sale:
        return Sale(
            offer.sells,
            method=request.method,
            route=None if find_route is None else find_route(),
            environment=self.environment,
            asset=offer.asset,
        )

    @property
    def is_observed(self) -> bool:
        """Whether anybody listens to events now."""
        return self._events.is_listening()

    @property
    def environment(self) -> str:
        """The environment of the API key: `test` or `live`."""
        return self.settings.api_key.environment

    def add_observer(self, observer: Observer) -> None:
        """For adapters: have every event passed to this observer too."""
        self._events.add(observer)

    def get_work_seconds(self, request: PaidRequest, elapsed: float) -> float:
        """Return how many seconds the work may take in a request that began `elapsed` seconds ago.

        Its outcome has to be reported before servers and proxies give the request up.
        """
        seconds_left = self._work_and_access_seconds - elapsed
        # Leave one second even if reading the body and calling access took all the time.
        return min(request.work_seconds, max(seconds_left, 1.0))

    def expect_offers(self, offers: Iterable[Offer]) -> None:
        """For adapters: check, when the application starts, that the service knows these offers.

        A service in this process is asked at once. For any other service, missing offers are logged once,
        when its contracts have been read for a request. Raises `ConfigurationError`.
        """
        offers = [alternative for offer in offers for alternative in offer.alternatives]
        self._revisions.expect(offers)
        if self._is_in_process:
            for offer in offers:
                self._resolve_at_start(offer)

    def _resolve_at_start(self, offer: Offer) -> None:
        try:
            self.backend.resolve_offer(offer)
        except ServiceError as error:
            if not is_unavailable(error):
                raise ConfigurationError(f"The service in this process cannot start: {error}") from error
            # Under WSGI there is no start: the first request runs this. An error here would answer every page
            # with 500 while the database restarts.
            log(
                "sale",
                logging.ERROR,
                "paid requests get 503, and a later one asks the service again: %s",
                error,
            )

    @property
    def _is_in_process(self) -> bool:
        """Whether the service runs in this process, and may be asked at any time.

        The emulator of a test may not: it publishes what it sells later, and counts calls.
        """
        return self._embedded is not None and not self._embedded.is_replaced

    def find_asset(self, sells: str) -> str | None:
        """Return the asset of this offer if it is known already; makes no call."""
        return self._revisions.find_asset(sells)

    def record_price(self, offer: Offer, answer: Response) -> None:
        """Remember what a 402 asks for this offer: no other document has the price."""
        if (instructions := answer.first("payment-required")) is not None:
            self._instructions[offer.sells] = instructions

    def find_price(self, sells: str) -> Price | None:
        """Return what the last 402 of this process asked for this offer; None if there were several prices.

        Makes no call, unless the service runs in this process.
        """
        if self._is_in_process and sells not in self._instructions:
            self.refresh_price(Offer(sells))
        instructions = self._instructions.get(sells)
        prices = () if instructions is None else read_prices(instructions)
        return prices[0] if len(prices) == 1 else None

    def refresh_price(self, offer: Offer) -> None:
        """Ask the service for the price of this offer, once in `PRICE_SECONDS`, for `find_price`.

        Blocking; raises nothing.
        """
        if self._take_turn_to_ask(offer.sells):
            with suppress(FaregateError):
                if (answer := run(ask_price(self.backend, offer, NOT_FOR_SALE))) is not None:
                    self.record_price(offer, answer)

    async def ask_prices(self, offers: Iterable[Offer]) -> None:
        """Ask the service for the prices of these offers, each once in `PRICE_SECONDS`, for `find_price`.

        Takes a second at most; raises nothing.
        """
        due = [offer for offer in offers if self._take_turn_to_ask(offer.sells)]
        if not due:
            return
        from anyio import move_on_after

        with suppress(FaregateError), move_on_after(1):
            for offer in due:
                if (answer := await arun(ask_price(self.async_backend, offer, NOT_FOR_SALE))) is not None:
                    self.record_price(offer, answer)

    def _take_turn_to_ask(self, sells: str) -> bool:
        """Return whether the price is due to be asked for.

        If it is, the caller must ask: every other caller gets False for `PRICE_SECONDS`.
        """
        now = time.monotonic()
        if now - self._priced_at.get(sells, float("-inf")) < PRICE_SECONDS:
            return False
        self._priced_at[sells] = now
        return True

    def call(self, call: Call[T]) -> T:
        """Make one call of the Merchant API, outside any paid request. Sync. Raises `ServiceError`."""
        return self._client.send(call)

    def sweep(self, limit: int = BATCH, should_stop: Callable[[], bool] = never) -> SweepReport:
        """Recover payments that were interrupted or held, `limit` rows at most. Blocking.

        `should_stop` is asked between two rows. Raises `JournalError`, and `ConfigurationError` for an
        argument of another type.
        """
        _check_sweep(limit, should_stop)
        with watch_sweep(self.instrumentation):
            return run(sweep(self.backend, limit, should_stop, self.environment))

    async def asweep(self, limit: int = BATCH, should_stop: Callable[[], bool] = never) -> SweepReport:
        """`sweep`, async."""
        _check_sweep(limit, should_stop)
        with watch_sweep(self.instrumentation):
            return await arun(sweep(self.async_backend, limit, should_stop, self.environment))

    def close(self) -> None:
        self._client.close()

    def find_service_faults(self) -> list[str]:
        """Say what keeps a service in this process from taking payments; it asks nodes and facilitators."""
        if self.settings.base_url != config.SERVICE or self._embedded is None:
            return []
        faults: list[str] = self._embedded.find_faults()
        return faults

    async def astart(self) -> None:
        """Have a service in this process settle what waits, before the first request comes.

        Raises `ConfigurationError`.
        """
        if self.settings.base_url == config.SERVICE and self._embedded is not None:
            from anyio.to_thread import run_sync

            await run_sync(self._embedded.start)

    async def aclose(self) -> None:
        await self._async_client.aclose()


def _check_environ(environ: Any) -> Mapping[str, str]:
    if not isinstance(environ, Mapping):
        raise ConfigurationError(
            f"environ is a mapping of variables, such as os.environ, not {type(environ).__name__}."
        )
    return cast("Mapping[str, str]", environ)


def _check_sweep(limit: Any, should_stop: Any) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigurationError(f"limit is how many payments a sweep looks at, 1 or more, not {limit!r}.")
    if not callable(should_stop):
        raise ConfigurationError("should_stop is a function that is asked between two payments.")


def _check_plain(name: str, function: T) -> T:
    """Give the function if it can be called without awaiting. Raises `ConfigurationError`."""
    if function is not None and (not callable(function) or iscoroutinefunction(function)):
        raise ConfigurationError(f"{name} must be a plain function that takes the PaymentTerms.")
    return function


def _check_journal(journal: Any) -> Journal:
    steps = (name for name, step in vars(Journal).items() if callable(step) and not name.startswith("_"))
    if lacking := [name for name in steps if not callable(getattr(journal, name, None))]:
        raise ConfigurationError(
            "journal must be a URL, a journal, or a function that makes one of a JournalContext. "
            f"{type(journal).__name__} has no method {lacking[0]}."
        )
    return cast(Journal, journal)


def _import_telemetry(setting: str) -> Any:
    # By name: its package is an extra, and importing it takes longer than all of ours.
    try:
        return import_module("faregate.telemetry")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{setting} needs OpenTelemetry's API: pip install 'faregate[otel]'"
        ) from error


def _load_emulator(setting: str) -> Any:
    # By name: the emulator's packages are an extra, and nothing in production may import them.
    try:
        get_embedded_transport = import_module("faregate.emulator.transports").get_embedded_transport
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{setting} is emulator:, which needs the emulator's packages: pip install 'faregate[emulator]'"
        ) from error
    return get_embedded_transport()
