"""The service's dashboard and rules in `examples/observability` ask for what its processes export."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from examples.chain.facilitator import GAS_KEYS
from prometheus_client.parser import text_string_to_metric_families

from faregate.service.runtime import open_runtime
from faregate.service.settings import make_settings
from tests.service.command import CATALOG, call
from tests.support.chain import LocalChain, chain
from tests.support.waiting import eventually

__all__ = ["chain"]

FOLDER = Path(__file__).parents[2] / "examples" / "observability"
_SELECTOR = re.compile(r"\b(faregate_service_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')
_GROUPING = re.compile(r"\bby \(([^)]*)\)")
_OUTSIDE = {"instance", "le"}
"""Labels of Prometheus itself, and of histograms."""


def list_rules() -> list[dict[str, Any]]:
    groups: list[Any] = yaml.safe_load((FOLDER / "service-alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def list_queries() -> list[str]:
    panels: list[Any] = json.loads((FOLDER / "service-dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return asked + [rule["expr"] for rule in list_rules()]


def list_grouped_labels(query: str) -> set[str]:
    return {label.strip() for labels in _GROUPING.findall(query) for label in labels.split(",")}


Exported = dict[str, list[dict[str, str]]]


def export(settings: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each sample that a process with these settings exports, once each of its loops has gone round."""
    with open_runtime(make_settings(settings)) as runtime:
        runtime.begin()
        try:
            if settings["payments"] == "direct":
                assert eventually(lambda: b"gas_balance_eth{" in runtime.metrics.render())
            runtime.metrics.count_request("access", 503, 0.1)
            runtime.metrics.count_limited("key_1")
            for result in ("succeeded", "failed", "postponed"):
                runtime.metrics.count_attempt(result)
            text = runtime.metrics.render().decode()
        finally:
            runtime.end()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels


@pytest.fixture
def exported(tmp_path: Path, chain: LocalChain, monkeypatch: pytest.MonkeyPatch) -> Exported:
    """What a process of each mode exports, of books that were compared with the chain."""
    monkeypatch.setenv("GAS", GAS_KEYS[1])
    (tmp_path / "catalog.toml").write_text(CATALOG)
    database = f"sqlite:///{tmp_path / 'service.db'}"
    real = {"database": database, "rpc_test": chain.url}
    direct = {**real, "payments": "direct", "gas_key": "env:GAS"}
    facilitated = {**real, "payments": "facilitator", "facilitator_test": "http://127.0.0.1:1"}
    words = ("--database", database)
    assert call(tmp_path, "init", *words).returncode == 0
    assert call(tmp_path, "apply", "catalog.toml", "--yes", *words).returncode == 0
    compared = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    assert call(tmp_path, "reconcile", "--all", *words, *compared, GAS=GAS_KEYS[1]).returncode == 0
    samples: Exported = {}
    for settings in (direct, facilitated):
        for name, labels in export(settings):
            samples.setdefault(name, []).append(labels)
    return samples


def test_each_metric_and_label_that_is_asked_for_is_exported(exported: Exported) -> None:
    queries = list_queries()
    assert len(queries) > 30
    for query in queries:
        selectors = _SELECTOR.findall(query)
        assert selectors, query
        grouping = list_grouped_labels(query)
        for name, matchers in selectors:
            assert name in exported, query
            assert grouping - _OUTSIDE <= set(exported[name][0]), query
            for label, operator, value in _MATCHER.findall(matchers):
                values = {labels[label] for labels in exported[name]}
                matched = [one for one in values if is_matched(one, operator, value)]
                assert matched, f"{query}: {label} is one of {values}"


def is_matched(given: str, operator: str, value: str) -> bool:
    if operator == "=~":
        return re.fullmatch(value, given) is not None
    return (given == value) is (operator == "=")


def test_each_rule_has_a_severity_and_a_summary_of_labels_that_it_has() -> None:
    rules = list_rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "warn")
        grouping = list_grouped_labels(rule["expr"])
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert named <= grouping, rule["alert"]


def test_the_documented_metrics_are_exported_and_watched(exported: Exported) -> None:
    page = (FOLDER.parents[1] / "docs/service-operating.md").read_text()
    table = page.partition("## What to watch")[2].partition("Logs go to")[0]
    documented = set(re.findall(r"`(faregate_service_\w+)", table))
    asked = {name.removesuffix("_bucket") for query in list_queries() for name, _ in _SELECTOR.findall(query)}
    own = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in exported}
    assert documented <= own
    assert documented == asked
