"""OpenTelemetry: spans of access, work, complete and sweep, and metrics of sales. Needs the extra `otel`.

Spans are children of the span that is current, such as the framework's for the request. Providers are the
global ones of the process. Names follow OpenTelemetry's semantic conventions; those of ours begin with
`faregate.`. No attribute carries a proof, a key, a query or content.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any
from weakref import WeakSet

from opentelemetry import context, metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from faregate.core.claim_types import PendingPayment
from faregate.core.models import HandlerResult, OfferRevision, Outcome, PaidRequest, WorkSucceeded
from faregate.events import Event, Refused, Sale, Settled, Swept
from faregate.observers import SaleOutcome, find_outcome

Attributes = dict[str, AttributeValue]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0)
"""Limits of the buckets of durations: those of HTTP's semantic conventions, and one for slow work."""
MAX_COUNTED = 10_000
"""Open payments that are counted in each journal."""

_tracer = trace.get_tracer("faregate")


# Spans


class CurrentSpan:
    """A span that is current until it ends, so that what happens meanwhile is below it."""

    def __init__(self, name: str, kind: SpanKind, attributes: Attributes) -> None:
        self._span = _tracer.start_span(name, kind=kind, attributes=attributes)
        self._token = context.attach(trace.set_span_in_context(self._span))

    def end(self, result: object) -> None:
        """End the span, with what its operation gave or raised."""
        # A task or a thread of its own had a copy of the context, which has ended with it.
        if trace.get_current_span() is self._span:
            context.detach(self._token)
        try:
            _describe_result(self._span, result)
        finally:
            self._span.end()


def _describe_result(span: Span, result: object) -> None:
    match result:
        case BaseException():
            # Not the message: it may quote what a payer or the service sent.
            _mark_failed(span, type(result).__qualname__)
        case HandlerResult():
            status = result.response.status
            span.set_attribute("http.response.status_code", status)
            if status >= 500:  # a framework answered what the handler raised
                _mark_failed(span, str(status))
        case None:
            pass
        case _:
            span.set_attribute("faregate.result", type(result).__name__)
            transaction_id = getattr(result, "transaction_id", None)
            if transaction_id is not None:
                span.set_attribute("faregate.transaction.id", transaction_id)


def _mark_failed(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


# Metrics


class Metrics:
    """An observer that counts what is sold, and measures how long it takes."""

    def __init__(self) -> None:
        meter = metrics.get_meter("faregate")
        self._sales = meter.create_counter(
            "faregate.sales", "{sale}", "Sales that a request or a sweep was done with, by outcome"
        )
        self._revenue = meter.create_counter(
            "faregate.revenue", "{atomic_unit}", "Settled payments, in atomic units of their asset"
        )
        self._at_maximum = meter.create_counter(
            "faregate.sales.at_maximum", "{sale}", "Sales priced by use that took all that was authorized"
        )
        self._refusals = meter.create_counter(
            "faregate.refusals", "{request}", "Requests whose handler did not run, by status and code"
        )
        self._durations = meter.create_histogram(
            "faregate.operation.duration",
            "s",
            "How long the parts of a sale took",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._sweeps = meter.create_histogram(
            "faregate.sweep.duration",
            "s",
            "How long sweeps took",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._swept = meter.create_counter(
            "faregate.sweep.payments", "{payment}", "Payments that sweeps looked at, by what became of them"
        )
        self.journals: WeakSet[Any] = WeakSet()
        meter.create_observable_gauge(
            "faregate.journal.open_payments",
            [self._count_open],
            "{payment}",
            "Payments in the journal that have not ended, by state",
        )

    def is_listening(self) -> bool:
        return True

    def receive(self, event: Event) -> None:
        match event:
            case Refused(status, code, sale):
                reason: Attributes = {"http.response.status_code": status, "faregate.code": code}
                self._refusals.add(1, describe(sale, reason))
            case Swept():
                self._add_sweep(event)
            case _:
                if isinstance(event, Settled):
                    self._add_revenue(event.sale)
                ended = find_outcome(event)
                if ended is not None:
                    self._add_sale(ended[0].sale, ended[1])

    def _add_sale(self, sale: Sale, outcome: SaleOutcome) -> None:
        self._sales.add(1, describe(sale, {"faregate.outcome": str(outcome)}))
        if outcome is SaleOutcome.REDELIVERED:
            return
        took = (("access", sale.access_ms), ("work", sale.work_ms), ("complete", sale.complete_ms))
        for name, duration_ms in took:
            if duration_ms is not None:
                attributes: Attributes = {"faregate.operation.name": name}
                self._durations.record(duration_ms / 1000, describe(sale, attributes))

    def _add_revenue(self, sale: Sale) -> None:
        attributes = describe(sale, _describe_asset(sale))
        if sale.amount is not None:
            self._revenue.add(sale.amount, attributes)
        if sale.is_at_maximum:
            self._at_maximum.add(1, attributes)

    def _add_sweep(self, sweep: Swept) -> None:
        attributes: Attributes = (
            {} if sweep.environment is None else {"faregate.environment": sweep.environment}
        )
        self._sweeps.record(sweep.duration_ms / 1000, attributes)
        for outcome in ("settled", "failed", "held", "stuck", "expired"):
            self._swept.add(getattr(sweep, outcome), {**attributes, "faregate.outcome": outcome})

    def _count_open(self, _options: CallbackOptions) -> Iterable[Observation]:
        """Count the open payments of each journal that can list them."""
        counts: Counter[str] = Counter(dict.fromkeys(_STATES, 0))
        for journal in tuple(self.journals):
            counts.update(hold.state for hold in journal.list_holds(MAX_COUNTED))
        return [Observation(number, {"faregate.journal.state": state}) for state, number in counts.items()]


_STATES = ("open", "waiting", "running", "ok", "failed", "stuck")


@cache
def get_metrics() -> Metrics:
    """The metrics of this process: an instrument exists once, however many paywalls there are."""
    return Metrics()


def describe(sale: Sale, added: Attributes) -> Attributes:
    """Return attributes that have few values each, so that metrics may have them too."""
    attributes = {
        "faregate.offer": sale.offer,
        "faregate.environment": sale.environment,
        "http.request.method": sale.method,
        "http.route": sale.route,
    }
    return {**{name: value for name, value in attributes.items() if value is not None}, **added}


def _describe_asset(sale: Sale) -> Attributes:
    return {} if sale.asset is None else {"faregate.asset": sale.asset}


class Telemetry:
    """What a paywall needs of OpenTelemetry: an `Instrumentation`, and an observer for the metrics."""

    def __init__(self, journal: object) -> None:
        self.observer = get_metrics()
        if callable(getattr(journal, "list_holds", None)):
            self.observer.journals.add(journal)

    def begin_access(self, request: PaidRequest, revision: OfferRevision) -> CurrentSpan:
        attributes = describe(request.sale, {"faregate.revision.id": revision.revision_id})
        return CurrentSpan("faregate.access", SpanKind.CLIENT, attributes)

    def begin_work(self, request: PaidRequest, transaction_id: str | None) -> CurrentSpan:
        attributes: Attributes = {} if transaction_id is None else {"faregate.transaction.id": transaction_id}
        return CurrentSpan("faregate.work", SpanKind.INTERNAL, describe(request.sale, attributes))

    def begin_complete(self, payment: PendingPayment, outcome: Outcome) -> CurrentSpan:
        attributes: Attributes = {
            "faregate.revision.id": payment.revision_id,
            "faregate.transaction.id": payment.transaction_id,
            "faregate.work.outcome": "succeeded" if isinstance(outcome, WorkSucceeded) else "failed",
        }
        return CurrentSpan("faregate.complete", SpanKind.CLIENT, describe(payment.sale, attributes))

    def begin_sweep(self) -> CurrentSpan:
        return CurrentSpan("faregate.sweep", SpanKind.INTERNAL, {})
