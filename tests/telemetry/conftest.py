"""The providers of the process, which can be set once: spans and metrics are kept in memory."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

Point = tuple[dict[str, Any], float]


class BrokenProcessor(SpanProcessor):
    """Raises in the methods named in `broken`, for the spans of faregate alone."""

    def __init__(self) -> None:
        self.broken: frozenset[str] = frozenset()
        self.raised = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self._raise("on_start", span)

    def on_end(self, span: ReadableSpan) -> None:
        self._raise("on_end", span)

    def _raise(self, method: str, span: ReadableSpan) -> None:
        if method in self.broken and span.name.startswith("faregate."):
            self.raised += 1
            raise ZeroDivisionError(f"{method} of {span.name}")


@dataclass(frozen=True)
class Telemetry:
    """What was exported."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    processor: BrokenProcessor

    def find(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def list_ancestors(self, span: ReadableSpan) -> list[str]:
        by_id = {one.context.span_id: one for one in self.exporter.get_finished_spans() if one.context}
        names: list[str] = []
        parent = span.parent
        while parent is not None and parent.span_id in by_id:
            found = by_id[parent.span_id]
            names.append(found.name)
            parent = found.parent
        return names

    def read(self, name: str) -> list[Point]:
        """The points of a metric: attributes, and its value, or how often it was recorded."""
        return list(self._read(name))

    def _read(self, name: str) -> Iterator[Point]:
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        for point in metric.data.data_points:
                            value: Any = getattr(point, "count", None)
                            found = value if value is not None else getattr(point, "value", 0)
                            yield dict(point.attributes or {}), found


@pytest.fixture(scope="session")
def providers() -> Generator[Telemetry]:
    exporter, reader, processor = InMemorySpanExporter(), InMemoryMetricReader(), BrokenProcessor()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.add_span_processor(processor)
    measuring = MeterProvider([reader, PrometheusMetricReader()])
    trace.set_tracer_provider(tracing)
    metrics.set_meter_provider(measuring)
    yield Telemetry(exporter, reader, processor)
    # What later tests do is not kept.
    tracing.shutdown()
    measuring.shutdown()


@pytest.fixture
def telemetry(providers: Telemetry) -> Generator[Telemetry]:
    providers.exporter.clear()
    yield providers
    providers.processor.broken, providers.processor.raised = frozenset(), 0
