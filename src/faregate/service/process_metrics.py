"""The metrics of this process for Prometheus: the nodes and facilitators that it asks, and its loops."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from faregate.service.environment_payments import PeerStatus


@dataclass(frozen=True, slots=True, eq=False)
class ProcessCollector(Collector):
    """Asks nothing outside the process. `measure_loops` gives the seconds since each loop's last round."""

    list_nodes: Callable[[], Sequence[PeerStatus]]
    list_facilitators: Callable[[], Sequence[PeerStatus]]
    measure_loops: Callable[[], Mapping[str, float]]

    def collect(self) -> Iterator[Metric]:
        nodes = self.list_nodes()
        yield from _collect_peers("node", nodes)
        yield _collect_disagreements(nodes)
        yield from _collect_peers("facilitator", self.list_facilitators())
        loops = GaugeMetricFamily(
            "faregate_service_loop_seconds",
            "Seconds since a loop of this process, such as a worker, last finished a round",
            labels=("loop",),
        )
        for name, seconds in self.measure_loops().items():
            loops.add_metric((name,), seconds)
        yield loops


def _collect_peers(kind: str, peers: Sequence[PeerStatus]) -> Iterator[Metric]:
    labels, name = ("environment", kind, "position"), f"faregate_service_{kind}"
    requests = CounterMetricFamily(f"{name}_requests", f"Calls of a {kind}", labels=labels)
    failures = CounterMetricFamily(
        f"{name}_failures", f"Calls that a {kind} did not answer usably", labels=labels
    )
    seconds = CounterMetricFamily(f"{name}_seconds", f"Time that calls of a {kind} took", labels=labels)
    resting = GaugeMetricFamily(
        f"{name}_resting", f"Whether a {kind} failed, and is asked last", labels=labels
    )
    for peer in peers:
        values = (peer.environment, peer.host, str(peer.position))
        requests.add_metric(values, peer.requests)
        failures.add_metric(values, peer.failures)
        seconds.add_metric(values, peer.seconds)
        resting.add_metric(values, peer.is_resting)
    yield from (requests, failures, seconds, resting)


def _collect_disagreements(nodes: Sequence[PeerStatus]) -> Metric:
    disagreements = CounterMetricFamily(
        "faregate_service_node_disagreements",
        "How often a node contradicted others about a settlement",
        labels=("environment", "node", "position"),
    )
    for node in nodes:
        disagreements.add_metric((node.environment, node.host, str(node.position)), node.disagreements)
    return disagreements
