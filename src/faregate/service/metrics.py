"""The metrics for Prometheus: requests, settlements, open payments, the gas account."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from faregate.rules.dependencies import AmountIssue
from faregate.service.database.reports import PendingPayments

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServiceMetrics:
    """The metrics of this process; pending payments and balances are read at each scrape.

    `read_pending` and `read_gas_balances` (ETH by address) may raise: their metrics are then absent.
    `collectors` have further metrics.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime],
        read_pending: Callable[[], PendingPayments],
        read_gas_balances: Callable[[], Mapping[str, float]],
        collectors: Iterable[Collector] = (),
    ) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "faregate_service_requests", "Answered requests", ("operation", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "faregate_service_request_seconds",
            "Time to answer a request",
            ("operation",),
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self._attempts = Counter(
            "faregate_service_settlement_attempts", "Attempts to settle a payment", registry=self._registry
        )
        self._settlements = Counter(
            "faregate_service_settlements",
            "How attempts to settle ended: succeeded, failed, or to be tried again",
            ("result",),
            registry=self._registry,
        )
        self._exceeded = Counter(
            "faregate_service_exceeded_maximums",
            "Uses that were worth more than their payer had authorized",
            registry=self._registry,
        )
        self._other_amounts = Counter(
            "faregate_service_other_amounts",
            "Payments of which a facilitator settled another amount than it was asked to",
            registry=self._registry,
        )
        self._limited = Counter(
            "faregate_service_rate_limited",
            "Requests that were answered 429, by the id of their key; none: without a valid key",
            ("key",),
            registry=self._registry,
        )
        state = _StateCollector(clock, read_pending, read_gas_balances)
        for collector in (state, *collectors):
            self._registry.register(collector)

    def count_request(self, operation: str, status: int, seconds: float) -> None:
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def count_issue(self, issue: AmountIssue) -> None:
        """Count a payment by use with such an amount."""
        match issue:
            case AmountIssue.ABOVE_MAXIMUM:
                self._exceeded.inc()
            case AmountIssue.OTHER_THAN_ASKED:
                self._other_amounts.inc()

    def count_limited(self, key_id: str | None) -> None:
        """Count a request that was refused by a rate limit."""
        self._limited.labels(key_id or "none").inc()

    def count_attempt(self, result: str) -> None:
        """Count an attempt to settle, by what came of it."""
        self._attempts.inc()
        self._settlements.labels(result).inc()

    def render(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)


@dataclass(frozen=True, slots=True, eq=False)
class _StateCollector(Collector):
    clock: Callable[[], datetime]
    read_pending: Callable[[], PendingPayments]
    read_gas_balances: Callable[[], Mapping[str, float]]

    def collect(self) -> Iterator[Metric]:
        yield from self._collect_pending()
        yield from self._collect_balances()

    def _collect_pending(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("faregate_service_database_up", "Whether the database answers")
        try:
            pending = self.read_pending()
        except Exception:  # whatever it is, this page must be served: it is where one looks for the reason
            up.add_metric((), 0)
            yield up
            return
        up.add_metric((), 1)
        yield up
        counts = GaugeMetricFamily(
            "faregate_service_open_payments", "Payments that have not ended", labels=("status",)
        )
        for status in ("settling", "reconciling", "parked"):
            counts.add_metric((status,), getattr(pending, status))
        yield counts
        since = pending.oldest_at
        age = 0.0 if since is None else max(0.0, (self.clock() - since).total_seconds())
        yield GaugeMetricFamily(
            "faregate_service_oldest_pending_seconds",
            "For how long the oldest payment waits that is not parked",
            value=age,
        )

    def _collect_balances(self) -> Iterator[Metric]:
        try:
            balances = self.read_gas_balances()
        except Exception:  # as above
            return
        if balances:
            shown = GaugeMetricFamily(
                "faregate_service_gas_balance_eth", "What the gas account holds", labels=("environment",)
            )
            for name, balance in balances.items():
                shown.add_metric((name,), balance)
            yield shown
