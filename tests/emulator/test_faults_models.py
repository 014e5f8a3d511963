"""How faults are told: what each kind takes, what is assumed, and what is said about a mistake."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from faregate.emulator import MODES, Emulator, Fault
from faregate.errors import ConfigurationError

from .faulty import EXAMPLES, name_of


@pytest.mark.parametrize("fault", EXAMPLES, ids=name_of)
def test_a_fault_is_the_same_after_json(fault: Fault) -> None:
    assert Fault.model_validate(json.loads(fault.model_dump_json())) == fault


@pytest.mark.parametrize(
    ("told", "assumed"),
    [
        ({"kind": "garbage"}, {"times": 1, "probability": None, "operation": None}),
        ({"kind": "garbage", "times": None}, {"times": None}),
        ({"kind": "garbage", "probability": 0.5}, {"times": None, "seed": 0}),
        ({"kind": "garbage", "probability": 0.5, "times": 2}, {"times": 2}),
        ({"kind": "silence"}, {"when": "after"}),
        ({"kind": "reset"}, {"when": "after"}),
        ({"kind": "status", "status": 500}, {"when": "before"}),
        ({"kind": "second-402"}, {"when": "after"}),
        ({"kind": "refused-repeat"}, {"status": 409, "when": None}),
    ],
)
def test_what_is_not_said(told: dict[str, Any], assumed: dict[str, Any]) -> None:
    fault = Fault.model_validate(told)
    assert {name: getattr(fault, name) for name in assumed} == assumed


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({}, "kind"),
        ({"kind": "fire"}, "'latency', 'silence'"),
        ({"kind": ["latency"]}, "'latency', 'silence'"),
        ({"kind": "latency"}, "latency needs 'seconds'"),
        ({"kind": "status"}, "status needs 'status'"),
        ({"kind": "changed-body"}, "changed-body needs 'fields'"),
        ({"kind": "missing-header"}, "missing-header needs 'header'"),
        ({"kind": "cut", "when": "before"}, "cut does not take 'when'; it takes nothing"),
        (
            {"kind": "latency", "status": 500, "seconds": 1},
            "latency does not take 'status'; it takes seconds",
        ),
        ({"kind": "latency", "seconds": 601}, "at most 600 seconds: use silence"),
        ({"kind": "latency", "seconds": 0}, "greater than 0"),
        ({"kind": "status", "status": 302}, "greater than or equal to 400"),
        ({"kind": "refused-repeat", "status": 422}, "takes the status 409 or 404"),
        ({"kind": "doubled-header", "header": "Content-Length"}, "written by the server itself"),
        ({"kind": "missing-header", "header": "a b"}, "pattern"),
        ({"kind": "doubled-header", "header": "A", "value": "a\nb"}, "pattern"),
        ({"kind": "garbage", "times": 0}, "greater than or equal to 1"),
        ({"kind": "garbage", "probability": 0}, "greater than 0"),
        ({"kind": "garbage", "probability": 1.5}, "less than or equal to 1"),
        ({"kind": "garbage", "operation": "acess"}, "'access', 'complete'"),
        ({"kind": "garbage", "operaton": "access"}, "Extra inputs"),
    ],
)
def test_a_mistake_is_an_error(told: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Fault.model_validate(told)


def test_an_unknown_mode_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="no mode 'chaos'; there are accept-then-time-out, 5xx"):
        Emulator(mode="chaos")


def test_a_mode_is_known_by_its_faults() -> None:
    emulator = Emulator()
    for name, faults in MODES.items():
        emulator.mode(name)
        assert (emulator.faults.mode, len(emulator.faults)) == (name, len(faults))
        emulator.faults.add(Fault(kind="garbage"))
        assert emulator.faults.mode is None


def test_a_state_that_is_none_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"no state document: faults\.added"):
        Emulator().load_state({"version": 1, "faults": {"rules": []}})
