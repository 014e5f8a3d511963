"""Serve the metrics of this process to Prometheus: call `serve_metrics()` where the application starts."""

from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server


def serve_metrics(port: int = 9464) -> None:
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    start_http_server(port, addr="127.0.0.1")
