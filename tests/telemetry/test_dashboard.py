"""The dashboard and the rules in `examples/observability` ask for what an application that sells exports."""

import json
import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import generate_latest

from tests.telemetry.conftest import Telemetry
from tests.telemetry.shops import make_paywall, make_starlette
from tests.telemetry.test_telemetry import buy

FOLDER = Path(__file__).parents[2] / "examples" / "observability"
_NAME = re.compile(r"\bfaregate_\w+")
_MATCHED = re.compile(r"(faregate_\w+)=")


def list_queries() -> list[str]:
    panels: list[Any] = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    groups: list[Any] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return asked + [rule["expr"] for group in groups for rule in group["rules"]]


def test_each_metric_and_label_that_is_asked_for_is_exported(telemetry: Telemetry) -> None:
    paywall = make_paywall()
    ask = make_starlette(paywall)
    buy(ask)
    buy(ask, "/late")
    paywall.sweep()
    exported = generate_latest().decode()
    metrics = {line.split("{")[0].split(" ")[0] for line in exported.splitlines() if line[:1] != "#"}
    labels = set(_MATCHED.findall(exported))
    queries = list_queries()
    assert len(queries) == 11
    for query in queries:
        names = set(_NAME.findall(query))
        assert names & metrics, query
        assert names <= metrics | labels, query
    # The values that the rules wait for, as the telemetry names them.
    for value in ('faregate_outcome="expired"', 'faregate_journal_state="stuck"'):
        assert value in exported
