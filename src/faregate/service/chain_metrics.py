"""The metrics of chain and books for Prometheus: what is not safe yet, what came loose, comparisons."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from faregate.errors import FaregateError
from faregate.service.database.engine import Database
from faregate.service.database.payment_rows import list_reconciliations
from faregate.service.database.reorg_records import summarize_reorgs


@dataclass(frozen=True, slots=True, eq=False)
class ChainCollector(Collector):
    """Reads the database at each scrape; while it is away, these metrics are absent."""

    database: Database
    clock: Callable[[], datetime]

    def collect(self) -> Iterator[Metric]:
        try:
            metrics = [*self._collect_reorgs(), *self._collect_reconciliations()]
        except FaregateError:
            return
        yield from metrics

    def _collect_reorgs(self) -> Iterator[Metric]:
        summary = summarize_reorgs(self.database)
        loose = GaugeMetricFamily(
            "faregate_service_loose_payments",
            "Succeeded payments that the chain has lost: open, settled after all, or lost",
            labels=("state",),
        )
        for state, count in (("open", summary.open), ("settled", summary.settled), ("lost", summary.lost)):
            loose.add_metric((state,), count)
        yield loose
        since = summary.unchecked_since
        yield GaugeMetricFamily(
            "faregate_service_unsafe_seconds",
            "Age of the oldest succeeded payment that is not known to be in a safe block",
            value=0.0 if since is None else max(0.0, (self.clock() - since).total_seconds()),
        )

    def _collect_reconciliations(self) -> Iterator[Metric]:
        at = GaugeMetricFamily(
            "faregate_service_reconciled_timestamp_seconds",
            "When books and chain were last compared",
            labels=("environment",),
        )
        differences = GaugeMetricFamily(
            "faregate_service_differences",
            "What the last comparison of books and chain found",
            labels=("environment", "kind"),
        )
        for reconciliation in list_reconciliations(self.database):
            at.add_metric((reconciliation.environment,), reconciliation.finished_at.timestamp())
            for kind, count in reconciliation.result["differences"].items():
                differences.add_metric((reconciliation.environment, kind), count)
        yield at
        yield differences
