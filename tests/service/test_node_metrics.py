"""The metrics of a chain's nodes: which of them fail, and are asked last."""

import socket

from prometheus_client.parser import text_string_to_metric_families

from faregate.service.database.reports import PendingPayments
from faregate.service.environment_payments import build_payments, list_nodes
from faregate.service.metrics import ServiceMetrics
from faregate.service.process_metrics import ProcessCollector
from faregate.service.settings import make_settings
from faregate.system import system_clock
from tests.support.chain import LocalChain, chain

__all__ = ["chain"]

KEY = "s3cr3t-k3y-0123456789"


def test_a_node_that_fails_is_named_without_its_key(chain: LocalChain) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"http://127.0.0.1:{listener.getsockname()[1]}/v2/{KEY}"
    made = {"payments": "facilitator", "rpc_test": f"{closed} {chain.url}", "facilitator_test": "http://x"}
    payments = build_payments(make_settings(made))
    for _ in range(3):
        payments["test"].chain.get_head()
    metrics = ServiceMetrics(
        clock=system_clock,
        read_pending=lambda: PendingPayments(0, 0, None),
        read_gas_balances=dict,
        collectors=[ProcessCollector(lambda: list_nodes(payments), list, dict)],
    )
    text = metrics.render().decode()
    payments["test"].close()
    shown = {
        (sample.name.removeprefix("faregate_service_node_"), sample.labels["position"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "node" in sample.labels
    }
    assert shown.pop(("seconds_total", "1")) > 0
    assert shown.pop(("seconds_total", "2")) > 0
    assert shown == {
        ("requests_total", "1"): 1,
        ("failures_total", "1"): 1,
        ("disagreements_total", "1"): 0,
        ("resting", "1"): 1,
        # Its chain id is asked once.
        ("requests_total", "2"): 4,
        ("failures_total", "2"): 0,
        ("disagreements_total", "2"): 0,
        ("resting", "2"): 0,
    }
    assert KEY not in text
    assert 'environment="test",node="127.0.0.1' in text
